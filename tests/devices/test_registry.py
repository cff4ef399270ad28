"""Which kind of device a session uses."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from pytest_paddleapi.devices.host import HostDevice, HostKind
from pytest_paddleapi.devices.model import Device, DeviceError, Probe
from pytest_paddleapi.devices.registry import ENTRY_POINT_GROUP, DeviceRegistry, default_registry


class Kind:
    """A kind of device as a third party may write it."""

    visibility_variable: str | None = "SIM_VISIBLE"

    def __init__(self, name: str, priority: int, probe: Callable[[Mapping[str, str]], Probe]) -> None:
        self.name = name
        self.priority = priority
        self.probe = probe

    def visible(self, devices: Sequence[Device]) -> str:
        return ",".join(device.uuid for device in devices)

    def paddle_device(self, position: int) -> str:
        return f"sim:{position}"

    def torch_device(self, position: int) -> str:
        return f"cpu:{position}"


def found(_: Mapping[str, str]) -> Probe:
    return Probe((HostDevice(),))


def nothing(_: Mapping[str, str]) -> Probe:
    return Probe(why_not="its driver is missing")


def broken(_: Mapping[str, str]) -> Probe:
    raise RuntimeError("symbol not found")


def registry(*kinds: Any) -> DeviceRegistry:
    made = DeviceRegistry()
    for kind in kinds:
        made.register(kind)
    return made


def test_auto_takes_the_highest_priority_that_finds_something() -> None:
    kinds = registry(Kind("low", 1, found), Kind("high", 9, found), HostKind())
    assert kinds.select(environ={}).kind.name == "high"


def test_auto_says_what_it_passed_over_and_why() -> None:
    selection = registry(HostKind(), Kind("a", 9, nothing), Kind("b", 8, broken)).select(environ={})
    assert selection.kind.name == "cpu"
    assert [(entry.name, entry.why) for entry in selection.passed_over] == [
        ("a", "its driver is missing"),
        ("b", "its probe failed: RuntimeError: symbol not found"),
    ]


def test_a_named_kind_is_not_replaced_by_another() -> None:
    kinds = registry(HostKind(), Kind("a", 9, nothing))
    assert kinds.select("cpu", {}).kind.name == "cpu"
    with pytest.raises(DeviceError, match=r"no a device can be used here \(a: its driver is missing"):
        kinds.select("a", {})


def test_nothing_at_all_says_everything_that_was_tried() -> None:
    with pytest.raises(DeviceError, match=r"no device can be used here \(a: .*missing; b: .*symbol not found\)"):
        registry(Kind("a", 9, nothing), Kind("b", 8, broken)).select(environ={})


def test_an_unknown_name_lists_the_known_ones_and_guesses() -> None:
    with pytest.raises(DeviceError, match=r"'nvidai'.*auto, cpu, nvidia.*Did you mean 'nvidia'\?"):
        registry(HostKind(), Kind("nvidia", 100, found)).select("nvidai", {})


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_probe_that_hangs_is_passed_over(gate: threading.Event) -> None:
    def hang(_: Mapping[str, str]) -> Probe:
        gate.wait()
        return Probe()

    selection = registry(HostKind(), Kind("sick", 9, hang)).select(environ={}, seconds=0.1)
    assert selection.kind.name == "cpu"
    assert "did not answer within 0.1 s" in selection.passed_over[0].why


def test_the_probe_sees_the_environment_that_was_passed() -> None:
    seen: list[Mapping[str, str]] = []

    def look(environ: Mapping[str, str]) -> Probe:
        seen.append(environ)
        return found(environ)

    registry(Kind("a", 9, look)).select(environ={"SIM_VISIBLE": "1"})
    assert seen == [{"SIM_VISIBLE": "1"}]


def test_two_kinds_of_one_name_are_refused() -> None:
    with pytest.raises(DeviceError, match="two kinds of device are called 'cpu'"):
        registry(HostKind(), Kind("cpu", 9, found))


def test_what_is_no_kind_is_refused_with_what_it_lacks() -> None:
    with pytest.raises(DeviceError, match=r"no kind of device: it has no .*priority.*paddle_device"):
        registry(object())


def test_our_own_kinds_are_there_in_their_order() -> None:
    kinds = default_registry(list).by_priority()
    assert [kind.name for kind in kinds] == ["nvidia", "xpu", "iluvatar", "custom", "cpu"]
    assert (kinds[0].priority, kinds[-1].priority) == (100, 0)


def test_where_nothing_is_installed_no_process_is_started(tmp_path: Path) -> None:
    program = (
        "import sys; started = [];"
        "sys.addaudithook(lambda event, _: started.append(event) if event in"
        " ('subprocess.Popen', 'os.fork', 'os.exec', 'os.posix_spawn', 'os.system') else None);"
        "from pytest_paddleapi.devices.registry import default_registry;"
        f"selection = default_registry(lambda: []).select(environ={{'PATH': {str(tmp_path)!r}}});"
        "print(started, *[entry.name for entry in selection.passed_over])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "nvidia", "xpu", "iluvatar", "custom"]


THIRD_PARTY = Kind("third", 500, found)


def test_another_package_adds_a_kind_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "third_party_chip", sys.modules[__name__])
    entry = EntryPoint("third", "third_party_chip:THIRD_PARTY", ENTRY_POINT_GROUP)
    assert default_registry(lambda: [entry]).select(environ={}).kind is THIRD_PARTY


def test_an_entry_point_that_cannot_be_loaded_is_a_reason_and_no_crash() -> None:
    entry = EntryPoint("third", "no_such_package_anywhere:KIND", ENTRY_POINT_GROUP)
    kinds = default_registry(lambda: [entry])
    assert [failure.name for failure in kinds.failed] == ["third"]
    passed = kinds.select(environ={}).passed_over
    assert "no_such_package_anywhere" in next(entry.why for entry in passed if entry.name == "third")


def test_looking_for_devices_imports_no_framework() -> None:
    program = (
        "import sys; from pytest_paddleapi.devices.registry import default_registry; default_registry().select();"
        "import pytest_paddleapi.gpu_admission; print({'paddle', 'torch', 'numpy', 'pytest'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
