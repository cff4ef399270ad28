"""Sessions of pytest with real config files, as a user types them."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

#: Passes, and its reference and gradient are trivial.
PASS = 'paddle.abs(Tensor([2, 3],"float32"))'
PASS_2 = 'paddle.exp(Tensor([4],"float32"))'
#: Real on every CPU build of Paddle: no float16 kernel.
UNSUPPORTED = 'paddle.abs(Tensor([2],"float16"))'
#: Both frameworks refuse shapes that do not broadcast.
BOTH_ERROR = 'paddle.add(Tensor([2],"float32"), Tensor([3],"float32"))'
#: The tolerance zero makes a true difference of the last bit fail.
INEXACT = 'paddle.logsumexp(Tensor([64, 64],"float32"))'
UNPARSED = "paddle.abs(Tensor([2,"
UNKNOWN = 'paddle.no_such_function(Tensor([2],"float32"))'


@dataclass
class Session:
    """What one run of pytest left."""

    result: pytest.RunResult
    xml: Path

    @property
    def out(self) -> str:
        return self.result.stdout.str()

    @property
    def testcases(self) -> list[ElementTree.Element]:
        return list(ElementTree.parse(self.xml).iter("testcase"))

    def properties(self) -> list[dict[str, str]]:
        """The properties of each testcase, in the file's order."""
        return [{p.get("name", ""): p.get("value", "") for p in case.iter("property")} for case in self.testcases]

    def verdicts(self) -> dict[str, str]:
        """Verdict by config as written."""
        return {p["config"]: p["verdict"] for p in self.properties() if "config" in p}


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Session]:
    """Run pytest in a subprocess with a ledger of its own; arguments as on the command line."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeini("[pytest]\n")

    def start(*args: str, timeout: float = 240) -> Session:
        xml = pytester.path / "report.xml"
        xml.unlink(missing_ok=True)
        ledger = pytester.path / "ledger"
        result = pytester.runpytest_subprocess(
            *args,
            f"--junitxml={xml}",
            "-p",
            "no:rerunfailures",
            "-p",
            "no:hypothesispytest",
            *([] if any(arg.startswith("--paddleapi-ledger") for arg in args) else [f"--paddleapi-ledger={ledger}"]),
            timeout=timeout,
        )
        return Session(result, xml)

    return start


@pytest.fixture
def configs(pytester: pytest.Pytester) -> Callable[..., Path]:
    """Write a config file: ``configs("a.txt", line, line, ...)``."""

    def write(name: str, *lines: str) -> Path:
        path = pytester.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
        return path

    return write


@pytest.fixture(params=["-n0", "-n2"])
def workers(request: pytest.FixtureRequest) -> str:
    """Without and with xdist."""
    return str(request.param)
