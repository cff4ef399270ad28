"""A guess of a case's peak of host memory, from the text alone.

Both frameworks run the call and its backward, and their results are compared. With S the bytes of the inputs, O those
of the results, W of the buffers that the computation fills, and L those of the largest single tensor among inputs and
results, each at the precision of the computation (4 bytes an element at least), the peak is guessed as

    inputs * S + results * O + buffers * W + comparison * L

The factors were counted in the code and then fitted to measured peaks; ``tests/config/test_sizes_measured.py`` measures
again and keeps the guess within a factor. :mod:`.size_rules` guesses O and W.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .model import COMPLEX, FLOATING, Call
from .shapes import MOST, Arguments, spec_bytes
from .size_rules import RULES
from .size_rules_products import attention

_REFLECTED = re.compile(r"[ri](add|sub|mul|div|truediv|floordiv|mod|pow|matmul|and|or|xor|lshift|rshift)")


@dataclass(frozen=True, slots=True)
class Factors:
    """How many copies of each kind are alive at the peak."""

    inputs: int
    results: int
    buffers: int
    comparison: int


#: Inputs: the generated values, Paddle's copy, both gradients, the host's copy of Paddle's. Results: both, both fed
#: gradients with what they are drawn from, the host's copy. Comparison: differences, bounds, ratios, masks.
WITH_GRADIENTS = Factors(inputs=5, results=8, buffers=2, comparison=8)
#: Integer and boolean results are nearly always equal, which is seen without taking differences.
FORWARD_ONLY = Factors(inputs=3, results=4, buffers=1, comparison=2)
#: What each further run of both frameworks adds, whose results are kept beside those of the first: the inputs that it
#: starts from and both gradients; both results and what was fed into them. Its working memory is that of the first.
RUN_WITH_GRADIENTS = Factors(inputs=3, results=3, buffers=0, comparison=0)
RUN_FORWARD_ONLY = Factors(inputs=1, results=2, buffers=0, comparison=0)


def estimate_host_bytes(call: Call, *, runs: int = 1) -> int:
    """Bytes of host memory that the case may hold at once, beyond what the frameworks themselves take.

    ``runs`` is how often each framework runs the call before anything is compared. A guess from shapes, rather too high
    than too low. Defined for every call of the language; for those that fit on no machine it is a number above 2**80.
    """
    arguments = Arguments(call)
    inputs = [spec_bytes(spec) for spec in arguments.tensors]
    total = sum(inputs)
    results, buffers = result_sizes(call.api, arguments, default=total)
    differentiable = any(spec.dtype in FLOATING or spec.dtype in COMPLEX for spec in arguments.tensors)
    factors = WITH_GRADIENTS if differentiable else FORWARD_ONLY
    more = RUN_WITH_GRADIENTS if differentiable else RUN_FORWARD_ONLY
    return (
        (factors.inputs + (runs - 1) * more.inputs) * total
        + (factors.results + (runs - 1) * more.results) * results
        + factors.buffers * buffers
        + factors.comparison * max([results, *inputs])
    )


def result_sizes(api: str, arguments: Arguments, default: int) -> tuple[int, int]:
    """Bytes of the results and of the buffers; ``default`` for the results of calls that no rule knows."""
    name = plain_name(api)
    rule = attention if "attention" in name else RULES.get(name)
    found = rule(arguments) if rule is not None else None
    if found is None:
        return default, 0
    results, buffers = found if isinstance(found, tuple) else (found, 0)
    width = arguments.width()
    return min(results, MOST) * width, min(buffers, MOST) * width


def plain_name(api: str) -> str:
    """``add`` for ``paddle.Tensor.__radd__``, ``paddle.add`` and ``paddle.Tensor.add_``."""
    name = api.rpartition(".")[2]
    if not (name.startswith("__") and name.endswith("__")):
        return name.rstrip("_")
    reflected = _REFLECTED.fullmatch(name.strip("_"))
    return reflected.group(1) if reflected else name.strip("_")
