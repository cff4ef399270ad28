"""Stores for tests: a server that speaks S3 on the loopback interface, and a stand-in for ``bcecmd``."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()  # until the test session ends, in whatever way
"""
#: Copies between files and a folder that stands for the service, and says what the real one says of what is missing.
_BCECMD = """#!{python}
import os, shutil, sys
flag, conf, bos, cp, source, target = sys.argv[1:]
assert (flag, bos, cp) == ("--conf-path", "bos", "cp"), sys.argv
root = open(os.path.join(conf, "root")).read()
if os.path.exists(os.path.join(root, "broken")):
    print("Error: the credentials are wrong", file=sys.stderr)
    sys.exit(3)
def local(path):
    return os.path.join(root, path[6:]) if path.startswith("bos://") else path
if not os.path.exists(local(source)):
    print("Error: NoSuchKey: the specified key does not exist")
    sys.exit(1)
os.makedirs(os.path.dirname(local(target)), exist_ok=True)
shutil.copyfile(local(source), local(target))
print("Copied")
"""


@pytest.fixture(scope="session")
def _s3() -> Iterator[str]:
    missing = [
        name for name in ("fsspec", "s3fs", "moto", "flask", "flask_cors") if importlib.util.find_spec(name) is None
    ]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: pip install 'pytest-paddleapi[dev]'")
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.kill()


@pytest.fixture
def s3(_s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The URL of a bucket of this test on a real server; the environment has its endpoint and credentials."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", _s3)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATESTTESTTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-of-the-test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    bucket = "".join(c for c in tmp_path.name.lower() if c.isalnum())[-40:].rjust(8, "b")
    urllib.request.urlopen(urllib.request.Request(f"{_s3}/{bucket}", method="PUT")).close()
    return f"s3://{bucket}/results"


@pytest.fixture
def bos(tmp_path: Path) -> Path:
    """A ``bos_config.yaml``; the folder ``service`` beside it is what the stand-in program stores in."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "service").mkdir()
    (tmp_path / "conf" / "root").write_text(str(tmp_path / "service"))
    program = tmp_path / "bcecmd"
    program.write_text(_BCECMD.format(python=sys.executable))
    program.chmod(0o700)
    path = tmp_path / "bos_config.yaml"
    path.write_text("bos_path: bos://bucket/results\nbos_conf_path: conf\nbcecmd_path: ./bcecmd\n")
    return path
