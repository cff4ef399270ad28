"""The kind of device ``sim_gpu``, as another package would add one: by an entry point of the plugin's group.

Its readings are those of the NVIDIA kind: real nvidia-ml-py, over the stand-in library. The farm copies this file to
where the process that it is for can import it, so it imports nothing of this folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pytest_paddleapi.devices.model import Probe
from pytest_paddleapi.devices.nvidia import NvidiaKind

__all__ = ["KIND", "SimulatedKind"]


class SimulatedKind(NvidiaKind):
    """The farm's devices: NVML measures them, Paddle calls them ``sim_gpu``, and Torch computes on the CPU."""

    name = "sim_gpu"
    priority = 200

    def probe(self, environ: Mapping[str, str]) -> Probe:
        """As NVML lists them; nothing where the process was not started with a farm's environment."""
        if not os.environ.get("SIMFARM_FILE"):
            return Probe(why_not="SIMFARM_FILE is not set, so there is no simulated farm")
        return super().probe(environ)

    def paddle_device(self, position: int) -> str:
        """Paddle counts the visible ones."""
        return f"sim_gpu:{position}"

    def torch_device(self, position: int) -> str:
        """Torch knows no such device."""
        return "cpu"


KIND = SimulatedKind()
