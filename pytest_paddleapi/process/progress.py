"""What a case process is doing, in memory that it shares with the worker.

Not a message: each would wake the worker, several times a case, for what it needs to know only of a process
that died or hangs. Memory outlives its writer, so the last stage of a killed process can always be read.
"""

from __future__ import annotations

import mmap
import os

from .messages import Stage

_STAGES = tuple(Stage)
_SIZE = mmap.PAGESIZE


class Progress:
    """One number: the token of the attempt that was begun last, with its stage.

    It is written with one store of eight bytes, so a reader never sees half of two.
    """

    def __init__(self, fd: int | None = None) -> None:
        """Make a board, or take over one that another process made, by its descriptor."""
        if fd is None:
            fd = os.memfd_create("paddleapi-progress", os.MFD_CLOEXEC)
            os.ftruncate(fd, _SIZE)
        self.fd = fd
        self._memory = mmap.mmap(fd, _SIZE)
        self._number = memoryview(self._memory).cast("Q")

    def enter(self, token: int, stage: Stage) -> None:
        """Say that the attempt ``token`` enters ``stage``."""
        self._number[0] = token * len(_STAGES) + _STAGES.index(stage)

    def stage_of(self, token: int) -> Stage | None:
        """The last stage of this attempt; None where it has not begun."""
        found, index = divmod(self._number[0], len(_STAGES))
        return _STAGES[index] if found == token else None

    def close(self) -> None:
        """Unmap it and close the descriptor."""
        self._number.release()
        self._memory.close()
        os.close(self.fd)
