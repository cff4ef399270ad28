"""Does ``--paddleapi-compare`` name what became slower, and nothing else?

100 configs (20 APIs, from microseconds to milliseconds) are timed in one session, and again in a second one in which
nothing has changed. In a third session two APIs, ten of the configs, are made slower for real. Both later sessions are
compared with the first.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from _shared import TEMPLATES, table

_SIZES = ((8, 8), (64, 64), (32, 1024), (256, 256), (512, 512))
_SLOWED = ("tanh", "concat")
_LINE = re.compile(r"^    x ([0-9.]+)  (\w+ \w+)  .*?  (paddle\.[\w.]+)\(")


def session(folder: Path, name: str, arguments: list[str], environment: dict[str, str]) -> str:
    """One session over the configs; its output."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--paddle-gpu-performance"),
            *("--paddleapi-configs=configs.txt", f"--paddleapi-results={name}", "--paddleapi-ledger=ledger"),
            *("--paddleapi-device=cpu", "--paddleapi-threads=1", "--paddleapi-timing-lines=1000", *arguments),
        ],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the session {name} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def named(output: str) -> list[tuple[str, str, str]]:
    """What the summary names: factor, series, API."""
    return [found.groups() for line in output.splitlines() if (found := _LINE.match(line))]  # type: ignore[misc]


def main() -> None:
    """Run the three sessions and print what was named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--by", type=float, default=1.3, help="the factor (default: 1.3)")
    parser.add_argument("--seconds", type=float, default=0.25, help="limit of one measurement (default: 0.25)")
    parser.add_argument("--show", action="store_true", help="print what the sessions say of the comparison")
    given = parser.parse_args()
    here = Path(__file__).parent
    path = os.pathsep.join([str(here / "_slowed"), str(here.parent), os.environ.get("PYTHONPATH", "")])
    slow = {"PYTHONPATH": path, "SLOWED": ",".join(_SLOWED), "SLOWED_BY": str(given.by)}
    with tempfile.TemporaryDirectory(prefix="paddleapi-timing-") as name:
        folder = Path(name)
        lines = [template.format(a=a, b=b) for a, b in _SIZES for template in TEMPLATES]
        (folder / "configs.txt").write_text("\n".join(lines) + "\n")
        (folder / "pytest.ini").write_text("[pytest]\n")
        seconds = [f"--paddleapi-timing-seconds={given.seconds}"]
        session(folder, "first", seconds, {})
        again = session(folder, "again", [*seconds, "--paddleapi-compare=first"], {})
        slowed = session(folder, "slowed", [*seconds, "--paddleapi-compare=first"], slow)
    if given.show:
        for output in (again, slowed):
            print(output[output.find("compared with session") :])
    true = {f"paddle.{api}" for api in _SLOWED}
    rows = []
    for what, output in (("unchanged", again), (f"two APIs x {given.by:g}", slowed)):
        found = named(output)
        right = [entry for entry in found if entry[2] in true and entry[1] == "paddle forward"]
        of = len(_SIZES) * len(_SLOWED) if output is slowed else 0
        rows.append([what, str(of), str(len(right)) if of else "-", str(len(found) - (len(right) if of else 0))])
    table(["session", "slowed forward times", "of these named", "others named"], rows)


if __name__ == "__main__":
    main()
