"""Every dtype survives in a dump that NumPy alone can read."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

from pytest_paddleapi.case.dump import Dump
from pytest_paddleapi.case.results import SideResult
from pytest_paddleapi.config import ITEMSIZE, parse_call
from pytest_paddleapi.process.messages import CaseOptions

CALL = parse_call('paddle.abs(Tensor([2, 3],"float32"))')


@pytest.mark.parametrize("name", ITEMSIZE)
def test_every_dtype_survives(name: str, tmp_path: Path) -> None:
    real = getattr(ml_dtypes, name, None) or np.dtype(name)
    values = np.arange(6).reshape(2, 3).astype(real)
    tensor = torch.arange(6).reshape(2, 3).to(getattr(torch, name))
    with Dump(str(tmp_path), CALL, CaseOptions()) as dump:
        dump.inputs({"x": values, "axis": float("nan")})
        dump.reference(SideResult((tensor.t(), 7)))
    index = json.loads((tmp_path / "index.json").read_text())
    for entry, expected in zip(index["arrays"], (values, values.T)):
        stored = np.load(tmp_path / entry["file"], allow_pickle=False)
        assert entry["dtype"] == name
        np.testing.assert_array_equal(stored.view(real), expected)
    assert [(entry["name"], entry["value"]) for entry in index["values"]] == [("axis", "nan"), ("[1]", "7")]
    assert not dump.trouble


def test_a_folder_that_goes_away_is_no_fault_of_the_case(tmp_path: Path) -> None:
    with Dump(str(tmp_path / "gone"), CALL, CaseOptions()) as dump:
        dump.inputs({"x": np.zeros(2)})
    assert "No such file" in dump.trouble
