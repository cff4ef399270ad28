"""Readings that mislead, and readings that hang."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_paddleapi.devices.model import DeviceLostError, DeviceReadingError, DeviceReadingTimeoutError
from pytest_paddleapi.devices.readings import MOST_HANGING, TimedReader, bracketed, patiently, within


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Whatever waits for it goes on at the end of the test."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def reader(clock: Clock) -> Iterator[TimedReader]:
    made = TimedReader("GPU-1", patience=0.05, abandon_after=30.0, clock=clock)
    yield made
    made.close()


def hang(reader: TimedReader, gate: threading.Event) -> str:
    with pytest.raises(DeviceReadingTimeoutError) as caught:
        reader.read(gate.wait)
    return str(caught.value)


def test_a_reading_gives_what_the_call_gives_and_raises_what_it_raises(reader: TimedReader) -> None:
    assert reader.read(lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        reader.read(lambda: 1 // 0)
    assert reader.read(lambda: "still works") == "still works"


def test_one_thread_serves_all_readings(reader: TimedReader) -> None:
    threads = {reader.read(threading.get_ident) for _ in range(10)}
    assert len(threads) == 1
    assert threads != {threading.get_ident()}


def test_a_call_that_hangs_is_not_waited_for(reader: TimedReader, gate: threading.Event) -> None:
    started = time.monotonic()
    assert "GPU-1: no answer within 0.05 s" in hang(reader, gate)
    assert time.monotonic() - started < 5
    assert reader.hanging == 1


def test_while_it_hangs_the_next_one_fails_at_once(reader: TimedReader, gate: threading.Event, clock: Clock) -> None:
    hang(reader, gate)
    clock.now += 12
    called = []
    with pytest.raises(DeviceReadingTimeoutError, match="not answered for 12 s"):
        reader.read(lambda: called.append(1))
    assert called == []


def test_an_answer_that_comes_too_late_is_thrown_away(reader: TimedReader, gate: threading.Event) -> None:
    hang(reader, gate)
    gate.set()
    deadline = time.monotonic() + 5
    while reader.hanging and time.monotonic() < deadline:
        time.sleep(0.01)
    assert reader.read(lambda: "fresh") == "fresh"


def test_after_thirty_seconds_it_is_abandoned_and_a_new_thread_tries(
    reader: TimedReader, gate: threading.Event, clock: Clock
) -> None:
    hang(reader, gate)
    clock.now += 30
    assert reader.read(lambda: "again") == "again"
    assert reader.hanging == 1


def test_threads_do_not_pile_up_in_a_sick_driver(reader: TimedReader, gate: threading.Event, clock: Clock) -> None:
    for _ in range(MOST_HANGING):
        hang(reader, gate)
        clock.now += 30
    for _ in range(5):
        assert f"{MOST_HANGING} calls hang" in hang(reader, gate)
        clock.now += 30
    assert reader.hanging == MOST_HANGING


def test_a_driver_that_recovers_is_read_again(reader: TimedReader, gate: threading.Event, clock: Clock) -> None:
    for _ in range(MOST_HANGING):
        hang(reader, gate)
        clock.now += 30
    gate.set()
    deadline = time.monotonic() + 5
    while reader.hanging and time.monotonic() < deadline:
        time.sleep(0.01)
    assert reader.read(lambda: "back") == "back"


def test_a_closed_reader_lets_its_thread_end(reader: TimedReader) -> None:
    thread = reader.read(threading.current_thread)
    reader.close()
    thread.join(5)
    assert not thread.is_alive()


def test_a_hanging_thread_does_not_keep_the_process(reader: TimedReader) -> None:
    assert reader.read(threading.current_thread).daemon


def test_within_is_one_call_with_a_limit(gate: threading.Event) -> None:
    assert within(5.0, "it", lambda: 1) == 1
    with pytest.raises(DeviceReadingTimeoutError, match="it: no answer within"):
        within(0.05, "it", gate.wait)


class Moving:
    """A device whose processes move on by one step of their own with every look at it."""

    def __init__(self, total: int, paths: list[list[int]]) -> None:
        self.total, self.paths, self.looks = total, paths, 0

    def now(self) -> dict[int, int]:
        step, self.looks = self.looks, self.looks + 1
        return {pid: path[min(step, len(path) - 1)] for pid, path in enumerate(self.paths)}

    def free(self) -> int:
        return self.total - sum(self.now().values())

    def held(self) -> dict[int, int]:
        return self.now()


@st.composite
def one_way_paths(draw: st.DrawFn) -> list[list[int]]:
    """Of up to four processes, each of which only takes or only gives back; of 0 to 20 bytes each."""
    paths = [sorted(draw(st.lists(st.integers(0, 20), min_size=5, max_size=5))) for _ in range(draw(st.integers(1, 4)))]
    return [path[::-1] if draw(st.booleans()) else path for path in paths]


@given(one_way_paths())
def test_no_byte_is_seen_free_and_held_whatever_several_processes_do(paths: list[list[int]]) -> None:
    """Free and held never sum to more than there is, though each process moves between any two looks."""
    free, held = bracketed((device := Moving(100, paths)).free, device.held)
    assert free + sum(held.values()) <= 100


def test_one_takes_and_another_gives_back_within_a_reading() -> None:
    """Both looks at the free memory would be too high if what is held were only looked at between them."""
    taking, giving = [0, 30, 30, 30, 30], [30, 30, 0, 0, 0]
    free, held = bracketed((device := Moving(100, [taking, giving])).free, device.held)
    assert free + sum(held.values()) <= 100


def test_what_does_not_move_is_read_exactly() -> None:
    free, held = bracketed((device := Moving(100, [[7], [13]])).free, device.held)
    assert (free, held) == (80, {0: 7, 1: 13})


def test_a_process_that_is_not_in_every_look_is_unknown() -> None:
    looks = iter([{1: 5, 2: 5}, {1: 5}, {1: 5, 2: 5}])
    assert bracketed(lambda: 90, lambda: next(looks)) == (90, {1: 5})


def test_patience_with_a_driver_that_is_busy_for_a_moment() -> None:
    answers: list[int | Exception] = [DeviceReadingError("GPU-0", "busy"), DeviceReadingError("GPU-0", "busy"), 7]

    def read() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert patiently(read) == 7


def test_patience_ends() -> None:
    def read() -> int:
        raise DeviceReadingError("GPU-0", "busy")

    begun = time.monotonic()
    with pytest.raises(DeviceReadingError, match="busy"):
        patiently(read, seconds=0.5)
    assert 0.5 <= time.monotonic() - begun < 5


def test_no_patience_with_a_lost_device() -> None:
    calls = []

    def read() -> int:
        calls.append(1)
        raise DeviceLostError("GPU-0", "GPU is lost")

    with pytest.raises(DeviceLostError):
        patiently(read)
    assert len(calls) == 1
