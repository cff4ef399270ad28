"""Kill a random process of a session at a random instant, many times over.

Each run is one session of ``-n 2`` over small configs, in which up to three of its processes (case
process, zygote, worker, controller) get SIGKILL. Afterwards: where the controller lived, every case has
exactly one final verdict; and in any event no process is left and the ledger holds no lease.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import psutil
from _shared import kind_of, small_configs, table

from pytest_paddleapi.gpu_admission import read_ledger

TAG = "PADDLEAPI_CHAOS_RUN"


def tagged(tag: str) -> list[psutil.Process]:
    """Every process whose environment has the run's tag."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(TAG) == tag and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def one_run(rng: random.Random, cases: int) -> tuple[list[str], list[str]]:
    """Returns (kinds killed, what was wrong afterwards)."""
    tag = uuid.uuid4().hex
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "chaos.txt").write_text("\n".join(small_configs(cases)) + "\n")
        ledger, xml = Path(folder, "ledger"), Path(folder, "report.xml")
        with open(Path(folder, "out"), "w+") as output:
            session = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-n2", "-q", "--accuracy", "--paddleapi-configs=chaos.txt",
                 f"--paddleapi-ledger={ledger}", f"--junitxml={xml}", "-p", "no:rerunfailures"],
                cwd=folder, env={**os.environ, TAG: tag}, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
            killed = kill_some(rng, session, tag)
            problems = []
            try:
                session.wait(timeout=180)
            except subprocess.TimeoutExpired:
                problems.append("the session hung")
                session.kill()
                session.wait()
            deadline = time.monotonic() + 10
            while (left := tagged(tag)) and time.monotonic() < deadline:
                time.sleep(0.05)
            for process in left:
                problems.append(f"left over: {kind_of(process, session.pid)} {process.pid}")
                process.kill()
            if "controller" not in killed:
                problems += check_verdicts(xml, cases)
            problems += [f"held lease: {s.name} {lease}" for s in read_ledger(ledger).sessions for lease in s.leases]
            if problems:
                output.seek(0)
                problems.append(output.read()[-3000:])
    return killed, problems


def kill_some(rng: random.Random, session: subprocess.Popen[bytes], tag: str) -> list[str]:
    """Kill one to three processes at random instants; returns their kinds."""
    killed: list[str] = []
    if rng.random() < 0.2:
        time.sleep(rng.uniform(0.0, 5.0))  # while it starts, whatever there is by then
        wanted = None
    else:
        wanted = rng.choice(("case", "case", "zygote", "worker", "controller"))
    for _ in range(rng.randint(1, 3)):
        victims = await_kind(session, tag, wanted)
        if not victims:
            break
        time.sleep(rng.uniform(0.0, 0.5))
        victim = rng.choice(victims)
        kind = kind_of(victim, session.pid)
        try:
            victim.kill()
            killed.append(kind)
        except psutil.NoSuchProcess:
            pass
        if "controller" in killed:
            break
        wanted = rng.choice(("case", "zygote", "worker"))
    return killed


def await_kind(session: subprocess.Popen[bytes], tag: str, wanted: str | None) -> list[psutil.Process]:
    """The session's processes of a kind (None: of any), once there is one; none where the session ended first."""
    while session.poll() is None:
        kinds = [(kind_of(process, session.pid), process) for process in tagged(tag)]
        found = [p for kind, p in kinds if kind == wanted or (wanted is None and kind not in ("other", "gone"))]
        if found:
            return found
        time.sleep(0.02)
    return []


def check_verdicts(xml: Path, cases: int) -> list[str]:
    """Exactly one final verdict a case, unless the run said that it stopped early."""
    if not xml.exists():
        return ["no JUnit file"]
    found = Counter(
        prop.get("value") for prop in ElementTree.parse(xml).iter("property") if prop.get("name") == "config"
    )
    problems = [f"{count} verdicts: {config}" for config, count in found.items() if count != 1]
    testcases = sum(1 for _ in ElementTree.parse(xml).iter("testcase"))
    if len(found) != cases or testcases != cases:
        problems.append(f"{len(found)} of {cases} cases have a verdict, {testcases} testcases")
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--cases", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    counts: Counter[str] = Counter()
    bad = 0
    started = time.monotonic()
    for number in range(args.runs):
        killed, problems = one_run(rng, args.cases)
        counts.update(killed)
        if problems:
            bad += 1
            print(f"run {number} (killed {', '.join(killed)}):", *problems, sep="\n  ", flush=True)
        if number % 5 == 4:
            seconds = time.monotonic() - started
            print(f"{number + 1} runs, {bad} with a problem, {seconds:.0f} s, killed:", dict(counts), flush=True)
    table(("killed", "times"), [*counts.most_common(), ("runs", args.runs), ("runs with a problem", bad)])
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
