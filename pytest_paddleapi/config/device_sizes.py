"""What a case may need on a device, from its text alone: where nothing better is known, or nothing better is needed.

With S the bytes of the inputs, R those of the results and W of the buffers that the computation fills (guessed by
:mod:`.sizes`), the peak is guessed as

    inputs * S + results * R + buffers * W
"""

from __future__ import annotations

from dataclasses import dataclass

from .model import COMPLEX, FLOATING, Call
from .shapes import MOST, Arguments
from .size_rules import RULES
from .sizes import plain_name, result_sizes

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class DeviceFactors:
    """How many copies of each kind are taken to be on the device at the peak."""

    inputs: int
    results: int
    buffers: int


#: Inputs: they, their gradients, and a temporary of the backward run. Results: they, their gradients, something saved
#: for the backward run and a temporary. Buffers: they and their gradients.
WITH_GRADIENTS = DeviceFactors(inputs=3, results=4, buffers=2)
#: Inputs and a copy in another form; results and a temporary.
FORWARD_ONLY = DeviceFactors(inputs=2, results=2, buffers=1)

#: Where results are compared on Torch's device, its side takes so many times the guess for one.
COMPARED_THERE = 2


def guess_device_bytes(call: Call, *, backward: bool) -> int:
    """Bytes of device memory that Paddle may hold at once, guessed from shapes. Defined for every call."""
    total, results, buffers = _sizes(call)
    differentiable = any(spec.dtype in FLOATING or spec.dtype in COMPLEX for spec in call.tensors())
    factors = WITH_GRADIENTS if backward and differentiable else FORWARD_ONLY
    return min(MOST, factors.inputs * total + factors.results * results + factors.buffers * buffers)


def guess_held_bytes(call: Call) -> tuple[int, int]:
    """Bytes of what one run leaves (results, and gradients or changed arguments), and of the largest tensor of that."""
    total, results, _ = _sizes(call)
    return min(MOST, total + results), min(MOST, max([results, *(spec.nbytes for spec in call.tensors())]))


#: A case whose guess times this is under :data:`SMALL` is small beyond doubt. The guess knows the shape of the result
#: (or, for :data:`_UNKNOWN`, does not), so what it can miss are temporaries.
_KNOWN, _UNKNOWN = 4, 16
#: An estimate up to this gets the least lease, 1 GiB less the margin of 512 MiB, whatever it is.
SMALL = 512 * MIB


def is_surely_small(call: Call, *, backward: bool) -> bool:
    """The case needs no closer look: what it may take is clearly within the smallest lease."""
    name = plain_name(call.api)
    doubt = _KNOWN if name in RULES or "attention" in name else _UNKNOWN
    return guess_device_bytes(call, backward=backward) * doubt <= SMALL


def _sizes(call: Call) -> tuple[int, int, int]:
    arguments = Arguments(call)
    total = min(MOST, sum(spec.nbytes for spec in arguments.tensors))
    results, buffers = result_sizes(call.api, arguments, default=total)
    return total, results, buffers
