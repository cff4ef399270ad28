"""``--paddleapi-sanitizer``: its options, and where the sanitizer is found."""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from ..process.sanitizer import DEFAULT_EXIT_CODE, Sanitizer

__all__ = ["add_sanitizer_options", "check_sanitizer_device", "read_sanitizer", "sanitizer_words"]

_PROGRAM = "compute-sanitizer"
#: NVIDIA's packages of it, for the versions of CUDA.
_WHEELS = ("nvidia-cuda-sanitizer-api", "nvidia-cuda-sanitizer-api-cu12", "nvidia-cuda-sanitizer-api-cu11")
#: Where the CUDA toolkit is, by its own installer and by CMake.
_HOMES = ("CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT")
#: Where the toolkit's installer puts a link to it.
_USUAL_HOME = Path("/usr/local/cuda")
#: With these, the reports would go where nobody reads them.
_HIDING = ("--log-file", "--prefix", "--read")
_HIGHEST_EXIT_CODE = 255
_INSTALL = (
    "install it with the CUDA toolkit, or with 'pip install nvidia-cuda-sanitizer-api', or name it with "
    "--paddleapi-sanitizer-command"
)


def add_sanitizer_options(group: pytest.OptionGroup) -> None:
    """Register them."""
    group.addoption(
        "--paddleapi-sanitizer",
        action="store_true",
        help="Run the case processes under NVIDIA's compute-sanitizer; what it finds fails the case.",
    )
    group.addoption(
        "--paddleapi-sanitizer-command",
        default=None,
        metavar="COMMAND",
        help="The sanitizer and options for it, such as 'compute-sanitizer --tool racecheck' (default: "
        "compute-sanitizer, wherever it is found).",
    )
    group.addoption(
        "--paddleapi-sanitizer-exitcode",
        type=int,
        default=None,
        metavar="N",
        help=f"What the sanitizer is asked to exit with where it found anything (default: {DEFAULT_EXIT_CODE}).",
    )


def read_sanitizer(option: Any) -> Sanitizer | None:
    """The sanitizer that the command line asks for; None where it asks for none.

    Raises:
        pytest.UsageError: it cannot be run, or its options would hide what it finds.
    """
    command, code = option.paddleapi_sanitizer_command, option.paddleapi_sanitizer_exitcode
    if not option.paddleapi_sanitizer:
        given = [("command", command), ("exitcode", code)]
        for name in [name for name, value in given if value is not None]:
            raise pytest.UsageError(
                f"--paddleapi-sanitizer-{name} says how the sanitizer runs: give --paddleapi-sanitizer too"
            )
        return None
    if code is not None and not 1 <= code <= _HIGHEST_EXIT_CODE:
        raise pytest.UsageError(
            f"--paddleapi-sanitizer-exitcode={code} is out of range: it must be at least 1 and at most "
            f"{_HIGHEST_EXIT_CODE}"
        )
    return Sanitizer(_command(command), DEFAULT_EXIT_CODE if code is None else code)


def check_sanitizer_device(option: Any, kind: str) -> None:
    """See that the sanitizer has something to look at on devices of this ``kind``.

    Raises:
        pytest.UsageError: ``compute-sanitizer`` sees what runs on NVIDIA GPUs alone.
    """
    if option.paddleapi_sanitizer and option.paddleapi_sanitizer_command is None and kind == "cpu":
        raise pytest.UsageError(
            f"--paddleapi-sanitizer: {_PROGRAM} looks at GPUs, and cases would run on the CPU; leave it out, choose "
            "another device, or name a program that takes its options with --paddleapi-sanitizer-command"
        )


def sanitizer_words(option: Any) -> list[str]:
    """The options as they were given, to be typed again."""
    words = ["--paddleapi-sanitizer"] if option.paddleapi_sanitizer else []
    for name in ("command", "exitcode"):
        value = getattr(option, f"paddleapi_sanitizer_{name}")
        if value is not None:
            words.append(f"--paddleapi-sanitizer-{name}={value}")
    return words


def _command(text: str | None) -> tuple[str, ...]:
    """The program, with its path, and its options."""
    flag = "--paddleapi-sanitizer-command"
    if text is None:
        found = _find()
        if found is None:
            raise pytest.UsageError(
                f"--paddleapi-sanitizer: {_PROGRAM} is neither on PATH nor in CUDA_HOME nor in a package that is "
                f"installed here; {_INSTALL}"
            )
        return (found,)
    try:
        words = shlex.split(text)
    except ValueError as exc:
        raise pytest.UsageError(f"{flag}={text} is no command: {exc}") from None
    if not words:
        raise pytest.UsageError(f"{flag} is empty: give a program, and options for it")
    program = shutil.which(words[0]) or (_find() if words[0] == _PROGRAM else None)
    if program is None:
        raise pytest.UsageError(f"{flag}: {words[0]} is no program that can be run; check its path, or {_INSTALL}")
    for word in words[1:]:
        if word.partition("=")[0] in _HIDING:
            raise pytest.UsageError(
                f"{flag}: leave out {word.partition('=')[0]}: what the sanitizer finds is read from its own output"
            )
    # A relative path would be another one in a worker that was started elsewhere.
    return (os.path.abspath(program), *words[1:])


def _find() -> str | None:
    """``compute-sanitizer`` on PATH, in the CUDA toolkit, or in NVIDIA's package of it."""
    found = shutil.which(_PROGRAM)
    if found is not None:
        return found
    homes = [Path(os.environ[name]) for name in _HOMES if os.environ.get(name)]
    for home in (*homes, _USUAL_HOME):
        for folder in ("bin", "compute-sanitizer"):
            found = shutil.which(_PROGRAM, path=str(home / folder))
            if found is not None:
                return found
    return _in_a_wheel()


def _in_a_wheel() -> str | None:
    """The program of an installed package.

    Raises:
        pytest.UsageError: it is there and may not be run, because the installer left out the run bit.
    """
    for wheel in _WHEELS:
        try:
            files = importlib.metadata.files(wheel) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        # Not the script of the same name in bin/, which wants the toolkit's layout around it.
        paths = [Path(str(file.locate())) for file in files if file.parts[-2:] == (_PROGRAM, _PROGRAM)]
        for path in paths:
            if os.access(path, os.X_OK):
                return str(path)
            if path.exists():
                raise pytest.UsageError(
                    f"--paddleapi-sanitizer: {path} may not be run: 'chmod +x {path.parent}/*' lets it"
                )
    return None
