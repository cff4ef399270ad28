"""One process at a time prepares a device, across slots and workers."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_paddleapi.process.errors import SlotKilledError, StartError
from pytest_paddleapi.process.launcher import Spares, Zygote
from pytest_paddleapi.process.messages import CaseOptions, Verdict
from pytest_paddleapi.process.prepare_lock import PrepareLock
from pytest_paddleapi.process.slot import StartRules
from pytest_paddleapi.process.supervisor import Supervisor

from .support import LIGHT, MakeSlot, wait_until

HOLD = (
    "import fcntl, os, sys, time\n"
    "fcntl.flock(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX)\n"
    "print('held', flush=True)\n"
    "time.sleep(600)\n"
)


class Holder:
    """Another worker's process, which holds the lock until it is killed."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self.process = subprocess.Popen([sys.executable, "-S", "-c", HOLD, str(path)], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"held\n"
        self.process.stdout.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def is_free(path: Path) -> bool:
    lock = PrepareLock(path)
    try:
        lock.acquire(0.0)
    except StartError:
        return False
    lock.release()
    return True


def test_the_file_and_its_folder_are_private(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "gpu"
    lock = PrepareLock(path)
    lock.acquire(0.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    lock.release()


def test_in_a_shared_folder_it_is_shared_whatever_the_umask(tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    folder.mkdir()
    folder.chmod(0o2770)
    before = os.umask(0o077)
    try:
        lock = PrepareLock(folder / "gpu")
        lock.acquire(0.0)
    finally:
        os.umask(before)
    assert stat.S_IMODE(lock.paths[0].stat().st_mode) == 0o660
    lock.release()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_waits_for_it_in_a_sticky_folder(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o711)
    shared = tmp_path / "ledger"
    shared.mkdir()
    shared.chmod(0o1777)
    lock = PrepareLock(shared / "gpu")
    lock.acquire(0.0)
    assert _as_nobody(shared / "gpu") == "held"
    lock.release()
    assert _as_nobody(shared / "gpu") == "free"
    assert _as_nobody(shared / "their own") == "free"
    assert is_free(shared / "their own")


def _as_nobody(path: Path) -> str:
    """What another user finds: ``free``, ``held``, or why the lock could not be tried."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        found = "no answer"
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            found = "free" if is_free(path) else "held"
        except Exception as exc:
            found = str(exc)
        finally:
            os.write(writing, found.encode())
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as answer:
        found = answer.read()
    os.waitpid(pid, 0)
    return found


def test_those_who_share_one_of_two_devices_wait_for_each_other(tmp_path: Path) -> None:
    pair = PrepareLock(tmp_path / "b", tmp_path / "a")
    pair.acquire(0.0)
    assert not is_free(tmp_path / "a") and not is_free(tmp_path / "b")
    assert is_free(tmp_path / "c")
    pair.release()
    single = PrepareLock(tmp_path / "b")
    single.acquire(0.0)
    with pytest.raises(StartError, match="for too long"):
        pair.acquire(0.0)
    assert is_free(tmp_path / "a")  # what it had got is free again
    single.release()
    pair.acquire(0.0)
    pair.release()


def test_taking_it_twice_and_letting_go_twice_is_once(tmp_path: Path) -> None:
    lock = PrepareLock(tmp_path / "gpu")
    lock.acquire(0.0)
    lock.acquire(0.0)
    assert not is_free(*lock.paths)
    lock.release()
    lock.release()
    assert is_free(*lock.paths)


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    link = tmp_path / "gpu"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StartError, match="could not be opened"):
        PrepareLock(link).acquire(0.0)
    assert not (tmp_path / "elsewhere").exists()


def test_a_slot_holds_it_neither_before_nor_after_it_prepares(make_slot: MakeSlot, tmp_path: Path) -> None:
    path = tmp_path / "gpu"
    slot = make_slot(runner=LIGHT, modules=(), make_launcher=Spares, prepare_locks=[path])
    slot.start()
    assert is_free(path)
    slot.ensure_ready()
    assert is_free(path)
    slot.run("paddle segfault")
    assert is_free(path)
    slot.close()


def test_a_slot_lets_go_of_it_when_it_could_not_prepare(make_slot: MakeSlot, tmp_path: Path) -> None:
    path = tmp_path / "gpu"
    options = CaseOptions(device="broken")
    slot = make_slot(options, runner="light_runner:UnreadyRunner", modules=(), prepare_locks=[path])
    with pytest.raises(StartError, match="no such luck"):
        slot.ensure_ready(deadline=0.0)
    assert is_free(path)


def test_a_slot_waits_for_a_process_of_another_worker_that_prepares_and_a_dead_one_holds_nothing(
    make_slot: MakeSlot, tmp_path: Path
) -> None:
    holder = Holder(tmp_path / "gpu")
    slot = make_slot(runner=LIGHT, modules=(), make_launcher=Spares, prepare_locks=[tmp_path / "gpu"])
    killed_at: list[float] = []
    timer = threading.Timer(1.5, lambda: (holder.kill(), killed_at.append(time.monotonic())))
    timer.start()
    assert slot.prepare()
    timer.join()
    assert time.monotonic() >= killed_at[0]
    assert slot.run("paddle pass").result.verdict is Verdict.PASS
    slot.close()


def test_the_wait_has_a_limit_and_its_end_is_a_failed_start(
    make_slot: MakeSlot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_paddleapi.process.slot_process._QUEUE_SHARE", 0.1)
    holder = Holder(tmp_path / "gpu")
    slot = make_slot(runner=LIGHT, modules=(), start_seconds=5.0, prepare_locks=[tmp_path / "gpu"])
    with pytest.raises(StartError, match="another process has been preparing the same device for too long"):
        slot.ensure_ready(deadline=0.0)
    assert slot.life.failures == 1
    assert slot.pid is None
    holder.kill()


def test_a_slot_that_is_killed_does_not_wait_on(make_slot: MakeSlot, tmp_path: Path) -> None:
    holder = Holder(tmp_path / "gpu")
    slot = make_slot(runner=LIGHT, modules=(), prepare_locks=[tmp_path / "gpu"])
    timer = threading.Timer(1.0, slot.kill, ("enough",))
    timer.start()
    with pytest.raises(SlotKilledError, match="enough"):
        slot.ensure_ready()
    timer.join()
    holder.kill()


def test_slots_of_one_device_prepare_one_after_the_other(make_slot: MakeSlot, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    slots: list[Supervisor] = [
        make_slot(
            runner="light_runner:NotingRunner",
            modules=(),
            make_launcher=Zygote,
            prepare_locks=[tmp_path / "gpu"],
            environment={"NOTES": str(notes)},
            rules=StartRules(waits=(0.0,)),
        )
        for _ in range(3)
    ]
    threads = [threading.Thread(target=slot.ensure_ready) for slot in slots]
    # The zygotes must be made in a thread that lives on.
    for slot in slots:
        slot.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = [line.split()[0] for line in notes.read_text().splitlines()]
    assert [event for event in events if event.startswith("prepare")] == ["prepares", "prepared"] * 3
    for slot in slots:
        slot.close()


def test_a_fork_of_the_worker_does_not_keep_it(tmp_path: Path) -> None:
    lock = PrepareLock(tmp_path / "gpu")
    lock.acquire(0.0)
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    lock.release()
    try:
        assert wait_until(lambda: is_free(*lock.paths), 2.0)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
