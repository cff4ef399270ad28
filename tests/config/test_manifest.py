"""What a session runs, and what each case is called."""

from __future__ import annotations

import hashlib
import random
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_paddleapi.config import Call, ConfigFileError, parse_call, print_call
from pytest_paddleapi.config.manifest import (
    COMMAND_LINE,
    MAX_ARGUMENTS,
    MAX_SAMPLES,
    SAMPLE_WIDTH,
    Manifest,
    build_manifest,
)

from .language import CALLS, examples, mutated_lines

ABS = 'paddle.abs(Tensor([2],"float32"), )'


def write(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))
    return path


def from_texts(*texts: str) -> Manifest:
    return build_manifest([], texts)


def names(manifest: Manifest) -> list[str]:
    return [case.name for case in manifest.cases]


def sha(text: str, digits: int = 8) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


# Contents -----------------------------------------------------------------------------------------


def test_a_case_knows_where_it_stands_and_both_its_texts(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "# comment", "", f"  {ABS}")
    (case,) = build_manifest([path]).cases
    assert (case.file, case.line) == (str(path), 3)
    assert case.text == ABS
    assert case.canonical == 'paddle.abs(Tensor([2],"float32"))'
    assert case.api == "paddle.abs"
    assert case.error is None
    assert case.name == 'paddle.abs[Tensor([2],"float32")]'


def test_the_order_of_files_and_lines_is_kept(tmp_path: Path) -> None:
    b = write(tmp_path, "b.txt", "paddle.f(3)", "paddle.f(1)")
    a = write(tmp_path, "a.txt", "paddle.f(2)")
    manifest = build_manifest([b, a], ["paddle.f(0)"])
    assert names(manifest) == ["paddle.f[3]", "paddle.f[1]", "paddle.f[2]", "paddle.f[0]"]
    assert dict(manifest.by_file) == {b: range(2), a: range(2, 3), COMMAND_LINE: range(3, 4)}


def test_a_file_without_cases_is_listed_and_one_named_twice_is_read_once(tmp_path: Path) -> None:
    empty = write(tmp_path, "empty.txt", "# nothing")
    one = write(tmp_path, "one.txt", ABS)
    link = tmp_path / "link.txt"
    link.symlink_to(one)
    manifest = build_manifest([empty, one, link, one])
    assert dict(manifest.by_file) == {empty: range(0), one: range(1)}
    assert manifest.duplicates == 0


def test_a_file_is_known_by_its_resolved_path(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", ABS)
    link = tmp_path / "link.txt"
    link.symlink_to(path)
    assert list(build_manifest([link]).by_file) == [path.resolve()]


def test_a_duplicate_is_one_case_at_its_first_place_in_its_first_spelling(tmp_path: Path) -> None:
    first = write(tmp_path, "a.txt", "paddle.f([1, 2])", "paddle.f(list[1,2,], )")
    second = write(tmp_path, "b.txt", "paddle.f(list[1,2])", "paddle.f(tuple(1,2))")
    manifest = build_manifest([first, second], ["paddle.f([1,2])"])
    assert [(case.file, case.line, case.text) for case in manifest.cases] == [
        (str(first), 1, "paddle.f([1, 2])"),
        (str(second), 2, "paddle.f(tuple(1,2))"),
    ]
    assert manifest.duplicates == 3
    assert manifest.by_file[COMMAND_LINE] == range(2, 2)


def test_the_same_faulty_line_is_one_case_too() -> None:
    manifest = from_texts("paddle.f(x)", " paddle.f(x) ", "paddle.f( x)")
    assert len(manifest.cases) == 2
    assert manifest.duplicates == 1


def test_a_line_that_is_not_in_the_language_is_a_case_with_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "paddle.nn.f(Tensor([2],float32), )")
    (case,) = build_manifest([path]).cases
    assert case.error is not None
    assert "unknown name 'float32'" in case.error
    assert case.canonical == case.text == "paddle.nn.f(Tensor([2],float32), )"
    assert case.api == "paddle.nn.f"
    assert case.name == "paddle.nn.f[Tensor([2],float32), ]"


def test_skipped_lines_are_counted_with_samples(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "total: 3\udc80\x1b", ABS, *(f"junk {i} {'x' * 200}" for i in range(9)))
    manifest = build_manifest([path])
    assert manifest.skipped == 10
    assert len(manifest.skipped_samples) == MAX_SAMPLES
    sample = manifest.skipped_samples[0]
    assert (sample.file, sample.line, sample.text) == (str(path), 1, "total: 3\\udc80\\x1b")
    assert str(sample) == f"{path}:1: total: 3\\udc80\\x1b"
    assert all(len(sample.text) <= SAMPLE_WIDTH for sample in manifest.skipped_samples)


def test_on_the_command_line_everything_is_a_config() -> None:
    manifest = from_texts("torch.abs(1)", "", "# x", "\npaddle.f(\n 1,\n)\n")
    assert manifest.skipped == 0
    assert [case.error is None for case in manifest.cases] == [False, False, False, True]
    assert names(manifest) == ["torch.abs[1]", "config[]", "config[# x]", "paddle.f[1]"]
    assert [case.line for case in manifest.cases] == [1, 2, 3, 4]
    assert manifest.cases[0].file == COMMAND_LINE


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError, match="gone"):
        build_manifest([tmp_path / "gone.txt"])


def test_the_dtypes_of_a_case_are_those_of_its_tensors_once_each() -> None:
    half, whole = 'Tensor([2, 3],"float16")', 'Tensor([],"int64")'
    text = f'paddle.f(list[{half},{whole}], {half}, "Tensor([1],int8)", x="bool")'
    assert from_texts(text).cases[0].dtypes == ("float16", "int64")


@given(CALLS)
@examples(80)
def test_the_dtypes_read_from_the_text_are_those_of_the_call(call: Call) -> None:
    (case,) = from_texts(print_call(call)).cases
    assert case.dtypes == tuple(dict.fromkeys(spec.dtype for spec in call.tensors()))


def test_the_text_can_be_shown_whatever_it_holds() -> None:
    (case,) = from_texts('paddle.f("\udc80\0")').cases
    assert case.printable_text == 'paddle.f("\\udc80\\x00")'


# Names --------------------------------------------------------------------------------------------


def test_arguments_of_two_hundred_characters_are_shown_whole() -> None:
    arguments = '"' + "x" * (MAX_ARGUMENTS - 2) + '"'
    assert names(from_texts(f"paddle.f({arguments})")) == [f"paddle.f[{arguments}]"]


def test_longer_arguments_are_cut_and_end_in_a_hash_of_the_whole() -> None:
    arguments = '"' + "x" * (MAX_ARGUMENTS - 1) + '"'
    (case,) = from_texts(f"paddle.f({arguments}, )").cases
    assert case.name == f"paddle.f[{arguments[:MAX_ARGUMENTS]}#{sha(arguments)}]"


def test_long_arguments_with_one_beginning_have_two_names() -> None:
    manifest = from_texts(*(f"paddle.f({'1, ' * 100}{i})" for i in range(50)))
    assert len(set(names(manifest))) == 50
    assert len({name.partition("#")[0] for name in names(manifest)}) == 1


def test_characters_that_do_not_print_are_escaped_and_the_name_ends_in_a_hash() -> None:
    text = "paddle.f(\x1b[31m\udc80\u202e)"
    (case,) = from_texts(text).cases
    assert case.name == f"paddle.f[\\x1b[31m\\udc80\\u202e#{sha(text.removeprefix('paddle.f'))}]"


def test_escapes_of_a_string_are_canonical_text_and_need_no_hash() -> None:
    assert names(from_texts('paddle.f("a\\nb\u200b")')) == ['paddle.f["a\\x0ab\\u200b"]']


def test_a_line_that_was_cut_off_does_not_take_the_name_of_the_whole_one() -> None:
    for texts in (("paddle.f(1)", "paddle.f(1"), ("paddle.f(1", "paddle.f(1)")):
        manifest = from_texts(*texts)
        by_text = {case.text: case.name for case in manifest.cases}
        assert by_text == {"paddle.f(1)": "paddle.f[1]", "paddle.f(1": f"paddle.f[1#{sha('(1')}]"}


def test_faulty_lines_that_would_share_a_name_both_get_a_hash() -> None:
    manifest = from_texts("paddle.f(x", "paddle.f(x)")
    assert names(manifest) == [f"paddle.f[x#{sha('(x')}]", f"paddle.f[x#{sha('(x)')}]"]


def test_hashes_grow_until_they_differ() -> None:
    # Two texts that agree in the first 8 digits, found by search.
    arguments = [f"{'1, ' * 80}{number}" for number in (10_358, 14_098)]
    assert sha(arguments[0]) == sha(arguments[1])
    manifest = from_texts(*(f"paddle.f({text})" for text in arguments))
    assert names(manifest) == [f"paddle.f[{text[:200]}#{sha(text, 16)}]" for text in arguments]


def test_names_do_not_depend_on_the_order_of_the_lines() -> None:
    texts = [text for text in mutated_lines(5, 400) if text.strip()]
    forward = {case.canonical: case.name for case in from_texts(*texts).cases}
    shuffled = list(texts)
    random.Random(1).shuffle(shuffled)
    assert {case.canonical: case.name for case in from_texts(*shuffled).cases} == forward


def test_a_manifest_is_the_same_every_time(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", *(line.replace("\n", "") for line in mutated_lines(6, 300)))
    first, second = build_manifest([path], ["paddle.f(1)"]), build_manifest([path], ["paddle.f(1)"])
    assert first.cases == second.cases
    assert (first.skipped, first.duplicates, first.skipped_samples) == (
        second.skipped,
        second.duplicates,
        second.skipped_samples,
    )


@pytest.fixture(scope="module")
def junk() -> Manifest:
    """Cases from thousands of valid and faulty lines, control characters and lone surrogates among them."""
    return from_texts(*mutated_lines(7, 3000))


def test_every_name_is_unique(junk: Manifest) -> None:
    assert len(set(names(junk))) == len(junk.cases) > 2000


def test_every_name_can_be_a_node_id_and_stand_in_xml(junk: Manifest) -> None:
    for name in names(junk):
        assert name.isprintable()
        assert re.match(r"[A-Za-z_][\w.]*\[", name)
        assert name.endswith("]")
        assert len(name) < MAX_ARGUMENTS + 66 + 400
        element = ET.Element("testcase", name=name)
        assert ET.fromstring(ET.tostring(element, encoding="utf-8")).get("name") == name


def test_every_case_is_found_by_its_name_and_by_no_other(junk: Manifest) -> None:
    for case in junk.cases:
        assert junk.find(case.name) is case
        assert junk.find(case.name + "x") is None
        assert junk.find(case.canonical) is None
    assert junk.find("") is None
    assert junk.find("paddle.f[") is None


def test_the_name_of_a_long_case_without_its_hash_finds_nothing() -> None:
    text = f"paddle.f({'1, ' * 100}1)"
    assert from_texts(text).find(text.replace("(", "[").replace(")", "]")) is None


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=20), max_size=8))
@examples(100)
def test_any_texts_at_all_give_unique_names_that_are_found(texts: list[str]) -> None:
    manifest = from_texts(*(f"paddle.f({text}" for text in texts), *texts)
    assert len(set(names(manifest))) == len(manifest.cases)
    assert all(manifest.find(case.name) is case for case in manifest.cases)
    assert all(case.name.isprintable() and case.name.encode() for case in manifest.cases)
    assert len(manifest.cases) + manifest.duplicates == 2 * len(texts)


def test_a_case_is_found_again_by_pasting_its_text(junk: Manifest) -> None:
    valid = [case for case in junk.cases if case.error is None]
    again = from_texts(*(case.canonical for case in valid))
    assert names(again) == [case.name for case in valid]
    for case in valid:
        assert parse_call(case.text) is not None
