"""Variants of configs: with empty tensors, with tensors too large for 32-bit indices, and with other dtypes.

Arguments that belong to a dimension or a dtype follow it (see :mod:`.config.symbols`), and variants that both
frameworks are sure to refuse are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from .config.model import COMPLEX, FLOATING, ITEMSIZE, Call, DtypeRef, TensorSpec
from .config.printing import print_call
from .config.shapes import axis_of
from .config.sizes import plain_name
from .config.symbols import map_call, resized, symbols

__all__ = ["KINDS", "LARGE", "variants"]

Variants = Callable[[Call], Iterator[Call]]

#: A tensor of more elements than this has some that a signed 32-bit index does not reach.
LARGE = 2**31
#: A variant of more elements than this in all fits into no machine that people test on.
_MOST_ELEMENTS = 2**34

#: A reduction of nothing has no value in these.
_NO_IDENTITY = frozenset(
    {
        "adaptive_max_pool1d",
        "adaptive_max_pool2d",
        "amax",
        "amin",
        "aminmax",
        "argmax",
        "argmin",
        "cummax",
        "cummin",
        "kthvalue",
        "max",
        "max_pool1d",
        "max_pool2d",
        "max_pool3d",
        "median",
        "min",
        "mode",
        "nanmedian",
        "nanquantile",
        "quantile",
        "topk",
    }
)
#: An index into an empty axis points at nothing. By name: the places of the indexed tensor, the index and the axis.
_INDEXING: dict[str, tuple[int, int, int]] = {
    "gather": (0, 1, 2),
    "index_select": (0, 1, 2),
    "take_along_axis": (0, 1, 2),
    "index_sample": (0, 1, 9),
    "index_add": (0, 1, 2),
    "index_fill": (0, 1, 2),
    "index_put": (0, 1, 9),
    "put_along_axis": (0, 1, 3),
    "scatter": (0, 1, 9),
    "gather_nd": (0, 1, 9),
    "scatter_nd_add": (0, 1, 9),
    "take": (0, 1, 9),
    "embedding": (1, 0, 9),
    "cross_entropy": (0, 1, 9),
    "nll_loss": (0, 1, 9),
    "softmax_with_cross_entropy": (0, 1, 9),
    "one_hot": (9, 0, 9),
}
#: Windows and filters that do not fit into nothing.
_WINDOWED = ("conv", "pool", "unfold", "interpolate", "upsample", "grid_sample", "affine_grid", "roi_", "stft", "fft")

_REAL = ("float16", "bfloat16", "float32", "float64")
_COMPLEX = ("complex64", "complex128")
_SIGNED = ("int8", "int16", "int32", "int64")


def variants(calls: Iterable[Call], kinds: Iterable[str]) -> Iterator[tuple[str, Call]]:
    """Each different variant of ``calls`` once, in their order, with its kind; the calls themselves are left out.

    Raises:
        KeyError: there is no such kind.
    """
    chosen = [(kind, KINDS[kind]) for kind in kinds]
    seen: set[str] = set()
    for call in calls:
        seen.add(print_call(call))
    for call in calls:
        for kind, make in chosen:
            for variant in make(call):
                text = print_call(variant)
                if text not in seen:
                    seen.add(text)
                    yield kind, variant


# Empty tensors --------------------------------------------------------------------------------


def zero(call: Call) -> Iterator[Call]:
    """One symbol at 0, each in turn."""
    for dim in symbols(call):
        variant = resized(call, {dim: 0})
        if not _surely_refused(call, variant):
            yield variant


def _surely_refused(call: Call, variant: Call) -> bool:
    name = plain_name(call.api)
    specs = list(variant.tensors())
    if not any(spec.numel == 0 for spec in specs):
        return True
    if name in _INDEXING and _points_at_nothing(variant, *_INDEXING[name]):
        return True
    if name in ("getitem", "setitem") and _takes_from_nothing(variant):
        return True
    if name in _NO_IDENTITY and _reduces_nothing(variant):
        return True
    return any(word in name for word in _WINDOWED) and _loses_its_window(specs)


def _argument(call: Call, place: int, *names: str) -> Any:
    for name, value in call.kwargs:
        if name in names:
            return value
    return call.args[place] if place < len(call.args) else None


def _points_at_nothing(call: Call, x: int, index: int, axis: int) -> bool:
    indexed = _argument(call, x, "x", "arr", "weight", "input")
    indices = _argument(call, index, "index", "indices", "label", "ids")
    if not isinstance(indexed, TensorSpec) or not isinstance(indices, TensorSpec) or indices.numel == 0:
        return False
    where = _argument(call, axis, "axis")
    place = axis_of(indexed.shape, where) if isinstance(where, int) else None
    return indexed.numel == 0 if place is None else indexed.shape[place] == 0


def _takes_from_nothing(call: Call) -> bool:
    """A subscript has an integer, or indices, for an axis that is empty."""
    x, subscript = _argument(call, 0, "x", "self"), _argument(call, 1, "item", "index")
    if not isinstance(x, TensorSpec):
        return False
    items = [item for item in (subscript if isinstance(subscript, tuple) else (subscript,)) if item is not None]
    axis = 0
    for place, item in enumerate(items):
        if item is Ellipsis:
            axis = len(x.shape) - (len(items) - place - 1)
            continue
        takes = isinstance(item, TensorSpec) and item.dtype != "bool" and item.numel > 0
        takes |= isinstance(item, int) or (isinstance(item, list) and bool(item))
        if takes and 0 <= axis < len(x.shape) and x.shape[axis] == 0:
            return True
        axis += 1
    return False


def _reduces_nothing(call: Call) -> bool:
    x = _argument(call, 0, "x", "input")
    if not isinstance(x, TensorSpec):
        return True
    axes = _argument(call, 1, "axis", "dim")
    chosen = list(axes) if isinstance(axes, (list, tuple)) else [axes]
    places = [axis_of(x.shape, axis) for axis in chosen if isinstance(axis, int)]
    return x.numel == 0 if not places else any(place is not None and x.shape[place] == 0 for place in places)


def _loses_its_window(specs: list[TensorSpec]) -> bool:
    """Something else than the batch became empty."""
    return any(0 in spec.shape[1:] for spec in specs) or any(spec.shape[:1] == (0,) for spec in specs[1:])


# Large tensors --------------------------------------------------------------------------------


def large(call: Call) -> Iterator[Call]:
    """The symbol that needs the fewest elements in all for one tensor to have more than :data:`LARGE`."""
    found: list[tuple[int, int, Call]] = []
    for place, dim in enumerate(symbols(call)):
        size = _size_for(call, dim)
        if size is None:
            continue
        variant = resized(call, {dim: size})
        total = sum(spec.numel for spec in variant.tensors())
        if total <= _MOST_ELEMENTS and any(spec.numel > LARGE for spec in variant.tensors()):
            found.append((total, place, variant))
    if found:
        yield min(found, key=lambda one: one[:2])[2]


def _size_for(call: Call, dim: int) -> int | None:
    """The least size of the symbol, a multiple of its old one, at which a tensor is large."""
    best: int | None = None
    for spec in call.tensors():
        power, rest = spec.shape.count(dim), 1
        for other in spec.shape:
            rest *= 1 if other == dim else other
        if not power or not rest:
            continue
        # A multiple of the old size keeps what must divide it: groups, heads, sections.
        factor = 1
        while (dim * factor) ** power * rest <= LARGE:
            factor *= 2
        low = factor // 2
        while low + 1 < factor:
            middle = (low + factor) // 2
            low, factor = (low, middle) if (dim * middle) ** power * rest > LARGE else (middle, factor)
        best = dim * factor if best is None else min(best, dim * factor)
    return best


# Dtypes ---------------------------------------------------------------------------------------


def dtype(call: Call) -> Iterator[Call]:
    """Each dtype of the call's tensors replaced by every other of its family; an argument that names it follows."""
    present = list(dict.fromkeys(spec.dtype for spec in call.tensors()))
    for old in present:
        for new in _family(old):
            if new != old and _can_point(call, old, new):
                yield _with_dtype(call, old, new)


def _can_point(call: Call, old: str, new: str) -> bool:
    """An integer dtype that is as narrow as ``new`` has room for every index into what the call has."""
    if new not in _SIGNED:
        return True
    others = any(spec.dtype != old for spec in call.tensors())
    if not others and plain_name(call.api) not in _INDEXING:
        return True  # plain numbers, which point at nothing
    sizes: list[int] = [dim for spec in call.tensors() for dim in spec.shape]
    map_call(call, lambda value: sizes.append(abs(value)) if type(value) is int else None)
    return max(sizes, default=0) < 1 << (8 * ITEMSIZE[new] - 1)


def _family(name: str) -> tuple[str, ...]:
    if name in COMPLEX:
        return _COMPLEX
    if name in FLOATING:
        return _REAL if name in _REAL else ("float8_e4m3fn", "float8_e5m2")
    return _SIGNED if name in _SIGNED else ()


def _with_dtype(call: Call, old: str, new: str) -> Call:
    def change(value: Any) -> Any:
        if isinstance(value, TensorSpec):
            return TensorSpec(value.shape, new) if value.dtype == old else value
        if isinstance(value, DtypeRef):
            return replace(value, name=new) if value.name == old else value
        return new if isinstance(value, str) and value == old and value in ITEMSIZE else value

    return map_call(call, change)


#: By the name that ``--kinds`` takes.
KINDS: dict[str, Variants] = {"zero": zero, "large": large, "dtype": dtype}
