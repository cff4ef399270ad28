"""A process of somebody else's that takes and gives back device memory, on a schedule that a seed decides.

Run as ``python foreigner.py CONTROL_LIBRARY DEVICE SEED MOST STEP_SECONDS``; it ends when its parent does.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

# Run as a program, with nothing of the tests to import but what lies beside it.
sys.path.insert(0, str(Path(__file__).parent))
from layout import FILE_VARIABLE, State


def schedule(seed: int, most: int) -> Iterator[int]:
    """How many bytes to hold in each step, without end: the same for the same seed, from 0 to ``most``."""
    chance = random.Random(seed)
    while True:
        yield chance.randrange(most + 1)


def main(library: str, device: int, seed: int, most: int, step_seconds: float) -> None:
    """Follow the schedule; what does not fit in a step is left out."""
    state = State(Path(os.environ[FILE_VARIABLE]), Path(library))
    parent, held = os.getppid(), 0
    for wanted in schedule(seed, most):
        if wanted < held:
            state.give(device, held - wanted)
            held = wanted
        elif state.take(device, wanted - held):
            held = wanted
        print(held, flush=True)
        time.sleep(step_seconds)
        if os.getppid() != parent:
            return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
