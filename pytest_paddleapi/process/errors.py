"""What can go wrong between a worker and its case process, as typed errors that carry their data."""

from __future__ import annotations

from ..errors import PaddleApiError


class ProcessError(PaddleApiError):
    """The base of this package's errors."""


class ChannelError(ProcessError):
    """The channel to another process cannot be used any more, or not yet."""


class ChannelClosedError(ChannelError):
    """The other side has closed the channel, or died, between two frames."""


class ChannelTimeoutError(ChannelError):
    """A deadline passed before a whole frame was sent or received."""


class MalformedFrameError(ChannelError):
    """What came is not a frame of the protocol: cut short, undecodable, or an unknown message.

    The stream cannot be trusted after it; the only way on is to end the process at the other side.
    """


class FrameTooLargeError(MalformedFrameError):
    """A frame is, or claims to be, longer than the limit."""


class SlotStateError(ProcessError):
    """A slot was asked for a move that its state does not allow; a fault of the caller."""


class StartError(ProcessError):
    """A slot's process could not be started.

    Attributes:
        retry_at: the earliest time (of the supervisor's clock) at which a new start makes sense.
        retired: the slot has failed too often, or its device is gone, and will not be started again.
        device_lost: the driver says that the device is lost or unavailable; no other slot can use it either.
    """

    def __init__(
        self, message: str, *, retry_at: float = 0.0, retired: bool = False, device_lost: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_at = retry_at
        self.retired = retired
        self.device_lost = device_lost


class UnconfirmedError(ProcessError):
    """A process had to be started anew for a case, and what was promised to the case is no longer there for it."""


class SlotKilledError(ProcessError):
    """The slot was killed from inside this program (watchdog, second Ctrl-C); its case has no verdict."""
