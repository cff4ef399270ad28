"""How many scripts of ``python -m pytest_paddleapi repro`` give the plugin's own verdict, on configs drawn from files.

Each config is run by the plugin's case process, its script is written, and the script is run in a process in which
neither the plugin nor what only the plugin needs can be imported.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from _shared import table

from pytest_paddleapi.case.repro.script import ScriptError, write_script
from pytest_paddleapi.process.messages import CaseOptions
from pytest_paddleapi.process.supervisor import Supervisor

LIMIT_SECONDS = 60.0

#: Runs scripts, each in a fork of a process that has imported the frameworks: the path of a script in, its end out.
_RUNNER = """
import os, runpy, signal, sys, time
class Closed:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pytest_paddleapi", "ml_dtypes", "msgspec", "pytest"):
            raise ModuleNotFoundError("closed: " + name)
sys.meta_path.insert(0, Closed())
import numpy, paddle, torch
for line in sys.stdin:
    script, output = line.rstrip("\\n").split("\\t")
    pid = os.fork()
    if pid == 0:
        out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(out, 1); os.dup2(out, 2)
        signal.alarm(LIMIT)
        code = 3
        try:
            sys.argv = [script]
            runpy.run_path(script, run_name="__main__")
        except SystemExit as exc:
            code = exc.code if isinstance(exc.code, int) else 4
        except BaseException:
            import traceback; traceback.print_exc()
        sys.stdout.flush(); sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(pid, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
""".replace("LIMIT", str(int(LIMIT_SECONDS)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for the scripts")
    arguments = parser.parse_args()
    lines = sorted(
        {
            line.strip()
            for file in arguments.files
            for line in file.read_text().splitlines()
            if line.startswith("paddle.")
        }
    )
    chosen = random.Random(arguments.seed).sample(lines, min(arguments.count, len(lines)))
    options = CaseOptions(threads=1)
    supervisor = Supervisor(options)
    supervisor.start()
    counts: Counter[str] = Counter()
    lengths: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        place = arguments.keep or Path(folder)
        place.mkdir(exist_ok=True)
        runner = subprocess.Popen(
            [sys.executable, "-I", "-c", _RUNNER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            stderr=subprocess.DEVNULL,
        )
        for number, config in enumerate(chosen):
            verdict = supervisor.run(config, timeout=LIMIT_SECONDS).result.verdict.value
            path, output = place / f"case{number}.py", place / f"case{number}.txt"
            try:
                script = write_script(config, options, f"case{number}.npz")
            except ScriptError as exc:
                fits = verdict in ("config_input", "config_convert", "not_comparable")
                counts["no script, as there is nothing to run" if fits else "no script"] += 1
                if not fits:
                    print(f"no script: {verdict}: {exc}\n    {config}")
                continue
            path.write_text(script.text)
            lengths.append(len(script.text))
            if script.arrays:
                np.savez_compressed(path.with_suffix(".npz"), **script.arrays)
            assert runner.stdin is not None and runner.stdout is not None
            print(f"{path}\t{output}", file=runner.stdin, flush=True)
            code = int(runner.stdout.readline())
            text = output.read_text(errors="replace")
            last = text.rstrip().rsplit("\n", 1)[-1]
            found = last.removeprefix("verdict: ") if last.startswith("verdict: ") else f"died {code}"
            if code < 0 and verdict == "paddle_crash" and "stage: paddle" in text:
                found = "paddle_crash"
            same = found == verdict
            counts["same verdict" if same else "another verdict"] += 1
            counts[f"  {verdict}"] += same
            if not same:
                print(f"another verdict: plugin {verdict}, script {found}: {text[-1500:]}\n    {config}\n    {path}")
        assert runner.stdin is not None
        runner.stdin.close()
        runner.wait()
    supervisor.close()
    table(("scripts", "configs"), sorted(counts.items(), key=lambda item: item[0].startswith(" ")))
    if lengths:
        print(f"median length {sorted(lengths)[len(lengths) // 2]} characters")


if __name__ == "__main__":
    main()
