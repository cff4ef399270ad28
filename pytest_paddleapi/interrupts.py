"""Ctrl-C: the first lets running cases end, the second kills."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

#: What the terminal shows at once; written to the descriptor, because pytest may hold sys.stderr.
_NOTICE = b"\npaddleapi: Ctrl-C: nothing more is started, running cases may end; press it again to kill them\n"
REASON = "Ctrl-C: stopped after the running cases"


class Interrupts:
    """Takes SIGINT over from Python between :meth:`install` and :meth:`restore`, in the main thread.

    ``requested`` is called with the reason at the first one, inside the signal handler: it may only set flags. From
    the second on Python's own handler is back, which raises KeyboardInterrupt.
    """

    def __init__(self, requested: Callable[[str], None]) -> None:
        self._requested = requested
        self._installed = False
        #: The first one has come.
        self.came = False

    def install(self) -> None:
        """Begin; not where somebody else has a handler already, whose wish goes before ours."""
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            signal.signal(signal.SIGINT, self._handle)
            self._installed = True

    def restore(self) -> None:
        """End; Python's handler is back."""
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._installed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.restore()
        self.came = True
        os.write(2, _NOTICE)
        self._requested(REASON)
