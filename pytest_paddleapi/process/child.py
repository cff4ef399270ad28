"""Turns a process that has imported everything into a case process, however it came to be."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from . import kernel
from .messages import CaseOptions
from .progress import Progress
from .sanitizer_marks import Marks
from .server import Runner, serve

#: Paddle, Torch or Python may have handlers for these; a case process must die of them, and say of which.
_DEADLY = (signal.SIGTERM, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)


def become_case_process(
    make_runner: Callable[[CaseOptions], Runner], options: CaseOptions, fds: Sequence[int]
) -> NoReturn:
    """Take over the channel, stdout, stderr, stack file and progress of ``fds``, and serve until the end."""
    try:
        # Before its place is taken: what is standard output here is the sanitizer's own.
        marks = Marks(os.dup(1)) if options.sanitize else None
        # Ours wrote to the launcher's stderr, and a reset beneath it would leave it off for good.
        faulthandler.disable()
        for number in (signal.SIGCHLD, *_DEADLY):
            signal.signal(number, signal.SIG_DFL)
        channel_fd, out, err, stacks, progress = fds
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (out, 1), (err, 2)):
            os.dup2(source, target)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        kernel.prefer_for_oom_kill()
        # A hung call may hold the GIL for ever: these handlers are C and need none.
        faulthandler.enable(stacks, all_threads=True)
        faulthandler.register(signal.SIGUSR1, stacks, all_threads=True, chain=False)
        serve(socket.socket(fileno=channel_fd), Progress(progress), make_runner, options, marks)
    except BaseException:  # noqa: BLE001 - nothing may run on in the code that called
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)
