"""Tensors whose values mean nothing."""

from __future__ import annotations

from .comparison import Comparison
from .registry import comparator


@comparator(
    "paddle.empty",
    "paddle.empty_like",
    "paddle.Tensor.new_empty",
    meaning="shape and dtype: the values are not initialised",
    repeatable=False,
)
def judge_empty(c: Comparison) -> None:
    """Only the form is promised."""
    if not c.same_structure():
        return
    for index, (actual, expected) in enumerate(zip(c.actual_leaves(), c.expected_leaves())):
        c.same_form(f"output {index}", actual, expected)
        c.count(outputs=1)
