"""Whole pytest sessions on a farm: start one, wait for what it does, read what it left."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
import uuid
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from pytest_paddleapi.gpu_admission import read_ledger

from .farm import MIB, Farm

__all__ = ["FACTOR", "SMALL", "FarmSession", "Finished", "leftovers"]

_HERE = Path(__file__).parent
_TAG = "SIMFARM_SESSION"
_FACTOR = "SIMFARM_ESTIMATE_FACTOR"  # session_plugin.py reads it

#: A number beside those of AdmissionRules: what every estimate is multiplied with, to make it wrong.
FACTOR = "estimate_factor"

#: Admission for devices of a few hundred MiB whose contexts take 16 MiB, and waits to match.
SMALL: Mapping[str, float] = {
    "reserve_bytes": 32 * MIB,
    "minimum_bytes": 16 * MIB,
    "margin_bytes": 8 * MIB,
    "settle_bytes": 4 * MIB,
    "prompt_bytes": 8 * MIB,
    "first_delay": 0.25,
    "longest_delay": 2.0,
}


@dataclass(frozen=True)
class Finished:
    """What a session that has ended left."""

    code: int
    output: str
    #: The properties of each test case in JUnit's file, in its order.
    properties: list[dict[str, str]]

    def verdicts(self) -> dict[str, str]:
        """The verdict by the config as written."""
        return {found["config"]: found["verdict"] for found in self.properties if "config" in found}

    def devices(self) -> set[str]:
        """The devices that its cases ran on."""
        return {found["device"] for found in self.properties if "device" in found}


class FarmSession:
    """One ``pytest`` in a mode on a farm, over ``configs``, which begins to run at once.

    ``numbers`` are admission's, ``arguments`` are added to the command line and ``environment`` to the farm's.
    Sessions with one ``ledger`` share it.
    """

    def __init__(
        self,
        farm: Farm,
        folder: Path,
        configs: Iterable[str],
        *arguments: str,
        ledger: Path,
        numbers: Mapping[str, float] = SMALL,
        environment: Mapping[str, str] | None = None,
        mode: str = "--accuracy",
    ) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.ledger = ledger
        self.tag = uuid.uuid4().hex
        self._xml, self._out = folder / "report.xml", folder / "out"
        (folder / "t.txt").write_text("\n".join(configs) + "\n", encoding="utf-8")
        # A rootdir of its own: no ini file, no conftest and no cache of anybody's is found above it.
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        shutil.copyfile(_HERE / "session_plugin.py", folder / "farm_session_plugin.py")
        wanted = dict(numbers)
        factor = str(wanted.pop(FACTOR, 1.0))
        given = {_FACTOR: factor, "PYTEST_PLUGINS": "farm_session_plugin", _TAG: self.tag, **(environment or {})}
        options = ["-v", mode, "--paddleapi-configs=t.txt", f"--paddleapi-ledger={ledger}"]
        options += [f"--paddleapi-set={name}={value}" for name, value in wanted.items()]
        plugins = ["-p", "no:rerunfailures", "-p", "no:hypothesispytest", "-p", "no:cacheprovider"]
        with self._out.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *options, f"--junitxml={self._xml}", *plugins, *arguments],
                cwd=folder,
                env={**os.environ, "PYTEST_ADDOPTS": "", **farm.environment(**given)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self._out.read_text(encoding="utf-8", errors="replace")

    @property
    def inherited(self) -> int:
        """How many leases so far were counted as taken in part by what their process still held."""
        file = self.folder / "inherited"
        return file.stat().st_size if file.exists() else 0

    @property
    def running(self) -> bool:
        """It has not ended."""
        return self.process.poll() is None

    def wait(self, seconds: float = 120.0) -> Finished:
        """Wait for its end.

        Raises:
            TimeoutError: it is not over in time; it is killed then, and its output stands in the error.
        """
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"the session still ran after {seconds:g} s:\n{self.output}") from None
        return Finished(code, self.output, list(_properties(self._xml)) if self._xml.exists() else [])

    def kill(self) -> None:
        """End it by force, and what it may have left."""
        self.process.kill()
        self.process.wait()
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def processes(self) -> list[psutil.Process]:
        """Every living process of it."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.environ().get(_TAG) == self.tag and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found


def _properties(xml: Path) -> Iterable[dict[str, str]]:
    for case in ElementTree.parse(xml).iter("testcase"):
        yield {p.get("name", ""): p.get("value", "") for p in case.iter("property")}


def leftovers(farm: Farm, sessions: Iterable[FarmSession], seconds: float = 10.0) -> list[str]:
    """What ended sessions have left: processes, leases, bytes of devices. They get so long to be gone."""
    end = time.monotonic() + seconds
    while (found := _left(farm, list(sessions))) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def _described(process: psutil.Process) -> str:
    try:
        with process.oneshot():
            parent = process.ppid()
            return f"{process.status()}, child of {parent}, {process.num_threads()} threads: {process.cmdline()}"
    except psutil.NoSuchProcess:
        return "gone since"


def _left(farm: Farm, sessions: list[FarmSession]) -> list[str]:
    found = [f"process {p.pid} of {s.folder.name}: {_described(p)}" for s in sessions for p in s.processes()]
    for ledger in {session.ledger for session in sessions}:
        if ledger.exists():
            found += [f"session {state.name} in the ledger" for state in read_ledger(ledger).sessions]
    for device in range(farm.devices):
        found += [f"{size} bytes of device {device} in process {p}" for p, size in farm.by_process(device).items()]
    return found
