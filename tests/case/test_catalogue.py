"""The list of APIs is made from Paddle's names and the registries."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_paddleapi.case import catalogue
from pytest_paddleapi.case.catalogue import (
    KINDS,
    MEANINGLESS,
    MISSING,
    NAMESPACES,
    PADDLE_ONLY,
    RENAME,
    RULE,
    Entry,
    describe,
    public_names,
)


@pytest.mark.parametrize(
    ("api", "kind"),
    [
        ("paddle.linalg.det", RENAME),
        ("paddle.linalg.svd", RULE),
        ("paddle.Tensor.inverse", RENAME),
        ("paddle.Tensor.addmm_", RULE),
        ("paddle.geometric.sample_neighbors", PADDLE_ONLY),
        ("paddle.autograd.backward", MEANINGLESS),
        ("paddle.nobody_wrote_this", MISSING),
    ],
)
def test_kind(api: str, kind: str) -> None:
    assert describe(api).kind == kind


def test_an_entry_says_what_is_made_and_compared() -> None:
    entry = describe("paddle.sparse.coalesce")
    assert entry.inputs == ("x",)
    assert "repeated" in entry.adapter
    assert "orthonormal" in describe("paddle.Tensor.qr").comparison
    assert "gradient" in describe("paddle.autograd.backward").why


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_namespace_has_names(namespace: str) -> None:
    assert public_names(namespace)


def test_names_are_functions_methods_and_operators() -> None:
    names = public_names("paddle.Tensor")
    assert {"matmul", "__add__", "__radd__", "add_"} <= set(names)
    assert not {"__init__", "__class__", "__delattr__", "_md5sum"} & set(names)
    assert "sin" in public_names("paddle")
    assert not {"Tensor", "nn", "Model"} & set(public_names("paddle"))
    # Public in its module, though it is not exported.
    assert "frame" in public_names("paddle.signal")


def test_all_of_the_linear_algebra_has_a_rule() -> None:
    spaces = ["linalg", "fft", "signal", "sparse", "sparse.nn.functional", "geometric", "autograd"]
    found = [describe(f"paddle.{space}.{name}") for space in spaces for name in public_names(f"paddle.{space}")]
    assert [entry.api for entry in found if entry.kind == MISSING] == []


def test_the_table_escapes_bars_and_gives_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [Entry("paddle.x", MEANINGLESS, "a | b", (), "", ""), Entry("paddle.y", RULE, "", ("x",), "x is COO", "c")]
    monkeypatch.setattr(catalogue, "entries", lambda: {"paddle": listed})
    monkeypatch.setattr(catalogue, "unknown_to_paddle", lambda: ["paddle.z"])
    text = catalogue.markdown()
    assert "| `x` | no meaning in Torch: a \\| b |  |  |" in text
    assert "| `y` | rule | `x`; x is COO | c |" in text
    assert "| `paddle` | 0 | 1 | 0 | 1 | 0 | 2 |" in text
    assert "`paddle.z`" in text
    assert all(kind in text for kind in KINDS)


def test_the_command_prints_nothing_but_the_document() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest_paddleapi.case.catalogue"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.startswith("# APIs\n")
    lines = [line for line in done.stdout.splitlines() if line.startswith("| `")]
    assert len(lines) > 1000
    assert "| `svd` | rule | `x` | singular values" in done.stdout
