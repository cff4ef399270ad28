"""What a case of a dual mode is taken to hold on its second device."""

from __future__ import annotations

from pytest_paddleapi.config import parse_call
from pytest_paddleapi.config.device_sizes import guess_device_bytes, guess_held_bytes
from pytest_paddleapi.config.second_device import second_device_bytes

MIB = 1 << 20
CALL = parse_call('paddle.abs(Tensor([8, 262144],"float32"))')
DOUBLE = parse_call('paddle.abs(Tensor([4, 262144],"float64"))')


def test_results_of_each_run_are_held() -> None:
    held, largest = guess_held_bytes(CALL)
    assert (held, largest) == (16 * MIB, 8 * MIB)
    assert second_device_bytes(CALL, held, largest, runs=1, torch_there=False) == 16 * MIB
    assert second_device_bytes(CALL, held, largest, runs=2, torch_there=False) == 32 * MIB


def test_where_torch_is_too_there_are_its_results_and_the_comparison() -> None:
    one = second_device_bytes(CALL, 16 * MIB, 8 * MIB, runs=1, torch_there=True)
    two = second_device_bytes(CALL, 16 * MIB, 8 * MIB, runs=2, torch_there=True)
    assert one == 32 * MIB + 42 * 2 * MIB
    assert two - one == 32 * MIB
    # Half as many elements, and each takes more.
    assert second_device_bytes(DOUBLE, 16 * MIB, 8 * MIB, runs=1, torch_there=True) == 32 * MIB + 92 * MIB


def test_the_first_device_takes_more_where_torch_is_on_the_host() -> None:
    held, largest = guess_held_bytes(CALL)
    assert second_device_bytes(CALL, held, largest, runs=1, torch_there=False) < guess_device_bytes(CALL, backward=True)


def test_a_call_without_tensors_holds_its_result() -> None:
    call = parse_call('paddle.zeros([1024, 1024], dtype="float32")')
    assert guess_held_bytes(call) == (4 * MIB, 4 * MIB)
