"""Tells the memory of one type of Paddle's custom devices: the program of a child process, one answer for each line.

Paddle 3 has no Python function for it. It asks its plug-in, through the C interface of
``paddle/phi/backends/device_ext.h``, and so does this program, without Paddle: it loads the plug-in's library, has it
fill in the interface, and calls ``device_memory_stats``. Where the members of the interface stand is read from the
header that the Paddle wheel ships, because it grows from release to release, with the plug-ins.

Run by path, isolated, so it may import nothing but the standard library::

    python -I -S custom_memory.py TYPE HEADER LIBPADDLE PLUGIN...

Standard input: a line with a number of the request and a device's index. Standard output: a line of JSON for each,
``{"request": 3, "total": bytes, "free": bytes}`` or ``{"request": 3, "error": why}``; first of all ``{"ready": true}``,
or ``{"error": why}`` and the end. The end of its input ends it. So does the kernel, by SIGALRM, where the driver hangs.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable

__all__ = ["HANG_SECONDS", "PluginError", "interface_layout", "main"]

#: One call into the driver may take so long. What SIGALRM does by default is up to the kernel: it needs no thread here.
HANG_SECONDS = 30

_POINTER = ctypes.sizeof(ctypes.c_void_p)
_SUCCESS = 0  # C_SUCCESS


class PluginError(Exception):
    """The plug-in cannot be asked; the message says why."""


class _Params(ctypes.Structure):
    """``CustomRuntimeParams``, with room at its end for what later releases add."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("interface", ctypes.c_void_p),
        ("version", ctypes.c_size_t * 3),
        ("device_type", ctypes.c_char_p),
        ("sub_device_type", ctypes.c_char_p),
        ("reserved", ctypes.c_char * 40),
        ("room", ctypes.c_char * 512),
    ]


class _Device(ctypes.Structure):
    """``C_Device_st``."""

    _fields_ = [("id", ctypes.c_int)]


def interface_layout(header: str) -> tuple[dict[str, int], int]:
    """Offsets of the members of ``struct C_DeviceInterface`` in bytes, by name, and its size.

    ``header`` is the text of ``device_ext.h``. Every member is a pointer or an array of pointers, but the first.

    Raises:
        PluginError: it has no such struct, or a member of another kind.
    """
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header, flags=re.DOTALL)
    body = re.search(r"struct\s+C_DeviceInterface\s*\{(.*?)\n\};", text, flags=re.DOTALL)
    if body is None:
        raise PluginError("device_ext.h has no struct C_DeviceInterface")
    offsets: dict[str, int] = {}
    at = 0
    for member in filter(None, (part.strip() for part in body[1].split(";"))):
        name, size = _member(" ".join(member.split()))
        offsets[name] = at
        at += size
    return offsets, at


def _member(text: str) -> tuple[str, int]:
    if match := re.fullmatch(r"size_t (\w+)", text):
        return match[1], ctypes.sizeof(ctypes.c_size_t)
    if match := re.fullmatch(r"void ?\* ?(\w+)\[(\d+)\]", text):
        return match[1], int(match[2]) * _POINTER
    if match := re.match(r"[\w ]+\(\*(\w+)\) ?\(", text):
        return match[1], _POINTER
    raise PluginError(f"device_ext.h has a member of the device interface that is not understood: {text[:80]!r}")


class _Plugin:
    """The one of ``libraries`` that serves ``device_type``, with the interface that it filled in."""

    def __init__(self, device_type: str, header: str, libpaddle: str, libraries: Iterable[str]) -> None:
        self._offsets, size = interface_layout(header)
        self._ready: set[int] = set()
        seen = []
        for path in libraries:
            interface = (ctypes.c_char * (size + 512))()  # room, should a plug-in be newer than the header
            name = _init_plugin(path, libpaddle, interface, size)
            if name == device_type:
                self._interface = interface
                self._call("initialize")
                return
            seen.append(f"{os.path.basename(path)}: {name}")
        raise PluginError(f"no plug-in serves {device_type} ({'; '.join(seen) or 'there is none'})")

    def memory(self, index: int) -> tuple[int, int]:
        """Total and free bytes of a device."""
        device = _Device(index)
        if index not in self._ready:
            self._call("init_device", ctypes.byref(device))
            self._ready.add(index)
        # Some plug-ins tell the memory of the current device, whichever one they are asked about.
        self._call("set_device", ctypes.byref(device))
        total, free = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("device_memory_stats", ctypes.byref(device), ctypes.byref(total), ctypes.byref(free))
        if not 0 <= free.value <= total.value != 0:
            raise PluginError(f"the plug-in tells {free.value} bytes free of {total.value}")
        return total.value, free.value

    def _call(self, name: str, *arguments: object) -> None:
        address = ctypes.c_void_p.from_buffer(self._interface, self._offsets[name]).value
        if address is None:
            raise PluginError(f"the plug-in has no {name}")
        status = ctypes.CFUNCTYPE(ctypes.c_int)(address)(*arguments)
        if status != _SUCCESS:
            raise PluginError(f"{name} failed with status {status}")


def _init_plugin(path: str, libpaddle: str, interface: ctypes.Array[ctypes.c_char], size: int) -> str:
    try:
        library = ctypes.CDLL(path)
    except OSError:
        # Plug-ins with kernels need Paddle's symbols, which Paddle has loaded before them.
        try:
            ctypes.CDLL(libpaddle, mode=ctypes.RTLD_GLOBAL)
            library = ctypes.CDLL(path)
        except OSError as exc:
            return f"cannot be loaded ({exc})"
    entry: Callable[..., object] | None = getattr(library, "InitPlugin", None)
    if entry is None:
        return "has no InitPlugin"
    ctypes.c_size_t.from_buffer(interface).value = size
    params = _Params()
    # Of Paddle 3.3. Where it is another, the interface's size, which the header tells, is enough for a plug-in.
    params.size = _Params.room.offset
    params.interface = ctypes.addressof(interface)
    entry(ctypes.byref(params))
    name: bytes | None = params.device_type
    return name.decode() if name else "was built for another version of Paddle"


def _answer(plugin: _Plugin, index: int) -> dict[str, object]:
    try:
        total, free = plugin.memory(index)
    except PluginError as exc:
        return {"error": str(exc)}
    return {"total": total, "free": free}


def main(arguments: list[str]) -> int:
    """Serve standard input until it ends."""
    device_type, header, libpaddle, *libraries = arguments
    # Whatever a plug-in prints goes to standard error; the pipe is for answers only.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(HANG_SECONDS)
    try:
        with open(header, encoding="utf-8") as file:
            plugin = _Plugin(device_type, file.read(), libpaddle, libraries)
    except (PluginError, OSError) as exc:
        print(json.dumps({"error": str(exc)}), file=out)
        return 1
    signal.alarm(0)
    print(json.dumps({"ready": True}), file=out)
    for line in sys.stdin:
        request, index = map(int, line.split())
        signal.alarm(HANG_SECONDS)
        answer = _answer(plugin, index)
        signal.alarm(0)
        print(json.dumps({"request": request, **answer}), file=out)
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    # Not through the destructors of drivers, which may hang.
    os._exit(status)
