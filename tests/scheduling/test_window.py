"""Cases by size and by order: against plain lists."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_paddleapi.scheduling.window import Window

BYTES = st.one_of(st.none(), st.integers(0, 10))


@given(
    needs=st.dictionaries(st.integers(0, 50), st.integers(1, 9), max_size=20),
    gone=st.sets(st.integers(0, 50)),
    most=BYTES,
)
def test_the_same_are_found_as_by_looking_at_each(needs: dict[int, int], gone: set[int], most: int | None) -> None:
    window = Window()
    for case, need in needs.items():
        window.add(case, need)
    for case in gone & set(needs):
        window.remove(case)
        del needs[case]
    fitting = [case for case, need in needs.items() if most is None or need <= most]
    assert len(window) == len(needs)
    assert window.largest(most) == min(fitting, key=lambda case: (-needs[case], case), default=None)
    assert window.smallest(most) == min(fitting, key=lambda case: (needs[case], case), default=None)
    assert window.oldest(most) == min(fitting, default=None)
    assert all(window.need(case) == need and case in window for case, need in needs.items())
    window.clear()
    assert len(window) == 0 and window.largest(None) is None and window.oldest(None) is None
