"""``--custom-device-vs-gpu`` in the case process: what is stored is what is compared, and damage is nobody's kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_paddleapi.golden.record import Header, Node, decode, encode
from pytest_paddleapi.process.messages import CaseResult, GoldenOptions, Mode, Verdict

RunCase = Callable[..., CaseResult]

#: Configs with how many outputs and gradients are compared.
CONFIGS = {
    'paddle.abs(Tensor([2, 3],"float32"))': (1, 1),
    'paddle.split(Tensor([6, 4],"bfloat16"), 3)': (3, 1),
    'paddle.topk(Tensor([5, 8],"float64"), k=3)': (2, 1),
    'paddle.Tensor.add_(Tensor([2, 3],"float32"), Tensor([3],"float32"))': (2, 2),
    'paddle.multiply(Tensor([2],"complex64"), Tensor([2],"complex64"))': (1, 2),
    'paddle.Tensor.cast(Tensor([4],"float32"), "float8_e4m3fn")': (1, 1),
    'paddle.Tensor.cast(Tensor([4],"float32"), "bool")': (1, 1),
    'paddle.is_tensor(Tensor([2],"float32"))': (1, 0),
    'paddle.shape(Tensor([0, 4],"int32"))': (1, 0),
    'paddle.nn.functional.dropout(Tensor([64, 64],"float32"), p=0.5)': (1, 1),
}
ABS = next(iter(CONFIGS))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A store, and a place that nothing is at."""
    folder = tmp_path_factory.mktemp("golden")
    return folder / "store", folder / "empty"


@pytest.fixture
def run(run_case: RunCase, folders: tuple[Path, Path]) -> RunCase:
    """``run(config, upload, overwrite=..., store=...)``; the process is started anew only where the options change."""

    def run(config: str, upload: bool, *, overwrite: bool = False, store: Path = folders[0], **more: Any) -> CaseResult:
        golden = GoldenOptions(str(store), upload, str(store), overwrite)
        return run_case(config, mode=Mode.CUSTOM_DEVICE_VS_GPU, golden=golden, **more)

    return run


def edit(store: Path, change: Callable[[Header, bytearray], Header]) -> None:
    """Change every stored object, with right hashes; the payload too, in place."""
    for path in store.rglob("*.golden"):
        name = path.relative_to(store).as_posix()
        record = decode(memoryview(bytearray(path.read_bytes())), name)
        payload = bytearray(record.payload)
        header = change(record.header, payload)
        values = [memoryview(payload)[node.offset : node.offset + node.size] for node in record.header.tensors()]
        path.write_bytes(b"".join(encode(header, values)))


def test_upload_then_download(run: RunCase, folders: tuple[Path, Path]) -> None:
    stored = {config: run(config, True) for config in CONFIGS}
    for config, result in stored.items():
        assert result.verdict is Verdict.PASS, (config, result.text)
        more = result.measured.more
        assert more["golden"] == "uploaded"
        assert (more["golden_outputs"], more["golden_gradients"]) == CONFIGS[config], config
        assert result.measured.compared_outputs is None, "an upload compares nothing"
    assert len(list(folders[0].rglob("*.golden"))) == len(CONFIGS)
    # Again: they are there, and whole; a damaged one is made anew.
    damaged = next(folders[0].rglob("*.golden"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    again = [run(config, True).measured.more["golden"] for config in CONFIGS]
    assert sorted(map(str, again)) == ["kept"] * (len(CONFIGS) - 1) + ["uploaded"]
    for config, (_, gradients) in CONFIGS.items():
        result = run(config, False)
        assert result.verdict is Verdict.PASS, (config, result.text)
        assert result.measured.more["golden"] == "compared"
        assert result.measured.compared_outputs, config
        assert (result.measured.compared_gradients or 0) == gradients, config
        assert any(note.startswith("golden result by pytest-paddleapi") for note in result.measured.notes)
    assert run(ABS, True, overwrite=True).measured.more["golden"] == "uploaded"


def test_what_is_not_stored(run: RunCase, folders: tuple[Path, Path]) -> None:
    empty = folders[1]
    result = run(ABS, False, store=empty)
    assert result.verdict is Verdict.NOT_COMPARABLE
    assert "no golden result is stored" in result.text and "--paddleapi-golden-mode=upload" in result.text
    assert result.measured.more == {"golden": "missing"}
    refused = run('paddle.abs(Tensor([2],"float16"))', True, store=empty)
    assert refused.verdict is Verdict.NOT_SUPPORTED
    wrong = run('paddle.add(Tensor([2],"float32"), Tensor([3],"float32"))', True, store=empty)
    assert wrong.verdict is Verdict.PADDLE_ERROR
    closed = run('paddle.load("x")', True, store=empty)
    assert closed.verdict is Verdict.NOT_COMPARABLE and "is not called" in closed.text
    assert not empty.exists()


def _shift(header: Header, payload: bytearray) -> Header:
    """The sign of the first value of the gradient."""
    payload[header.gradients.items[1].offset + 3] ^= 0x80
    return header


def _hostile(**changes: Any) -> Callable[[Header, bytearray], Header]:
    return lambda header, payload: msgspec.structs.replace(header, **changes)


@pytest.mark.parametrize(
    ("change", "verdict", "says"),
    [
        (_shift, Verdict.PADDLE_ACCURACY, "gradient of x: 1 of 6 elements differ"),
        (_hostile(inputs_digest="other"), Verdict.CONFIG_INPUT, "the inputs that are made of this config here are not"),
        (_hostile(fed_digest="other"), Verdict.CONFIG_INPUT, "the output gradients that are made"),
        (
            _hostile(fed=(Node("tensor", dtype="float32", shape=(1 << 40,)),)),
            Verdict.CONFIG_INPUT,
            "output gradients of other forms than its outputs",
        ),
        (_hostile(changed=Node("int", "1")), Verdict.CONFIG_INPUT, "its gradients are none"),
        (_hostile(changed=Node("int", "1e9")), Verdict.CONFIG_INPUT, "a int that is none"),
        (_hostile(changed=Node("dtype", "__file__")), Verdict.CONFIG_INPUT, "a dtype that is none"),
        (
            _hostile(changed=Node("tensor", dtype="int8", shape=(0, 1 << 62, 1 << 62), offset=64)),
            Verdict.CONFIG_INPUT,
            "a tensor that is none",
        ),
    ],
)
def test_what_was_altered(run: RunCase, folders: tuple[Path, Path], change: Any, verdict: Verdict, says: str) -> None:
    store = folders[0].with_name("altered")
    for path in store.rglob("*.golden"):
        path.unlink()
    name = next(iter(_abs_names(folders[0])))
    (store / name).parent.mkdir(parents=True, exist_ok=True)
    (store / name).write_bytes((folders[0] / name).read_bytes())
    edit(store, change)
    result = run(ABS, False, store=store)
    assert (result.verdict, says in result.text) == (verdict, True), result.text
    if verdict is Verdict.CONFIG_INPUT:
        assert "--paddleapi-golden-overwrite" in result.text


def _abs_names(store: Path) -> list[str]:
    found = []
    for path in store.rglob("*.golden"):
        name = path.relative_to(store).as_posix()
        if decode(memoryview(path.read_bytes()), name).header.config.startswith("paddle.abs"):
            found.append(name)
    return found


def test_a_damaged_object_and_a_store_that_fails(run: RunCase, folders: tuple[Path, Path]) -> None:
    store = folders[0].with_name("broken")
    name = _abs_names(folders[0])[0]
    path = store / name
    path.parent.mkdir(parents=True)
    path.write_bytes((folders[0] / name).read_bytes()[:100])
    result = run(ABS, False, store=store)
    assert result.verdict is Verdict.CONFIG_INPUT
    assert result.text.startswith("the golden result cannot be used: v1/") and "cut off or damaged" in result.text
    path.unlink()
    path.mkdir()
    result = run(ABS, False, store=store)
    assert result.verdict is Verdict.CONFIG_INPUT
    assert "is no file" in result.text and "--paddleapi-retest=config_input" in result.text


def test_without_gradients_there_is_another_object(run: RunCase, folders: tuple[Path, Path]) -> None:
    assert run(ABS, False, test_backward=False).verdict is Verdict.NOT_COMPARABLE
