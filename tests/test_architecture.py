"""The arrows of ARCHITECTURE.md: who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_paddleapi

PACKAGE = Path(pytest_paddleapi.__file__).parent
FRAMEWORKS = {"paddle", "torch", "numpy", "ml_dtypes"}
#: Room of a module -> rooms that it may import, beside itself.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "config": {"errors"},
    "results": {"errors", "config"},
    "reports": {"errors", "results"},
    "devices": {"errors"},
    "process": {"errors", "config", "devices", "results"},
    "admission": {"errors", "devices"},
    "gpu_admission": {"admission", "devices", "errors"},
    "scheduling": {"gpu_admission", "process", "devices", "results", "config", "errors"},
    "golden": {"process", "errors"},
    "case": {"config", "process", "golden", "errors"},
    "shrinking": {"process", "results", "config", "errors"},
}
#: pytest's side: may import every room but ``case``.
TOP = {
    "plugin",
    "startup",
    "session",
    "items",
    "options",
    "reporting",
    "keeping",
    "html_report",
    "sharding",
    "hosts",
    "host_lease",
    "progress",
    "tally",
    "known",
    "goldens",
    "fleet",
    "estimates",
    "interrupts",
    "stalls",
    "numbers",
    "performance",
    "outcomes",
    "item_runner",
    "case_slot",
    "display",
    "dumping",
    "mutating",
    "shrink_failures",
    "tolerances",
    "junit",
    "__init__",
    "__main__",
    "commands",
}
#: What ``case/`` may use of ``process/``.
CASE_FROM_PROCESS = {"messages", "fatal", "wire"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


def imports(path: Path) -> Iterator[str]:
    """Absolute names of everything that a module imports, also inside functions."""
    package = ["pytest_paddleapi", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = [*base, *(node.module or "").split(".")] if node.module else base
            yield from (".".join([*module, alias.name]) for alias in node.names)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    room = room_of(path)
    for name in imports(path):
        top, *rest = name.split(".")
        if top != "pytest_paddleapi":
            if room != "case":
                assert top not in FRAMEWORKS, f"{name} is imported outside case/"
            continue
        if not rest or rest[0] == "__version__":
            continue
        target = rest[0]
        if room in TOP:
            assert target != "case", f"{name}: only the case process imports case/"
            continue
        assert target == room or target in ALLOWED[room], f"{room} must not import {name}"
        if room == "case" and target == "process":
            assert rest[1] in CASE_FROM_PROCESS, f"case must not import {name}"


def test_every_room_is_known() -> None:
    rooms = {room_of(path) for path in modules()}
    assert rooms - TOP == set(ALLOWED)


def test_the_plugin_module_imports_nothing_heavy() -> None:
    code = "import sys, pytest_paddleapi.plugin; print(*[m for m in sys.modules if m in %r])" % sorted(
        FRAMEWORKS | {"psutil", "msgspec", "pynvml", "filelock"}
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_whole_worker_side_imports_no_framework() -> None:
    code = (
        "import sys, pytest_paddleapi.startup, pytest_paddleapi.process.supervisor, pytest_paddleapi.gpu_admission;"
        f"print(*[m for m in sys.modules if m in {sorted(FRAMEWORKS)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
