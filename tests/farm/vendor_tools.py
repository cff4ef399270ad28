"""Stand-ins for ``xpu-smi`` and ``ixsmi``: what the real ones print, from the farm's file.

Run as ``python vendor_tools.py TOOL CONTROL_LIBRARY``; the farm makes programs of these names that do so.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Run as a program too, with nothing of the tests to import but what lies beside it.
sys.path.insert(0, str(Path(__file__).parent))
from layout import FILE_VARIABLE, Action, DeviceEntry, State

_MIB = 1 << 20
_HEAD = {
    "xpu-smi": ("XPU-SMI               Driver Version: 4.31.0       XPU-RT Version: 4.31.0", "XPU"),
    "ixsmi": ("IX-ML: 4.2.0       Driver Version: 4.2.0       CUDA Version: 10.2", "GPU"),
}
_MODEL = {"xpu-smi": "P800 OAM", "ixsmi": "Iluvatar BI-V150"}
_RULE = "+-------------------------------+----------------------+----------------------+"


def main(tool: str, library: str) -> int:
    """Print the table, or do what a fault says; the exit code."""
    state = State(Path(os.environ[FILE_VARIABLE]), Path(library))
    action = state.tool_fault(tool)
    if action is Action.FAIL:
        print(f"{tool}: Failed to initialize the driver", file=sys.stderr)
        return 1
    print("%$ segmentation 0x7f\n| | MiB / MiB |\n| nan |" if action is Action.GARBAGE else table(state, tool))
    return 0


def table(state: State, tool: str) -> str:
    """The devices, then the processes that hold memory of them."""
    head, unit = _HEAD[tool]
    lines = [f"+{'-' * 77}+", f"| {head:<75} |", _RULE.replace("+", "|", 1)]
    lines += [f"| {unit}  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |"]
    lines += ["| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | Util      Compute M. |"]
    lines += ["|===============================+======================+======================|"]
    held = []
    with state.locked() as entry:
        for index in range(entry.devices):
            lines += _device(tool, index, entry.device[index], state.used(index))
            for process in entry.processes[: entry.processes_top]:
                if process.pid and process.contexts >> index & 1:
                    size = process.bytes[index] // _MIB
                    held.append(f"| {index:>4}   N/A  N/A {process.pid:>9}      C   python {size:>22}MiB |")
    lines += ["", f"+{'-' * 77}+", f"| {'Processes:':<75} |", f"|  {unit}   GI   CI        PID   Type   Process name"]
    lines += [f"|{'=' * 77}|", *(held or ["|  No running processes found"]), f"+{'-' * 77}+"]
    return "\n".join(lines)


def _device(tool: str, index: int, device: DeviceEntry, used: int) -> list[str]:
    memory = f"{used // _MIB}MiB / {device.total // _MIB}MiB"
    return [
        f"| {index} {_MODEL[tool]:<20} N/A     | 00000000:{index + 1:02X}:00.0 N/A |                    0 |",
        f"| N/A   45C  N/A     85W / 400W | {memory:>20} |      0%      Default |",
        _RULE,
    ]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
