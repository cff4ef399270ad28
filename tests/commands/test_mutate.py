"""``python -m pytest_paddleapi mutate``, and the variants that it makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_paddleapi.commands import main
from pytest_paddleapi.config import canonical_text, parse_call, print_call
from pytest_paddleapi.mutating import LARGE, variants

MATMUL = 'paddle.matmul(Tensor([2, 30],"float32"), Tensor([30, 4],"float32"))'


def made(kind: str, *texts: str) -> list[str]:
    return [print_call(call) for _, call in variants([parse_call(text) for text in texts], [kind])]


def test_zero_takes_each_symbol_in_turn() -> None:
    assert made("zero", MATMUL) == [
        'paddle.matmul(Tensor([0, 30],"float32"), Tensor([30, 4],"float32"))',
        'paddle.matmul(Tensor([2, 0],"float32"), Tensor([0, 4],"float32"))',
        'paddle.matmul(Tensor([2, 30],"float32"), Tensor([30, 0],"float32"))',
    ]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        # Indices would point at nothing, unless they are gone too.
        (
            'paddle.gather(Tensor([5, 3],"float32"), Tensor([2],"int64"), axis=0)',
            [
                'paddle.gather(Tensor([5, 0],"float32"), Tensor([2],"int64"), axis=0)',
                'paddle.gather(Tensor([5, 3],"float32"), Tensor([0],"int64"), axis=0)',
            ],
        ),
        (
            'paddle.Tensor.__getitem__(Tensor([5, 3, 4],"float32"), tuple(1,Ellipsis,slice(0,2,None)))',
            [
                'paddle.Tensor.__getitem__(Tensor([5, 0, 4],"float32"), tuple(1,Ellipsis,slice(0,2,None)))',
                'paddle.Tensor.__getitem__(Tensor([5, 3, 0],"float32"), tuple(1,Ellipsis,slice(0,2,None)))',
            ],
        ),
        # There is no largest of nothing.
        ('paddle.max(Tensor([5, 3],"float32"), axis=1)', ['paddle.max(Tensor([0, 3],"float32"), axis=1)']),
        # Only the batch of a convolution may be empty.
        (
            'paddle.nn.functional.conv2d(Tensor([8, 3, 9, 9],"float32"), Tensor([4, 3, 2, 2],"float32"))',
            ['paddle.nn.functional.conv2d(Tensor([0, 3, 9, 9],"float32"), Tensor([4, 3, 2, 2],"float32"))'],
        ),
    ],
)
def test_zero_leaves_out_what_is_surely_refused(text: str, left: list[str]) -> None:
    assert made("zero", text) == left


def test_large_has_one_tensor_that_32_bits_do_not_reach_and_the_fewest_elements() -> None:
    (text,) = made("large", MATMUL)
    x, y = parse_call(text).tensors()
    assert x.shape[1] == y.shape[0]
    assert LARGE < max(x.numel, y.numel) < LARGE * 1.01
    assert x.shape[1] % 30 == 0 or x.shape[1] == 30
    assert not made("large", "paddle.zeros(list[2])")


def test_dtype_stays_in_its_family_and_takes_arguments_along() -> None:
    assert made("dtype", 'paddle.cast(Tensor([2],"float32"), dtype="float32")') == [
        f'paddle.cast(Tensor([2],"{name}"), dtype="{name}")' for name in ("float16", "bfloat16", "float64")
    ]
    assert made("dtype", 'paddle.abs(Tensor([2],"complex64"))') == ['paddle.abs(Tensor([2],"complex128"))']
    assert not made("dtype", 'paddle.logical_not(Tensor([2],"bool"))')


def test_a_dtype_is_left_out_that_has_no_room_for_indices() -> None:
    index = 'paddle.gather(Tensor([{size}, 3],"float32"), Tensor([2],"int64"))'
    assert any("int8" in text for text in made("dtype", index.format(size=100)))
    found = made("dtype", index.format(size=1000))
    assert not any("int8" in text for text in found)
    assert any("int16" in text for text in found)
    assert any("int8" in text for text in made("dtype", 'paddle.add(Tensor([1000],"int64"), Tensor([1000],"int64"))'))


def test_variants_are_canonical_and_come_once() -> None:
    texts = ['paddle.abs(Tensor([2],"float32"), )', 'paddle.abs(Tensor([2],"float64"))']
    found = made("dtype", *texts)
    assert found == ['paddle.abs(Tensor([2],"float16"))', 'paddle.abs(Tensor([2],"bfloat16"))']
    assert all(canonical_text(text) == text for text in found)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "a.txt", tmp_path / "out.txt"
    file.write_text(f"# matrices\n{MATMUL}\npaddle.broken(\n")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    out.symlink_to(victim)
    assert main(["mutate", str(file), "--kinds=zero,large", "-o", str(out)]) == 0
    assert out.read_text().splitlines() == [*made("zero", MATMUL), *made("large", MATMUL)]
    assert victim.read_text() == "mine"
    assert capsys.readouterr().err == "1 configs (1 lines are not in the language): 3 zero, 1 large\n"


@pytest.mark.parametrize("wrong", [["no/such/file.txt"], [".", "--kinds=zero,huge"]])
def test_wrong_usage(wrong: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text(MATMUL)
    assert main(["mutate", *wrong]) == 2
