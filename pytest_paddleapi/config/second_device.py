"""What a case of a dual mode holds on its second device, which computes nothing and compares.

    second     = held * runs * frameworks + comparison
    held       = outputs + changed arguments + gradients, of one run of one framework
    frameworks = 2 where Torch too has its results there, otherwise 1

No temporary of the computation is there: a result that is a view is made contiguous on the first device. The comparison
is there only where Torch knows the device; one pair is compared at a time.

A lease is for the same number of bytes on each device of a pair. So the case asks for the larger of what it takes on
the first device and what it takes here.
"""

from __future__ import annotations

from .model import COMPLEX, FLOATING, ITEMSIZE, Call

__all__ = ["second_device_bytes"]

#: Bytes that the comparison of two tensors takes beside them for each of their elements, by the itemsize: differences,
#: bounds, ratios and masks, counted in runs of the comparisons of values and of bits on tensors that differ: 41 at most
#: in half and single precision, 90 in double precision and for complex numbers. Integers, whose differences are taken
#: in double precision, are nearly always equal, and that is seen without any.
_NARROW, _WIDE = 42, 92


def second_device_bytes(call: Call, held: int, largest: int, *, runs: int, torch_there: bool) -> int:
    """Bytes on the second device of a pair at the worst moment.

    ``held`` bytes are left by one run of one framework, ``largest`` is the largest tensor of them, each framework
    runs ``runs`` times, and ``torch_there`` says that Torch knows the device.
    """
    if not torch_there:
        return held * runs
    return 2 * held * runs + _comparison(call, largest)


def _comparison(call: Call, largest: int) -> int:
    sizes = [ITEMSIZE[spec.dtype] for spec in call.tensors() if spec.dtype in FLOATING or spec.dtype in COMPLEX]
    width = min(sizes, default=4)
    return -(-largest // width) * (_NARROW if width <= 4 else _WIDE)
