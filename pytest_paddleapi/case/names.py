"""Which rule a Paddle name shares with which other: methods with functions, in-place with plain."""

from __future__ import annotations

from collections.abc import Iterator

#: Where the function behind a Tensor method of the same name may live, in this order.
_HOMES = ("paddle.", "paddle.nn.functional.", "paddle.linalg.", "paddle.signal.", "paddle.fft.")


def is_inplace(api: str) -> bool:
    """True for ``add_`` and the like, which change their first argument and return it."""
    name = api.rpartition(".")[2]
    return name.endswith("_") and not name.startswith("__") and not name.endswith("__")


def candidates(api: str) -> Iterator[str]:
    """The names under which a rule for ``api`` may be registered, best first.

    ``paddle.Tensor.tanh_`` gives itself, ``paddle.tanh_``, ..., then the names without the underscore.
    A caller that needs to know whether the rule it found is the plain one compares the names.
    """
    yield from _same_function(api)
    if is_inplace(api):
        yield from _same_function(api[:-1])


def _same_function(api: str) -> Iterator[str]:
    yield api
    prefix, _, name = api.rpartition(".")
    if prefix == "paddle.Tensor" and not name.startswith("__"):
        for home in _HOMES:
            yield home + name
    elif prefix == "paddle":
        # Paddle exports some layers' functions at its top as well.
        yield f"paddle.nn.functional.{name}"
