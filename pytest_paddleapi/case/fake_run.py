"""Runs a reference rule without memory for its tensors, and follows what its storages would take.

Large tensors are Torch's fake ones: they have a shape and a dtype, and every operator computes what its result would
look like. Small ones (indices, shapes, axes, lengths) are real and hold the values that the case would have, because
rules read them to know how large their results are. What is computed from real tensors alone stays real as long as it
is small.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..config import FLOATING, TensorSpec
from .dtypes import torch_dtype, torch_value
from .inputs.registry import CallValues, InputError
from .prepared import PreparedCase
from .reference.registry import Reference, is_derived_inplace
from .results import SideResult
from .tensors import leaves, to_torch
from .torch_side import convert_named, differentiable_outputs

#: Elements of a tensor of integers or bools that is made real: half a megabyte at most, drawn in about a millisecond.
REAL_INTEGERS = 64 * 1024
#: Of floats only what may stand for a plain number (a probability, a scale, the limits of a range) is read by rules.
REAL_FLOATS = 64
#: Elements that a computation from real tensors may have and stay real.
_REAL_RESULT = 1 << 20

_ATEN = torch.ops.aten
#: It prints the stack of every call that does not fit together; these are expected, and have their own answer.
logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL + 1)


class FakeRunError(Exception):
    """The rule cannot be followed: it reads values that fake tensors do not have, or took too long."""


@dataclass(frozen=True)
class Peaks:
    """Bytes of one run of the reference. "Dense" is what a contiguous tensor of the shape takes, also for a view."""

    inputs: int
    #: Copies of arguments that the call changes.
    copies: int
    #: The most that was alive in the forward run, beyond inputs and their copies.
    forward: int
    #: The same of the backward run, with outputs, output gradients and gradients in it.
    backward: int
    outputs_dense: int
    #: The largest single tensor among inputs and outputs, dense.
    largest: int
    #: Of the outputs, those that are larger than the storage that they are views of (``expand``).
    outputs_expanded: int
    #: Every output with a gradient is a view of an input, and none is expanded (``reshape``, a slice).
    only_views: bool
    cotangents: int
    gradients_dense: int
    #: Of the gradients, what is in storages of their own: not the output gradients themselves, or views of them.
    gradients_own: int


class StorageFollower(TorchDispatchMode):
    """Counts each new storage when an operator makes it, and takes it off when it is freed."""

    def __init__(self, fake: FakeTensorMode) -> None:
        super().__init__()
        self.fake = fake
        self.live = 0
        self.peak = 0
        self._followed: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator on what it is given, and count what it made."""
        result = self._call(func, args, kwargs or {})
        self.follow(result)
        return result

    def follow(self, value: Any) -> None:
        """Count the storages of the tensors in ``value`` that are not counted yet."""
        for tensor in tree_leaves(value):
            if isinstance(tensor, torch.Tensor):
                self._follow(tensor.untyped_storage())

    def _follow(self, storage: Any) -> None:
        key = storage._cdata
        if key in self._followed:
            return
        size = storage.nbytes()

        def freed(_: Any) -> None:
            self.live -= size
            del self._followed[key]

        self._followed[key] = weakref.ref(storage, freed)
        self.live += size
        self.peak = max(self.peak, self.live)

    def _call(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
        if any(isinstance(tensor, FakeTensor) for tensor in tensors):
            if func in _BOUNDED:
                return _BOUNDED[func](self.fake, *args, **kwargs)
            if func is _ATEN.index.Tensor:
                args = (args[0], _without_masks(self.fake, args[1]))
            result = func(*args, **kwargs)
            # A real tensor that fake values are written into keeps its old ones: only its size matters from here on.
            return args[0] if _writes_first(func) and not isinstance(args[0], FakeTensor) else result
        if func.is_view or func._schema.is_mutable or func is _ATEN._local_scalar_dense.default:
            return func(*args, **kwargs)
        return self._from_real(func, args, kwargs, tensors)

    def _from_real(self, func: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor]) -> Any:
        """A result of real tensors, or of none: real if it is small."""
        try:
            with self.fake:
                result = func(*args, **kwargs)
        except Exception:
            # Its size depends on values (``nonzero``, ``unique``); these are real and few.
            if sum(tensor.numel() for tensor in tensors) > _REAL_RESULT:
                raise
            return func(*args, **kwargs)
        made = [tensor for tensor in tree_leaves(result) if isinstance(tensor, torch.Tensor)]
        return result if sum(tensor.numel() for tensor in made) > _REAL_RESULT else func(*args, **kwargs)


class Deadline(TorchFunctionMode):
    """Ends a run that lasts too long, at the next call of a function of Torch.

    Not in :class:`StorageFollower`: an error of ours that is raised below autograd was seen to end the process
    (Torch 2.13, ``terminate called after throwing an instance of 'python_error'``).
    """

    def __init__(self, at: float) -> None:
        super().__init__()
        self.at = at

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call ``func``, or raise FakeRunError."""
        if time.perf_counter() > self.at:
            raise FakeRunError("it took too long")
        return func(*args, **(kwargs or {}))


def _writes_first(func: Any) -> bool:
    arguments = func._schema.arguments
    return bool(func._schema.is_mutable and arguments and arguments[0].alias_info and arguments[0].alias_info.is_write)


# Results whose size depends on values: the largest that they can be -------------------------------


def _nonzero(fake: FakeTensorMode, x: Any) -> Any:
    with fake:
        return torch.empty((x.numel(), x.dim()), dtype=torch.int64)


def _masked_select(fake: FakeTensorMode, x: Any, mask: Any) -> Any:
    with fake:
        return torch.empty((torch.broadcast_shapes(x.shape, mask.shape).numel(),), dtype=x.dtype)


def _unique(fake: FakeTensorMode, x: Any, *_: Any, **__: Any) -> Any:
    with fake:
        flat = torch.empty((x.numel(),), dtype=x.dtype)
        return flat, torch.empty(x.shape, dtype=torch.int64), torch.empty((x.numel(),), dtype=torch.int64)


def _unique_along(fake: FakeTensorMode, x: Any, dim: int, *_: Any, **__: Any) -> Any:
    with fake:
        size = x.shape[dim]
        return torch.empty(x.shape, dtype=x.dtype), *(torch.empty((size,), dtype=torch.int64) for _ in range(2))


def _unique_consecutive(fake: FakeTensorMode, x: Any, *rest: Any, dim: int | None = None, **__: Any) -> Any:
    dim = rest[2] if len(rest) > 2 else dim
    return _unique(fake, x) if dim is None else _unique_along(fake, x, dim)


_BOUNDED: Mapping[Any, Any] = {
    _ATEN.nonzero.default: _nonzero,
    _ATEN.masked_select.default: _masked_select,
    _ATEN._unique2.default: _unique,
    _ATEN.unique_dim.default: _unique_along,
    _ATEN.unique_consecutive.default: _unique_consecutive,
}


def _without_masks(fake: FakeTensorMode, indices: Any) -> list[Any]:
    """Indices with every mask replaced by the positions of all its elements, as if each were true."""
    found: list[Any] = []
    for index in indices:
        if isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8):
            with fake:
                found += [torch.empty((index.numel(),), dtype=torch.int64) for _ in range(index.dim())]
        else:
            found.append(index)
    return found


# Inputs ---------------------------------------------------------------------------------------


class _SmallValues(CallValues):
    """Makes the values of small tensors; refuses large ones, also where a rule for a small one asks for them."""

    def _make(self, value: Any, maker: Any, path: tuple[Any, ...], seed: tuple[int, ...]) -> Any:
        if isinstance(value, TensorSpec) and value.numel > REAL_INTEGERS:
            raise InputError(f"{path} is too large to be made")
        return super()._make(value, maker, path, seed)


def _may_be_real(spec: TensorSpec) -> bool:
    return spec.numel <= (REAL_FLOATS if spec.dtype in FLOATING or "complex" in spec.dtype else REAL_INTEGERS)


class _Arguments:
    """The arguments of one fake run: Torch tensors in place of what the config describes."""

    def __init__(self, case: PreparedCase, values: CallValues, fake: FakeTensorMode, *, backward: bool) -> None:
        self.case = case
        self.fake = fake
        self.backward = backward
        #: Tensors as the framework gets them, and those of them that want a gradient.
        self.tensors: list[torch.Tensor] = []
        self.wanted: list[torch.Tensor] = []
        self._values = values

    def make(self, name: str, value: Any) -> Any:
        """One argument with its tensors."""
        real: Iterator[Any] = iter(())
        specs = [leaf for _, leaf in leaves(value) if isinstance(leaf, TensorSpec)]
        if specs and all(map(_may_be_real, specs)):
            # A rule that needs the values of a large tensor cannot give any; then there is none to read either.
            with suppress(InputError):
                real = iter([leaf for _, leaf in leaves(self._values.value(name)) if isinstance(leaf, np.ndarray)])
        return convert_named(name, value, lambda path, leaf: self._leaf(path, leaf, next(real, None)))

    def _leaf(self, name: str, value: Any, real: Any) -> Any:
        if not isinstance(value, TensorSpec):
            return torch_value(value)
        if real is not None:
            tensor = to_torch(real)
        else:
            with self.fake:
                tensor = torch.empty(value.shape, dtype=torch_dtype(value.dtype))
        self.tensors.append(tensor)
        wanted = self.backward and name.partition("[")[0] not in self.case.constant
        if wanted and (tensor.is_floating_point() or tensor.is_complex()) and tensor.dtype.itemsize > 1:
            self.wanted.append(tensor.requires_grad_(True))
        return tensor


# The run --------------------------------------------------------------------------------------


def fake_run(case: PreparedCase, values_seed: tuple[int, ...], makers: Any, default: Any, deadline: float) -> Peaks:
    """Follow the reference of ``case``, whose ``values`` are not used, forward and backward.

    ``deadline`` is a time of :func:`time.perf_counter`.

    Raises:
        FakeRunError: it took too long.
        Exception: whatever the rule raises, for real reasons or because tensors have no values.
    """
    reference = case.reference
    if not isinstance(reference, Reference):
        raise FakeRunError("there is no reference")
    fake = FakeTensorMode(allow_non_fake_inputs=True, allow_fallback_kernels=False)
    values = _SmallValues(case.api, case.binding.arguments, makers, default, values_seed)
    arguments = _Arguments(case, values, fake, backward=case.backward)
    named = {name: arguments.make(name, value) for name, value in case.binding.arguments.items()}
    follower = StorageFollower(fake)
    with Deadline(deadline), follower, torch.set_grad_enabled(case.backward):
        follower.follow(arguments.tensors)
        inputs = follower.live
        if case.mutates:
            named = {name: convert_named(name, value, _copy) for name, value in named.items()}
        copies = follower.live - inputs
        base = follower.live
        follower.peak = base
        args, kwargs = case.binding.split(named)
        outputs = reference.rule(*args, **kwargs)
        changed = {name: named[name] for name in case.mutates if name in named}
        if is_derived_inplace(case.api, reference) and changed and isinstance(outputs, torch.Tensor):
            changed = {next(iter(changed)): outputs}
        forward = follower.peak - base
        result = SideResult(outputs, changed)
        flat = [value for value in differentiable_outputs(result) if isinstance(value, torch.Tensor)]
        given = _storages([*arguments.tensors, *(v for _, v in leaves(named) if isinstance(v, torch.Tensor))])
        expanded = [value for value in flat if _dense([value]) > value.untyped_storage().nbytes()]
        dense = _dense(flat)
        largest = max((_dense([tensor]) for tensor in (*arguments.tensors, *flat)), default=0)
        # Also what the reference hands back as it came (``conj`` of real numbers): Paddle may make a new tensor of it.
        chosen = [value for value in flat if value.requires_grad]
        only_views = not expanded and bool(chosen) and _storages(chosen) <= given
        backward, cotangents, gradients, gradients_own = 0, 0, 0, 0
        if case.backward and arguments.wanted and chosen:
            with fake:
                fed = [torch.empty(tuple(value.shape), dtype=value.dtype) for value in chosen]
            follower.follow(fed)
            cotangents = _dense(fed)
            follower.peak = follower.live
            known = given | _storages([*flat, *fed])
            found = torch.autograd.grad(chosen, arguments.wanted, fed, allow_unused=True)
            backward = follower.peak - base
            made = [grad for grad in found if grad is not None]
            gradients, gradients_own = _dense(made), _bytes_beyond(made, known)
    return Peaks(
        inputs=inputs,
        copies=copies,
        forward=forward,
        backward=backward,
        outputs_dense=dense,
        largest=largest,
        outputs_expanded=_dense(expanded),
        only_views=only_views,
        cotangents=cotangents,
        gradients_dense=gradients,
        gradients_own=gradients_own,
    )


def _copy(_: str, value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _storages(tensors: list[Any]) -> set[int]:
    return {tensor.untyped_storage()._cdata for tensor in tensors}


def _bytes_beyond(tensors: list[Any], known: set[int]) -> int:
    found = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(size for key, size in found.items() if key not in known)


def _dense(tensors: list[Any]) -> int:
    return sum(tensor.numel() * tensor.dtype.itemsize for tensor in {id(tensor): tensor for tensor in tensors}.values())
