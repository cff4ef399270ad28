"""Another process with a session of its own: ``session_program.py FOLDER LABEL SLOT:MIB...``.

It leases memory of the host for each slot, says ``ready`` and its session's name, and waits. A slot with ``!`` at its
end is confirmed: this very process is its holder. One with ``?`` is finished, so that its lease waits for its memory.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pytest_paddleapi.devices.host import HostDevice
from pytest_paddleapi.gpu_admission import MIB, AdmissionRules, Granted, Group, Ledger, Slot


def main(folder: str, label: str, *slots: str) -> None:
    device = HostDevice()
    # Without a reserve, so that it also works where there is little memory.
    rules = AdmissionRules(reserve_bytes=0, reserve_fraction=0.0)
    ledger = Ledger([device], folder=Path(folder), rules=rules, label=label)
    for text in slots:
        name, _, number = text.rstrip("!?").partition(":")
        slot = Slot(name, Group("host", (device.uuid,)))
        answer = ledger.reserve(slot, f'cases.txt::paddle.abs[Tensor([{number}],"float32")]', int(number) * MIB)
        assert isinstance(answer, Granted), answer
        if text.endswith("!"):
            assert ledger.confirm(answer.lease, os.getpid())
        if text.endswith("?"):
            assert ledger.finish(answer.lease)
    print("ready", ledger.session, flush=True)
    # To the end of its input: the next transaction, which writes its file again if that was damaged.
    while sys.stdin.readline():
        ledger.settle(time.monotonic())
        print("paused" if ledger.paused else "going", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
