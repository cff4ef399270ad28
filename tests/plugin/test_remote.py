"""Workers on other hosts: over ssh, with a real sshd of our own at 127.0.0.1, and over a socket."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import execnet
import pytest

import pytest_paddleapi

from .conftest import BOTH_ERROR, INEXACT, PASS, PASS_2, UNPARSED, Session

Run = Callable[..., Session]
Configs = Callable[..., Path]

ROOT = Path(pytest_paddleapi.__file__).parent.parent
OPTIONS = ("--paddleapi-configs=a.txt", "--accuracy", "--paddleapi-bitwise", "--paddleapi-device=cpu")
#: Of a server that is to listen.
SECONDS = 20


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert server.poll() is None, log.read_text()
        time.sleep(0.05)
    raise AssertionError(f"nothing listens: {log.read_text()}")


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The other host's interpreter, which finds the plugin that is tested."""
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" XDG_RUNTIME_DIR= exec "{sys.executable}" "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[Path]:
    """An sshd with keys and settings of its own; the client's settings that reach it by any name."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if sshd is None or shutil.which("ssh") is None:
        pytest.skip("there is no sshd here (Debian: openssh-server), or no ssh")
    separation = Path("/run/sshd")  # built into sshd; the system's service makes it when it starts
    made = False
    if os.geteuid() == 0 and not separation.is_dir():
        separation.mkdir(mode=0o755)
        made = True
    for name in ("host_key", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    shutil.copy(tmp_path / "key.pub", tmp_path / "authorized")
    port = free_port()
    (tmp_path / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host_key\nAuthorizedKeysFile {tmp_path}/authorized\n"
        f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
    )
    config = tmp_path / "ssh_config"
    config.write_text(
        f"Host *\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {tmp_path}/key\n  IdentitiesOnly yes\n"
        "  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  BatchMode yes\n  LogLevel ERROR\n"
    )
    log = tmp_path / "sshd.log"
    with log.open("wb") as output:
        server = subprocess.Popen([sshd, "-D", "-e", "-f", tmp_path / "sshd_config"], stdout=output, stderr=output)
    try:
        wait_for(port, server, log)
        yield config
    finally:
        server.terminate()
        server.wait(SECONDS)
        if made:
            with suppress(OSError):
                separation.rmdir()


@pytest.fixture
def sockets(tmp_path: Path, python: Path) -> Iterator[list[int]]:
    """Two of execnet's socket servers, each good for one worker."""
    script = Path(execnet.__file__).parent / "script" / "socketserver.py"
    log = tmp_path / "socketserver.log"
    ports, servers = [free_port(), free_port()], []
    with log.open("wb") as output:
        for port in ports:
            command = [python, script, f"127.0.0.1:{port}"]
            servers.append(subprocess.Popen(command, stdout=output, stderr=output, cwd=tmp_path))
    time.sleep(1.0)  # a look at the port would be taken for the one connection
    try:
        yield ports
    finally:
        for server in servers:
            server.kill()
            server.wait()


def check(session: Session) -> None:
    session.result.assert_outcomes(passed=2, failed=1, errors=1, skipped=1)
    assert session.verdicts() == {
        PASS: "pass",
        PASS_2: "pass",
        INEXACT: "paddle_accuracy",
        UNPARSED: "config_parse",
        BOTH_ERROR: "both_error",
    }


@pytest.mark.slow  # two hosts' processes load both frameworks
def test_workers_over_ssh(run: Run, configs: Configs, pytester: pytest.Pytester, ssh: Path, python: Path) -> None:
    configs("a.txt", PASS, PASS_2, INEXACT, UNPARSED, BOTH_ERROR)
    where = f"//ssh_config={ssh}//python={python}//chdir={pytester.path}"
    check(run(*OPTIONS, "--dist=load", f"--tx=ssh=near{where}", f"--tx=2*ssh=far{where}"))


@pytest.mark.slow  # as above
def test_workers_over_sockets_beside_one_here(
    run: Run, configs: Configs, pytester: pytest.Pytester, sockets: list[int]
) -> None:
    configs("a.txt", PASS, PASS_2, INEXACT, UNPARSED, BOTH_ERROR)
    specs = [f"--tx=socket=127.0.0.1:{port}//chdir={pytester.path}" for port in sockets]
    check(run(*OPTIONS, "--dist=load", *specs, "--tx=popen"))


@pytest.mark.slow  # as above
def test_a_killed_controller_leaves_nothing_on_the_other_host(
    configs: Configs, pytester: pytest.Pytester, ssh: Path, python: Path
) -> None:
    large = 'paddle.linalg.svd(Tensor([3000, 3000],"float64"))'
    configs("a.txt", large)
    where = f"ssh=far//ssh_config={ssh}//python={python}//chdir={pytester.path}"
    command = [sys.executable, "-m", "pytest", *OPTIONS, "--dist=load", f"--tx={where}", "--paddleapi-ledger=ledger"]
    with (pytester.path / "log").open("wb") as log:
        controller = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 120
        while not (held := zygotes(pytester.path)) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert held, (pytester.path / "log").read_text()
    finally:
        controller.kill()
        controller.wait()
    deadline = time.monotonic() + 40
    while (held := zygotes(pytester.path)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert held == []


def zygotes(folder: Path) -> list[int]:
    """Processes of the plugin whose current folder is this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            if b"pytest_paddleapi.process" in command and (entry / "cwd").resolve() == folder.resolve():
                found.append(int(entry.name))
    return found
