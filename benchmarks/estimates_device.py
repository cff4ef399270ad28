"""Estimates of device memory against what Paddle really allocates.

Configs of the given files are scaled down, in their largest dimensions, until they fit a device of the given size,
and then run, forward and backward. One that does not run any more (its arguments do not fit together) is left out and
counted.
"""

from __future__ import annotations

import argparse
import json
import random
import select
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _shared import table

from pytest_paddleapi.admission.rules import AdmissionRules
from pytest_paddleapi.config import Call, ConfigSyntaxError, TensorSpec, parse_call, print_call
from pytest_paddleapi.config.device_sizes import guess_device_bytes
from pytest_paddleapi.config.files import find_files, read_lines

MIB = 1 << 20
#: The child's own size, beside what cases take.
_CHILD_BYTES = 6 << 30


def with_kernels(call: Call) -> Call:
    """The call with float32 for half precision, for which Paddle's CPU has few kernels."""
    text = print_call(call).replace('"bfloat16"', '"float32"').replace('"float16"', '"float32"')
    return parse_call(text)


def scaled(call: Call, most: int) -> Call:
    """The call with its largest dimension cut until its guess is at most ``most`` bytes.

    What has the same value as that dimension, elsewhere in the call, is cut with it: it means the same length.
    """
    for _ in range(200):
        guess = guess_device_bytes(call, backward=True)
        if guess <= most:
            break
        largest = max((dim for spec in call.tensors() for dim in spec.shape), default=0)
        numbers = largest if largest > 1 else max(_integers(call), default=0)
        if numbers <= 1:
            break
        # Half at a time at most, so that other dimensions get their share.
        smaller = max(1, -(-numbers // 2), numbers * most // guess)
        call = _replaced(call, numbers, smaller)
    return call


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, Call):
        yield from _integers([*value.args, *(item for _, item in value.kwargs)])
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _integers(item)


def _replaced(value: Any, old: int, new: int) -> Any:
    if isinstance(value, Call):
        args = tuple(_replaced(item, old, new) for item in value.args)
        return Call(value.api, args, tuple((name, _replaced(item, old, new)) for name, item in value.kwargs))
    if isinstance(value, TensorSpec):
        return TensorSpec(tuple(new if dim == old else dim for dim in value.shape), value.dtype)
    if isinstance(value, (list, tuple)):
        return type(value)(_replaced(item, old, new) for item in value)
    return new if isinstance(value, int) and not isinstance(value, bool) and value == old else value


class Child:
    """The process that measures; made anew after a crash or a hang."""

    def __init__(self, device: str, most: int, timeout: float) -> None:
        self.command = [sys.executable, str(Path(__file__).parent / "_device_meter.py"), device, str(most)]
        self.timeout = timeout
        self.process: subprocess.Popen[str] | None = None

    def ask(self, config: str) -> dict[str, Any]:
        """The child's answer about one config."""
        if self.process is None:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(config), file=self.process.stdin, flush=True)
        ready, _, _ = select.select([self.process.stdout], [], [], self.timeout)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)  # type: ignore[no-any-return]
        self.close()
        return {"refused": "it crashed" if ready else "it took too long"}

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def calls(paths: list[str], seed: int) -> list[Call]:
    """Every call of the files, shuffled."""
    found = []
    for path in find_files(paths, Path.cwd()):
        for line in read_lines(path):
            try:
                found.append(parse_call(line.text))
            except ConfigSyntaxError:
                continue
    random.Random(seed).shuffle(found)
    return found


def report(rows: list[tuple[str, dict[str, Any]]], worst: int) -> None:
    """Print the distribution."""
    rules = AdmissionRules()
    ratios = sorted(
        ((answer["estimate"] / answer["measured"], answer, config) for config, answer in rows), key=lambda row: row[0]
    )
    values = [ratio for ratio, _, _ in ratios]
    admitted = sum(rules.admission_bytes(a["estimate"]) >= a["measured"] for _, a, _ in ratios) / len(ratios)
    in_proportion = sum(ratio * rules.margin_factor >= 1 for ratio in values) / len(ratios)
    deciles = statistics.quantiles(values, n=10) if len(values) > 1 else values
    print(f"measured: {len(ratios)}; found by {dict(Counter(a['way'] for _, a, _ in ratios))}")
    print(f"admission bytes >= measured: {admitted:.2%}")
    print(f"estimate x {rules.margin_factor:g} >= measured (as large cases have it): {in_proportion:.2%}")
    print(f"estimate / measured: least {values[0]:.2f}, median {statistics.median(values):.2f}, most {values[-1]:.2f}")
    print("deciles: " + " ".join(f"{value:.2f}" for value in deciles))
    seconds = sorted(a["seconds"] for _, a, _ in ratios)
    print(f"one estimate: median {1e3 * statistics.median(seconds):.1f} ms, most {1e3 * seconds[-1]:.0f} ms")
    for title, part in (("lowest", ratios[:worst]), ("highest", ratios[::-1][:worst])):
        print(f"\n{title} estimate / measured")
        table(
            ("config", "way", "estimate MiB", "measured MiB", "ratio"),
            [
                (c[:110], a["way"], f"{a['estimate'] / MIB:.2f}", f"{a['measured'] / MIB:.2f}", f"{r:.2f}")
                for r, a, c in part
            ],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("configs", nargs="+", help="files or folders")
    parser.add_argument("--count", type=int, default=200, help="how many are measured")
    parser.add_argument("--device", default="cpu", help="Paddle's name of the device that is measured on")
    parser.add_argument("--device-mib", type=float, default=256, help="what a case may take, by the guess from shapes")
    parser.add_argument("--half", action="store_true", help="keep half precision, which a CPU has few kernels for")
    parser.add_argument("--least-kib", type=float, default=64, help="smaller peaks say nothing, and are left out")
    parser.add_argument("--timeout", type=float, default=60, help="seconds a config")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worst", type=int, default=10)
    parser.add_argument("--save", type=Path, help="write every answer into this file, one JSON object a line")
    args = parser.parse_args()
    rows: list[tuple[str, dict[str, Any]]] = []
    left_out: Counter[str] = Counter()
    seen: set[str] = set()
    child = Child(args.device, _CHILD_BYTES, args.timeout)
    save = args.save.open("w") if args.save else None
    try:
        for call in calls(args.configs, args.seed):
            if len(rows) == args.count:
                break
            if not args.half:
                call = with_kernels(call)
            config = print_call(scaled(call, int(args.device_mib * MIB)))
            if config in seen:
                continue
            seen.add(config)
            answer = child.ask(config)
            if save:
                print(json.dumps({"config": config, **answer}), file=save, flush=True)
            if "refused" in answer:
                left_out["it does not run"] += 1
            elif answer["measured"] < args.least_kib * 1024:
                left_out["it is too small"] += 1
            else:
                rows.append((config, answer))
    finally:
        child.close()
    print("left out: " + ", ".join(f"{count} because {why}" for why, count in left_out.items()))
    if not rows:
        raise SystemExit("nothing could be measured")
    report(rows, args.worst)


if __name__ == "__main__":
    main()
