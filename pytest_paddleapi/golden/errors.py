"""What can go wrong with a store of golden results."""

from __future__ import annotations

from ..errors import PaddleApiError


class GoldenError(PaddleApiError):
    """The base of the errors of this room."""


class DamagedGoldenError(GoldenError):
    """A stored object is not what was written: truncated, altered, of another case, or of a form unknown here.

    Way out: upload the case again with ``--paddleapi-golden-overwrite``, from a machine that can be trusted.
    """


class GoldenFormatError(DamagedGoldenError):
    """It was written by a later version of this plugin. Way out: the same version on both machines."""


class NotStorableError(GoldenError):
    """A result holds a value that the format has no place for."""


class StoreError(GoldenError):
    """The store cannot be reached, or refuses: network, credentials, no bucket, a full disk.

    ``final`` says that a second try is of no use.
    """

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final
