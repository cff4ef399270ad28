"""Notes where it is imported, and does what the environment says."""

from __future__ import annotations

import os
import threading
import time

from light_runner import note

note("imported")
HOW = os.environ.get("NOTING_MODULE", "")
if HOW == "fail":
    raise RuntimeError("no such luck")
if HOW == "hang":
    time.sleep(600)
if HOW == "thread":
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
if HOW == "device":
    FD = os.open(os.environ["DEVICE"], os.O_RDONLY)
