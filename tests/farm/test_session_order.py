"""The order in which a session on devices runs its cases."""

from __future__ import annotations

from typing import Any

import pytest

from .sessions import FarmSession

#: Each takes a third of a device, too much for its need to be clear from the shapes alone: those that are clear run
#: while the others' estimates are still to come.
MIDDLING = [f'paddle.abs(Tensor([20, {262144 + size}],"float32"))' for size in range(8)]
LARGE = 'paddle.abs(Tensor([40, 262144],"float32"))'


@pytest.fixture
def order(make_farm: Any, start: Any) -> Any:
    """A function that gives the configs in the order in which one worker ran them."""

    def run(*arguments: str) -> list[str]:
        session: FarmSession = start(make_farm(devices=1, mib=512), [*MIDDLING, LARGE], "-n1", *arguments)
        done = session.wait()
        assert done.code == 0, done.output
        return [found["config"] for found in done.properties]

    return run


def test_the_largest_goes_before_what_stands_above_it(order: Any) -> None:
    found = order()
    assert sorted(found) == sorted([*MIDDLING, LARGE])
    # Not quite the first: a process that has yet to start gets a small one.
    assert 0 < found.index(LARGE) < len(MIDDLING) // 2


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--ff", "--nf", "--sw"])
def test_an_option_by_which_some_tests_go_first_keeps_the_order_of_the_files(order: Any, option: str) -> None:
    # The options are those of plugins that sessions on a farm do without otherwise.
    assert order("-p", "cacheprovider", "-p", "stepwise", option) == [*MIDDLING, LARGE]


@pytest.mark.slow
def test_the_order_of_the_files_can_be_asked_for(order: Any) -> None:
    assert order("--paddleapi-set=largest_first=false") == [*MIDDLING, LARGE]
