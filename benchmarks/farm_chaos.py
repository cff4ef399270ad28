"""Two pytest sessions at once on a simulated GPU farm on which everything goes wrong, many times over.

A round: 2 to 4 simulated devices of a few hundred MiB, two sessions that share them (each with or without workers, each
with its own configs, some of which want most of a device), and a seeded choice of faults: allocations refused, aborts,
segmentation faults, hangs, memory that comes back late, a driver that fails or hangs, other people's memory that comes
and goes, and SIGKILL for case processes, spares, keepers, workers, estimators, sweepers and controllers. Afterwards:

* every case of a session whose controller lived has exactly one final verdict, or is among those that the session names
  as not run when it stops early;
* the exit code fits;
* each allocation that a device refused is explained: by an injected fault, by memory of others that came and went, or
  by a case that took more than it was promised (its estimate is made too low in some rounds);
* no process, no lease and no byte of a device is left.

Run from a checkout: the farm is in ``tests/farm``.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from _shared import kind_of, small_configs, table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.farm.farm import MIB, Action, Event, Farm, FarmError
from tests.farm.sessions import FACTOR, SMALL, FarmSession, Finished, leftovers

#: Verdicts that a case of these configs may get, and only with a fault of the kind behind it.
_EXPLAINED = {
    "pass": None,
    "oversize": None,
    "oom": ("refuse", "low estimates", "foreign"),
    "paddle_crash": ("abort", "segfault", "kill"),
    "config_input": ("abort", "segfault", "hang", "refuse"),
    "torch_error": ("abort", "segfault", "hang"),
    "timeout": ("hang",),
}
_NOT_RUN = re.compile(r"^(\d+) cases were not run:$", re.MULTILINE)
#: Who is killed, and how often compared with the others.
_VICTIMS = {"case": 6, "spare": 2, "keeper": 2, "worker": 3, "estimator": 1, "sweeper": 1, "controller": 1}
#: For kinds that these sessions do not have, such as workers without xdist.
_VICTIM_SECONDS = 20.0
_LOST = re.compile(r"^ERROR: --paddleapi-device: .*(GPU is lost|no sim_gpu device can be read)", re.MULTILINE)
_SESSION_SECONDS = 240.0
#: A worker that imports pytest when its controller is killed notices that at its first message.
_LEFT_SECONDS = 30.0
_CASE_SECONDS = 15
#: ``abs`` is estimated to take 7 times its input on the device, and takes 5 times.
_ESTIMATED_INPUTS, _RIGHT = 7, 1.0


@dataclass
class Round:
    """One round: what was done to it, and what came of it."""

    seed: int
    faults: list[str] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    #: Kinds of processes that were to be killed, and of which there was none in time.
    missed: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    #: Leases that counted what their process still held of its last case.
    inherited: int = 0
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


def configs_for(rng: random.Random, mib: int, *, oversize: bool) -> list[str]:
    """Sixteen small ones; a few more want a part to nearly all of a device of ``mib``, one too much."""
    found = rng.sample(small_configs(200), 16)
    for _ in range(rng.randint(2, 9)):
        part = rng.choice((0.2, 0.3, 0.5, 0.7, 0.95))
        rows = max(1, int(part * (mib - 32) / (_ESTIMATED_INPUTS * _RIGHT * 1.25) * 4))
        found.append(f'paddle.abs(Tensor([{rows}, {65536 + rng.randrange(64)}],"float32"))')
    if oversize:
        found.append(f'paddle.abs(Tensor([{mib}, 262144],"float32"))')
    rng.shuffle(found)
    return list(dict.fromkeys(found))


def inject_faults(rng: random.Random, farm: Farm, found: Round, mib: int) -> None:
    """Some of the faults that a farm knows."""
    device = rng.choice((None, rng.randrange(farm.devices)))
    for name in rng.sample(("refuse", "abort", "segfault", "hang", "slow", "nvml", "nvml hang"), rng.randint(0, 3)):
        found.faults.append(name)
        seed = rng.randrange(1 << 30)
        if name == "refuse":
            chance = rng.choice((0.01, 0.1))
            farm.inject(Event.ALLOCATE, Action.REFUSE, device=device, times=4, probability=chance, seed=seed)
        elif name in ("abort", "segfault"):
            event, action = rng.choice((Event.ALLOCATE, Event.COPY)), Action[name.upper()]
            farm.inject(event, action, device=device, nth=rng.randint(3, 80), times=rng.randint(1, 2))
        elif name == "hang":
            # Over every case's time limit, but under that of a start, which is minutes, if it strikes there.
            nth = rng.randint(5, 60)
            farm.inject(Event.COPY, Action.HANG, device=device, nth=nth, times=1, milliseconds=2000 * _CASE_SECONDS)
        elif name == "slow":
            for number in range(farm.devices):
                farm.slow_release(number, rng.uniform(0.2, 2.0))
        elif name == "nvml":
            code = rng.choice((999, 15, 4))
            call = "nvmlDeviceGetMemoryInfo"
            farm.inject(
                Event.NVML, Action.FAIL, call=call, nth=rng.randint(10, 60), times=rng.randint(1, 30), code=code
            )
        else:
            call = "nvmlDeviceGetMemoryInfo"
            farm.inject(
                Event.NVML,
                Action.HANG,
                call=call,
                nth=rng.randint(10, 60),
                times=rng.randint(1, 3),
                milliseconds=rng.choice((300, 3000)),
            )


class Foreigner:
    """Somebody else who takes memory of the devices and gives it back, and notes when he had taken some."""

    def __init__(self, rng: random.Random, farm: Farm, mib: int) -> None:
        self._rng, self._farm, self._mib = rng, farm, mib
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Give all back."""
        self._stopped.set()
        self._thread.join()
        for device in range(self._farm.devices):
            self._farm.foreign(device, 0)

    def _run(self) -> None:
        while not self._stopped.wait(self._rng.uniform(0.2, 2.0)):
            with contextlib.suppress(FarmError):  # so much is not free just now
                size = self._rng.choice((0, 0, self._rng.randrange(self._mib)))
                self._farm.foreign(self._rng.randrange(self._farm.devices), size * MIB)


def kill_some(rng: random.Random, sessions: list[FarmSession], found: Round) -> set[str]:
    """SIGKILL for up to four random processes at random moments; the tags of sessions whose controller died."""
    dead: set[str] = set()
    for kind in rng.choices(list(_VICTIMS), list(_VICTIMS.values()), k=rng.randint(0, 4)):
        session = _kill(rng, sessions, kind)
        (found.missed if session is None else found.kills)[kind] += 1
        if session is not None and kind == "controller":
            dead.add(session.tag)
    return dead


def _kill(rng: random.Random, sessions: list[FarmSession], kind: str) -> FarmSession | None:
    """Kill one of a kind, and say whose it was; None where there was none in time."""
    deadline = time.monotonic() + _VICTIM_SECONDS
    while time.monotonic() < deadline and any(session.running for session in sessions):
        session = rng.choice(sessions)
        if not _of_kind(session, kind):
            time.sleep(0.1)
            continue
        time.sleep(rng.uniform(0.0, 3.0))
        victims = _of_kind(session, kind)
        if victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                rng.choice(victims).kill()
                return session
    return None


def _of_kind(session: FarmSession, kind: str) -> list[psutil.Process]:
    return [p for p in session.processes() if kind_of(p, session.process.pid) == kind]


def check_session(session: FarmSession, done: Finished, configs: list[str], found: Round) -> None:
    """Verdicts and exit code of a session whose controller lived."""
    name = session.folder.name
    if done.code == 4 and _LOST.search(done.output) and "nvml" in found.faults:
        found.codes["every device lost before the first case"] += 1
        return
    counts = Counter(p["config"] for p in done.properties if "config" in p)
    found.verdicts.update(p["verdict"] for p in done.properties if "verdict" in p)
    found.problems += [f"{name}: {count} final verdicts: {config}" for config, count in counts.items() if count != 1]
    match = _NOT_RUN.search(done.output)
    not_run = int(match[1]) if match else 0
    if len(counts) + not_run != len(configs) or len(done.properties) != len(counts):
        text = f"{len(counts)} verdicts, {len(done.properties)} test cases, {not_run} named as not run"
        found.problems.append(f"{name}: {len(configs)} cases, {text}")
    if not_run:
        reason = done.output.split("Paddle API run stopped early")[1].splitlines()[1]
        found.codes[f"stopped early: {re.sub('[0-9]+', 'N', reason)[:70]}"] += 1
    failed = any(p.get("verdict") not in ("pass", "oversize") for p in done.properties)
    if done.code != int(bool(failed or not_run)):
        found.problems.append(f"{name}: exit code {done.code}, with failures: {failed}, not run: {not_run}")
    found.codes[f"exit code {done.code}"] += 1
    present = {*found.faults, *(["kill"] if found.kills else [])}
    for config, verdict in done.verdicts().items():
        causes = _EXPLAINED.get(verdict, ())
        if causes is not None and present.isdisjoint(causes):
            found.problems.append(f"{name}: {verdict} without a cause: {config}")


def check_refusals(farm: Farm, found: Round) -> None:
    """What the devices refused, and whether something explains it."""
    for device in range(farm.devices):
        for refusal in farm.refusals(device):
            if refusal.injected:
                found.refusals["injected"] += 1
            elif "low estimates" in found.faults:
                found.refusals["estimate too low"] += 1
            elif "foreign" in found.faults:
                found.refusals["others took memory"] += 1
            else:
                found.refusals["unexplained"] += 1
                text = f"{refusal.size} bytes refused to {refusal.pid}, {refusal.free} free"
                found.problems.append(f"device {device}: {text}, and nothing explains it")


def one_round(seed: int) -> Round:
    """Play the round of this seed."""
    rng = random.Random(seed)
    found = Round(seed)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"farm-chaos-{seed}-") as name:
        folder = Path(name)
        mib = rng.choice((256, 384, 512))
        with Farm(folder / "farm", devices=rng.randint(2, 4), mib=mib, context_mib=rng.choice((8, 16, 24))) as farm:
            try:
                _play(rng, farm, folder, mib, found)
            except Exception:
                found.problems.append(traceback.format_exc())
    found.seconds = time.monotonic() - started
    return found


def _play(rng: random.Random, farm: Farm, folder: Path, mib: int, found: Round) -> None:
    numbers = {**SMALL, FACTOR: _RIGHT}
    if rng.random() < 0.3:
        found.faults.append("low estimates")
        numbers[FACTOR] = rng.choice((0.0, 0.1))
    # With a spare behind each case process, and without one.
    numbers["spare_delay"] = rng.choice((1.0, 3600.0))
    # Sessions of this length seldom see three cases in a row whose memory is back at once.
    numbers["prompt_cases"] = rng.choice((1, 1, 3))
    inject_faults(rng, farm, found, mib)
    foreigner = Foreigner(random.Random(seed_of(rng)), farm, mib)
    if rng.random() < 0.4:
        found.faults.append("foreign")
        foreigner.start()
    sessions, configs = [], []
    for number in range(2):
        # Not where its estimate would let it run: the host would have to make gigabytes of inputs.
        oversize = rng.random() < 0.3 and "low estimates" not in found.faults
        configs.append(configs_for(rng, mib, oversize=oversize))
        arguments = [
            *rng.choice((["-n0"], ["-n2"], *_together(rng, farm))),
            f"--paddleapi-timeout={_CASE_SECONDS}",
            "--paddleapi-pressure-timeout=60",
        ]
        sessions.append(
            FarmSession(
                farm, folder / f"session{number}", configs[-1], *arguments, ledger=folder / "ledger", numbers=numbers
            )
        )
    killer = random.Random(seed_of(rng))
    try:
        dead = kill_some(killer, sessions, found)
        for session, texts in zip(sessions, configs):
            try:
                done = session.wait(_SESSION_SECONDS)
            except TimeoutError as exc:
                found.problems.append(f"{session.folder.name} hangs: {str(exc)[-3000:]}")
                continue
            if session.tag not in dead:
                before = len(found.problems)
                check_session(session, done, texts, found)
                if len(found.problems) > before:
                    found.problems.append(done.output[-4000:])
    finally:
        if "foreign" in found.faults:
            foreigner.stop()
        for session in sessions:
            if session.running:
                session.kill()
    found.inherited = sum(session.inherited for session in sessions)
    found.problems += [f"left: {what}" for what in leftovers(farm, sessions, _LEFT_SECONDS)]
    check_refusals(farm, found)


def _together(rng: random.Random, farm: Farm) -> list[list[str]]:
    """Several workers on one device: only there does anybody look at what a slot holds while its case runs."""
    device = rng.randrange(farm.devices)
    return [
        [f"-n{number}", f"--paddleapi-gpu-ids={device}", f"--paddleapi-workers-per-gpu={number}"] for number in (2, 3)
    ]


def seed_of(rng: random.Random) -> int:
    """A seed for something that draws at its own pace."""
    return rng.randrange(1 << 32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first round; the next ones count on from it")
    parser.add_argument("--parallel", type=int, default=2, help="rounds at a time")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no round after so many")
    args = parser.parse_args()
    rounds: list[Round] = []
    started = time.monotonic()

    def in_time(seed: int) -> Round | None:
        return one_round(seed) if time.monotonic() - started < 60 * args.minutes else None

    with ThreadPoolExecutor(args.parallel) as pool:
        for future in as_completed([pool.submit(in_time, args.seed + number) for number in range(args.rounds)]):
            done = future.result()
            if done is None:
                continue
            rounds.append(done)
            state = "PROBLEM" if done.problems else "ok"
            what = ", ".join([*done.faults, *(f"{n} {kind} killed" for kind, n in done.kills.items())]) or "no fault"
            took = f"{done.seconds:.0f} s, {done.inherited} inherited"
            print(f"[{len(rounds)}/{args.rounds}] seed {done.seed}: {state}, {took} ({what})", flush=True)
            for problem in done.problems:
                print("    " + problem.replace("\n", "\n    "), flush=True)
    bad = [done.seed for done in rounds if done.problems]
    print()
    table(("what", "times"), _rows(rounds))
    print(f"\n{len(rounds)} rounds in {time.monotonic() - started:.0f} s, {len(bad)} with a problem: {sorted(bad)}")
    raise SystemExit(1 if bad else 0)


def _rows(rounds: list[Round]) -> list[tuple[str, int]]:
    rows: list[tuple[str, int]] = [("rounds", len(rounds))]
    rows.append(("leases that inherited", sum(done.inherited for done in rounds)))
    for title, counts in (
        ("fault", Counter(fault for done in rounds for fault in done.faults)),
        ("killed", sum((done.kills for done in rounds), Counter())),
        ("not there to be killed", sum((done.missed for done in rounds), Counter())),
        ("verdict", sum((done.verdicts for done in rounds), Counter())),
        ("session", sum((done.codes for done in rounds), Counter())),
        ("allocation refused", sum((done.refusals for done in rounds), Counter())),
    ):
        rows += [(f"{title}: {name}", count) for name, count in counts.most_common()]
    return rows


if __name__ == "__main__":
    main()
