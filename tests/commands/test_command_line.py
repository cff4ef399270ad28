"""The entry, whatever the command."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from pytest_paddleapi import __version__
from pytest_paddleapi.commands import COMMANDS, main

from .conftest import run


def test_every_command_of_the_table_is_there() -> None:
    for name in COMMANDS:
        module = importlib.import_module(f"pytest_paddleapi.commands.{name}")
        assert callable(module.add_arguments)
        assert callable(module.run)


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert all(name in told for name in COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"pytest-paddleapi {__version__}\n"


@pytest.mark.parametrize("arguments", [(), ("lodger",), ("--no-such-option",), ("ledger", "--no-such-option")])
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: python -m pytest_paddleapi")


def test_an_unknown_command_is_answered_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["lodger"])
    assert "'ledger'" in capsys.readouterr().err


def test_a_command_is_imported_only_when_it_is_asked_for() -> None:
    code = (
        "import sys; from pytest_paddleapi.commands import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print([m for m in sys.modules if m.startswith('pytest_paddleapi.commands.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
