"""Which of pytest's options keep the order of the files."""

from __future__ import annotations

import pytest

from pytest_paddleapi.session import says_what_goes_first


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (["--ff"], True),
        (["--nf"], True),
        (["--sw"], True),
        (["--lf"], False),
        (["-x", "--maxfail=3"], False),
        ([], False),
    ],
)
def test_options_by_which_some_tests_go_first_keep_the_order(
    pytester: pytest.Pytester, arguments: list[str], kept: bool
) -> None:
    assert says_what_goes_first(pytester.parseconfig(*arguments).option) is kept
