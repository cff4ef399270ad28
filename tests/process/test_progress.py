"""The board on which a case process says what it does."""

from __future__ import annotations

import os
import signal

from pytest_paddleapi.process.messages import Stage
from pytest_paddleapi.process.progress import Progress


def test_nothing_has_begun_on_a_new_board() -> None:
    board = Progress()
    assert [board.stage_of(token) for token in (1, 2, 2**40)] == [None, None, None]
    board.close()


def test_each_stage_is_read_back_for_its_own_token_only() -> None:
    board = Progress()
    for token in (1, 7, 2**40):
        for stage in Stage:
            board.enter(token, stage)
            assert board.stage_of(token) is stage
            assert board.stage_of(token - 1) is None
            assert board.stage_of(token + 1) is None
    board.close()


def test_the_last_stage_of_a_killed_process_can_be_read() -> None:
    board = Progress()
    pid = os.fork()
    if pid == 0:
        theirs = Progress(os.dup(board.fd))
        for token in range(1, 1000):
            theirs.enter(token, Stage.INPUTS)
        theirs.enter(1000, Stage.PADDLE)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert board.stage_of(1000) is Stage.PADDLE
    assert board.stage_of(999) is None
    board.close()


def test_closing_gives_the_descriptor_back() -> None:
    before = len(os.listdir("/proc/self/fd"))
    Progress().close()
    assert len(os.listdir("/proc/self/fd")) == before
