"""Scripts give the plugin's verdict in a process that cannot import the plugin."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pytest_paddleapi.case.repro.bundle import Bundle
from pytest_paddleapi.case.repro.script import ScriptError, write_script
from pytest_paddleapi.process.messages import CaseOptions, CaseResult, Mode

#: Runs scripts in forks of one process, and prints how each ended. What only the plugin needs cannot be imported.
PROGRAM = """
import os, runpy, sys
class Closed:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pytest_paddleapi", "ml_dtypes", "msgspec", "pytest"):
            raise ModuleNotFoundError("closed: " + name)
sys.meta_path.insert(0, Closed())
import numpy, paddle, torch
for script in sys.argv[1:]:
    pid = os.fork()
    if pid == 0:
        out = os.open(script + ".out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(out, 1); os.dup2(out, 2)
        code = 3
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as exc:
            code = exc.code if isinstance(exc.code, int) else 4
        except BaseException:
            import traceback
            traceback.print_exc()
        sys.stdout.flush(); sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""

#: One of each kind: a config, and what the plugin says of it.
KINDS = {
    "rename": ('paddle.linalg.det(Tensor([3, 3],"float64"))', "pass"),
    "made by a function": ('paddle.multiply(Tensor([2, 3],"float32"), Tensor([3],"float32"))', "pass"),
    "own rule": ('paddle.nn.functional.softmax(Tensor([2, 3],"float32"), axis=0)', "pass"),
    "own rule of many helpers": (
        'paddle.nn.functional.conv2d(Tensor([1, 2, 5, 5],"float32"), Tensor([3, 2, 3, 3],"float32"), padding="SAME")',
        "pass",
    ),
    "own comparator": ('paddle.linalg.svd(Tensor([4, 3],"float32"))', "pass"),
    "in place": ('paddle.Tensor.multiply_(Tensor([2, 3],"float32"), Tensor([3],"float32"))', "pass"),
    "method": ('paddle.Tensor.reshape(Tensor([2, 3],"float32"), list[3,2])', "pass"),
    "operator": ('paddle.Tensor.__getitem__(Tensor([3, 4],"float32"), tuple(slice(None,2,None),Ellipsis))', "pass"),
    "list of tensors": ('paddle.concat(list[Tensor([2, 3],"float32"),Tensor([1, 3],"float32")], axis=0)', "pass"),
    "sparse": ('paddle.sparse.sin(Tensor([3, 3],"float32"))', "pass"),
    "random": ("paddle.uniform(list[50,40], min=0.0, max=1.0)", "pass"),
    "dtype argument": ('paddle.cast(Tensor([2, 3],"bfloat16"), Dtype(float32))', "pass"),
    "values that are no numbers": ('paddle.clip(Tensor([2, 3],"float32"), -inf, inf)', "pass"),
    "drawn again": ('paddle.exp(Tensor([100, 100],"float32"))', "pass"),
    "values beside it": ('paddle.sort(Tensor([200, 300],"float64"))', "pass"),
    "missing kernel": ('paddle.abs(Tensor([2],"float16"))', "not_supported"),
    "both refuse": ('paddle.add(Tensor([2],"float32"), Tensor([3],"float32"))', "both_error"),
    "unknown to Paddle": ('paddle.Tensor.mul_(Tensor([2],"float32"), Tensor([2],"float32"))', None),
    "differs": ('paddle.linalg.eigh(Tensor([2, 5, 5],"float32"))', "paddle_accuracy"),
    "raises": ('paddle.linalg.svdvals(Tensor([1, 12, 10],"float32"))', "paddle_error"),
    "dies": ('paddle.linalg.qr(Tensor([0, 5, 3, 5],"complex128"), mode="complete")', "paddle_crash"),
}


def test_every_kind_has_the_plugins_verdict(run_case: Callable[..., CaseResult], tmp_path: Path) -> None:
    scripts = {name: tmp_path / f"{name.replace(' ', '_')}.py" for name in KINDS}
    for name, (config, _) in KINDS.items():
        archive = scripts[name].with_suffix(".npz")
        script = write_script(config, CaseOptions(threads=1), archive.name)
        assert "/" not in script.text.split('"""', 1)[0].removeprefix("#!/usr/bin/env")
        scripts[name].write_text(script.text)
        if script.arrays:
            np.savez(archive, **script.arrays)
    assert scripts["values beside it"].with_suffix(".npz").exists()
    assert "drawn('float32', [100, 100]" in scripts["drawn again"].read_text()
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, *map(str, scripts.values())], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    wrong = []
    for (name, (config, expected)), code in zip(KINDS.items(), map(int, done.stdout.split())):
        out = Path(f"{scripts[name]}.out").read_text()
        result = run_case(config)
        verdict = result.verdict.value
        assert expected is None or verdict == expected, (config, result.text)
        if verdict == "paddle_crash":
            # The stage is printed, and the process ends by the signal.
            fits = code < 0 and out.rstrip().endswith("stage: paddle")
        else:
            fits = code == (verdict != "pass") and out.rstrip().endswith(f"verdict: {verdict}")
        if verdict == "paddle_accuracy":
            # To the last digit: the inputs and output gradients are the same bits.
            fits = fits and all(line in out for line in result.text.splitlines())
        if not fits:
            wrong.append(f"{name}: {verdict}, the script ended with {code}:\n{out}")
    assert not wrong, "\n".join(wrong)


def test_paddle_alone(tmp_path: Path) -> None:
    script = write_script('paddle.abs(Tensor([2],"float32"))', CaseOptions(mode=Mode.PADDLE_ONLY), "x.npz")
    path = tmp_path / "alone.py"
    path.write_text(script.text)
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, str(path)], capture_output=True, text=True, timeout=120, check=True
    )
    assert (done.stdout, Path(f"{path}.out").read_text().rstrip().rsplit("\n", 1)[-1]) == ("0\n", "verdict: pass")


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ('paddle.no_such_function(Tensor([2],"float32"))', "nothing to be compared with"),
        ('paddle.gather(Tensor([0, 3],"float32"), Tensor([2],"int64"))', "inputs cannot be made"),
    ],
)
def test_what_has_no_script(config: str, why: str) -> None:
    with pytest.raises(ScriptError, match=why):
        write_script(config, CaseOptions(), "x.npz")


def test_names_that_two_modules_have_are_told_apart() -> None:
    bundle = Bundle()
    home = "pytest_paddleapi.case.reference"
    names = {
        bundle.need(f"{home}.shape_views", "reshape"),
        bundle.need(f"{home}.registry", "_literal"),
        bundle.need(f"{home}.statistics", "median"),
    }
    text = "\n".join(bundle.definitions)
    assert len(names) == 3
    assert all(f"def {name}(" in text for name in names)
    compile(text, "script", "exec")
