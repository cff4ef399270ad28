"""Estimates of device memory for a controller that imports no framework: a child process answers.

    estimator = Estimator(EstimatorOptions(case=options)).start()
    estimator.submit(configs)          # canonical texts, as many as may be wanted soon
    estimator.poll()                   # now and then; never waits
    estimator.get(config)              # bytes, or None if it is not known yet
    estimator.close()

Nothing that a config does to the child reaches the caller: one that hangs or crashes it gets the guess from shapes, and
the child is made anew for the rest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping

import msgspec

from ..config import Call, ConfigSyntaxError, parse_call
from ..config.device_sizes import COMPARED_THERE, guess_device_bytes, guess_held_bytes, is_surely_small
from ..config.second_device import second_device_bytes
from .errors import ChannelError
from .estimator_messages import EstimateConfigs, Estimated, EstimatorOptions, FromEstimator, PrepareEstimator
from .framing import Channel, channel_pair
from .output import OutputFile

_CHILD = "pytest_paddleapi.process.estimator_child"
_ESTIMATOR = "pytest_paddleapi.case.estimate:CaseEstimator"
#: Seconds for one config: the child gives up by itself after one, unless it hangs inside a framework.
_LIMIT = 10.0
#: Seconds until the child has imported the frameworks; as for a slot.
_START_LIMIT = 180.0
#: Bytes of text that are with the child at once, so that sending never waits (a socket holds more).
_WITH_CHILD = 64 * 1024
#: A child that has not come to life so many times in a row will not: Torch is missing, or broken.
_LIVES = 3
#: Configs that may cost a child its life. Each costs the host seconds for a new one; shapes are cheaper by then.
_MOST_LOST = 50


class Estimator:
    """Asks the child, keeps the answers. Used from one thread, which must live on: the child dies with it.

    ``estimator`` names the class that the child makes, ``environment`` is added to its environment.
    """

    def __init__(
        self,
        options: EstimatorOptions,
        *,
        estimator: str = _ESTIMATOR,
        environment: Mapping[str, str] | None = None,
        limit: float = _LIMIT,
        start_limit: float = _START_LIMIT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = options
        self.limit = limit
        self.start_limit = start_limit
        #: Why there is no child any more; empty as long as there is, or may be, one.
        self.failure = ""
        self._estimator = estimator
        # No device is visible to it: a context would take memory that nobody has leased.
        self._environment = {
            **os.environ,
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            **(environment or {}),
        }
        self._clock = clock
        self._known: dict[str, int] = {}
        self._ways: dict[str, str] = {}
        self._new: dict[str, int] = {}
        self._queue: deque[str] = deque()
        self._queued: set[str] = set()
        self._with_child: deque[str] = deque()
        self._child: _Child | None = None
        self._started = False
        self._stillborn = 0
        self._lost = 0

    def start(self) -> Estimator:
        """Allow the child to be made; it is, once a config needs it."""
        self._started = True
        return self

    def submit(self, configs: Iterable[str]) -> None:
        """Ask for configs, given as canonical texts. Those that are surely small are answered at once."""
        for config in configs:
            if config in self._known or config in self._queued:
                continue
            try:
                call = parse_call(config)
            except ConfigSyntaxError:
                self._settle(config, 0, "refused")  # it will never run
                continue
            if is_surely_small(call, backward=self.options.case.test_backward):
                self._settle(config, self._guess(call), "shapes")
            else:
                self._queued.add(config)
                self._queue.append(config)
        self._pump()

    def poll(self) -> dict[str, int]:
        """The answers that are new since the last call, by config, in bytes. Never waits."""
        if self._child is not None:
            self._hear(self._child)
        self._pump()
        new, self._new = self._new, {}
        return new

    def get(self, config: str) -> int | None:
        """The bytes of a config, if they are known by now."""
        return self._known.get(config)

    def way(self, config: str) -> str | None:
        """How the bytes of a config were found: ``operator``, ``shapes``, or ``refused`` for what is no config."""
        return self._ways.get(config)

    @property
    def pending(self) -> int:
        """Configs that are not answered yet."""
        return len(self._queue) + len(self._with_child)

    @property
    def pid(self) -> int | None:
        """The child's process id, if there is a child."""
        return self._child.process.pid if self._child else None

    def close(self) -> None:
        """End the child; answers stay."""
        self._started = False
        self._end_child()

    def _settle(self, config: str, size: int, way: str) -> None:
        self._queued.discard(config)
        self._known[config] = self._new[config] = size
        self._ways[config] = way

    def _guess(self, call: Call) -> int:
        case = self.options.case
        size = guess_device_bytes(call, backward=case.test_backward)
        if self.options.torch_on_device and self.options.caches_kept and case.mode.computes_in_torch:
            # Paddle's side, and Torch's, with the comparison where that is made there.
            size = (1 + (COMPARED_THERE if case.gpu_mode else 1)) * size
        if not case.mode.pairs:
            return size
        held, largest = guess_held_bytes(call)
        there = self.options.torch_on_device
        return max(size, second_device_bytes(call, held, largest, runs=case.mode.runs, torch_there=there))

    def _fall_back(self, config: str) -> None:
        self._settle(config, self._guess(parse_call(config)), "shapes")

    # The child --------------------------------------------------------------------------------

    def _hear(self, child: _Child) -> None:
        try:
            messages = child.channel.receive_available()
        except ChannelError:  # it was killed while it wrote; nothing that it says can be trusted
            self._lose_child("its answer is no message")
            return
        now = self._clock()
        for message in messages:
            child.ready = True
            child.since = now
            self._stillborn = 0
            if isinstance(message, Estimated) and self._with_child and message.config == self._with_child[0]:
                self._with_child.popleft()
                self._settle(message.config, message.size, message.way)
        if child.channel.ended or child.process.poll() is not None:
            self._lose_child("it ended")
        elif (self._with_child or not child.ready) and now - child.since > (
            self.limit if child.ready else self.start_limit
        ):
            self._lose_child("it took too long")

    def _pump(self) -> None:
        if not self._started or not self._queue:
            return
        if self.failure:
            while self._queue:
                self._fall_back(self._queue.popleft())
            return
        if self._child is None:
            self._make_child()
        child = self._child
        if child is None or not child.ready:
            return
        room = _WITH_CHILD - sum(map(_size, self._with_child))
        batch: list[str] = []
        while self._queue and (_size(self._queue[0]) <= room or not (batch or self._with_child)):
            room -= _size(self._queue[0])
            batch.append(self._queue.popleft())
        if not batch:
            return
        if not self._with_child:
            child.since = self._clock()
        self._with_child.extend(batch)
        try:
            child.channel.send(EstimateConfigs(tuple(batch)), deadline=time.monotonic() + self.limit)
        except ChannelError:
            self._lose_child("it takes no more questions")

    def _make_child(self) -> None:
        try:
            self._child = _Child(self._environment, PrepareEstimator(self._estimator, self.options), self._clock())
        except (OSError, ChannelError) as exc:
            self._count_stillborn(f"{sys.executable} could not be started: {exc}")

    def _lose_child(self, why: str) -> None:
        """End the child. The config that it had in its hands gets the guess, those behind it go back to the front."""
        child = self._child
        assert child is not None
        text = f"the process that estimates failed: {why}\n{child.errors.peek()[-2000:].strip()}".rstrip()
        if not child.ready:
            self._count_stillborn(text)
        elif self._with_child:
            self._fall_back(self._with_child.popleft())
            self._lost += 1
            if self._lost >= _MOST_LOST:
                self.failure = f"{self._lost} configs ended the process that estimates; of the last: {text}"
        self._end_child()
        self._pump()

    def _count_stillborn(self, why: str) -> None:
        self._stillborn += 1
        if self._stillborn >= _LIVES:
            self.failure = why

    def _end_child(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None
        self._queue.extendleft(reversed(self._with_child))
        self._with_child.clear()


def _size(config: str) -> int:
    return len(config.encode("utf-8", "surrogatepass")) + 8


class _Child:
    """One life of the child process."""

    def __init__(self, environment: Mapping[str, str], prepare: PrepareEstimator, now: float) -> None:
        ours, theirs = channel_pair()
        self.errors = OutputFile()
        safe_path = ["-P"] if sys.version_info >= (3, 11) else []
        try:
            self.process = subprocess.Popen(
                [sys.executable, *safe_path, "-m", _CHILD, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=self.errors.fd,
                stderr=self.errors.fd,
                env=dict(environment),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except OSError:
            ours.close()
            self.errors.close()
            raise
        finally:
            theirs.close()
        self.channel: Channel[FromEstimator] = Channel(ours, msgspec.msgpack.Decoder(FromEstimator))
        #: Everything is imported, and since when it has had what it is doing now.
        self.ready = False
        self.since = now
        try:
            self.channel.send(prepare)
        except ChannelError:
            self.end()
            raise

    def end(self) -> None:
        """Kill and reap it."""
        self.channel.close()
        self.process.kill()
        self.process.wait()
        self.errors.close()
