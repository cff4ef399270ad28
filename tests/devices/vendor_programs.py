"""Vendors' tools that are scripts: what they print is in files that a test can change."""

from __future__ import annotations

from pathlib import Path

__all__ = ["Program"]


class Program:
    """An executable ``name`` in a folder of its own, which prints ``text`` and counts how often it was started."""

    def __init__(self, folder: Path, name: str, text: str = "") -> None:
        self.folder = folder
        self.path = folder / name
        self._output = folder / f"{name}.output"
        self._starts = folder / f"{name}.starts"
        folder.mkdir(exist_ok=True)
        self.prints(text)
        self.does(f"cat '{self._output}'")

    def prints(self, text: str) -> None:
        """Print this from now on."""
        self._output.write_text(text)

    def does(self, commands: str) -> None:
        """Run these shell commands instead."""
        # Not overwritten while it may be running: a new file takes its place.
        new = self.folder / "new"
        new.write_text(f"#!/bin/sh\necho $$ >> '{self._starts}'\n{commands}\n")
        new.chmod(0o700)
        new.rename(self.path)

    def environ(self, **more: str) -> dict[str, str]:
        """With this program, and the system's, on PATH."""
        return {"PATH": f"{self.folder}:/usr/bin:/bin", **more}

    @property
    def pids(self) -> list[int]:
        """The process id of each start."""
        return [int(line) for line in self._starts.read_text().split()] if self._starts.exists() else []
