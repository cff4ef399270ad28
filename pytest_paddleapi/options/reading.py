"""Command line and ini into one frozen :class:`RunOptions`; every error says what to do."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from ..devices.selection import DeviceOptions
from ..numbers import read_numbers
from ..process.messages import CaseOptions, ToleranceOptions
from ..results.baseline import Baseline, BaselineError, read_baseline
from ..results.verdicts import Verdict
from ..sharding import BY_SIZE, Shard, read_shard
from ..tolerances import read_tolerances
from .golden import read_golden
from .model import RunOptions
from .modes import one_mode
from .performance import performance_options, timing_options
from .running import read_running_options
from .sanitizer import read_sanitizer
from .sizes import LEAST_SIZE, read_size
from .workers import threads_per_worker, worker_count

__all__ = ["device_options", "memory_limit", "read_options"]


def read_options(config: pytest.Config) -> RunOptions:
    """Check the command line.

    Raises:
        pytest.UsageError: it names the option, what is wrong, and what to do.
    """
    option = config.option
    mode = one_mode(option.paddleapi_modes)
    _check_numbers(option)
    if any(not text.strip() for text in option.paddleapi_config):
        raise pytest.UsageError(
            "--paddleapi-config is empty; write one call, such as 'paddle.abs(Tensor([2],\"float32\"))'"
        )
    case = CaseOptions(
        mode=mode,
        seed=option.paddleapi_seed,
        tolerance=_tolerance(option),
        record_tolerance=option.paddleapi_record_tolerance,
        cache_inputs=option.paddleapi_cache_inputs,
        test_backward=not option.paddleapi_no_backward,
        threads=option.paddleapi_threads or threads_per_worker(config),
        dump=str(dump) if (dump := _dump_folder(config)) is not None else "",
        sanitize=option.paddleapi_sanitizer,
        timing=timing_options(config, mode),
        golden=read_golden(config, mode),
    )
    return RunOptions(
        case=read_running_options(config, case),
        patterns=tuple(option.paddleapi_configs),
        texts=tuple(option.paddleapi_config),
        timeout=option.paddleapi_timeout,
        unsupported_fails=option.paddleapi_unsupported == "fail",
        memory_limit=memory_limit(config),
        ledger=Path(option.paddleapi_ledger).expanduser() if option.paddleapi_ledger else None,
        pressure_timeout=option.paddleapi_pressure_timeout,
        stall_timeout=option.paddleapi_stall_timeout,
        progress=option.paddleapi_progress,
        baseline_file=(file := _baseline_file(config)),
        baseline=_baseline(file, update=option.paddleapi_update_baseline),
        update_baseline=option.paddleapi_update_baseline,
        results=_results_folder(config),
        resume=option.paddleapi_resume,
        retest=_retest(option.paddleapi_retest),
        report=_report_file(config),
        dump=dump,
        shrink=option.paddleapi_shrink,
        shard=(shard := read_shard(option.paddleapi_shard)),
        shard_costs=_shard_costs(config, shard),
        device=option.paddleapi_device,
        devices=device_options(config),
        numbers=read_numbers(option.paddleapi_set, read_size),
        sanitizer=read_sanitizer(option),
        performance=performance_options(config),
    )


def memory_limit(config: pytest.Config) -> int | None:
    """``--paddleapi-memory-limit`` in bytes."""
    text = config.option.paddleapi_memory_limit
    if text is None:
        return None
    size = read_size(text, flag := "--paddleapi-memory-limit")
    if size < LEAST_SIZE:
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
        pairs=any(mode.pairs for mode in option.paddleapi_modes),
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


def _report_file(config: pytest.Config) -> Path | None:
    file = config.option.paddleapi_report
    if file is None:
        return None
    if not file.strip():
        raise pytest.UsageError("--paddleapi-report is empty: give the name of an HTML file")
    return config.invocation_params.dir / Path(file).expanduser()


def _dump_folder(config: pytest.Config) -> Path | None:
    folder = config.option.paddleapi_dump
    if folder is None:
        return None
    if not folder.strip():
        raise pytest.UsageError("--paddleapi-dump is empty: give a folder")
    if worker_count(config) > 1 or getattr(config.option, "tx", None):
        raise pytest.UsageError("--paddleapi-dump keeps one case, which needs no workers: leave out -n, or give -n0")
    return config.invocation_params.dir / Path(folder).expanduser()


def _shard_costs(config: pytest.Config, shard: Shard | None) -> str | Path | None:
    text = config.option.paddleapi_shard_costs
    if text is None:
        return None
    if shard is None:
        raise pytest.UsageError(f"--paddleapi-shard-costs={text} divides nothing: give --paddleapi-shard=K/N too")
    if not text.strip():
        raise pytest.UsageError(f"--paddleapi-shard-costs is empty: give a folder of results, or {BY_SIZE}")
    return BY_SIZE if text == BY_SIZE else config.invocation_params.dir / Path(text).expanduser()


def _retest(text: str | None) -> tuple[Verdict, ...]:
    names = [] if text is None else [name.strip() for name in text.split(",")]
    known = {verdict.value: verdict for verdict in Verdict}
    if unknown := [name for name in names if name not in known]:
        raise pytest.UsageError(
            f"--paddleapi-retest={text}: {unknown[0]!r} is no verdict; write one or more of {', '.join(known)}, "
            "with commas between them"
        )
    return tuple(known[name] for name in names)


def _check_numbers(option: Any) -> None:
    for name, lowest, highest in (
        ("timeout", 0.001, 1e7),
        ("atol", 0.0, math.inf),
        ("rtol", 0.0, math.inf),
        ("threads", 1, 4096),
        ("pressure_timeout", 0.0, 1e7),
        ("stall_timeout", 0.0, 1e7),
        ("progress", 0.0, 1e7),
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
