"""Timing on a device: its driver is not timed, and what Paddle keeps during a case is given back at its end."""

from __future__ import annotations

from typing import Any

from .farm import MIB

#: Each takes 1 MiB for its input, its result and each gradient.
CASES = [f'paddle.abs(Tensor([1, {262144 + number}],"float32"))' for number in range(3)]


def test_memory_is_kept_while_a_case_is_timed_and_given_back_after_it(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=1, mib=512, context_mib=16)
    arguments = ("-n0", "--paddleapi-timing-seconds=0.5")
    done = start(farm, CASES, *arguments, mode="--paddle-gpu-performance").wait()
    assert done.code == 0, done.output
    assert set(done.verdicts().values()) == {"pass"} and len(done.verdicts()) == len(CASES)
    samples = sum(
        int(found[f"paddle_{part}_samples"]) * int(found[f"paddle_{part}_batch"])
        for found in done.properties
        for part in ("forward", "backward")
    )
    granted, _ = farm.allocations(0)
    assert samples > 3 * granted
    for found in done.properties:
        assert 3 * MIB <= int(found["peak_bytes"]) <= 6 * MIB
    # Beside the context no more was ever in use than one case takes.
    assert farm.peak(0) <= (16 + 8) * MIB
    assert farm.refusals(0) == []
