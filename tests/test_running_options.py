"""Which devices and builds a mode can run on, and what is left open until they are known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_paddleapi.devices.registry import DeviceRegistry
from pytest_paddleapi.devices.selection import DeviceOptionError, DeviceOptions
from pytest_paddleapi.fleet import build_fleet
from pytest_paddleapi.options import running
from pytest_paddleapi.options.running import fit_to_devices, has_cinn, running_notes, running_words
from pytest_paddleapi.process.messages import CaseOptions, Mode


def cinn(backend: str, **more: object) -> CaseOptions:
    return CaseOptions(mode=Mode.PADDLE_CINN, static_backend=backend, **more)  # type: ignore[arg-type]


@pytest.fixture
def with_cinn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "has_cinn", lambda: True)


@pytest.mark.parametrize(("line", "there"), [("'0.3.0'", True), ("'False'", False), ("None", False)])
def test_the_version_file_says_whether_there_is_cinn(
    line: str, there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "version").mkdir()
    (tmp_path / "version" / "__init__.py").write_text(f"full_version = '3.3.1'\ncinn_version    = {line}\n")
    found = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found)
    assert has_cinn() is there


def test_auto_is_the_plain_graph_where_paddle_has_no_cinn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "has_cinn", lambda: False)
    case = fit_to_devices(cinn("auto"), "nvidia")
    assert case.static_backend == "none"
    (note,) = running_notes(case, "nvidia")
    assert note == "static graph: the plain static graph, without a compiler (this Paddle is built without CINN)"


@pytest.mark.usefixtures("with_cinn")
def test_auto_is_cinn_on_nvidia_gpus_alone() -> None:
    assert fit_to_devices(cinn("auto"), "nvidia").static_backend == "CINN"
    assert list(running_notes(cinn("CINN"), "nvidia")) == ["static graph: compiled by CINN"]
    assert fit_to_devices(cinn("auto"), "cpu").static_backend == "none"
    assert fit_to_devices(cinn("auto", test_cpu=True), "nvidia").static_backend == "none"
    assert "for NVIDIA GPUs only" in next(iter(running_notes(cinn("none"), "cpu")))
    assert fit_to_devices(cinn("none"), "nvidia").static_backend == "none"


@pytest.mark.usefixtures("with_cinn")
def test_cinn_elsewhere_is_a_usage_error() -> None:
    with pytest.raises(pytest.UsageError, match="for NVIDIA GPUs only"):
        fit_to_devices(cinn("CINN"), "cpu")


def test_cinn_without_it_is_a_usage_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "has_cinn", lambda: False)
    with pytest.raises(pytest.UsageError, match=r"--paddleapi-static-backend=CINN: .*install a GPU build of Paddle 3"):
        fit_to_devices(cinn("CINN"), "nvidia")


@pytest.mark.parametrize(("kind", "says"), [("cpu", "the host's CPU"), ("nvidia", "NVIDIA GPUs")])
def test_a_custom_device_must_be_one(kind: str, says: str) -> None:
    case = CaseOptions(mode=Mode.PADDLE_CUSTOM_DEVICE)
    with pytest.raises(pytest.UsageError, match=f"selected devices are {says}: install"):
        fit_to_devices(case, kind)
    assert fit_to_devices(case, "xpu") == fit_to_devices(case, "npu") == case


def test_the_command_that_reproduces_has_what_decides() -> None:
    assert list(running_words(CaseOptions())) == []
    assert list(running_words(CaseOptions(test_backward=False))) == ["--paddleapi-no-backward"]
    graph = ["--paddleapi-static-backend=none", "--paddleapi-test-backward"]
    assert list(running_words(cinn("none"))) == graph
    every = CaseOptions(test_cpu=True, gpu_mode=True, amp=True, input_backend="paddle")
    assert list(running_words(every)) == [
        "--paddleapi-test-cpu",
        "--paddleapi-gpu-mode",
        "--paddleapi-amp",
        "--paddleapi-input-backend=paddle",
    ]
    assert list(running_words(CaseOptions(gpu_mode=True, input_backend="torch"))) == ["--paddleapi-gpu-mode"]


def test_a_cpu_build_of_paddle_gets_gpus_for_torch_alone() -> None:
    registry = DeviceRegistry()
    with pytest.raises(DeviceOptionError, match="a build for the CPU"):
        build_fleet("nvidia", DeviceOptions(), cores=1, registry=registry)
    with pytest.raises(DeviceOptionError) as caught:  # it is looked for, and this registry has none
        build_fleet("nvidia", DeviceOptions(), cores=1, registry=registry, paddle_on_cpu=True)
    assert "a build for the CPU" not in str(caught.value)
