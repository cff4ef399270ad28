"""Command line and ini into one frozen :class:`RunOptions`; every error says what to do."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from .devices.selection import DeviceOptions
from .numbers import Numbers, read_numbers
from .process.messages import CaseOptions, Mode, ToleranceOptions
from .results.baseline import Baseline, BaselineError, read_baseline
from .results.verdicts import Verdict
from .tolerances import read_tolerances

#: Option name of each mode, with what it compares.
MODES: dict[Mode, tuple[str, str]] = {
    Mode.ACCURACY: ("--accuracy", "compare Paddle with the Torch reference: outputs, then gradients"),
    Mode.PADDLE_ONLY: ("--paddle-only", "run Paddle alone: the call and its backward give well-formed results"),
}

#: Seconds; SPEC's limit of one case.
DEFAULT_TIMEOUT = 1800.0


@dataclass(frozen=True)
class RunOptions:
    """What the user asked for, checked. ``case`` is what the case processes need of it."""

    case: CaseOptions
    patterns: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    timeout: float = DEFAULT_TIMEOUT
    unsupported_fails: bool = False
    memory_limit: int | None = None
    ledger: Path | None = None
    pressure_timeout: float = 600.0
    stall_timeout: float | None = None
    baseline_file: Path | None = None
    baseline: Baseline | None = None
    update_baseline: bool = False
    results: Path | None = None
    resume: bool = False
    retest: tuple[Verdict, ...] = ()
    device: str = "auto"
    devices: DeviceOptions = field(default_factory=DeviceOptions)
    numbers: Numbers = field(default_factory=Numbers)

    @property
    def mode(self) -> Mode:
        return self.case.mode


def add_options(parser: pytest.Parser) -> None:
    """Register every option; called by pytest."""
    modes = parser.getgroup("paddleapi modes", "Paddle API cases: modes (exactly one)")
    for mode, (option, text) in MODES.items():
        modes.addoption(option, dest="paddleapi_modes", action="append_const", const=mode, default=[], help=f"{text}.")
    group = parser.getgroup("paddleapi", "Paddle API cases")
    add = group.addoption
    add(
        "--paddleapi-configs",
        action="append",
        default=[],
        metavar="PATH",
        help="A file of configs, a folder (every *.txt below it) or a glob; repeatable.",
    )
    add(
        "--paddleapi-config",
        action="append",
        default=[],
        metavar="CALL",
        help="One config, such as 'paddle.abs(Tensor([2],\"float32\"))'; repeatable.",
    )
    add(
        "--paddleapi-timeout",
        type=float,
        default=DEFAULT_TIMEOUT,
        metavar="S",
        help="Time limit of a case (default: 1800 s).",
    )
    add("--paddleapi-seed", type=int, default=0, metavar="N", help="Seed of the input values (default: 0).")
    add(
        "--paddleapi-tolerance",
        choices=("dtype", "fixed"),
        default=None,
        help="dtype: ten times Torch's table (default); fixed: --paddleapi-atol and --paddleapi-rtol for everything.",
    )
    add("--paddleapi-atol", type=float, default=None, metavar="X", help="Absolute tolerance (1e-2); chooses fixed.")
    add("--paddleapi-rtol", type=float, default=None, metavar="X", help="Relative tolerance (1e-2); chooses fixed.")
    add("--paddleapi-bitwise", action="store_true", help="Tolerance zero: results must agree bit by bit.")
    add(
        "--paddleapi-tolerances",
        metavar="FILE",
        help="YAML or TOML file of tolerances: 'paddle.exp: {atol: 1e-3, rtol: 1e-3}', also 'paddle.exp:float16'.",
    )
    add("--paddleapi-record-tolerance", action="store_true", help="Store the tightest decade that each case passes at.")
    add("--paddleapi-cache-inputs", action="store_true", help="Reuse ordinary input values between cases of a process.")
    add("--paddleapi-no-backward", action="store_true", help="Leave out gradients.")
    add(
        "--paddleapi-unsupported",
        choices=("skip", "fail"),
        default="skip",
        help="What a kernel that is missing on this device is to pytest (default: skip).",
    )
    add(
        "--paddleapi-baseline",
        metavar="FILE",
        help="Known verdicts, lines of CONFIG<TAB>VERDICT[<TAB>WHY]: a case that ends as listed is xfailed, one that "
        "passes is xpassed and named (with xfail_strict in the ini file: failed).",
    )
    add(
        "--paddleapi-update-baseline",
        action="store_true",
        help="Rewrite --paddleapi-baseline after the run: what failed is listed, what passes is taken out.",
    )
    add(
        "--paddleapi-results",
        metavar="DIR",
        help="Folder that keeps every attempt, in one SQLite file (default: below pytest's cache folder).",
    )
    add(
        "--paddleapi-resume",
        action="store_true",
        help="Leave out cases that have a final verdict in the results folder, of the same mode, kind of device, "
        "framework versions and options that decide it.",
    )
    add(
        "--paddleapi-retest",
        metavar="VERDICTS",
        help="Run only cases whose last verdict there is one of these, such as oom,timeout; with --paddleapi-resume "
        "also those without one.",
    )
    add(
        "--paddleapi-threads",
        type=int,
        default=None,
        metavar="N",
        help="CPU threads of a case process (default: cores divided by workers).",
    )
    add(
        "--paddleapi-memory-limit",
        metavar="SIZE",
        help="Host memory that all cases on this host may use together, such as 16GiB (default: what is there).",
    )
    add(
        "--paddleapi-device",
        default="auto",
        metavar="KIND",
        help="nvidia, xpu, iluvatar, custom, cpu, or another package's kind; auto takes the first that finds a device.",
    )
    add(
        "--paddleapi-gpu-ids",
        default=None,
        metavar="IDS",
        help="Devices to use, such as 0,2,4-7, counted as their vendor's tool does; -1: all (default).",
    )
    add("--paddleapi-num-gpus", type=int, default=None, metavar="N", help="How many devices to use (default: all).")
    add(
        "--paddleapi-workers-per-gpu",
        type=int,
        default=None,
        metavar="N",
        help="How many workers '-n auto' gives each device (default: 1).",
    )
    add("--paddleapi-ledger", metavar="DIR", help="Folder of the ledger that sessions on this host share.")
    add(
        "--paddleapi-pressure-timeout",
        type=float,
        default=600.0,
        metavar="S",
        help="Stop when nothing runs and nothing fits for this long (default: 600 s; 0: never).",
    )
    add(
        "--paddleapi-set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="Change a number of admission or of slots, such as reserve_bytes=1GiB; repeatable (docs/numbers.md).",
    )
    add(
        "--paddleapi-stall-timeout",
        type=float,
        default=None,
        metavar="S",
        help="End the run when no case starts and none ends for this long (default: twice --paddleapi-timeout, at "
        "least 1800 s; 0: never).",
    )


def is_active(config: pytest.Config) -> bool:
    """True where the command line asks for Paddle API cases."""
    option = config.option
    return bool(option.paddleapi_modes or option.paddleapi_configs or option.paddleapi_config)


def read_options(config: pytest.Config) -> RunOptions:
    """Check the command line.

    Raises:
        pytest.UsageError: it names the option, what is wrong, and what to do.
    """
    option = config.option
    mode = _one_mode(option.paddleapi_modes)
    _check_numbers(option)
    if any(not text.strip() for text in option.paddleapi_config):
        raise pytest.UsageError(
            "--paddleapi-config is empty; write one call, such as 'paddle.abs(Tensor([2],\"float32\"))'"
        )
    return RunOptions(
        case=CaseOptions(
            mode=mode,
            seed=option.paddleapi_seed,
            tolerance=_tolerance(option),
            record_tolerance=option.paddleapi_record_tolerance,
            cache_inputs=option.paddleapi_cache_inputs,
            test_backward=not option.paddleapi_no_backward,
            threads=option.paddleapi_threads or _threads(config),
        ),
        patterns=tuple(option.paddleapi_configs),
        texts=tuple(option.paddleapi_config),
        timeout=option.paddleapi_timeout,
        unsupported_fails=option.paddleapi_unsupported == "fail",
        memory_limit=memory_limit(config),
        ledger=Path(option.paddleapi_ledger).expanduser() if option.paddleapi_ledger else None,
        pressure_timeout=option.paddleapi_pressure_timeout,
        stall_timeout=option.paddleapi_stall_timeout,
        baseline_file=(file := _baseline_file(config)),
        baseline=_baseline(file, update=option.paddleapi_update_baseline),
        update_baseline=option.paddleapi_update_baseline,
        results=_results_folder(config),
        resume=option.paddleapi_resume,
        retest=_retest(option.paddleapi_retest),
        device=option.paddleapi_device,
        devices=device_options(config),
        numbers=read_numbers(option.paddleapi_set, read_size),
    )


def memory_limit(config: pytest.Config) -> int | None:
    """``--paddleapi-memory-limit`` in bytes."""
    text = config.option.paddleapi_memory_limit
    if text is None:
        return None
    size = read_size(text, flag := "--paddleapi-memory-limit")
    if size < _LEAST_SIZE:
        digits = text.strip().rstrip("kKmMgGtTiIbB")
        raise pytest.UsageError(f"{flag}={text} is {size} bytes, which no case fits in; is {digits}GiB meant?")
    return size


def device_options(config: pytest.Config) -> DeviceOptions:
    """Which devices the command line asks for."""
    option = config.option
    return DeviceOptions(
        gpu_ids=option.paddleapi_gpu_ids,
        num_gpus=option.paddleapi_num_gpus,
        workers_per_gpu=option.paddleapi_workers_per_gpu,
    )


def _baseline_file(config: pytest.Config) -> Path | None:
    option = config.option
    if option.paddleapi_baseline:
        return config.invocation_params.dir / Path(option.paddleapi_baseline).expanduser()
    if option.paddleapi_update_baseline:
        raise pytest.UsageError("--paddleapi-update-baseline rewrites a file: give --paddleapi-baseline=FILE too")
    return None


def _baseline(file: Path | None, *, update: bool) -> Baseline | None:
    if file is None or (update and not file.exists()):
        return None if file is None else Baseline({})
    try:
        return read_baseline(file)
    except BaselineError as exc:
        raise pytest.UsageError(f"--paddleapi-baseline: {exc}") from None


def _results_folder(config: pytest.Config) -> Path | None:
    folder = config.option.paddleapi_results
    if folder is None:
        return None
    if not folder.strip():
        raise pytest.UsageError("--paddleapi-results is empty: give a folder")
    return config.invocation_params.dir / Path(folder).expanduser()


def _retest(text: str | None) -> tuple[Verdict, ...]:
    names = [] if text is None else [name.strip() for name in text.split(",")]
    known = {verdict.value: verdict for verdict in Verdict}
    if unknown := [name for name in names if name not in known]:
        raise pytest.UsageError(
            f"--paddleapi-retest={text}: {unknown[0]!r} is no verdict; write one or more of {', '.join(known)}, "
            "with commas between them"
        )
    return tuple(known[name] for name in names)


def _one_mode(chosen: list[Mode]) -> Mode:
    names = ", ".join(option for option, _ in MODES.values())
    distinct = list(dict.fromkeys(chosen))
    if not distinct:
        raise pytest.UsageError(f"Paddle API cases need a mode: give exactly one of {names}")
    if len(distinct) > 1:
        given = " and ".join(MODES[mode][0] for mode in distinct)
        raise pytest.UsageError(f"{given} were given together: give exactly one of {names}")
    return distinct[0]


def _check_numbers(option: Any) -> None:
    for name, lowest, highest in (
        ("timeout", 0.001, 1e7),
        ("atol", 0.0, math.inf),
        ("rtol", 0.0, math.inf),
        ("threads", 1, 4096),
        ("pressure_timeout", 0.0, 1e7),
        ("stall_timeout", 0.0, 1e7),
        ("seed", -(2**63), 2**63 - 1),
    ):
        value = getattr(option, f"paddleapi_{name}")
        # Negated, so that nan is refused too.
        if value is not None and not lowest <= value <= highest:
            flag = "--paddleapi-" + name.replace("_", "-")
            most = f" and at most {highest:g}" if highest < math.inf else ""
            raise pytest.UsageError(f"{flag}={value} is out of range: it must be at least {lowest:g}{most}")


def _tolerance(option: Any) -> ToleranceOptions:
    atol, rtol = option.paddleapi_atol, option.paddleapi_rtol
    kind = option.paddleapi_tolerance
    given = [f"--paddleapi-{n}" for n, v in (("atol", atol), ("rtol", rtol)) if v is not None]
    if given and kind == "dtype":
        raise pytest.UsageError(
            f"{' and '.join(given)} chooses fixed tolerances; leave out --paddleapi-tolerance=dtype"
        )
    if option.paddleapi_bitwise:
        if given or kind:
            raise pytest.UsageError("--paddleapi-bitwise means tolerance zero; leave out the other tolerance options")
        kind = "bitwise"
    elif given:
        kind = "fixed"
    return ToleranceOptions(
        kind=kind or "dtype",
        atol=1e-2 if atol is None else atol,
        rtol=1e-2 if rtol is None else rtol,
        per_api=read_tolerances(Path(option.paddleapi_tolerances)) if option.paddleapi_tolerances else {},
    )


#: Less than the frameworks take for themselves is a slip of the unit.
_LEAST_SIZE = 64 << 20
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def read_size(text: str, flag: str) -> int:
    """Bytes of a text such as ``16GiB``, ``500MB`` or ``1048576``.

    Raises:
        pytest.UsageError: it is none; the message names ``flag``.
    """
    number = text.strip().lower().removesuffix("b")
    digits = number.rstrip("kmgti")
    unit = _UNITS.get(number[len(digits) :])
    try:
        value = float(digits)
    except ValueError:
        value = -1.0
    if unit is None or not 0 < value < math.inf:
        raise pytest.UsageError(f"{flag}={text} is not a size: write bytes, or a number with MB, GB, MiB or GiB")
    return int(value * unit)


def _threads(config: pytest.Config) -> int:
    return max(1, cores() // max(1, worker_count(config)))


def worker_count(config: pytest.Config) -> int:
    """How many workers run in this session; 1 without xdist."""
    workerinput = getattr(config, "workerinput", None)
    if workerinput:
        return int(workerinput["workercount"])
    specs = [str(spec) for spec in getattr(config.option, "tx", None) or []]
    # xdist's own spelling of many equal workers: 4*popen
    counts = [spec.partition("*")[0] if "*" in spec else "1" for spec in specs]
    return max(1, sum(int(count) for count in counts if count.isdigit()))


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))
