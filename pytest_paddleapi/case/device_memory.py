"""What cases take of their devices at their peak, by the frameworks' own counters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import paddle
import torch

from ..process.messages import CaseOptions

__all__ = ["DeviceMeter", "PaddleCounter", "paddle_counter"]

#: A tensor of so many bytes must be seen to come and to go.
_PROBE = 1 << 20


@dataclass(frozen=True, slots=True)
class PaddleCounter:
    """One of Paddle's counters of a device's memory, in bytes: ``reserved`` or ``allocated``."""

    device: str
    name: str

    def now(self) -> int:
        """What is taken."""
        return int(getattr(paddle.device, f"memory_{self.name}")(self.device))

    def peak(self) -> int:
        """The most that was taken since :meth:`reset`."""
        return int(getattr(paddle.device, f"max_memory_{self.name}")(self.device))

    def reset(self) -> None:
        """Let the peak begin at what is taken now."""
        getattr(paddle.device, f"reset_max_memory_{self.name}")(self.device)

    def counts(self) -> bool:
        """It tells the truth of a tensor on Paddle's present device."""
        before = self.now()
        tensor = paddle.empty([_PROBE], "uint8")
        during = self.now()
        del tensor
        return during - before >= _PROBE and self.now() == before


@cache
def paddle_counter(device: str) -> PaddleCounter | None:
    """A counter that can be trusted on Paddle's present device, which is this one; None if there is none.

    Which of the two does depends on the kind of device and on the allocator. With ``FLAGS_use_system_allocator`` NVIDIA
    GPUs count what the driver was asked for as reserved, and nothing as allocated. On Paddle 3.3.1's custom devices a
    tensor that goes is then added to the reserved bytes once more, so neither can be used.
    """
    if device == "cpu":
        return None
    for name in ("reserved", "allocated"):
        counter = PaddleCounter(device, name)
        try:
            counts = counter.counts()
        except (RuntimeError, ValueError):  # a build that has no counters for this kind says so
            continue
        if counts:
            return counter
    return None


class DeviceMeter:
    """Measures the peak of each case on the devices of ``options``, once these have been prepared.

    Both frameworks' peaks are added up where they share a device: they need not come at the same moment, so the sum
    may be more than was in use, but never less.
    """

    def __init__(self, options: CaseOptions) -> None:
        devices = {options.device: options.torch_device}
        if options.second_device:
            devices[options.second_device] = options.second_torch_device
        counters = {counter: on for name, on in devices.items() if (counter := paddle_counter(name)) is not None}
        known = len(counters) == len(devices) and all(on == "cpu" or on.startswith("cuda") for on in devices.values())
        # What Torch keeps from case to case hides what one case takes.
        self._counters = counters if known and not options.gpu_mode else {}
        self._before: dict[PaddleCounter, int] = {}

    def begin(self) -> None:
        """A case begins."""
        for counter, on in self._counters.items():
            counter.reset()
            self._before[counter] = counter.now()
            if on != "cpu":
                torch.cuda.reset_peak_memory_stats(on)
                self._before[counter] += torch.cuda.memory_reserved(on)

    def peak_bytes(self) -> int | None:
        """The most that any one device lent since :meth:`begin`, without what was taken before; None if unknown."""
        peaks = []
        for counter, on in self._counters.items():
            peak = counter.peak() - self._before[counter]
            if on != "cpu":
                peak += torch.cuda.max_memory_reserved(on)
            peaks.append(max(0, peak))
        return max(peaks, default=None)
