"""The scheduler's part of xdist's protocol where workers die at awkward moments."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_paddleapi.scheduling.dispatching import Grant, NoRoom
from pytest_paddleapi.scheduling.engine import Engine
from pytest_paddleapi.scheduling.queue import CaseQueue
from pytest_paddleapi.scheduling.xdist_controller import CaseScheduling

from .doubles import QuietAdmission

CASES = [f"t.txt::{number}" for number in range(30)]


class Plenty(QuietAdmission):
    """Has memory for everything."""

    paused = False
    trouble = ""

    def place(self, slot: str, group: str) -> None:
        return

    def need(self, estimate: int) -> int:
        return estimate

    def is_oversize(self, need: int) -> bool:
        return False

    def target(self, group: str) -> int:
        return 9

    def reserve(self, slot: str, label: str, need: int, *, grown: bool) -> Grant | NoRoom:
        return Grant(need, False)

    def finished(self, slot: str, *, pid: int | None) -> None:
        return

    def gone(self, slot: str) -> None:
        return


class Node:
    """A worker as xdist shows it; ``dead`` ones take no commands."""

    shutting_down = False

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.sent: list[dict[str, Any]] = []
        self.dead = False

    def sendcommand(self, name: str, **data: Any) -> None:
        if self.dead:
            raise OSError("cannot send (already closed?)")
        self.sent.append(data)


@dataclass
class Places:
    """Where workers are."""

    left: list[str] = field(default_factory=list)

    def group_of(self, worker: str) -> str:
        return ""

    def leave(self, worker: str) -> None:
        self.left.append(worker)

    def is_remote(self, worker: str) -> bool:
        return False


@dataclass
class Setting:
    """A scheduler, what it drives, and what drives it."""

    scheduling: CaseScheduling
    engine: Engine
    places: Places
    dsession: Any

    def up(self, name: str) -> Node:
        """A worker that has collected."""
        node = Node(name)
        self.dsession._active_nodes.add(node)
        self.scheduling.add_node(node)
        self.scheduling.add_node_collection(node, CASES)
        return node


@pytest.fixture
def setting() -> Iterator[Setting]:
    dsession = SimpleNamespace(queue=queue.Queue(), _active_nodes=set())
    config = SimpleNamespace(pluginmanager=SimpleNamespace(getplugin=lambda name: dsession))
    engine = Engine(CaseQueue(range(len(CASES))), Plenty(), lambda case: 1 << 30, str)
    places = Places()
    scheduling = CaseScheduling(
        config, places, lambda names, cases: engine, lambda nodeid: True, lambda nodeid, need: None, lambda engine: ""
    )
    yield Setting(scheduling, engine, places, dsession)
    scheduling.close()


def passed(node: Node, token: int) -> Any:
    return SimpleNamespace(paddleapi={"verdict": "pass", "token": token, "pid": 1}, node=node)


def test_a_case_whose_report_came_before_its_worker_died_is_not_run_again(setting: Setting) -> None:
    node = setting.up("gw0")
    setting.scheduling.schedule()
    first = node.sent[0]
    setting.engine._put_back(setting.engine._slots["gw0"].following)  # so that a tick has something to send
    node.dead = True
    setting.scheduling.note_report(passed(node, first["token"]))
    setting.scheduling.tick()
    setting.scheduling.mark_test_complete(node, first["index"])
    setting.scheduling.remove_node(node)
    assert first["index"] not in list(setting.engine.queue.pending())


def test_a_worker_that_dies_before_it_is_up_gives_its_place_back(setting: Setting) -> None:
    setting.up("gw0")
    assert setting.scheduling.remove_node(Node("gw1")) is None
    assert setting.places.left == ["gw1"]
    assert setting.scheduling.stop_reason is None


def test_workers_that_die_one_after_another_before_they_are_up_end_the_run(setting: Setting) -> None:
    for number in range(4):
        setting.scheduling.remove_node(Node(f"gw{number}"))
    assert setting.scheduling.stop_reason is None
    setting.scheduling.remove_node(Node("gw4"))
    assert "5 workers died one after another before they could run anything" in str(setting.scheduling.stop_reason)
    assert setting.scheduling.tests_finished


def test_a_worker_that_comes_up_shows_that_workers_can(setting: Setting) -> None:
    for number in range(4):
        setting.scheduling.remove_node(Node(f"gw{number}"))
    setting.up("gw4")
    for number in range(5, 11):
        setting.scheduling.remove_node(Node(f"gw{number}"))
    assert setting.scheduling.stop_reason is None
    setting.scheduling.remove_node(Node("gw11"))
    assert setting.scheduling.stop_reason is not None


def test_workers_are_awaited_until_they_have_collected(setting: Setting) -> None:
    setting.up("gw0")
    assert not setting.engine.awaited()
    coming = Node("gw1")
    setting.dsession._active_nodes.add(coming)
    assert setting.engine.awaited()
    setting.scheduling.add_node(coming)
    assert setting.engine.awaited()
    setting.scheduling.add_node_collection(coming, CASES)
    assert not setting.engine.awaited()
