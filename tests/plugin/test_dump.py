"""``--paddleapi-dump``, in real sessions."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import PASS, PASS_2, Session

pytestmark = pytest.mark.any_version

Run = Callable[..., Session]
Configs = Callable[..., Path]

#: Fails: the gradient of a batch is wrong in Paddle.
FAILS = 'paddle.linalg.eigh(Tensor([2, 5, 5],"float32"))'
#: Paddle refuses it and Torch does not.
RAISES = 'paddle.linalg.svdvals(Tensor([1, 12, 10],"float32"))'
#: Dies in Paddle's backward run.
DIES = 'paddle.linalg.qr(Tensor([0, 5, 3, 5],"complex128"), mode="complete")'


def index_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "index.json").read_text())


def read(folder: Path, side: str, role: str, name: str) -> Any:
    """The one array that the index lists so."""
    (entry,) = [e for e in index_of(folder)["arrays"] if (e["side"], e["role"], e["name"]) == (side, role, name)]
    array = np.load(folder / entry["file"], allow_pickle=False)
    assert list(array.shape) == entry["shape"]
    assert array.dtype.name == entry.get("stored_as", entry["dtype"])
    return array


def roles(folder: Path) -> set[tuple[str, str]]:
    return {(entry["side"], entry["role"]) for entry in index_of(folder)["arrays"]}


EVERYTHING = {("input", "argument")} | {
    (side, role) for side in ("torch", "paddle") for role in ("output", "gradient", "output gradient")
}


@pytest.mark.usefixtures("pytester")
def test_a_passing_and_a_failing_case(run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "a-secret-of-the-environment")
    folder = pytester.path / "dump"
    assert run("--accuracy", f"--paddleapi-config={PASS}", "--paddleapi-dump=dump").result.ret == 0
    assert roles(folder) == EVERYTHING
    x = read(folder, "input", "argument", "x")
    np.testing.assert_array_equal(read(folder, "paddle", "output", ""), np.abs(x))
    np.testing.assert_array_equal(
        read(folder, "paddle", "gradient", "x"), read(folder, "paddle", "output gradient", "0") * np.sign(x)
    )
    index = index_of(folder)
    assert (index["verdict"], index["config"]) == ("pass", PASS)
    assert set(index["environment"]["versions"]) >= {"paddle", "torch", "numpy"}
    assert index["options"]["seed"] == 0
    assert not any("a-secret" in path.read_text(errors="replace") for path in folder.iterdir())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}

    # The next case takes the place of the first; a symlink that was put there is not followed.
    target = pytester.path / "target"
    target.write_text("mine")
    (folder / "000-input-argument.npy").unlink()
    (folder / "000-input-argument.npy").symlink_to(target)
    assert run("--accuracy", f"--paddleapi-config={FAILS}", "--paddleapi-dump=dump").result.ret == 1
    assert target.read_text() == "mine"
    assert index_of(folder)["verdict"] == "paddle_accuracy"
    assert "gradient of x" in index_of(folder)["text"]
    named = {entry["file"] for entry in index_of(folder)["arrays"]} | {"index.json"}
    assert named == set(os.listdir(folder))
    ours, theirs = (read(folder, side, "gradient", "x") for side in ("paddle", "torch"))
    assert ours.shape == theirs.shape
    assert not np.allclose(ours, theirs, atol=0.1)


@pytest.mark.slow
def test_what_there_is_when_paddle_raises_or_dies(run: Run, pytester: pytest.Pytester) -> None:
    for config, verdict in ((RAISES, "paddle_error"), (DIES, "paddle_crash")):
        run("--accuracy", f"--paddleapi-config={config}", "--paddleapi-dump=dump")
        folder = pytester.path / "dump"
        assert index_of(folder)["verdict"] == verdict
        # All that is missing is what the backward run would have given.
        assert roles(folder) == EVERYTHING - {("paddle", "gradient")}


def test_only_one_case_and_no_workers(run: Run, configs: Configs, pytester: pytest.Pytester) -> None:
    configs("a.txt", PASS, PASS_2)
    several = run("--accuracy", "--paddleapi-configs=a.txt", "--paddleapi-dump=dump")
    assert several.result.ret == pytest.ExitCode.USAGE_ERROR
    assert "keeps one case, and 2 would run" in several.result.stderr.str() + several.out
    assert not (pytester.path / "dump").exists()
    workers = run("--accuracy", "--paddleapi-configs=a.txt", "--paddleapi-dump=dump", "-n2")
    assert workers.result.ret == pytest.ExitCode.USAGE_ERROR
    assert "leave out -n" in workers.result.stderr.str() + workers.out


def test_folders_that_are_not_written_to(run: Run, pytester: pytest.Pytester) -> None:
    other = pytester.mkdir("other")
    (other / "thesis.doc").write_text("mine")
    (pytester.path / "link").symlink_to(pytester.mkdir("elsewhere"))
    open_to_all = pytester.mkdir("open")
    open_to_all.chmod(0o777)
    for name, why in (("other", "no earlier dump"), ("link", "no symlink"), ("open", "others may write")):
        session = run("--accuracy", f"--paddleapi-config={PASS}", f"--paddleapi-dump={name}")
        assert session.result.ret == pytest.ExitCode.USAGE_ERROR
        assert why in session.result.stderr.str() + session.out
    assert os.listdir(other) == ["thesis.doc"]
