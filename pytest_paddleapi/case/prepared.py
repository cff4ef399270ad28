"""A parsed config with its rules and its input values: what every mode starts from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ..config import Call, print_call
from ..process.messages import CaseOptions
from .binding import Binding, bind
from .callables import paddle_signature
from .compare.registry import ELEMENTWISE, Comparator, find_comparator
from .generators import generator
from .inputs.makers import ordinary
from .inputs.registry import CallValues, Draw, Maker, find_inputs
from .names import is_inplace
from .record import Record
from .reference.registry import NoReference, Reference, find_reference


@dataclass(frozen=True)
class PreparedCase:
    """Everything about a case but its results; ``values`` has numpy arrays for tensors."""

    call: Call
    options: CaseOptions
    reference: Reference | NoReference | None
    comparator: Comparator
    binding: Binding
    values: Mapping[str, Any]
    seed: tuple[int, ...]
    record: Record = field(default_factory=Record)

    @property
    def api(self) -> str:
        return self.call.api

    @property
    def inplace(self) -> bool:
        """The call changes its first argument and returns it."""
        return is_inplace(self.api)

    @property
    def mutates(self) -> tuple[str, ...]:
        """Names of arguments that the call changes, beside what it returns."""
        if isinstance(self.reference, Reference) and self.reference.mutates:
            condition = self.reference.mutates_if
            return self.reference.mutates if not condition or self.binding.arguments.get(condition) else ()
        if self.inplace:
            # The first argument, also where all are given by name.
            first = next(iter(self.binding.positions or self.binding.arguments), None)
            return (first,) if isinstance(first, str) else ()
        return ()

    @property
    def backward(self) -> bool:
        """Gradients are wanted, and the rule does not say that there are none to speak of."""
        silent = isinstance(self.reference, Reference) and bool(self.reference.no_gradient)
        return self.options.test_backward and not silent

    @property
    def gauges(self) -> Mapping[int, str]:
        """Flattened outputs that are not unique, with the kind of their freedom."""
        return self.reference.gauges if isinstance(self.reference, Reference) else {}

    @property
    def constant(self) -> tuple[str, ...]:
        """Names of arguments that take no gradient."""
        return self.reference.constant if isinstance(self.reference, Reference) else ()

    @property
    def landing(self) -> str:
        """Torch's name of the device that results are compared on: the second of a pair, in gpu-mode Torch's, else the
        host. Comparators that do more than compare pairs of tensors work with NumPy, on the host."""
        options = self.options
        if self.comparator is not ELEMENTWISE:
            return "cpu"
        if options.second_device:
            return options.second_torch_device
        return options.torch_device if options.gpu_mode else "cpu"

    def rng(self, stream: int) -> np.random.Generator:
        """A generator that depends on the config, the seed and ``stream`` only."""
        return generator(self.options, [*self.seed, 1 << 20, stream])


def prepare(call: Call, options: CaseOptions) -> PreparedCase:
    """Find the rules and make the values.

    Raises:
        InputError: valid values cannot be made.
    """
    found = find_reference(call.api)
    signature = found.signature if isinstance(found, Reference) else paddle_signature(call.api)
    binding = bind(call, signature)
    if signature is not None and binding.positions and binding.positions[0] == "arg0":
        # Paddle may take what the rule's author did not know of.
        binding = bind(call, paddle_signature(call.api))
    seed = _seed(call, options)
    default: Maker = _Cached(options) if options.cache_inputs else ordinary
    made = CallValues(
        call.api, binding.arguments, find_inputs(call.api), default, seed, lambda words: generator(options, words)
    )
    values = made.all_values()
    return PreparedCase(call, options, found, find_comparator(call.api), binding, values, seed)


def _seed(call: Call, options: CaseOptions) -> tuple[int, ...]:
    digest = hashlib.sha256(print_call(call).encode("utf-8", "surrogatepass")).digest()
    return (options.seed & 0xFFFFFFFFFFFFFFFF, int.from_bytes(digest[:8], "little"))


class _Cached:
    """Ordinary values, kept by dtype, shape and place in the call (``--paddleapi-cache-inputs``).

    They then depend on the seed alone, not on the config, so that they are the same in every process.
    """

    def __init__(self, options: CaseOptions) -> None:
        self.options = options

    def __call__(self, draw: Draw) -> Any:
        place = tuple(p if isinstance(p, int) else 0 for p in draw.path)
        return _cached_values(
            self.options, draw.dtype, draw.shape, (len(place), *place, *_letters(draw.path[0]))
        ).copy()


def _letters(name: Any) -> tuple[int, ...]:
    return tuple(str(name).encode())


@lru_cache(maxsize=256)
def _cached_values(options: CaseOptions, dtype: str, shape: tuple[int, ...], place: tuple[int, ...]) -> Any:
    from ..config import TensorSpec

    rng = generator(options, [options.seed, *place])
    holder = CallValues("", {}, {}, ordinary, ())
    return np.asarray(ordinary(Draw(holder, TensorSpec(shape, dtype), ("x",), rng)))
