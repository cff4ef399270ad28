"""Wrong results that are made on purpose, and that the comparators see them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.compare.registry import all_comparators
from pytest_paddleapi.case.compare.tolerance import Tolerance, tolerance_for
from pytest_paddleapi.case.modes.accuracy import BothSides, compare
from pytest_paddleapi.case.mutations import (
    EQUIVALENT,
    OUTPUT,
    Bounds,
    Kind,
    Mutant,
    differ,
    equivalence,
    examine,
    mutants,
    one_element_off,
    other_number,
)
from pytest_paddleapi.case.prepared import prepare
from pytest_paddleapi.case.results import SideResult
from pytest_paddleapi.config import parse_call
from pytest_paddleapi.process.messages import CaseOptions, ToleranceOptions, Verdict

PLAIN = Tolerance(1e-4, 1e-5, "test")


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(1))


def bounds() -> Bounds:
    return Bounds(lambda dtype: tolerance_for(ToleranceOptions(), "paddle.x", dtype))


def made(result: SideResult) -> dict[str, Mutant]:
    """Mutants by ``kind, place``."""
    return {f"{m.kind.value}, {m.place}": m for m in mutants(result, bounds(), rng())}


# One element --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64])
def test_one_element_is_off_by_ten_times_its_bound(dtype: torch.dtype) -> None:
    value = torch.tensor([[1.0, -2.0], [0.5, 0.0]]).to(dtype)
    bound = torch.tensor([0.01, 0.02, 0.03, 0.04])

    found = one_element_off(value, bound, rng())

    assert found is not None
    step = (found[1] - value).abs().double()
    assert int((step != 0).sum()) == 1
    assert float(step.max()) == pytest.approx(10 * float(bound[step.reshape(-1) != 0]), rel=0.1)


def test_whole_numbers_are_off_by_one_within_their_range_and_bools_flip() -> None:
    def changed(value: torch.Tensor) -> torch.Tensor:
        found = one_element_off(value, torch.zeros(value.numel()), rng())
        assert found is not None
        return found[1]

    assert changed(torch.tensor(7)).item() == 8
    assert changed(torch.tensor([255], dtype=torch.uint8)).item() == 254
    assert changed(torch.tensor([True])).item() is False


def test_only_finite_elements_are_moved() -> None:
    found = one_element_off(torch.tensor([torch.nan, torch.inf, 1.0]), torch.full((3,), 0.1), rng())

    assert found is not None and found[0].startswith("1.0 at [2]")
    assert one_element_off(torch.tensor([torch.nan]), torch.full((1,), 0.1), rng()) is None
    assert one_element_off(torch.empty(0), torch.empty(0), rng()) is None


def test_numbers_that_are_no_tensors_are_wrong_too() -> None:
    assert other_number(3, PLAIN) == 4
    assert other_number(False, PLAIN) is True
    assert other_number(2.0, PLAIN) == pytest.approx(2.0012)
    assert other_number("float32", PLAIN) is None
    assert other_number(float("nan"), PLAIN) is None


# Tolerances ---------------------------------------------------------------------------------------


def test_the_bound_of_an_element_is_what_the_comparator_allows_it() -> None:
    heard, actual, expected = bounds(), torch.ones(2, 3), torch.full((2, 3), 2.0)
    heard.hear(actual, expected, Tolerance(0.5, 0.25, "rule"))

    assert heard.of(actual).tolist() == [1.0] * 6


def test_a_tensor_that_was_looked_at_through_a_view_is_known() -> None:
    heard, actual = bounds(), torch.ones(2, 3)
    heard.hear(actual.reshape(6).detach(), torch.ones(6), Tolerance(0.5, 0.0, "rule"))

    assert heard.of(actual).tolist() == [0.5] * 6


def test_a_tensor_that_was_not_compared_itself_is_as_exact_as_its_dtype_and_its_whole() -> None:
    whole = bounds().of(torch.tensor([0.0, 3.0, 4.0, 0.0]))

    assert whole.tolist() == pytest.approx([1e-4 + 1.3e-5 * size for size in (2.5, 3.0, 4.0, 2.5)])


def test_results_differ_by_form_or_clearly_by_value() -> None:
    ones = torch.ones(2, 2)

    assert differ(ones, torch.ones(4), PLAIN)
    assert differ(ones, ones.double(), PLAIN)
    assert differ(ones, torch.tensor([[1.0, 1.0], [1.0, 2.0]]), PLAIN)
    assert differ(ones, torch.tensor([[1.0, 1.0], [1.0, torch.nan]]), PLAIN)
    assert not differ(ones, ones + 1e-5, PLAIN)
    # However wide a relative tolerance, nothing is not something.
    assert differ(ones, torch.zeros(2, 2), Tolerance(0.0, 1.25, "float8"))


# Whole results ------------------------------------------------------------------------------------


def test_every_kind_is_made_where_it_applies() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    found = made(SideResult([x, torch.arange(2)], changed={"x": x[0]}, gradients={"x": x + 1}))

    assert sorted(found) == sorted(
        [
            *(f"one element off, {p}" for p in ("output [0]", "output [1]", "changed argument ['x']", "gradient of x")),
            *(f"wrong dtype, {p}" for p in ("output [0]", "output [1]", "changed argument ['x']", "gradient of x")),
            "transposed, output [0]",
            "zero gradient, gradient of x",
            "swapped outputs, output [0]",
        ]
    )
    assert torch.equal(found["transposed, output [0]"].result.outputs[0], x.T)
    swapped = found["swapped outputs, output [0]"].result.outputs
    assert torch.equal(swapped[0], torch.arange(2)) and torch.equal(swapped[1], x)
    assert not found["zero gradient, gradient of x"].result.gradients["x"].any()


def test_what_changes_nothing_is_not_made() -> None:
    same = torch.ones(2, 2)
    kinds = {m.kind for m in mutants(SideResult((same, same.clone()), gradients={"x": same * 0}), bounds(), rng())}

    assert kinds == {Kind.ELEMENT, Kind.DTYPE}


def test_the_true_result_is_left_as_it_was() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    result = SideResult({"a": (x, x + 1)}, gradients={"x": x + 2})
    list(mutants(result, bounds(), rng()))

    assert torch.equal(result.outputs["a"][0], torch.arange(6.0).reshape(2, 3))
    assert torch.equal(result.gradients["x"], x + 2)


def test_of_many_places_the_first_the_last_and_some_between_are_made_wrong() -> None:
    places = [m.place.path for m in mutants(SideResult(list(range(10))), bounds(), rng())]

    assert places == ["[0]", "[3]", "[6]", "[9]"]


def test_reasons_speak_of_comparators_that_exist() -> None:
    known = {entry.meaning for entry in all_comparators().values()}

    assert {meaning for entry in EQUIVALENT for meaning in entry.meanings} <= known
    # A dtype or a gradient is never a matter of chance.
    assert all(
        not equivalence(meaning, kind, OUTPUT)
        for meaning, kind in itertools.product(known, (Kind.DTYPE, Kind.ZERO_GRADIENT))
    )


def test_a_gradient_must_have_the_form_of_its_input() -> None:
    """Also where what is expected of it is computed in whatever form it has."""
    case = prepare(parse_call('paddle.Tensor.exponential_(Tensor([2, 3],"float32"))'), CaseOptions())
    value = torch.tensor([[0.1, 0.4, 1.1], [2.3, 0.6, 0.9]])

    def verdict(gradient: torch.Tensor) -> Verdict:
        actual = SideResult(value, {"x": value}, {"x": gradient})
        return compare(case, BothSides(actual, SideResult(value, {"x": value}))).verdict

    assert verdict(torch.zeros(2, 3)) is Verdict.PASS
    assert verdict(torch.zeros(2, 3, dtype=torch.float64)) is Verdict.PADDLE_ACCURACY
    assert verdict(torch.zeros(3, 2)) is Verdict.PADDLE_ACCURACY


# Cases of all families ----------------------------------------------------------------------------

CAUGHT = """
paddle.abs(Tensor([3, 4],"float32"))
paddle.Tensor.add_(Tensor([3, 4],"float64"), Tensor([4],"float64"))
paddle.bitwise_and(Tensor([3, 4],"int32"), Tensor([3, 4],"int32"))
paddle.isnan(Tensor([3, 4],"float32"))
paddle.sum(Tensor([3, 40],"float32"), axis=1)
paddle.cumsum(Tensor([3, 40],"float32"), axis=1)
paddle.max(Tensor([3, 4],"float32"), axis=1)
paddle.argmax(Tensor([3, 4],"float32"), axis=1)
paddle.argsort(Tensor([3, 7],"float32"))
paddle.sort(Tensor([3, 7],"float32"))
paddle.topk(Tensor([3, 7],"float32"), 3)
paddle.mode(Tensor([3, 7],"float32"))
paddle.unique(Tensor([12],"int64"), return_index=True, return_counts=True)
paddle.expand(Tensor([1, 4],"float32"), list[3, 4])
paddle.split(Tensor([6, 4],"float32"), 3)
paddle.index_put(Tensor([5, 4],"float32"), tuple(Tensor([9],"int64")), Tensor([9, 4],"float32"))
paddle.index_add(Tensor([5, 4],"float32"), Tensor([7],"int64"), 0, Tensor([7, 4],"float32"))
paddle.matmul(Tensor([3, 4],"float32"), Tensor([4, 5],"float32"))
paddle.linalg.svd(Tensor([4, 3],"float64"))
paddle.linalg.qr(Tensor([4, 3],"float64"))
paddle.linalg.eigh(Tensor([4, 4],"float64"))
paddle.linalg.eig(Tensor([4, 4],"float64"))
paddle.linalg.lu(Tensor([4, 4],"float64"))
paddle.linalg.lstsq(Tensor([5, 3],"float64"), Tensor([5, 2],"float64"), driver="gels")
paddle.fft.fft(Tensor([3, 8],"complex64"))
paddle.nn.functional.conv2d(Tensor([2, 3, 6, 5],"float32"), Tensor([4, 3, 3, 3],"float32"), Tensor([4],"float32"))
paddle.nn.functional.max_pool2d(Tensor([1, 2, 6, 8],"float32"), 2, return_mask=True)
paddle.nn.functional.interpolate(Tensor([1, 2, 4, 5],"float32"), size=list[7, 8], mode="bilinear")
paddle.nn.functional.layer_norm(Tensor([3, 4],"float32"), 4, Tensor([4],"float32"), Tensor([4],"float32"))
paddle.nn.functional.cross_entropy(Tensor([5, 4],"float32"), Tensor([5],"int64"), reduction="none")
paddle.nn.functional.dropout(Tensor([30, 20],"float32"), 0.3)
paddle.nn.functional.gumbel_softmax(Tensor([20, 5],"float32"))
paddle.geometric.sample_neighbors(Tensor([30],"int64"), Tensor([11],"int64"), Tensor([5],"int64"), 3)
paddle.tolist(Tensor([3, 4],"float32"))
"""


@pytest.mark.parametrize("config", CAUGHT.strip().splitlines())
def test_every_wrong_result_is_caught(config: str) -> None:
    found = examine(config, CaseOptions(threads=1))

    assert found.verdict is Verdict.PASS, found.text
    assert found.outcomes
    missed = [f"{o.kind.value}, {o.place}: {o.text}" for o in found.outcomes if not o.caught and not o.equivalent]
    assert not missed
    assert not [o.raised for o in found.outcomes if o.raised]


def test_another_sample_is_no_miss_but_has_its_reason() -> None:
    found = examine('paddle.rand(list[30, 20], "float32")', CaseOptions(threads=1))

    by_kind = {o.kind: o for o in found.outcomes}
    assert by_kind[Kind.DTYPE].caught
    assert not by_kind[Kind.ELEMENT].caught and "sample" in by_kind[Kind.ELEMENT].equivalent


def test_a_case_that_does_not_pass_has_no_mutants() -> None:
    found = examine('paddle.matmul(Tensor([2, 3],"float32"), Tensor([2, 3],"float32"))', CaseOptions(threads=1))

    assert found.verdict is Verdict.BOTH_ERROR
    assert not found.outcomes
