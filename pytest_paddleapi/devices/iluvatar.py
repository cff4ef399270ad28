"""Iluvatar GPUs through ``ixsmi``."""

from __future__ import annotations

from .vendor_device import VendorKind

__all__ = ["KIND", "IluvatarKind"]


class IluvatarKind(VendorKind):
    """GPUs that ``ixsmi`` lists and the outer ``CUDA_VISIBLE_DEVICES`` leaves in sight.

    Iluvatar's driver (CoreX) reads CUDA's variable. Only indices are understood in it: the table has no UUIDs.
    """

    name = "iluvatar"
    priority = 80
    visibility_variable: str | None = "CUDA_VISIBLE_DEVICES"
    program = "ixsmi"
    names = "Iluvatar"
    title = "Iluvatar GPU"

    def paddle_device(self, position: int) -> str:
        """For Paddle it is a custom device; its plug-in counts what is visible."""
        return f"iluvatar_gpu:{position}"

    def torch_device(self, position: int) -> str:
        """Iluvatar's build of Torch calls its devices as CUDA's are called."""
        return f"cuda:{position}"


KIND = IluvatarKind()
