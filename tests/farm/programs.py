"""What the tests let Paddle do on a farm. Each function runs in a process of its own and says what it finds.

Imported by ``zygote.py`` only, with Paddle, in an environment of a farm.
"""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from layout import FILE_VARIABLE, State

Say = Callable[[Any], None]
MIB = 1 << 20


def _account() -> tuple[State, Callable[[int], int]]:
    control = Path(os.environ["CUSTOM_DEVICE_ROOT"]).parent / "libsimfarm.so"
    state = State(Path(os.environ[FILE_VARIABLE]), control)

    def held(device: int = 0) -> int:
        with state.locked() as entry:
            return sum(p.bytes[device] for p in entry.processes[: entry.processes_top] if p.pid == os.getpid())

    return state, held


def _on(device: int) -> None:
    paddle.set_device(f"sim_gpu:{device}")


def _empty(size: int) -> Any:
    return paddle.empty([size], "uint8")


def names(say: Say) -> None:
    """What devices Paddle knows."""
    say(paddle.device.get_all_custom_device_type())
    say(paddle.device.get_available_custom_device())


def default_place(say: Say) -> None:
    """Where a tensor goes when nobody has chosen a device."""
    say(str(paddle.to_tensor([1.0]).place))


_FUNCTIONAL = paddle.nn.functional

#: Real calls: the function, and the shapes of its float32 tensors.
CALLS: dict[str, tuple[Callable[..., Any], list[list[int]]]] = {
    "matmul": (paddle.matmul, [[17, 33], [33, 9]]),
    "conv2d": (lambda x, w: _FUNCTIONAL.conv2d(x, w, stride=2, padding=1), [[2, 3, 16, 16], [4, 3, 3, 3]]),
    "softmax": (_FUNCTIONAL.softmax, [[5, 40]]),
    "layer_norm": (lambda x, w, b: _FUNCTIONAL.layer_norm(x, [32], w, b), [[6, 32], [32], [32]]),
    "broadcast_add": (paddle.add, [[4, 1, 3], [5, 1]]),
    "gelu": (_FUNCTIONAL.gelu, [[7, 11]]),
    "concat": (lambda x, y: paddle.concat([x, y], axis=1), [[3, 4], [3, 5]]),
    "max_pool2d": (lambda x: _FUNCTIONAL.max_pool2d(x, 2), [[1, 2, 8, 8]]),
    "cumsum": (lambda x: paddle.cumsum(x, axis=1), [[4, 9]]),
    "index_select": (lambda x: paddle.index_select(x, paddle.to_tensor([2, 0, 2])), [[4, 3]]),
}


def compute(say: Say, call: str) -> None:
    """Forward and backward on the CPU and on the device: their places, and whether all values are near."""
    function, shapes = CALLS[call]
    values = [np.random.default_rng(7).standard_normal(shape).astype("float32") for shape in shapes]
    found = {}
    for device in ("cpu", "sim_gpu:0"):
        paddle.set_device(device)
        inputs = [paddle.to_tensor(value, stop_gradient=False) for value in values]
        result = function(*inputs)
        (result * result).sum().backward()
        found[device] = [result.numpy(), *(tensor.grad.numpy() for tensor in inputs)]
        say([str(result.place), *(str(tensor.grad.place) for tensor in inputs)])
    pairs = zip(found["cpu"], found["sim_gpu:0"])
    say([bool(np.allclose(a, b, rtol=1e-5, atol=1e-6)) and bool(np.abs(a).sum() > 0) for a, b in pairs])


def one_tensor(say: Say, size: int) -> None:
    """Bytes held: at first, with the device prepared, with a tensor of ``size`` bytes, and without it again."""
    _, held = _account()
    say(held())
    _on(0)
    say(held())
    del_me = _empty(1)
    del del_me
    say(held())
    tensor = _empty(size)
    say(held())
    del tensor
    gc.collect()
    say(held())


def backward_and_forget(say: Say) -> None:
    """Bytes held after a step of training whose tensors are all gone."""
    _, held = _account()
    _on(0)
    x = paddle.rand([128, 128])
    x.stop_gradient = False
    loss = (paddle.matmul(x, x) ** 2).sum()
    loss.backward()
    say(held())
    del x, loss
    gc.collect()
    say(held())


def allocate(say: Say, sizes: list[int], device: int = 0) -> None:
    """One tensor after the other, kept; for each whether it came, or the error."""
    _on(device)
    kept = []
    for size in sizes:
        try:
            kept.append(_empty(size))
        except Exception as exc:
            say([type(exc).__name__, str(exc)])
        else:
            say("ok")


def hold(say: Say, size: int, device: int = 0) -> None:
    """Hold a tensor until killed."""
    _on(device)
    tensor = _empty(size)
    say(os.getpid())
    time.sleep(600)
    del tensor


def hold_and_drop(say: Say, size: int) -> None:
    """Hold a tensor, drop it, and stay until killed."""
    _on(0)
    tensor = _empty(size)
    say("held")
    del tensor
    say("dropped")
    time.sleep(600)


def copy(say: Say, count: int) -> None:
    """Copies to the device and back, one after the other."""
    _on(0)
    for number in range(count):
        tensor = paddle.full([4], number, "float32")
        say(float(paddle.to_tensor(tensor.numpy()).numpy()[0]))


def copy_all(say: Say, values: list[float]) -> None:
    """Copy to the device and back."""
    _on(0)
    for value in paddle.to_tensor(np.asarray(values, np.float32)).numpy():
        say(float(value))


def synchronize(say: Say) -> None:
    """Use the device, and wait for it."""
    _on(0)
    tensor = _empty(16)
    say("used")
    paddle.device.synchronize("sim_gpu:0")
    say("synchronised")
    del tensor


def statistics(say: Say, size: int) -> None:
    """Paddle's own numbers with one tensor held: allocated now and at most, reserved now and at most."""
    _on(0)
    tensor = _empty(size)
    device = paddle.device
    say([device.memory_allocated(), device.max_memory_allocated(), device.memory_reserved()])
    del tensor
    say([device.memory_allocated(), device.max_memory_allocated(), device.memory_reserved()])


def case_peak(say: Say, config: str) -> None:
    """Run a case twice as a case process does: the second one's verdict, its measured peak, and the farm's above
    what was held before."""
    from pytest_paddleapi.case.runner import CaseRunner
    from pytest_paddleapi.process.messages import CaseOptions, RunCase

    state, held = _account()
    runner = CaseRunner(CaseOptions(device="sim_gpu:0", threads=1))
    runner.run(RunCase(1, config), lambda stage: None)
    gc.collect()
    before = held()
    with state.locked() as entry:
        entry.device[0].peak = before
    result = runner.run(RunCase(2, config), lambda stage: None)
    with state.locked() as entry:
        say([result.verdict.value, result.measured.peak_bytes, int(entry.device[0].peak) - before])


def fork_after_use(say: Say) -> None:
    """Use the device, fork, and use it in the child."""
    _on(0)
    tensor = _empty(1 << 20)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _empty(1 << 20)
        except Exception as exc:
            os.write(writing, str(exc).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    say(os.read(reading, 65536).decode())
    _, held = _account()
    say(held())
    del tensor
    say(held())


def hammer(say: Say, seed: int) -> None:
    """Take and give back without a tensor behind it, as fast as that goes, until killed: mostly with the lock held."""
    state, _ = _account()
    chance = random.Random(seed)
    held = 0
    say("begun")
    while True:
        size = chance.randrange(1, 64 * MIB)
        if held >= size:
            state.give(0, size)
            held -= size
        elif state.take(0, size):
            held += size


def churn(say: Say, seed: int, steps: int, most: int) -> None:
    """Allocate and free at random; each tensor must still have its own value when it goes. Says: steps, refusals."""
    chance = random.Random(seed)
    device = chance.randrange(2)
    _on(device)
    kept: list[tuple[int, Any]] = []
    refused = 0
    while True:
        try:
            _empty(1)
            break
        except OSError as exc:  # others hold so much that not even the context fits
            if "out of memory" not in str(exc):
                raise
            time.sleep(0.01)
    say("begun")
    for step in range(steps):
        if kept and chance.random() < 0.4:
            number, tensor = kept.pop(chance.randrange(len(kept)))
            edges = (int(tensor[0].item()), int(tensor[-1].item()))
            if edges != (number, number):
                raise AssertionError(f"a tensor filled with {number} holds {edges}")
            del tensor
            continue
        try:
            kept.append((step % 251, paddle.full([chance.randrange(1, most)], step % 251, "uint8")))
        except MemoryError:
            refused += 1
            kept.clear()
    kept.clear()
    gc.collect()
    _, held = _account()
    say([steps, refused, held(device)])
