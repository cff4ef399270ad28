"""Losses: hand-computed values, alignments against sums over all of them, and inputs that are valid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import gammaln, log_softmax

from pytest_paddleapi.case.inputs.makers import ordinary
from pytest_paddleapi.case.inputs.registry import CallValues, find_inputs
from pytest_paddleapi.case.reference.registry import NoEquivalent
from pytest_paddleapi.config import parse_call
from pytest_paddleapi.process.messages import CaseResult

from .support import check_row, numbers
from .support import functional_rule as rule

TABLE = "loss"
_F = "paddle.nn.functional."
Run = Callable[..., CaseResult]


def values(config: str, seed: int = 1) -> dict[str, Any]:
    call = parse_call(config)
    return CallValues(call.api, dict(call.kwargs), find_inputs(call.api), ordinary, (seed,)).all_values()


def test_config_passes(run_case: Run, table_row: tuple[str, int, int]) -> None:
    check_row(run_case, table_row)


# Classes -----------------------------------------------------------------------------------------


def test_cross_entropy_of_hard_labels_along_an_axis() -> None:
    x, label = numbers(2, 4, 3), torch.tensor([[0, 3, 1], [2, 2, 0]])
    logs = log_softmax(x.numpy(), 1)
    expected = np.array([[-logs[n, label[n, i], i] for i in range(3)] for n in range(2)])
    np.testing.assert_allclose(rule("cross_entropy")(x, label, axis=1, reduction="none"), expected)
    kept = rule("cross_entropy")(x, label.unsqueeze(1), axis=1, reduction="none")
    np.testing.assert_allclose(kept[:, 0], expected)


def test_the_mean_is_over_what_is_not_ignored_and_by_weights() -> None:
    x, label, weight = numbers(4, 3), torch.tensor([0, 2, 1, 2]), torch.tensor([1.0, 2.0, 4.0]).double()
    loss = -log_softmax(x.numpy(), 1)[range(4), label]
    cross = rule("cross_entropy")
    np.testing.assert_allclose(cross(x, label, ignore_index=2), (loss[0] + loss[2]) / 2)
    np.testing.assert_allclose(cross(x, label, weight), (loss * [1, 4, 2, 4]).sum() / 11)
    # A negative ignore_index ignores nothing, so the mean stays over all samples.
    np.testing.assert_allclose(cross(x, torch.tensor([0, -1, 1, 2]), ignore_index=-1), (loss[[0, 2, 3]]).sum() / 4)


def test_soft_and_smooth_labels() -> None:
    x, label = numbers(2, 3), torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]]).double()
    logs = log_softmax(x.numpy(), 1)
    soft = rule("cross_entropy")(x, label, soft_label=True, reduction="none")
    np.testing.assert_allclose(soft, -(label.numpy() * logs).sum(1, keepdims=True))
    smooth = rule("cross_entropy")(x, torch.tensor([0, 2]), label_smoothing=0.3)
    target = 0.7 * np.eye(3)[[0, 2]] + 0.1
    np.testing.assert_allclose(smooth, -(target * logs).sum(1).mean())


def test_cross_entropy_of_probabilities() -> None:
    p = torch.tensor([[0.1, 0.9], [0.4, 0.6]])
    found = rule("cross_entropy")(p, torch.tensor([1, 0]), use_softmax=False, reduction="none")
    np.testing.assert_allclose(found, [-math.log(0.9), -math.log(0.4)], rtol=1e-6)


def test_softmax_with_cross_entropy_keeps_the_axis() -> None:
    x = numbers(2, 3)
    loss, p = rule("softmax_with_cross_entropy")(x, torch.tensor([[1], [0]]), return_softmax=True)
    np.testing.assert_allclose(p.sum(1), [1, 1])
    np.testing.assert_allclose(loss, -np.log([[p[0, 1]], [p[1, 0]]]))


def test_nll_loss_takes_log_probabilities_on_axis_one() -> None:
    x, label, weight = numbers(2, 3, 2), torch.tensor([[0, 1], [2, 0]]), torch.tensor([1.0, 3.0, 5.0]).double()
    parts = [(1.0, x[0, 0, 0]), (3.0, x[0, 1, 1]), (5.0, x[1, 2, 0]), (1.0, x[1, 0, 1])]
    np.testing.assert_allclose(rule("nll_loss")(x, label, weight), -sum(w * v for w, v in parts) / 10)


def test_dice_loss() -> None:
    p = torch.tensor([[[0.2, 0.8], [0.6, 0.4]]])
    found = rule("dice_loss")(p, torch.tensor([[[1], [0]]]), epsilon=0.0)
    np.testing.assert_allclose(found, 1 - 2 * (0.8 + 0.6) / (2 + 2), rtol=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 5, 8])
def test_hierarchical_probabilities_sum_to_one(classes: int) -> None:
    """exp(-loss) over all classes is one, but for the log 2 of each place that a short path leaves free."""
    x, weight, bias = numbers(1, 4), numbers(classes - 1, 4, seed=1), numbers(classes - 1, 1, seed=2)
    depth = (classes - 1).bit_length()
    total = 0.0
    for label in range(classes):
        loss = rule("hsigmoid_loss")(x, torch.tensor([[label]]), classes, weight, bias)
        free = depth - ((label + classes).bit_length() - 1)
        total += math.exp(-(float(loss) - free * math.log(2)))
    assert total == pytest.approx(1.0)


def test_hierarchical_loss_on_a_given_path() -> None:
    x, weight = numbers(1, 3), numbers(4, 3, seed=1)
    score = weight.numpy() @ x.numpy()[0]
    path, code = torch.tensor([[2, 0, -1]]), torch.tensor([[1, 0, -1]])
    expected = math.log1p(math.exp(-score[2])) + math.log1p(math.exp(score[0])) + math.log(2)
    found = rule("hsigmoid_loss")(x, torch.tensor([[0]]), 5, weight, None, path, code)
    assert found.item() == pytest.approx(expected)


def test_adaptive_softmax_is_a_distribution() -> None:
    x = numbers(1, 3)
    head, tails = numbers(3, 4, seed=1), [[numbers(3, 2, seed=2), numbers(2, 3, seed=3)]]
    tails.append([numbers(3, 1, seed=4), numbers(1, 4, seed=5)])
    logs = [
        float(rule("adaptive_log_softmax_with_loss")(x, torch.tensor([c]), head, tails, [2, 5, 9])[0]) for c in range(9)
    ]
    assert sum(math.exp(v) for v in logs) == pytest.approx(1.0)


def test_margin_cross_entropy_adds_an_angle_to_the_label() -> None:
    cosines = torch.tensor([[0.5, -0.2, 0.1]]).double()
    loss = rule("margin_cross_entropy")(cosines, torch.tensor([0]), 1.0, 0.3, 0.1, 8.0)
    moved = 8 * np.array([math.cos(math.acos(0.5) + 0.3) - 0.1, -0.2, 0.1])
    assert loss.item() == pytest.approx(-log_softmax(moved)[0])


# Alignments --------------------------------------------------------------------------------------


def collapsed(path: tuple[int, ...], blank: int) -> tuple[int, ...]:
    return tuple(symbol for symbol, _ in itertools.groupby(path) if symbol != blank)


def test_ctc_is_the_sum_over_all_alignments() -> None:
    scores = numbers(4, 1, 3)
    logs = log_softmax(scores.numpy()[:, 0], 1)
    total = sum(
        math.exp(sum(logs[t, s] for t, s in enumerate(path)))
        for path in itertools.product(range(3), repeat=4)
        if collapsed(path, 2) == (0, 1)
    )
    arguments = (scores, torch.tensor([[0, 1]]), torch.tensor([4]), torch.tensor([2]), 2)
    assert rule("ctc_loss")(*arguments, "sum").item() == pytest.approx(-math.log(total))
    assert rule("ctc_loss")(*arguments).item() == pytest.approx(-math.log(total) / 2)


def test_norm_by_times_changes_the_gradient_only() -> None:
    scores = numbers(4, 1, 3).requires_grad_(True)
    arguments = (scores, torch.tensor([[1]]), torch.tensor([4]), torch.tensor([1]))
    plain, scaled = (rule("ctc_loss")(*arguments, 0, "sum", by) for by in (False, True))
    assert plain.item() == scaled.item()
    first, second = (torch.autograd.grad(loss, scores)[0] for loss in (plain, scaled))
    torch.testing.assert_close(second, first / 4)


def test_rnnt_is_the_sum_over_all_ways_through_the_lattice() -> None:
    logs = torch.log_softmax(numbers(1, 3, 3, 4), -1)
    label = [1, 3]
    total = 0.0
    for emissions in itertools.combinations_with_replacement(range(3), 2):
        way, u = 0.0, 0
        for t in range(3):
            for _ in range(emissions.count(t)):
                way += float(logs[0, t, u, label[u]])
                u += 1
            way += float(logs[0, t, u, 0])
        total += math.exp(way)
    found = rule("rnnt_loss")(logs, torch.tensor([label]), torch.tensor([3]), torch.tensor([2]))
    assert found.item() == pytest.approx(-math.log(total))


def test_rnnt_of_paddles_documentation() -> None:
    acts = [
        [[0.1, 0.6, 0.1, 0.1, 0.1], [0.1, 0.1, 0.6, 0.1, 0.1], [0.1, 0.1, 0.2, 0.8, 0.1]],
        [[0.1, 0.6, 0.1, 0.1, 0.1], [0.1, 0.1, 0.2, 0.1, 0.1], [0.7, 0.1, 0.2, 0.1, 0.1]],
    ]
    arguments = (torch.tensor([acts]), torch.tensor([[1, 2]]), torch.tensor([2]), torch.tensor([2]))
    assert rule("rnnt_loss")(*arguments, 0, 0.0, "sum").item() == pytest.approx(-2.85042444)


def test_fastemit_scales_the_gradients_of_emissions() -> None:
    logs = torch.log_softmax(numbers(1, 2, 2, 3), -1).requires_grad_(True)
    arguments = (logs, torch.tensor([[1]]), torch.tensor([2]), torch.tensor([1]), 0)
    plain, fast = (torch.autograd.grad(rule("rnnt_loss")(*arguments, by, "sum"), logs)[0] for by in (0.0, 0.5))
    torch.testing.assert_close(fast[..., 1], 1.5 * plain[..., 1])
    torch.testing.assert_close(fast[..., 0], plain[..., 0])


# Elements and margins ----------------------------------------------------------------------------


def test_smooth_l1_is_hubers_loss_in_paddles_terms() -> None:
    x, y = torch.tensor([0.0, 0.0]), torch.tensor([0.5, 3.0])
    np.testing.assert_allclose(rule("smooth_l1_loss")(x, y, "none", 2.0), [0.125, 2 * 3 - 2])
    np.testing.assert_allclose(rule("smooth_l1_loss")(x, y, "none", 2.0, False), [0.0625, 2])


def test_kl_div_with_and_without_logarithms() -> None:
    p, q = np.array([[0.2, 0.8]]), np.array([[0.5, 0.5]])
    expected = (q * np.log(q / p)).sum()
    logs = torch.from_numpy(np.log(p))
    assert rule("kl_div")(logs, torch.from_numpy(q), "sum").item() == pytest.approx(expected)
    assert rule("kl_div")(logs, torch.from_numpy(np.log(q)), "batchmean", True).item() == pytest.approx(expected)


def test_binary_cross_entropy_with_weights() -> None:
    z, y = torch.tensor([0.3, -1.2]), torch.tensor([1.0, 0.25])
    p = 1 / (1 + np.exp(-z.numpy()))
    expected = -(2.0 * y.numpy() * np.log(p) + (1 - y.numpy()) * np.log(1 - p)) * [3.0, 1.0]
    found = rule("binary_cross_entropy_with_logits")(z, y, torch.tensor([3.0, 1.0]), "none", torch.tensor([2.0, 2.0]))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    plain = rule("binary_cross_entropy")(torch.from_numpy(p), y, reduction="sum")
    assert plain.item() == pytest.approx(-(y.numpy() * np.log(p) + (1 - y.numpy()) * np.log(1 - p)).sum())


def test_poisson_loss_approximates_the_factorial() -> None:
    x, y = torch.tensor([1.0]).double(), torch.tensor([30.0]).double()
    full = rule("poisson_nll_loss")(x, y, full=True)
    assert full.item() == pytest.approx(math.e - 30 + gammaln(31), abs=0.01)


def test_gaussian_loss_is_the_negative_log_density() -> None:
    x, y, variance = torch.tensor([[1.0]]), torch.tensor([[3.0]]), torch.tensor([4.0])
    density = math.exp(-0.5) / math.sqrt(2 * math.pi * 4)
    assert rule("gaussian_nll_loss")(x, y, variance, True).item() == pytest.approx(-math.log(density))


def test_focal_loss_of_a_hard_example() -> None:
    p = 1 / (1 + math.exp(1.0))
    found = rule("sigmoid_focal_loss")(torch.tensor([-1.0]), torch.tensor([1.0]), torch.tensor([2.0]))
    assert found.item() == pytest.approx(0.25 * (1 - p) ** 2 * -math.log(p) / 2)


def test_margins_between_classes() -> None:
    x = torch.tensor([[0.1, 0.5, 0.3]]).double()
    weight = torch.tensor([1.0, 2.0, 1.0]).double()
    hinges = [1 - 0.5 + 0.1, 1 - 0.5 + 0.3]
    found = rule("multi_margin_loss")(x, torch.tensor([1]), 2, 1.0, weight)
    assert found.item() == pytest.approx(2 * sum(h**2 for h in hinges) / 3)
    several = rule("multi_label_margin_loss")(x, torch.tensor([[1, 2, -1]]))
    assert several.item() == pytest.approx(((1 - 0.5 + 0.1) + (1 - 0.3 + 0.1)) / 3)
    stops = rule("multi_label_margin_loss")(x, torch.tensor([[1, -1, 2]]))
    assert stops.item() == pytest.approx(((1 - 0.5 + 0.1) + (1 - 0.5 + 0.3)) / 3)


def test_margins_between_samples() -> None:
    a, b, c = (torch.tensor([v]).double() for v in ([0.0, 0.0], [3.0, 4.0], [0.0, 6.0]))
    triplet = rule("triplet_margin_loss")(a, b, c, 2.0, epsilon=0.0)
    assert triplet.item() == pytest.approx(5 - 6 + 2)
    swapped = rule("triplet_margin_loss")(a, b, c, 2.0, epsilon=0.0, swap=True)
    assert swapped.item() == pytest.approx(5 - math.hypot(3, 2) + 2)
    with pytest.raises((NoEquivalent, TypeError)):
        rule("triplet_margin_with_distance_loss")(a, b, c, 5)
    ranking = rule("margin_ranking_loss")(torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([1.0]), 0.5)
    assert ranking.item() == 1.5
    angle = rule("cosine_embedding_loss")(b, c, torch.tensor([-1]), 0.5)
    assert angle.item() == pytest.approx(0.8 - 0.5)


def test_npair_loss_spreads_the_target_over_equal_labels() -> None:
    a, b = numbers(3, 2), numbers(3, 2, seed=1)
    logs = log_softmax(a.numpy() @ b.numpy().T, 1)
    target = np.array([[0.5, 0, 0.5], [0, 1, 0], [0.5, 0, 0.5]])
    lengths = (a.numpy() ** 2).sum(1).mean() + (b.numpy() ** 2).sum(1).mean()
    expected = 0.25 * 0.1 * lengths - (target * logs).sum(1).mean()
    assert rule("npair_loss")(a, b, torch.tensor([7, 8, 7]), 0.1).item() == pytest.approx(expected)


# Inputs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_ctc_inputs_have_an_alignment(seed: int) -> None:
    found = values(
        f'{_F}ctc_loss(log_probs=Tensor([6, 4, 3],"float32"), labels=Tensor([4, 6],"int32"), '
        'input_lengths=Tensor([4],"int64"), label_lengths=Tensor([4],"int64"), blank=1)',
        seed,
    )
    assert (found["labels"] != 1).all()
    for labels, steps, length in zip(found["labels"], found["input_lengths"], found["label_lengths"]):
        repeats = int((labels[1:length] == labels[: length - 1]).sum())
        assert 1 <= length <= 6
        assert length + repeats <= steps <= 6


def test_soft_labels_sum_to_one_along_their_axis() -> None:
    found = values(
        f'{_F}cross_entropy(input=Tensor([2, 3, 4],"float32"), label=Tensor([2, 3, 4],"float32"), '
        "soft_label=True, axis=1, use_softmax=False)"
    )
    for name in ("input", "label"):
        np.testing.assert_allclose(found[name].sum(1), 1, rtol=1e-6)


def test_some_labels_are_ignored_and_some_are_not() -> None:
    found = values(f'{_F}cross_entropy(input=Tensor([60, 5],"float32"), label=Tensor([60],"int64"), ignore_index=255)')[
        "label"
    ]
    assert 0 < (found == 255).sum() < 30
    assert set(found.tolist()) - {255} == set(range(5))


def test_paths_name_each_node_once_and_end() -> None:
    found = values(
        f'{_F}hsigmoid_loss(input=Tensor([9, 2],"float32"), label=Tensor([9, 1],"int64"), num_classes=6, '
        'weight=Tensor([5, 2],"float32"), path_table=Tensor([9, 4],"int64"), path_code=Tensor([9, 4],"int64"))'
    )
    for nodes, turns in zip(found["path_table"], found["path_code"]):
        length = int((nodes >= 0).sum())
        assert len(set(nodes[:length].tolist())) == length >= 1
        assert (nodes[length:] == -1).all()
        assert set(turns[:length].tolist()) <= {0, 1}
