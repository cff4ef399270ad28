"""The process that estimates: imports the frameworks, touches no device, answers one config after another.

Started by :class:`~.estimator.Estimator` as ``python -m pytest_paddleapi.process.estimator_child CHANNEL_FD PARENT``.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import resource
import signal
import socket
import sys

import msgspec

from . import kernel
from .errors import ChannelClosedError
from .estimator_messages import Estimated, PreparedEstimator, PrepareEstimator, ToEstimator
from .framing import Channel

#: Beside what the frameworks take. Estimates need next to none, but a rule may make an array of the size of a tensor
#: with NumPy; that must fail, and not press on the host.
_ROOM = 1 << 30
#: Cases go first.
_NICENESS = 5


def main() -> None:
    """Entry point."""
    fd, parent = map(int, sys.argv[1:])
    kernel.die_with_parent(parent)
    os.set_inheritable(fd, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel.prefer_for_oom_kill()
    os.nice(_NICENESS)
    channel = Channel(socket.socket(fileno=fd), msgspec.msgpack.Decoder(ToEstimator))
    # The controller has closed its end: there is nobody left to answer.
    with contextlib.suppress(ChannelClosedError):
        _serve(channel)


def _serve(channel: Channel[ToEstimator]) -> None:
    request = channel.receive()
    if not isinstance(request, PrepareEstimator):
        raise SystemExit(f"the first message must be PrepareEstimator, not {type(request).__name__}")
    module, _, name = request.estimator.partition(":")
    options = request.options
    # As for a case process: an import makes no garbage.
    gc.disable()
    make = getattr(importlib.import_module(module), name)
    estimator = make(options.case, torch_on_device=options.torch_on_device, caches_kept=options.caches_kept)
    gc.enable()
    gc.collect()
    gc.freeze()
    data, _ = kernel.data_and_resident_bytes()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = data + _ROOM if hard == resource.RLIM_INFINITY else min(data + _ROOM, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    channel.send(PreparedEstimator(os.getpid()))
    while True:
        batch = channel.receive()
        if isinstance(batch, PrepareEstimator):
            raise SystemExit("PrepareEstimator came twice")
        for config in batch.configs:
            size, way = estimator(config)
            channel.send(Estimated(config, size, way))


if __name__ == "__main__":
    main()
