"""The checker of the ledger's soak. Nothing here uses the ledger's code: it reads the files and adds up."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from _soak_device import GIB, TOTAL, Counters, DeviceFile, Processes

#: The reserve as the contract has it: the larger of 2 GiB and 5 %.
LIMIT = TOTAL - max(2 * GIB, TOTAL // 20)


def live_leases(folder: Path) -> list[dict[str, object]] | None:
    """Of the sessions whose lock is held; None if one of them cannot be known now. The caller holds the mutex."""
    found: list[dict[str, object]] = []
    for lock in folder.glob("*.lock"):
        with open(lock, "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                continue  # dead
            except BlockingIOError:
                pass
        try:
            lines = lock.with_suffix(".leases").read_text().splitlines()
            found += [json.loads(line) for line in lines[2:]]
        except (OSError, ValueError):
            return None
        if not lines[0].startswith("pytest-paddleapi-ledger "):
            return None
    return found


def claims(leases: list[dict[str, object]], held: Processes) -> int:
    """What the leases' holders may still take."""
    total = 0
    for lease in leases:
        size, holder, baseline = lease["bytes"], lease["holder"], lease["baseline"]
        assert isinstance(size, int)
        taken = 0
        if isinstance(holder, dict) and isinstance(baseline, list) and baseline and baseline[0] is not None:
            assert holder["namespace"] == os.stat("/proc/self/ns/pid").st_ino
            taken = max(0, held.get((holder["pid"], holder["started"]), 0) - baseline[0])
        total += max(0, size - taken)
    return total


def check(folder: Path, device: DeviceFile, counters: Counters) -> None:
    """Add everything up at one moment: nobody can change a lease or the device meanwhile."""
    with open(folder / "ledger.mutex", "r+b") as mutex:
        fcntl.flock(mutex, fcntl.LOCK_EX)
        with device.locked() as fd:
            leases = live_leases(folder)
            held = device.living(fd)
    if leases is None:
        counters.add("unchecked")
        return
    total = sum(held.values()) + claims(leases, held)
    counters.add("checks")
    counters.add("peak_permille", total * 1000 // LIMIT)
    if total > LIMIT:
        counters.add("violations")
        who = [(lease["id"], lease["slot"], lease["bytes"], lease["state"], lease["holder"]) for lease in leases]
        print(f"{(total - LIMIT) / GIB:.2f} GiB too much; held {held}; leases {who}", flush=True)
