"""Folders of results to report on: a few cases through the real store, and very many of them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pytest_paddleapi.results.folder import ResultsFolder
from pytest_paddleapi.results.rows import Attempt, Environment
from pytest_paddleapi.results.schema import key
from pytest_paddleapi.results.store import _COLUMNS, ResultsStore
from pytest_paddleapi.results.verdicts import Verdict, outcome_of

ENVIRONMENT = Environment(
    "accuracy",
    "nvidia",
    ("NVIDIA H100", "NVIDIA H100"),
    "host",
    "3.3.1",
    "2.9",
    "0.1",
    "9.2",
    "3.11",
    {"seed": 0},
    "pytest --accuracy --paddleapi-threads=2",
)
TABLE = "atol 0.0001, rtol 1.3e-05 (10 x Torch's table for float32)"
GIB = 2**30

APIS = (
    *(
        "abs",
        "add",
        "matmul",
        "concat",
        "gather",
        "where",
        "cumsum",
        "topk",
        "exp",
        "logsumexp",
        "linalg.svd",
        "einsum",
    ),
    *(f"nn.functional.{name}" for name in ("softmax", "gelu", "conv2d", "interpolate", "layer_norm", "cross_entropy")),
    "incubate.nn.functional.variable_length_memory_efficient_attention",
    *(f"Tensor.{name}" for name in ("sum", "reshape", "__getitem__", "scatter_", "clip", "amax")),
    *(f"generated.api_{number}" for number in range(400)),
)
DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "complex64", "bool")


def attempt(config: str, verdict: Verdict = Verdict.PASS, **values: Any) -> Attempt:
    """A plausible attempt at ``config``."""
    measured = {"seconds": 0.012, "estimated_bytes": GIB, "peak_bytes": GIB // 2}
    if verdict in (Verdict.PASS, Verdict.PADDLE_ACCURACY):
        bad = verdict is Verdict.PADDLE_ACCURACY
        measured |= {"max_abs_diff": 0.25 if bad else 1e-6, "max_rel_diff": 0.2 if bad else 1e-6, "tolerance": TABLE}
    made = Attempt(
        canonical=config,
        config=config,
        api=config.partition("(")[0],
        verdict=verdict,
        outcome=outcome_of(verdict).value,
        number=1,
        ended=1_000_001.0,
        file="configs/a.txt",
        line=3,
        device="GPU-1",
        measured=measured,
        failure="" if verdict is Verdict.PASS else failure(config, verdict),
        started=1_000_000.0,
        slot="gw0",
        lease_bytes=GIB * 5 // 4,
    )
    return dataclasses.replace(made, **values)


def failure(config: str, verdict: Verdict, said: str = "it differs") -> str:
    """The text of a failure as a session writes it."""
    return (
        f"{verdict}: {said}\n\nconfig: {config}\nfrom: configs/a.txt:3\n"
        f"reproduce: pytest --accuracy '--paddleapi-config={config}'\n"
    )


def write(folder: Path, *attempts: Attempt, environment: Environment = ENVIRONMENT) -> Path:
    """A session that ends with these attempts."""
    store = ResultsStore(ResultsFolder(folder))
    store.begin(environment)
    for one in attempts:
        store.record(one)
    assert not store.missing, store.trouble
    store.finish(1)
    store.close()
    return folder


def many(number: int, seed: int = 0, *, failing: float = 0.03) -> Iterable[Attempt]:
    """The attempts of a long session on two devices with four slots each, reruns among them."""
    rng = random.Random(seed)
    clock = [1_700_000_000.0] * 8
    for index in range(number):
        slot = min(range(8), key=lambda one: clock[one])
        api = f"paddle.{APIS[min(len(APIS) - 1, int(rng.expovariate(1 / 60)))]}"
        dtype = DTYPES[min(len(DTYPES) - 1, int(rng.expovariate(1 / 1.6)))]
        dims = ", ".join(str(rng.randint(1, 9000)) for _ in range(rng.randint(1, 4)))
        more = ", ".join(f'Tensor([{rng.randint(1, 99999)}],"int64")' for _ in range(rng.randint(0, 2)))
        config = f'{api}(Tensor([{dims}],"{dtype}"), {more}{", " if more else ""}axis={rng.randint(0, 3)}, name=None, )'
        took = rng.lognormvariate(-3.5, 1.3)
        need = int(rng.lognormvariate(20, 1.2))
        choice = rng.random()
        verdict = Verdict.PASS
        if choice < failing * (2.5 if dtype in ("float16", "bfloat16") else 0.7):
            verdict = rng.choices(
                [Verdict.PADDLE_ACCURACY, Verdict.PADDLE_ERROR, Verdict.TIMEOUT, Verdict.TORCH_ERROR], [6, 2, 1, 1]
            )[0]
        elif choice > 0.9:
            verdict = Verdict.NOT_SUPPORTED if choice > 0.95 else Verdict.CONFIG_CONVERT
        exact = rng.random() < 0.5
        off = 0.0 if exact else 10 ** rng.uniform(-9, -4)
        if verdict is Verdict.PADDLE_ACCURACY:
            off = 10 ** rng.uniform(-3.9, 2)
        measured: dict[str, Any] = {"seconds": took, "estimated_bytes": need}
        if verdict in (Verdict.PASS, Verdict.PADDLE_ACCURACY):
            measured |= {"peak_bytes": int(need * rng.uniform(0.6, 1.1)), "max_abs_diff": off, "max_rel_diff": off * 2}
            measured |= {"tolerance": TABLE, "compared_outputs": 1, "compared_gradients": 1, "compared_elements": 4096}
        text = {
            Verdict.PASS: "",
            Verdict.NOT_SUPPORTED: f"Skipped: not_supported: Paddle has no kernel of {api} for {dtype} on this device",
            Verdict.CONFIG_CONVERT: f"Skipped: config_convert: no Torch reference is known for {api}",
        }.get(
            verdict,
            failure(
                config,
                verdict,
                f"output 0: {rng.randint(1, 4096)} of 4096 elements differ\n  worst absolute difference {off:.3g} at "
                f"[{rng.randint(0, 99)}, 2]: Paddle {rng.random():.6g}, Torch {rng.random():.6g}\n  tolerance: {TABLE}",
            ),
        )
        one = attempt(
            config,
            verdict,
            measured=measured,
            failure=text,
            line=index,
            device=f"GPU-{slot // 4}",
            slot=f"gw{slot}",
            started=clock[slot],
            ended=clock[slot] + took + 0.002,
            lease_bytes=max(GIB, int(need * 1.25)),
        )
        if rng.random() < 0.004:
            yield dataclasses.replace(one, verdict=Verdict.DEFERRED, outcome="rerun", failure="deferred: no memory")
            one = dataclasses.replace(one, number=2, started=one.ended, ended=one.ended + took)
        clock[slot] = one.ended
        yield one


def write_many(folder: Path, attempts: Iterable[Attempt], environment: Environment = ENVIRONMENT) -> Path:
    """As :func:`write`, in one transaction: what is written is the same, and takes seconds instead of minutes."""
    store = ResultsStore(ResultsFolder(folder))
    store.begin(environment)
    connection = store._connection
    connection.execute("begin")
    cases: dict[str, int] = {}
    marks = ", ".join("?" * (len(_COLUMNS) + 1))
    for one in attempts:
        if one.canonical not in cases:
            cases[one.canonical] = len(cases) + 1
            connection.execute(
                "insert into cases values (?, ?, null, ?)", (cases[one.canonical], key(one.canonical), one.api)
            )
        values = {
            **one.measured,
            **{name: getattr(one, name) for name in ("outcome", "ended", "file", "line", "device", "started", "slot")},
            "session_id": store._session,
            "verdict": one.verdict.value,
            "final": one.outcome != "rerun",
            "attempts": one.number,
            "failure": one.failure or None,
            "lease_bytes": one.lease_bytes,
        }
        connection.execute(
            f"insert into attempts (case_id, {', '.join(_COLUMNS)}) values ({marks})",
            (cases[one.canonical], *(values.get(name) for name in _COLUMNS)),
        )
    connection.execute("commit")
    store.finish(1)
    store.close()
    return folder
