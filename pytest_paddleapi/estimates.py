"""What each case of a session is expected to take of its device, from the best source that knows."""

from __future__ import annotations

import time
from pathlib import Path

from .config import ConfigSyntaxError, parse_call
from .config.device_sizes import guess_device_bytes
from .config.sizes import estimate_host_bytes
from .gpu_admission import MeasuredBytes
from .process.estimator import Estimator
from .process.estimator_messages import EstimatorOptions
from .process.messages import CaseOptions
from .process.wire import pack_text, unpack_call
from .results.learned import LearnedPeaks

#: Where neither the peak nor the estimate is larger there is nothing to learn: such a case gets the least lease anyway.
_WORTH_KEEPING = 512 << 20
#: Seconds between two looks at what the estimating process has answered.
_LOOK_EVERY = 0.01


class Estimates:
    """Bytes by canonical config, for one mode on one kind of device.

    A peak that was measured in an earlier run comes first. On the host the rest is a guess from shapes; on other
    devices the operator's reference is run without memory in a process of its own, and shapes are for those that
    it cannot answer. ``learned`` is the file of measured peaks; None keeps none.
    """

    def __init__(self, case: CaseOptions, kind: str, *, torch_on_device: bool = False, learned: Path | None) -> None:
        self._case = case
        self._kind = kind
        self._learned = LearnedPeaks(learned) if learned is not None else None
        #: Nothing to look up in a file that this session begins.
        self._has_learned = learned is not None and learned.exists()
        self._known: dict[str, int] = {}
        self._looked = 0.0
        self._estimator: Estimator | None = None
        if kind != "cpu":
            options = EstimatorOptions(case=case, torch_on_device=torch_on_device, caches_kept=case.gpu_mode)
            self._estimator = Estimator(options).start()

    def of(self, config: str) -> int | None:
        """Bytes at the peak; None while the answer is on its way. A text that is no config needs nothing."""
        found = self._known.get(config)
        if found is None:
            found = self._find(config)
            if found is not None:
                self._known[config] = found
        return found

    def now(self, config: str) -> int:
        """As :meth:`of`, with the guess from shapes where that is not known yet; for messages."""
        found = self.of(config)
        if found is not None:
            return found
        try:
            return guess_device_bytes(parse_call(config), backward=self._case.test_backward)
        except ConfigSyntaxError:
            return 0

    @property
    def _way_to_run(self) -> str:
        """The mode, with the options that change what a case takes."""
        case = self._case
        switches = {"test-cpu": case.test_cpu, "gpu-mode": case.gpu_mode, "amp": case.amp}
        return "+".join([case.mode.value, *(name for name, on in switches.items() if on)])

    def _find(self, config: str) -> int | None:
        if self._learned is not None and self._has_learned:
            learned = self._learned.estimate(config, self._way_to_run, self._kind)
            if learned:
                return MeasuredBytes(learned)
        if self._estimator is None:
            packed = pack_text(config)
            return estimate_host_bytes(unpack_call(packed), runs=self._case.mode.runs) if packed else 0
        size = self._estimator.get(config)
        if size is None:
            self._estimator.submit([config])
            now = time.monotonic()
            if now - self._looked >= _LOOK_EVERY:
                self._looked = now
                self._estimator.poll()
            size = self._estimator.get(config)
        return size

    def learn(self, config: str, peak: int) -> None:
        """Keep the measured peak of a case that ran to its end, where it can make a difference to later runs."""
        if self._learned is not None and peak > 0 and max(peak, self._known.get(config, 0)) > _WORTH_KEEPING:
            self._learned.record(config, self._way_to_run, self._kind, peak)

    def close(self) -> None:
        """End the estimating process."""
        if self._estimator is not None:
            self._estimator.close()
        if self._learned is not None:
            self._learned.close()
