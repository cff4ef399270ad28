"""What the command line asks for: the options that pytest registers, and how they are read and checked."""

from .declared import add_options
from .model import DEFAULT_TIMEOUT, RunOptions
from .modes import MODES
from .reading import device_options, is_active, memory_limit, read_options
from .running import fit_to_devices, running_notes
from .sanitizer import check_sanitizer_device
from .sizes import read_size
from .workers import cores, worker_count

__all__ = [
    "DEFAULT_TIMEOUT",
    "MODES",
    "RunOptions",
    "add_options",
    "check_sanitizer_device",
    "cores",
    "device_options",
    "fit_to_devices",
    "is_active",
    "memory_limit",
    "read_options",
    "read_size",
    "running_notes",
    "worker_count",
]
