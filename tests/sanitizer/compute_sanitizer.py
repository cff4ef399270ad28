"""A stand-in for NVIDIA's ``compute-sanitizer``, for machines without a GPU.

It takes the same command line, starts the program in the same way (as its child, in its own process group), passes
signals on, prints in the same format and has the same rule for its exit code. What a GPU's driver would tell the real
one comes by two ways from below the plugin: the program writes the name of a report into the pipe whose number is in
``STANDIN_SANITIZER_FD``; and on a simulated farm a report is due when more bytes of its first device were in use than
``STANDIN_REPORT_ABOVE`` says. ``STANDIN_LEAK`` lets every program leak.
"""

from __future__ import annotations

import mmap
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_WITH_VALUE = ("--target-processes", "--error-exitcode", "--print-limit", "--tool", "--launch-timeout")
_HOST = """=========     Saved host backtrace up to driver entry point at error
=========         Host Frame: [0x43e1be] in libcuda.so.1
=========         Host Frame: phi::StandInKernel in libpaddle.so
========="""
REPORTS = {
    "write": f"""========= Invalid __global__ write of size 4 bytes
=========     at stand_in_kernel(float *, int)+0x160 in stand_in.cu:6
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f6510c00000 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f6510a00000 of size 2,097,152 bytes
{_HOST}""",
    "api": '========= Program hit cudaErrorInvalidValue (error 1) due to "invalid argument" '
    f"on CUDA API call to cudaMemcpyAsync.\n{_HOST}",
    "race": f"""========= Error: Race reported between Write access at stand_in_kernel(int *)+0x40 in stand_in.cu:9
=========     and Read access at stand_in_kernel(int *)+0x90 in stand_in.cu:11 [508 hazards]
{_HOST}""",
    "probe": '========= Program hit CUDA_ERROR_NOT_FOUND (error 500) due to "named symbol not found" '
    f"on CUDA API call to cuGetProcAddress_v2.\n{_HOST}",
}
_DIED = (
    "========= Error: process didn't terminate successfully\n"
    "=========     The application may have hit an error when dereferencing Unified Memory from the host. Please rerun "
    "the application under cuda-gdb or a host debugger to catch host side errors."
)
_LEAK = """========= Leaked 4,194,304 bytes at 0x7f6510a00000
=========     Saved host backtrace up to driver entry point at allocation time
=========         Host Frame: cuMemAlloc_v2 in libcuda.so.1
=========
========= LEAK SUMMARY: 4194304 bytes leaked in 1 allocations"""


class Sanitizer:
    """One run of a program."""

    def __init__(self, arguments: list[str]) -> None:
        self.options, command = _split(arguments)
        self.limit = int(self.options.get("--print-limit", "100"))
        self.errors = 0
        self.leaks = bool(os.environ.get("STANDIN_LEAK"))
        reading, writing = os.pipe()
        environment = {**os.environ, "STANDIN_SANITIZER_FD": str(writing)}
        print("========= COMPUTE-SANITIZER")
        # The real one leaves its descriptors to the program; one that does not must do as well.
        self.child = subprocess.Popen(command, env=environment, pass_fds=(writing,))
        os.close(writing)
        self.reading = reading
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda got, frame: self.child.send_signal(got))

    def run(self) -> int:
        """Report until the program has ended; the exit code."""
        farm = Farm() if os.environ.get("STANDIN_REPORT_ABOVE") else None
        selector = selectors.DefaultSelector()
        selector.register(self.reading, selectors.EVENT_READ)
        while True:
            for _ in selector.select(0.002 if farm else None):
                names = os.read(self.reading, 65536).decode().split()
                for name in names:
                    self.report(name)
                if not names:  # everybody who could write has ended
                    return self.end(self.child.wait())
            if farm is not None and farm.is_due():
                self.report("write")

    def report(self, name: str) -> None:
        """Print a report, or remember it for the end."""
        if name.startswith("slow:"):
            end = time.monotonic() + 0.1  # it has much to do before it comes to print
            while time.monotonic() < end:
                pass
            name = name.removeprefix("slow:")
        if name == "leak":
            self.leaks = True
            return
        self.errors += 1
        if name != "silent" and self.errors <= self.limit:
            print(REPORTS[name])

    def end(self, code: int) -> int:
        """Print what comes at the end; what to exit with."""
        if code != 0:
            print(_DIED)
        if self.leaks:
            print(_LEAK)
            self.errors += 1
        print(f"========= ERROR SUMMARY: {self.errors} error{'' if self.errors == 1 else 's'}")
        if code == 0 and self.errors:
            return int(self.options.get("--error-exitcode", "0"))
        return code if code >= 0 else 255


class Farm:
    """How many bytes of the first simulated device were ever in use."""

    def __init__(self) -> None:
        sys.path.insert(0, str(Path(__file__).parents[2]))
        from tests.farm.layout import StateEntry  # type: ignore[import-not-found]

        with open(os.environ["SIMFARM_FILE"], "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        self.entry: Any = StateEntry.from_buffer(self.memory)
        self.limit = int(os.environ["STANDIN_REPORT_ABOVE"])
        self.told = self.entry.device[0].peak > self.limit

    def is_due(self) -> bool:
        """True once, when it is seen to be more than the limit."""
        due = not self.told and self.entry.device[0].peak > self.limit
        self.told = self.told or due
        return due


def _split(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    options = {}
    words = list(arguments)
    while words and words[0].startswith("--"):
        name, _, value = words.pop(0).partition("=")
        if name not in _WITH_VALUE:
            sys.exit(f"unrecognised option '{name}'")
        options[name] = value or words.pop(0)
    if not words:
        sys.exit("no program to run was specified")
    return options, words


if __name__ == "__main__":
    sys.exit(Sanitizer(sys.argv[1:]).run())
