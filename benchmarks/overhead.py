"""What the plugin costs a case: pytest with ``-n0`` against a bare loop over the same calls.

The bare loop lives in one process. It makes the same inputs, calls Torch and Paddle with backward, and
compares; no pytest, no second process, no garbage collection, no ledger. Both are run in turn, so that
a busy machine slows both.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from _shared import run_pytest, small_configs, table

GOAL_MS = 2.0


def bare_loop(count: int) -> float:
    """Seconds per case of the bare loop; runs in a process of its own."""
    import numpy as np
    import paddle
    import torch

    from pytest_paddleapi.case.callables import paddle_function
    from pytest_paddleapi.case.prepared import prepare
    from pytest_paddleapi.case.reference.registry import Reference
    from pytest_paddleapi.case.runner import CaseRunner
    from pytest_paddleapi.case.torch_side import convert_named, cotangent
    from pytest_paddleapi.config import parse_call
    from pytest_paddleapi.process.messages import CaseOptions

    CaseRunner.warm_up()
    torch.set_num_threads(2)
    options = CaseOptions()

    def one(line: str) -> None:
        case = prepare(parse_call(line), options)
        assert isinstance(case.reference, Reference)
        arrays: list[np.ndarray] = []

        def take(make, store):  # type: ignore[no-untyped-def]
            def convert(name, value):  # type: ignore[no-untyped-def]
                if not isinstance(value, np.ndarray):
                    return value
                store.append(make(value))
                return store[-1]

            return {n: convert_named(n, v, convert) for n, v in case.values.items()}

        torch_inputs: list[torch.Tensor] = []
        args, kwargs = case.binding.split(take(lambda a: torch.from_numpy(a).requires_grad_(True), torch_inputs))
        expected = case.reference.rule(*args, **kwargs)
        feed = cotangent(case, 0, expected.shape, expected.dtype)
        expected_gradients = torch.autograd.grad([expected], torch_inputs, [feed])

        paddle_inputs: list[paddle.Tensor] = []
        args, kwargs = case.binding.split(take(lambda a: paddle.to_tensor(a, stop_gradient=False), paddle_inputs))
        actual = paddle_function(case.api)(*args, **kwargs)
        gradients = paddle.grad([actual], paddle_inputs, [paddle.to_tensor(feed.numpy())])
        arrays += [actual.numpy(), *(g.numpy() for g in gradients)]
        for ours, theirs in zip(arrays, [expected.detach().numpy(), *(g.numpy() for g in expected_gradients)]):
            if not np.allclose(ours, theirs, rtol=1e-4, atol=1e-4):
                raise SystemExit(f"the bare loop found a difference: {line}")

    lines = small_configs(count)
    for line in lines[:40]:
        one(line)
    start = time.perf_counter()
    for line in lines:
        one(line)
    return (time.perf_counter() - start) / len(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.bare:
        print(bare_loop(args.cases))
        return
    rows, differences, ratios = [], [], []
    for number in range(args.rounds):
        bare = float(
            subprocess.run(
                [sys.executable, __file__, "--bare", f"--cases={args.cases}"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        ours = run_pytest(small_configs(args.cases), "-n0", "-p", "no:terminalreporter").per_case
        differences.append(1e3 * (ours - bare))
        ratios.append(ours / bare)
        rows.append(
            (
                f"round {number + 1}",
                f"{1e3 * bare:.2f}",
                f"{1e3 * ours:.2f}",
                f"{differences[-1]:.2f}",
                f"{ratios[-1]:.2f}",
            )
        )
    middle = statistics.median(differences)
    rows.append(("median", "", "", f"{middle:.2f}", f"{statistics.median(ratios):.2f}"))
    print(f"{args.cases} configs of 20 APIs")
    table(("", "bare ms/case", "pytest -n0 ms/case", "on top ms", "ratio"), rows)
    print(f"goal: at most {GOAL_MS} ms on top: {'met' if middle <= GOAL_MS else 'NOT met'}")


if __name__ == "__main__":
    main()
