"""The registry of input rules.

A rule says, for each argument that may not take any value, how valid ones are drawn:

    inputs("paddle.log", x=uniform(0.1, 10.0))
    inputs("paddle.gather", index=indices_into("x", axis="axis"))

A maker is a function ``Draw -> numpy.ndarray``; the values of arguments without one come from
:func:`~.makers.ordinary`. Makers may look at other arguments, so they see the whole call.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ...config import TensorSpec
from ..dtypes import numpy_dtype
from ..names import candidates

Maker = Callable[["Draw"], Any]


class InputError(Exception):
    """No valid values exist, or none are known, for this call; becomes ``config_input``."""


class Draw:
    """One tensor that wants values, seen together with the call that it belongs to.

    ``path`` says where it stands: ``("x",)``, ``("xs", 2)`` for the third of a list, and so on.
    """

    def __init__(self, call: CallValues, spec: TensorSpec, path: tuple[Any, ...], rng: np.random.Generator) -> None:
        self.call = call
        self.spec = spec
        self.path = path
        self.rng = rng

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def dtype(self) -> str:
        return self.spec.dtype

    def arg(self, name: str, default: Any = None) -> Any:
        """The argument as written: a plain value, or :class:`TensorSpec`; ``default`` if not given."""
        return self.call.arguments.get(name, default)

    def shape_of(self, name: str) -> tuple[int, ...]:
        """The shape of another tensor argument.

        Raises:
            InputError: it is no tensor.
        """
        value = self.arg(name)
        if not isinstance(value, TensorSpec):
            raise InputError(f"argument {name!r} should be a tensor, it is {value!r}")
        return value.shape

    def values(self, name: str) -> Any:
        """The values of another argument, made now if they are not yet (numpy arrays for tensors)."""
        return self.call.value(name)


def numpy_generator(seed: Sequence[int]) -> np.random.Generator:
    """NumPy's generator for a seed of several words."""
    return np.random.Generator(np.random.PCG64(list(seed)))


class CallValues:
    """Makes the values of one call's tensors, each once, in any order that rules ask for."""

    def __init__(
        self,
        api: str,
        arguments: Mapping[str, Any],
        makers: Mapping[str, Maker],
        default: Maker,
        seed: tuple[int, ...],
        generator: Callable[[Sequence[int]], np.random.Generator] = numpy_generator,
    ) -> None:
        self.api = api
        self.arguments = arguments
        self._makers = makers
        self._default = default
        self._seed = seed
        self._generator = generator
        self._made: dict[str, Any] = {}
        self._in_progress: set[str] = set()

    def value(self, name: str) -> Any:
        """The argument with numpy arrays in place of its tensor specs.

        Raises:
            InputError: two rules wait for each other, or no valid value exists.
        """
        if name not in self._made:
            if name in self._in_progress:
                raise InputError(f"the input rules of {self.api} for {name!r} depend on themselves")
            self._in_progress.add(name)
            maker = self._makers.get(name, self._default)
            # By position, so that the values do not depend on the order in which rules ask.
            index = list(self.arguments).index(name) if name in self.arguments else len(self.arguments)
            self._made[name] = self._make(self.arguments.get(name), maker, (name,), (*self._seed, index))
        return self._made[name]

    def all_values(self) -> dict[str, Any]:
        return {name: self.value(name) for name in self.arguments}

    def _make(self, value: Any, maker: Maker, path: tuple[Any, ...], seed: tuple[int, ...]) -> Any:
        if isinstance(value, TensorSpec):
            return _checked(maker(Draw(self, value, path, self._generator(seed))), value, self.api, path)
        if isinstance(value, (list, tuple)):
            made = [self._make(v, maker, (*path, i), (*seed, i)) for i, v in enumerate(value)]
            return tuple(made) if isinstance(value, tuple) else made
        if isinstance(value, dict):
            return {k: self._make(v, maker, (*path, k), (*seed, i)) for i, (k, v) in enumerate(value.items())}
        if isinstance(value, slice):
            parts = (value.start, value.stop, value.step)
            return slice(*(self._make(v, maker, (*path, i), (*seed, i)) for i, v in enumerate(parts)))
        return value


def _checked(array: Any, spec: TensorSpec, api: str, path: tuple[Any, ...]) -> Any:
    array = np.asarray(array)
    if array.shape != spec.shape:
        raise InputError(f"the input rule of {api} for {path} made shape {array.shape} where {spec.shape} is asked for")
    return np.ascontiguousarray(array.astype(numpy_dtype(spec.dtype), copy=False)).reshape(spec.shape)


_rules: dict[str, dict[str, Maker]] = {}


def inputs(*apis: str, **makers: Maker) -> None:
    """Register makers for arguments of ``apis``, by Paddle's argument names.

    An argument that is a list of tensors uses its maker for each of them.

    Raises:
        ValueError: an API has an input rule already.
    """
    for api in apis:
        if api in _rules:
            raise ValueError(f"{api} has two input rules")
        _rules[api] = dict(makers)


@cache
def load_rules() -> None:
    """Import every module of this package, so that its rules are registered."""
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{__package__}.{module.name}")


def find_inputs(api: str) -> Mapping[str, Maker]:
    """The makers for ``api``, shared among methods, functions and in-place variants."""
    load_rules()
    for name in candidates(api):
        if name in _rules:
            return _rules[name]
    return {}


def all_inputs() -> Iterator[str]:
    """Every name that has an input rule; for the documentation and its tests."""
    load_rules()
    return iter(_rules)
