"""The controller's side of estimates: it never waits, never imports a framework, and no config can take it down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from pytest_paddleapi.config import parse_call, print_call
from pytest_paddleapi.config.device_sizes import SMALL, guess_device_bytes
from pytest_paddleapi.process.estimator import Estimator
from pytest_paddleapi.process.estimator_messages import EstimatorOptions
from pytest_paddleapi.process.messages import CaseOptions, Mode

from .support import HERE, alive, wait_until

MakeEstimator = Callable[..., Estimator]
ANSWER = 12345
#: Where the child finds the estimators of this folder, beside all else.
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])}


def large(name: str, rows: int = 65536) -> str:
    """A canonical config that needs a closer look."""
    return f'paddle.{name}(Tensor([{rows}, 65536],"float32"), )'


def guess(config: str) -> int:
    return guess_device_bytes(parse_call(config), backward=True)


@pytest.fixture
def make() -> Iterator[MakeEstimator]:
    """Makes started estimators whose children import no framework; they are closed after the test."""
    made: list[Estimator] = []

    def begin(options: EstimatorOptions | None = None, **arguments: Any) -> Estimator:
        arguments = {"estimator": "light_estimator:LightEstimator", "environment": ENVIRONMENT, **arguments}
        made.append(Estimator(options or EstimatorOptions(), **arguments).start())
        return made[-1]

    yield begin
    for estimator in made:
        estimator.close()


def answers(estimator: Estimator, seconds: float = 30.0) -> dict[str, int]:
    """Poll until nothing is pending."""
    found: dict[str, int] = {}

    def done() -> bool:
        found.update(estimator.poll())
        return not estimator.pending

    assert wait_until(done, seconds), f"{estimator.pending} are pending; {estimator.failure}"
    return found


def test_the_child_answers_and_each_answer_comes_once(make: MakeEstimator) -> None:
    estimator = make()
    configs = [large("abs", 65536 + number) for number in range(100)]
    estimator.submit(configs)
    assert answers(estimator) == dict.fromkeys(configs, ANSWER)
    assert estimator.poll() == {}
    assert [estimator.get(config) for config in configs] == [ANSWER] * 100
    assert estimator.way(configs[0]) == "operator"


def test_nothing_is_known_before_it_is_asked_for(make: MakeEstimator) -> None:
    assert make().get(large("abs")) is None


def test_what_is_known_is_not_asked_again(make: MakeEstimator) -> None:
    estimator = make()
    estimator.submit([large("abs")] * 3)
    assert estimator.pending == 1
    answers(estimator)
    estimator.submit([large("abs")])
    assert (estimator.pending, estimator.poll()) == (0, {})


def test_options_reach_the_child(make: MakeEstimator) -> None:
    estimator = make(EstimatorOptions(torch_on_device=True, caches_kept=True))
    estimator.submit([large("abs")])
    assert answers(estimator) == {large("abs"): ANSWER + 3}


def test_a_small_case_needs_no_child(make: MakeEstimator) -> None:
    estimator = make()
    config = print_call(parse_call('paddle.abs(Tensor([8, 8],"float32"))'))
    estimator.submit([config])
    assert estimator.poll() == {config: guess(config)}
    assert guess(config) <= SMALL
    assert estimator.pid is None


def test_what_is_no_config_needs_nothing(make: MakeEstimator) -> None:
    estimator = make()
    estimator.submit(["paddle.abs(("])
    assert estimator.poll() == {"paddle.abs((": 0}


def test_neither_submit_nor_poll_waits(make: MakeEstimator) -> None:
    estimator = make()
    started = time.monotonic()
    # Over a megabyte of text behind a child that hangs: far more than a socket takes.
    text = "x" * 4000
    estimator.submit([large("hang"), *(f'{large("abs", n)[:-2]} name="{text}", )' for n in range(65536, 65836))])
    estimator.poll()
    assert time.monotonic() - started < 5
    assert wait_until(lambda: estimator.poll() or (estimator.pid is not None and _is_with_child(estimator)))
    started = time.monotonic()
    for _ in range(100):
        estimator.poll()
    assert time.monotonic() - started < 2


def _is_with_child(estimator: Estimator) -> bool:
    return bool(estimator._with_child)


@pytest.mark.parametrize("harm", ["crash", "raises", "memory"])
def test_a_config_that_ends_the_child_gets_the_guess_and_the_others_their_estimate(
    make: MakeEstimator, harm: str
) -> None:
    estimator = make()
    before, bad, after = large("abs"), large(harm), large("exp")
    estimator.submit([before, bad, after])
    assert answers(estimator) == {before: ANSWER, bad: guess(bad), after: ANSWER}
    assert estimator.way(bad) == "shapes"
    assert not estimator.failure


def test_a_config_that_hangs_gets_the_guess_when_its_time_is_over(make: MakeEstimator) -> None:
    estimator = make(limit=0.5)
    estimator.submit([large("hang"), large("abs")])
    assert wait_until(lambda: not estimator.poll() and _is_with_child(estimator))
    first = estimator.pid
    assert first is not None
    answers(estimator)
    assert estimator.get(large("hang")) == guess(large("hang"))
    assert estimator.get(large("abs")) == ANSWER
    assert not alive(first)


def test_configs_that_crash_one_after_another_are_all_answered(make: MakeEstimator) -> None:
    estimator = make()
    bad = [large("crash", 65536 + number) for number in range(6)]
    estimator.submit(bad)
    assert answers(estimator) == {config: guess(config) for config in bad}
    assert not estimator.failure
    estimator.submit([large("abs")])
    assert answers(estimator) == {large("abs"): ANSWER}


def test_after_many_lost_children_shapes_answer(make: MakeEstimator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_paddleapi.process.estimator._MOST_LOST", 2)
    estimator = make()
    configs = [large("crash", 65536), large("crash", 65537), large("abs")]
    estimator.submit(configs)
    assert answers(estimator) == {config: guess(config) for config in configs}
    assert estimator.failure.startswith("2 configs ended the process")


def test_a_child_that_is_killed_from_outside_is_made_anew(make: MakeEstimator) -> None:
    estimator = make()
    estimator.submit([large("abs")])
    answers(estimator)
    assert estimator.pid is not None
    os.kill(estimator.pid, signal.SIGKILL)
    estimator.submit([large("exp"), large("tanh")])
    found = answers(estimator)
    assert found[large("tanh")] == ANSWER
    assert found[large("exp")] in (ANSWER, guess(large("exp")))


def test_where_no_child_can_live_shapes_answer_and_the_reason_is_kept(make: MakeEstimator) -> None:
    estimator = make(estimator="light_estimator:Unmakeable")
    estimator.submit([large("abs")])
    assert answers(estimator) == {large("abs"): guess(large("abs"))}
    assert "no module named torch" in estimator.failure
    estimator.submit([large("exp")])
    assert estimator.poll() == {large("exp"): guess(large("exp"))}


def test_guesses_count_both_sides_where_their_caches_are_kept(make: MakeEstimator) -> None:
    config = print_call(parse_call('paddle.abs(Tensor([8, 8],"float32"))'))
    both = make(EstimatorOptions(torch_on_device=True, caches_kept=True))
    both.submit([config])
    one = make(EstimatorOptions(CaseOptions(mode=Mode.PADDLE_ONLY), torch_on_device=True, caches_kept=True))
    one.submit([config])
    assert both.poll()[config] == 2 * guess(config)
    assert one.poll()[config] == guess(config)
    there = make(EstimatorOptions(CaseOptions(gpu_mode=True), torch_on_device=True, caches_kept=True))
    there.submit([config])
    assert there.poll()[config] == 3 * guess(config)  # the comparison too


def test_close_ends_the_child_and_keeps_the_answers(make: MakeEstimator) -> None:
    estimator = make()
    estimator.submit([large("abs"), large("hang")])
    assert wait_until(lambda: estimator.poll() == {large("abs"): ANSWER})
    child = estimator.pid
    assert child is not None
    estimator.close()
    assert not alive(child)
    assert estimator.get(large("abs")) == ANSWER
    assert estimator.poll() == {}


def test_the_child_dies_with_a_controller_that_is_killed() -> None:
    controller = subprocess.Popen(
        [sys.executable, str(HERE / "estimator_program.py")], stdout=subprocess.PIPE, text=True
    )
    assert controller.stdout is not None
    child = int(controller.stdout.readline())
    try:
        assert psutil.Process(child).is_running()
    finally:
        controller.kill()
        controller.wait()
        controller.stdout.close()
    assert wait_until(lambda: not alive(child))


def test_real_estimates_come_from_the_operator_and_see_no_device() -> None:
    estimator = Estimator(EstimatorOptions()).start()
    # The scores of each of 32 heads, 16384 * 16384, dwarf the inputs; no sum of inputs shows them.
    attention = print_call(
        parse_call("paddle.matmul(" + 'Tensor([32, 16384, 64],"float16"), Tensor([32, 64, 16384],"float16"))')
    )
    try:
        estimator.submit([attention])
        answers(estimator, 180.0)
        assert estimator.way(attention) == "operator"
        found = estimator.get(attention)
        assert found is not None
        assert found > 2 * 32 * 16384 * 16384 * 2
        assert estimator.pid is not None
        assert psutil.Process(estimator.pid).environ()["CUDA_VISIBLE_DEVICES"] == ""
    finally:
        estimator.close()


def test_the_controller_imports_no_framework() -> None:
    code = (
        "import sys, pytest_paddleapi.process.estimator, pytest_paddleapi.results.learned;"
        "print(*[m for m in ('torch', 'paddle', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
