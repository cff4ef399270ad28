"""Kunlun XPUs through ``xpu-smi``."""

from __future__ import annotations

from .vendor_device import VendorKind

__all__ = ["KIND", "XpuKind"]


class XpuKind(VendorKind):
    """XPUs that ``xpu-smi`` lists and the outer ``XPU_VISIBLE_DEVICES`` leaves in sight."""

    name = "xpu"
    priority = 90
    visibility_variable: str | None = "XPU_VISIBLE_DEVICES"
    program = "xpu-smi"
    ends_at = "Processes:"
    title = "Kunlun XPU"

    def paddle_device(self, position: int) -> str:
        """Paddle counts the visible XPUs."""
        return f"xpu:{position}"

    def torch_device(self, position: int) -> str:
        """The CPU: Torch has no backend for Kunlun. Its own ``xpu`` is something else, Intel's GPUs."""
        return "cpu"


KIND = XpuKind()
