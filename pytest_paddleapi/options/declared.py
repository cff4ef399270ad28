"""The options, as pytest registers them."""

from __future__ import annotations

import pytest

from .defaults import DEFAULT_TIMEOUT
from .golden import add_golden_options
from .modes import add_mode_options
from .performance import add_performance_options
from .running import add_running_options
from .sanitizer import add_sanitizer_options

__all__ = ["add_options"]


def add_options(parser: pytest.Parser) -> None:
    """Register every option; called by pytest."""
    add_mode_options(parser)
    add_golden_options(parser)
    add_running_options(parser)
    add_performance_options(parser)
    group = parser.getgroup("paddleapi", "Paddle API cases")
    add_sanitizer_options(group)
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
        "--paddleapi-report",
        metavar="FILE",
        help="Write what came of the cases to one HTML file at the end, also after Ctrl-C (docs/report.md).",
    )
    add(
        "--paddleapi-dump",
        metavar="DIR",
        help="Keep inputs, outputs, gradients and the environment of the only case there, as .npy files and an index.",
    )
    add(
        "--paddleapi-shrink",
        action="store_true",
        help="At the end of the run, reduce what failed to small configs that fail alike (5 minutes at most).",
    )
    add(
        "--paddleapi-shard",
        metavar="K/N",
        help="Run only the K-th of N shards of the cases, such as 2/8; each case is in exactly one (docs/sharding.md).",
    )
    add(
        "--paddleapi-shard-costs",
        metavar="DIR",
        help="Balance the shards by the times in this folder of results, which all shards must have alike; or by "
        "'sizes', those of the configs' tensors (default: shards of like numbers of cases, by hash).",
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
        "--paddleapi-progress",
        type=float,
        default=60.0,
        metavar="S",
        help="Say how far the run is: first after S seconds and 100 cases or after 5 S, then for each 100 cases, S to "
        "30 S apart (default: 60; 0: never).",
    )
    add(
        "--paddleapi-stall-timeout",
        type=float,
        default=None,
        metavar="S",
        help="End the run when no case starts and none ends for this long (default: twice --paddleapi-timeout, at "
        "least 1800 s; 0: never).",
    )
