"""The farm's file: who may attach, and what happens to its lock when a holder is killed."""

from __future__ import annotations

import os
import resource
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from . import build as building
from .build import FarmUnavailableError, build
from .farm import MIB, Action, Event, Farm, FarmError
from .layout import State

HERE = Path(__file__).parent


def test_a_file_of_another_version_is_refused(make_farm: Any) -> None:
    farm = make_farm()
    with farm.file.open("r+b") as file:
        file.seek(8)
        file.write(struct.pack("<Q", 77))
    with pytest.raises(FarmError, match="version 77"):
        State(farm.file, farm.libraries.control)


def test_a_file_of_another_size_is_refused(make_farm: Any) -> None:
    farm = make_farm()
    os.truncate(farm.file, 4096)
    with pytest.raises(FarmError, match="is not the state of a farm"):
        State(farm.file, farm.libraries.control)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FarmError, match="nowhere"):
        State(tmp_path / "nowhere", build().control)


def test_a_folder_holds_one_farm(tmp_path: Path) -> None:
    with Farm(tmp_path), pytest.raises(FarmError, match="File exists"):
        Farm(tmp_path)


def test_a_machine_without_a_compiler_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FarmUnavailableError, match=r"needs g\+\+"):
        building.build()


def test_sizes_and_uuids_are_as_asked(make_farm: Any) -> None:
    farm = make_farm(devices=3, mib=[128, 256, 512], uuids=["GPU-x", "GPU-y", "GPU-z"])
    assert [farm.total(i) for i in range(3)] == [128 * MIB, 256 * MIB, 512 * MIB]
    assert [farm.uuid(i) for i in range(3)] == ["GPU-x", "GPU-y", "GPU-z"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"devices": 33}, "1 to 32"),
        ({"devices": 2, "mib": [1]}, "as many sizes"),
        ({"devices": 2, "uuids": ["a", "a"]}, "different UUIDs"),
        ({"devices": 1, "mib": 100, "mig": {0: [60, 60]}}, "cannot be divided"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(tmp_path: Path, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(FarmError, match=says):
        Farm(tmp_path / "farm", **arguments)


def test_a_device_that_is_not_there_is_named(make_farm: Any) -> None:
    farm = make_farm(devices=2)
    with pytest.raises(FarmError, match="devices 0 to 1, not 2"):
        farm.used(2)


def test_faults_out_of_range_are_refused(make_farm: Any) -> None:
    farm = make_farm()
    with pytest.raises(FarmError, match="nth=0"):
        farm.inject(Event.ALLOCATE, Action.REFUSE, nth=0)
    for _ in range(64):
        farm.inject(Event.ALLOCATE, Action.REFUSE)
    with pytest.raises(FarmError, match="64 faults"):
        farm.inject(Event.ALLOCATE, Action.REFUSE)


def test_only_the_user_can_read_the_file(make_farm: Any) -> None:
    assert make_farm().file.stat().st_mode & 0o777 == 0o600


def test_a_visibility_variable_of_real_devices_does_not_hide_simulated_ones(
    make_farm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    farm = make_farm(devices=2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert "CUDA_VISIBLE_DEVICES" not in farm.environment()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-of-this-machine")
    assert farm.environment()["CUDA_VISIBLE_DEVICES"] == f"{farm.uuid(0)},{farm.uuid(1)}"
    assert farm.environment(CUDA_VISIBLE_DEVICES="1")["CUDA_VISIBLE_DEVICES"] == "1"


HOLDER = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from layout import State
state = State(Path(sys.argv[2]), Path(sys.argv[3]))
assert state.take(0, 5 << 20)
with state.locked():
    print("locked", flush=True)
    time.sleep(60)
"""


def test_who_cannot_look_at_others_takes_them_for_living(make_farm: Any) -> None:
    farm = make_farm()
    arguments = [str(HERE), str(farm.file), str(farm.libraries.control)]
    with subprocess.Popen([sys.executable, "-c", HOLDER, *arguments], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "locked\n"
        holder.kill()
        # Without a file descriptor left, /proc cannot be read: that is no reason to drop what somebody holds.
        state = State(farm.file, farm.libraries.control)
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            with state.locked():
                used = state.used(0)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            state.close()
    assert used == 5 * MIB
    assert farm.used(0) == 0


def test_the_lock_of_a_killed_holder_is_taken_over(make_farm: Any) -> None:
    farm = make_farm()
    arguments = [str(HERE), str(farm.file), str(farm.libraries.control)]
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, *arguments], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    with holder:
        assert holder.stdout.readline() == "locked\n"
        holder.send_signal(signal.SIGKILL)
        begun = time.monotonic()
        holder.wait()
    assert farm.used(0) == 0
    assert time.monotonic() - begun < 5
    farm.foreign(0, MIB)
    assert farm.used(0) == MIB
