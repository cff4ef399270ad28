"""Sessions that share a device and are killed at random, and a checker that never looks away.

    python benchmarks/ledger_soak.py [--minutes 10] [--processes 8] [--seed 0]

Each session has slots with real holder processes, which take memory of a simulated device within their leases and
give it back. Sessions and holders are killed (SIGKILL), stopped and continued, and lease files are damaged, all at
random. The checker has its own code for everything: it takes the ledger's mutex, reads the lease files, tries the
sessions' locks, reads the device, and adds up. The run fails if ever

- what is held and what is leased beyond it exceed the device less its reserve,
- an allocation within a lease is refused by the device,
- anything is left in the ledger or on the device at the end.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from _shared import table
from _soak_checker import check
from _soak_device import COUNTERS, GIB, Counters, DeviceFile, SoakDevice

from pytest_paddleapi.gpu_admission import (
    AdmissionRules,
    Granted,
    Group,
    Lease,
    LeaseError,
    LeaseState,
    Ledger,
    Refusal,
    Slot,
    read_ledger,
)

#: The numbers of the product, but for the wait, so that a minute holds many lives of a lease.
RULES = AdmissionRules(settle_seconds=0.02)
SLOTS = 3


def die_with_parent(parent: int) -> None:
    """What case processes do too: the kernel kills them when their parent is gone."""
    ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


class HolderProcess:
    """A case process: takes and gives memory when told."""

    def __init__(self, device: DeviceFile) -> None:
        self._commands, self._answers = os.pipe(), os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                die_with_parent(parent)
                self._serve(device)
            finally:
                os._exit(0)
        os.close(self._commands[0])
        os.close(self._answers[1])

    def _serve(self, device: DeviceFile) -> None:
        os.close(self._commands[1])
        os.close(self._answers[0])
        while command := os.read(self._commands[0], 8):
            (by,) = struct.unpack("<q", command)
            os.write(self._answers[1], b"y" if device.change(os.getpid(), by) else b"n")

    def change(self, by: int) -> bool | None:
        """None if the process is gone."""
        try:
            os.write(self._commands[1], struct.pack("<q", by))
            answer = os.read(self._answers[0], 1)
        except BrokenPipeError:
            return None
        return {b"y": True, b"n": False}.get(answer)

    def end(self) -> None:
        """Kill it and see it gone."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._commands[1])
        os.close(self._answers[0])


class SlotLife:
    """One slot: its holder process, and how much of the device that holds."""

    def __init__(self, number: int) -> None:
        self.slot = Slot(f"s{number}", Group("gpu", (SoakDevice.uuid,)))
        self.process: HolderProcess | None = None
        self.held = 0
        self.base = 0


class SessionLife:
    """One session: its ledger and slots, one random step after the other."""

    def __init__(self, folder: Path, device: DeviceFile, counters: Counters, chance: random.Random) -> None:
        self.device, self.counters, self.chance = device, counters, chance
        self.ledger = Ledger([SoakDevice(device, chance)], folder=folder, rules=RULES)
        self.slots = [SlotLife(number) for number in range(SLOTS)]

    def step(self) -> None:
        """Something happens to one slot."""
        life = self.chance.choice(self.slots)
        lease = self.ledger.lease_of(life.slot.name)
        if lease is None or (lease.state is LeaseState.RELEASE_PENDING and self.chance.random() < 0.5):
            self.admit(life, lease)
        elif lease.state is LeaseState.RELEASE_PENDING:
            self.counters.add("settled", len(self.ledger.settle(time.monotonic())))
        elif self.chance.random() < 0.3:
            self.finish(life, lease)
        else:
            self.allocate(life, lease)

    def admit(self, life: SlotLife, old: Lease | None) -> None:
        """Ask for memory, and if it is granted have a process confirmed for it."""
        size = self.chance.randrange(1 * GIB, 30 * GIB)
        if old is None:
            answer = self.ledger.reserve(life.slot, "case", size)
        else:
            answer = self.ledger.replace(life.slot, "case", size, reuse=self.chance.random() < 0.5)
        if not isinstance(answer, Granted):
            self.counters.add("unknown" if answer.reason is Refusal.UNKNOWN_LEASES else "refused")
            return
        self.counters.add("reserved" if old is None else "replaced")
        if life.process is None:
            life.process, life.held = HolderProcess(self.device), 0
        kept = answer.lease.holder is not None and answer.lease.holder.pid == life.process.pid
        try:
            confirmed = self.ledger.confirm(answer.lease, life.process.pid)
        except LeaseError:  # it was killed in the meantime
            self.lose(life)
            return
        life.base = life.base if kept else life.held
        if not confirmed:
            self.counters.add("unconfirmed")

    def allocate(self, life: SlotLife, lease: Lease) -> None:
        """The case takes or gives back some of what it was promised."""
        room = max(0, lease.bytes - (life.held - life.base))  # a reused cache may be larger than the lease
        by = self.chance.choice([room, self.chance.randint(0, room), -self.chance.randint(0, life.held - life.base)])
        if life.process is None or by == 0:
            return
        done = life.process.change(by)
        if done is None:
            self.lose(life)
        elif done:
            self.counters.add("allocations")
            life.held += by
        else:
            self.counters.add("refused_allocations")

    def finish(self, life: SlotLife, lease: Lease) -> None:
        """The case ends; most often it gives back what it took, now and then its process ends or leaks."""
        what = self.chance.random()
        self.ledger.finish(lease)
        self.counters.add("finished")
        if what < 0.2:
            self.lose(life)
        elif what < 0.9 and life.process is not None:
            # Not below the baseline, which the next case may count on if it reuses what is kept.
            taken = life.held - life.base
            back = taken - (self.chance.randint(0, min(taken, GIB)) if what < 0.4 else 0)
            if back and life.process.change(-back) is None:
                self.lose(life)
            else:
                life.held -= back

    def lose(self, life: SlotLife) -> None:
        """The process is gone; its lease ends, one way or the other."""
        if life.process is not None:
            life.process.end()
        life.process, life.held, life.base = None, 0, 0
        lease = self.ledger.lease_of(life.slot.name)
        if lease is not None and not self.ledger.finish(lease) and self.chance.random() < 0.5:
            self.counters.add("released", self.ledger.release(life.slot.name))

    def close(self) -> None:
        """An orderly end."""
        for life in self.slots:
            if life.process is not None:
                life.process.end()
        self.ledger.close()


def run_session(seed: int, folder: Path, device: DeviceFile, counters: Counters) -> None:
    """One session, until SIGTERM."""
    warnings.simplefilter("ignore")  # damaged files are part of it
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    counters.add("sessions")
    chance = random.Random(seed)
    session = SessionLife(folder, device, counters, chance)
    while not stopping:
        session.step()
        time.sleep(chance.choice([0, 0.001, 0.004]))
    session.close()


def run_checker(folder: Path, device: DeviceFile, counters: Counters) -> None:
    """The checker, until it is killed."""
    while True:
        check(folder, device, counters)
        time.sleep(0.003)


class Soak:
    """Starts everybody, and does them harm."""

    def __init__(self, folder: Path, processes: int, seed: int) -> None:
        self.chance = random.Random(seed)
        self.ledger = folder / "ledger"
        self.device = DeviceFile(folder / "device")
        self.counters = Counters(processes + 1)
        self.harm = dict.fromkeys(("sessions killed", "holders killed", "sessions stopped", "files damaged"), 0)
        #: What should not have happened.
        self.faults: list[str] = []
        self._rows: dict[int, int] = {}
        self._stopped: dict[int, float] = {}
        read_ledger(self.ledger)  # makes the folder and the mutex
        for row in range(processes):
            self._start_session(row)
        self._checker = self._fork(processes, lambda: run_checker(self.ledger, self.device, self.counters))

    def _fork(self, row: int, run: Callable[[], None]) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            die_with_parent(parent)
            self.counters.row = row
            run()
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _start_session(self, row: int) -> None:
        seed = self.chance.getrandbits(32)
        pid = self._fork(row, lambda: run_session(seed, self.ledger, self.device, self.counters))
        self._rows[pid] = row

    def run(self, seconds: float) -> None:
        """Do harm for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.faults:
            time.sleep(self.chance.uniform(0.02, 0.2))
            self._continue(time.monotonic())
            self._look_for_deaths()
            self.chance.choices(
                [self._kill_session, self._kill_holder, self._stop_session, self._damage_file], [4, 4, 1, 1]
            )[0]()

    def _kill_session(self) -> None:
        pid = self.chance.choice(list(self._rows))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self._stopped.pop(pid, None)
        self.harm["sessions killed"] += 1
        self._start_session(self._rows.pop(pid))

    def _kill_holder(self) -> None:
        holders = sorted(self.device.peek())
        if holders:
            with suppress(ProcessLookupError):
                os.kill(self.chance.choice(holders)[0], signal.SIGKILL)
            self.harm["holders killed"] += 1

    def _stop_session(self) -> None:
        pid = self.chance.choice(list(self._rows))
        os.kill(pid, signal.SIGSTOP)  # perhaps with the mutex in its hands
        self._stopped[pid] = time.monotonic() + self.chance.uniform(0, 0.5)
        self.harm["sessions stopped"] += 1

    def _continue(self, now: float) -> None:
        for pid in [pid for pid, until in self._stopped.items() if until <= now]:
            del self._stopped[pid]
            os.kill(pid, signal.SIGCONT)

    def _damage_file(self) -> None:
        for file in self.ledger.glob("*.leases"):
            with suppress(OSError):
                with open(file, "r+b") as damaged:
                    damaged.write(b"damaged")
                self.harm["files damaged"] += 1
            return

    def _look_for_deaths(self) -> None:
        for pid in (*self._rows, self._checker):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                self._rows.pop(pid, None)
                self.faults.append(f"process {pid} ended by itself (status {status})")

    def finish(self) -> None:
        """End everybody in order, and see that nothing is left."""
        self._continue(float("inf"))
        for pid in self._rows:
            os.kill(pid, signal.SIGTERM)
        for pid in self._rows:
            status = os.waitpid(pid, 0)[1]
            if status not in (0, signal.SIGTERM):  # the latter where it had not even begun
                self.faults.append(f"session {pid} did not end in order (status {status})")
        with suppress(ProcessLookupError):
            os.kill(self._checker, signal.SIGKILL)
            os.waitpid(self._checker, 0)
        self.counters.row = 0
        check(self.ledger, self.device, self.counters)
        left = read_ledger(self.ledger).sessions, [file.name for file in self.ledger.iterdir()], self.device.read()
        if left != ((), ["ledger.mutex"], {}):
            self.faults.append(f"left at the end: {left}")
        for name, text in (
            ("violations", "times more was held and leased than there is"),
            ("refused_allocations", "allocations within a lease were refused"),
        ):
            if count := self.counters.total(name):
                self.faults.append(f"{count} {text}")
        if not self.counters.total("checks"):
            self.faults.append("nothing was ever checked")


def main() -> int:
    """Run it and print a summary; 0 if nothing was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0, help="of the harm; the timing is the machine's")
    options = parser.parse_args()
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="paddleapi-soak-", dir=base))
    try:
        soak = Soak(folder, options.processes, options.seed)
        soak.run(options.minutes * 60)
        soak.finish()
    finally:
        shutil.rmtree(folder)
    seconds = options.minutes * 60
    rows = [[name.replace("_", " "), f"{soak.counters.total(name):,}"] for name in COUNTERS]
    rows += [[name, f"{count:,}"] for name, count in soak.harm.items()]
    table([f"ledger soak, {seconds:g} s, {options.processes} sessions, seed {options.seed}", "count"], rows)
    for fault in soak.faults:
        print(f"WRONG: {fault}")
    print("failed" if soak.faults else "nothing was ever promised twice, and nothing is left")
    return 1 if soak.faults else 0


if __name__ == "__main__":
    sys.exit(main())
