"""Results of the CPU, compared with those of a device: two machines that share a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CONFIGS = [
    'paddle.matmul(Tensor([8, 16],"float32"), Tensor([16, 4],"float32"))',
    'paddle.split(Tensor([6, 4],"bfloat16"), 3)',
    'paddle.nn.functional.softmax(Tensor([4, 5],"float64"))',
]
MODE = "--custom-device-vs-gpu"


def test_upload_from_the_cpu_and_download_on_a_device(make_farm: Any, start: Any, tmp_path: Path) -> None:
    farm = make_farm(devices=1)
    store = f"--paddleapi-golden={tmp_path / 'store'}"
    upload = start(farm, CONFIGS, store, "--paddleapi-golden-mode=upload", "--paddleapi-device=cpu", "-n0", mode=MODE)
    first = upload.wait()
    assert first.code == 0 and first.devices() == {"cpu"}, first.output
    second = start(farm, CONFIGS, store, "--paddleapi-golden-mode=download", "-n0", mode=MODE).wait()
    assert second.code == 0, second.output
    assert second.devices() == {farm.uuid(0)}
    assert set(second.verdicts().values()) == {"pass"}
    assert [found["golden"] for found in second.properties] == ["compared"] * len(CONFIGS)
    assert all(int(found["compared_gradients"]) > 0 for found in second.properties)
