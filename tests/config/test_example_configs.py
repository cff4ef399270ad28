"""The example configs that come with the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_paddleapi.config import parse_call
from pytest_paddleapi.config.files import find_files
from pytest_paddleapi.config.manifest import Manifest, build_manifest
from pytest_paddleapi.config.sizes import estimate_host_bytes

ROOT = Path(__file__).parents[2]
FILES = find_files(["example_configs"], ROOT)


@pytest.fixture(scope="module")
def examples() -> Manifest:
    return build_manifest(FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_example_file_says_at_its_head_what_it_shows(path: Path) -> None:
    first, second, *_ = path.read_text("utf-8").splitlines()
    assert first.startswith("# ")
    assert second.startswith("paddle.")


def test_every_example_is_a_valid_config_that_stands_once(examples: Manifest) -> None:
    assert [case.error for case in examples.cases if case.error is not None] == []
    assert examples.skipped == 0
    assert examples.duplicates == 0
    assert 300 <= len(examples.cases) <= 400
    assert len({case.api for case in examples.cases}) >= 40


def test_examples_are_small_enough_to_run_anywhere(examples: Manifest) -> None:
    assert max(estimate_host_bytes(parse_call(case.text)) for case in examples.cases) < 4 * 2**20


def test_examples_show_the_forms_of_the_language(examples: Manifest) -> None:
    everything = "\n".join(case.text for case in examples.cases)
    forms = ["list[", "tuple(", "slice(", "Ellipsis", "Dtype(", "VarType(", "type(numpy.", "complex(", "math.inf"]
    forms += ["Tensor([],", "Tensor([0", "None", '"bfloat16"', '"complex64"', '"bool"', '"int64"', '"float64"']
    assert [form for form in forms if form not in everything] == []
