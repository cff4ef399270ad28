"""``repro``: a case as one script that needs Paddle, Torch and NumPy only.

The script is written by a child process, which imports the frameworks; this one does not.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from ..config import ConfigSyntaxError, canonical_text
from ..errors import PaddleApiError
from ..process.messages import CaseOptions, Mode, ToleranceOptions
from . import CommandUsageError

__all__ = ["add_arguments", "add_case_arguments", "case_options", "run"]

_WRITER = "pytest_paddleapi.case.repro"
_CHILD_SECONDS = 600.0


class ScriptNotWrittenError(PaddleApiError):
    """There is no script for this case, or it could not be written; the text says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``repro``."""
    add_case_arguments(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the script (default: repro_API_HASH.py here); - for stdout"
    )


def add_case_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare a config and the options that decide its verdict; other commands take them too."""
    parser.add_argument("config", metavar="CONFIG", help="one call, such as 'paddle.abs(Tensor([2],\"float32\"))'")
    parser.add_argument(
        "--mode", choices=[mode.value for mode in Mode], default=Mode.ACCURACY.value, help="default: accuracy"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the input values (default: 0)")
    parser.add_argument("--no-backward", action="store_true", help="leave out gradients")
    parser.add_argument("--bitwise", action="store_true", help="tolerance zero")
    parser.add_argument("--atol", type=float, metavar="X", help="fixed absolute tolerance (1e-2)")
    parser.add_argument("--rtol", type=float, metavar="X", help="fixed relative tolerance (1e-2)")


def case_options(arguments: argparse.Namespace) -> CaseOptions:
    """The options of the case that the arguments describe.

    Raises:
        CommandUsageError: the tolerances contradict each other, or the seed is out of range.
    """
    atol, rtol = arguments.atol, arguments.rtol
    fixed = atol is not None or rtol is not None
    if arguments.bitwise and fixed:
        raise CommandUsageError("--bitwise means tolerance zero; leave out --atol and --rtol")
    if not -(2**63) <= arguments.seed < 2**63:
        raise CommandUsageError(f"--seed={arguments.seed} needs more than 64 bits")
    return CaseOptions(
        mode=Mode(arguments.mode),
        seed=arguments.seed,
        test_backward=not arguments.no_backward,
        tolerance=ToleranceOptions(
            kind="bitwise" if arguments.bitwise else "fixed" if fixed else "dtype",
            atol=1e-2 if atol is None else atol,
            rtol=1e-2 if rtol is None else rtol,
        ),
        threads=1,
    )


def canonical_config(text: str) -> str:
    """The canonical text of a config that was typed.

    Raises:
        CommandUsageError: it is none.
    """
    try:
        return canonical_text(text.strip())
    except ConfigSyntaxError as exc:
        raise CommandUsageError(f"CONFIG: {exc}") from None


def run(arguments: argparse.Namespace) -> int:
    """Write the script and say where it is.

    Raises:
        CommandUsageError: CONFIG or an option is wrong.
        ScriptNotWrittenError: this case has no script, or it could not be written.
    """
    config = canonical_config(arguments.config)
    options = case_options(arguments)
    if str(arguments.output) == "-":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "repro.py")
            _write(config, options, path)
            if path.with_suffix(".npz").exists():
                raise CommandUsageError("the values are too large for a script alone: give -o FILE")
            sys.stdout.write(path.read_text(encoding="utf-8"))
        return 0
    path = arguments.output or Path(_default_name(config))
    if path.suffix == ".npz" or path.is_dir():
        raise CommandUsageError(f"-o {path}: name a file for the script, such as repro.py")
    _write(config, options, path)
    print(f"{path} (python {path}; it exits with 0 if the case passes, else with 1)")
    if (values := path.with_suffix(".npz")).exists():
        print(f"{values} (its values; keep it beside the script)")
    return 0


def _default_name(config: str) -> str:
    api = re.sub(r"\W", "_", config.partition("(")[0].removeprefix("paddle."))
    return f"repro_{api}_{hashlib.sha256(config.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}.py"


def _write(config: str, options: CaseOptions, path: Path) -> None:
    request = msgspec.json.encode({"config": config, "options": options, "output": os.path.abspath(path)})
    try:
        done = subprocess.run(
            [sys.executable, "-m", _WRITER], input=request, capture_output=True, timeout=_CHILD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise ScriptNotWrittenError(f"the script was not written within {_CHILD_SECONDS:g} s") from None
    if done.returncode:
        errors = done.stderr.decode(errors="replace").strip()
        last = errors.rpartition("error: ")[2] if done.returncode == 1 and "error: " in errors else errors[-2000:]
        raise ScriptNotWrittenError(last or f"the process that writes the script ended with {done.returncode}")
