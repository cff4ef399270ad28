"""A worker for the tests that kill: runs cases without end and prints each verdict.

Arguments: the folder for notes, the seconds of a case, and how a case process comes to be ("fork", "spare").
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

from support import ENVIRONMENT, LAUNCHERS

from pytest_paddleapi.process.messages import CaseOptions
from pytest_paddleapi.process.supervisor import Supervisor


def main() -> None:
    folder, seconds, how_made = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    slot = Supervisor(
        CaseOptions(),
        runner="light_runner:LightRunner",
        modules=(),
        environment=ENVIRONMENT,
        make_launcher=LAUNCHERS[how_made],
    )
    slot.start()
    print("started", os.getpid(), flush=True)
    for number in itertools.count():
        how = ("group", "setsid", "orphan")[number % 3]
        for config in (f"paddle grandchild {how} {folder}/{number}", f"reference sleep {seconds}"):
            print(slot.run(config, timeout=60).result.verdict, flush=True)


if __name__ == "__main__":
    main()
