"""Dimensions that belong together change together, and so does what follows from them."""

from __future__ import annotations

import pytest

from pytest_paddleapi.config import parse_call, print_call
from pytest_paddleapi.config.symbols import resized, symbols


def test_symbols_are_sizes_above_one_in_the_order_written() -> None:
    call = parse_call('paddle.add(Tensor([1, 7, 3],"float32"), Tensor([3],"float32"))')
    assert symbols(call) == [7, 3]
    assert symbols(parse_call('paddle.abs(Tensor([1, 1],"float32"))')) == [1]
    assert symbols(parse_call("paddle.zeros(list[2])")) == []


@pytest.mark.parametrize(
    ("text", "sizes", "expected"),
    [
        (
            'paddle.matmul(Tensor([2, 30],"float32"), Tensor([30, 4],"float32"))',
            {30: 0},
            'paddle.matmul(Tensor([2, 0],"float32"), Tensor([0, 4],"float32"))',
        ),
        # The product of two dimensions, and -1, which stays.
        (
            'paddle.reshape(Tensor([2, 3, 4],"float32"), list[6,4])',
            {3: 5},
            'paddle.reshape(Tensor([2, 5, 4],"float32"), list[10,4])',
        ),
        (
            'paddle.reshape(Tensor([2, 3, 4],"float32"), list[2,-1])',
            {3: 5},
            'paddle.reshape(Tensor([2, 5, 4],"float32"), list[2,-1])',
        ),
        # -1 says nothing of a tensor without elements.
        (
            'paddle.reshape(Tensor([2, 3, 4],"float32"), list[2,-1])',
            {2: 0},
            'paddle.reshape(Tensor([0, 3, 4],"float32"), list[0,1])',
        ),
        (
            'paddle.Tensor.reshape(Tensor([6, 4],"float32"), 2, 3, 4)',
            {4: 8},
            'paddle.Tensor.reshape(Tensor([6, 8],"float32"), 2, 3, 8)',
        ),
        (
            'paddle.split(Tensor([10, 3],"float32"), list[2,8], axis=0)',
            {10: 5},
            'paddle.split(Tensor([5, 3],"float32"), list[1,4], axis=0)',
        ),
        (
            'paddle.expand(Tensor([1, 12],"float32"), shape=list[5,12])',
            {12: 0},
            'paddle.expand(Tensor([1, 0],"float32"), shape=list[5,0])',
        ),
        # A vector that holds as many as several axes, which a vector of another size does not.
        (
            'paddle.foo(Tensor([2, 3, 4],"float32"), Tensor([12],"float32"), Tensor([5],"float32"))',
            {4: 0},
            'paddle.foo(Tensor([2, 3, 0],"float32"), Tensor([0],"float32"), Tensor([5],"float32"))',
        ),
        # A small plain integer is an axis or a count, not a size.
        (
            'paddle.sum(Tensor([2, 3],"float32"), axis=0, k=2)',
            {2: 7},
            'paddle.sum(Tensor([7, 3],"float32"), axis=0, k=2)',
        ),
        (
            'paddle.nn.functional.layer_norm(Tensor([2, 3],"float32"), 3, normalized_shape=3)',
            {3: 7},
            'paddle.nn.functional.layer_norm(Tensor([2, 7],"float32"), 3, normalized_shape=7)',
        ),
    ],
)
def test_what_follows_from_a_size(text: str, sizes: dict[int, int], expected: str) -> None:
    assert print_call(resized(parse_call(text), sizes)) == expected


def test_arguments_can_be_left_alone() -> None:
    call = parse_call('paddle.reshape(Tensor([2, 3],"float32"), list[3,2])')
    assert print_call(resized(call, {3: 5}, arguments=False)) == 'paddle.reshape(Tensor([2, 5],"float32"), list[3,2])'
