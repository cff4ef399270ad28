"""``--paddle-custom-device``, and Paddle put on the CPU, with simulated devices."""

from __future__ import annotations

from typing import Any

from .farm import MIB, Action, Event

CONFIGS = [
    'paddle.exp(Tensor([4, 4],"float32"))',
    'paddle.matmul(Tensor([8, 8],"float32"), Tensor([8, 8],"float32"))',
    'paddle.nn.functional.dropout(Tensor([100],"float32"))',
]
BOTH_REFUSE = 'paddle.add(Tensor([2],"float32"), Tensor([3],"float32"))'
NO_KERNEL = 'paddle.abs(Tensor([2, 3],"float16"))'


def test_the_device_agrees_with_the_cpu(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=1)
    done = start(farm, [*CONFIGS, BOTH_REFUSE, NO_KERNEL], "-n0", mode="--paddle-custom-device").wait()
    assert done.code == 0, done.output
    assert done.verdicts() == {
        **dict.fromkeys(CONFIGS, "pass"),
        BOTH_REFUSE: "both_error",
        NO_KERNEL: "not_supported",
    }
    found = {p["config"]: p for p in done.properties}
    assert [found[c]["compared_gradients"] for c in CONFIGS] == ["1", "2", "1"]
    assert found[CONFIGS[0]]["device"] == farm.uuid(0)
    # The context was taken, and the tensors of the case were there.
    assert farm.peak(0) > 64 * MIB


def test_what_the_device_computes_wrong_is_found(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=1)
    farm.inject(Event.COPY, Action.CORRUPT, times=0)
    done = start(farm, CONFIGS[:1], "-n0", mode="--paddle-custom-device").wait()
    assert done.code == 1 and done.verdicts() == {CONFIGS[0]: "paddle_accuracy"}, done.output
    assert "Paddle on sim_gpu:0 " in done.output and "Paddle on the CPU " in done.output
    assert "gradient of x" in done.output
    assert "reproduce: pytest --paddle-custom-device '--paddleapi-config=paddle.exp(" in done.output


def test_paddle_on_the_cpu_leaves_the_device_alone(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=1)
    done = start(farm, CONFIGS[:1], "-n0", "--paddleapi-test-cpu", "--paddleapi-gpu-mode").wait()
    assert done.code == 0 and done.verdicts() == {CONFIGS[0]: "pass"}, done.output
    assert farm.peak(0) == 0 and farm.allocations(0) == (0, 0)


def test_mixed_precision_reaches_the_device(make_farm: Any, start: Any) -> None:
    # Its kernels are those of the CPU, which has none of float16 for this: that it is asked for is what shows.
    done = start(make_farm(devices=1), CONFIGS[1:2], "-n0", "--paddleapi-amp", "-rs").wait()
    assert done.verdicts() == {CONFIGS[1]: "not_supported"} and "float16" in done.output, done.output
