"""The example of ``docs/devices.md``, installed as a package beside this one and run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs/devices.md"


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_example_of_another_kind_works(tmp_path: Path) -> None:
    """By a real entry point: a distribution's metadata on the path."""
    (tmp_path / "tinychip_pytest.py").write_text(block("python"))
    entry = re.search(r'^\[project\.entry-points\."(.+)"\]\n(.+) = "(.+)"$', block("toml"), flags=re.MULTILINE)
    assert entry is not None
    metadata = tmp_path / "tinychip_pytest-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tinychip-pytest\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{entry[1]}]\n{entry[2]} = {entry[3]}\n")
    (tmp_path / "run").mkdir()
    for index in range(3):
        (tmp_path / "run" / str(index)).write_text(f"{(index + 1) << 30} {index << 20}\n")
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from pytest_paddleapi.devices.model import Device, DeviceKind, DeviceReadingError, paddle_names
from pytest_paddleapi.devices.registry import default_registry
from pytest_paddleapi.devices.selection import DeviceOptions, plan_devices
selection = default_registry().select(environ={{"TINYCHIP_VISIBLE": "2,1"}})
assert selection.kind.name == "tinychip", selection
assert isinstance(selection.kind, DeviceKind) and isinstance(selection.devices[0], Device)
plan = plan_devices(selection.kind, selection.devices, DeviceOptions(gpu_ids="1"), cores=4)
reading = plan.devices[0].read()
print(reading.total >> 30, reading.free >> 20, plan.kind.visible(plan.devices), *paddle_names(plan.kind, plan.devices))
import os; os.unlink({str(tmp_path / "run/1")!r})
try:
    plan.devices[0].read()
except DeviceReadingError as exc:
    print(exc)
"""
    environ = {"TINYCHIP_RUN": str(tmp_path / "run"), "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environ, timeout=120)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "2 1 1 tinychip:0"
    assert second.startswith("cannot read the memory of tinychip-1: ")


def test_every_kind_of_ours_is_in_the_table() -> None:
    from pytest_paddleapi.devices.registry import default_registry

    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (\d+) \| ", DOCUMENT.read_text(), flags=re.MULTILINE))
    kinds = default_registry(list).kinds.values()
    assert rows == {kind.name: str(kind.priority) for kind in kinds}
