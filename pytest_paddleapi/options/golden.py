"""The options of ``--custom-device-vs-gpu``: where golden results are, and which machine this is."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from ..golden.redact import redact, scrub
from ..golden.store import path_of, scheme_of
from ..process.messages import CaseOptions, GoldenOptions, Mode
from .modes import MODES

__all__ = ["add_golden_options", "golden_words", "read_golden", "without_secrets", "words_without_secrets"]

_URL, _MODE, _OVERWRITE = "--paddleapi-golden", "--paddleapi-golden-mode", "--paddleapi-golden-overwrite"
_EXTRA = "pip install 'pytest-paddleapi[golden]'"
#: What a session's own memory holds is gone before another machine can read it.
_USELESS = frozenset({"memory"})
_BOS_FIELDS = ("bos_path", "bos_conf_path", "bcecmd_path")


def add_golden_options(parser: pytest.Parser) -> None:
    """Register them."""
    add = parser.getgroup("paddleapi golden", "Paddle API cases: results of another machine").addoption
    add(
        _URL,
        metavar="URL",
        help="Where --custom-device-vs-gpu keeps results: a folder, a URL that fsspec knows (s3://bucket/prefix), or a "
        "bos_config.yaml.",
    )
    add(
        _MODE,
        choices=("upload", "download"),
        help="upload: run here and store the results; download: run here and compare with what is stored.",
    )
    add(_OVERWRITE, action="store_true", help="Upload also what is there already.")


def read_golden(config: pytest.Config, mode: Mode) -> GoldenOptions | None:
    """What they ask for; None in any other mode.

    Raises:
        pytest.UsageError: one is missing, wrong, or given without its mode, or a package or program is not there.
    """
    option = config.option
    url, direction, overwrite = option.paddleapi_golden, option.paddleapi_golden_mode, option.paddleapi_golden_overwrite
    name = MODES[Mode.CUSTOM_DEVICE_VS_GPU].option
    if mode is not Mode.CUSTOM_DEVICE_VS_GPU:
        given = [flag for flag, value in ((_URL, url), (_MODE, direction), (_OVERWRITE, overwrite)) if value]
        if given:
            raise pytest.UsageError(f"{' and '.join(given)}: only {name} takes it, not {MODES[mode].option}")
        return None
    if not url or not url.strip() or not direction:
        raise pytest.UsageError(
            f"{name} needs {_URL}=URL and {_MODE}=upload on the one machine, {_MODE}=download on the other"
        )
    if overwrite and direction == "download":
        raise pytest.UsageError(f"{_OVERWRITE} is for {_MODE}=upload: a download stores nothing")
    upload = direction == "upload"
    if scheme_of(url) == "file":
        path = config.invocation_params.dir / Path(path_of(url)).expanduser()
        if path.suffix in (".yaml", ".yml"):
            return _read_bos(path, upload, overwrite)
        if path.exists() and not path.is_dir():
            raise pytest.UsageError(f"{_URL}={url} is a file: give a folder, a URL, or a bos_config.yaml")
        return GoldenOptions(str(path), upload, str(path), overwrite)
    _check_packages(url)
    return GoldenOptions(url, upload, redact(url), overwrite)


def _check_packages(url: str) -> None:
    scheme, shown = scheme_of(url), redact(url)
    if scheme in _USELESS:
        raise pytest.UsageError(f"{_URL}={shown}: nothing is left of {scheme}:// when this session ends; give a folder")
    needed = ["fsspec", *(["s3fs"] if scheme in ("s3", "s3a") else [])]
    if missing := [package for package in needed if importlib.util.find_spec(package) is None]:
        raise pytest.UsageError(f"{_URL}={shown} needs {' and '.join(missing)}: {_EXTRA}")


def _read_bos(path: Path, upload: bool, overwrite: bool) -> GoldenOptions:
    """A ``bos_config.yaml``, as it is written for Baidu's ``bcecmd``."""
    try:
        found = msgspec.yaml.decode(path.read_bytes())
    except OSError as exc:
        raise pytest.UsageError(f"{_URL}={path} cannot be read: {exc}") from None
    except msgspec.DecodeError as exc:
        raise pytest.UsageError(f"{_URL}={path} is no YAML: {' '.join(str(exc).split())}") from None
    values = [found.get(name) if isinstance(found, dict) else None for name in _BOS_FIELDS]
    if missing := [name for name, value in zip(_BOS_FIELDS, values) if not isinstance(value, str) or not value.strip()]:
        raise pytest.UsageError(f"{_URL}={path} must give {', '.join(_BOS_FIELDS)} as text: {missing[0]} is missing")
    bos_path, conf, program = (str(value).strip() for value in values)
    conf_path = path.parent / Path(conf).expanduser()
    if not conf_path.exists():
        raise pytest.UsageError(f"{_URL}={path}: bos_conf_path {conf_path} does not exist")
    # A bare name is looked for as the shell does.
    bcecmd = str(path.parent / Path(program).expanduser()) if os.sep in program else shutil.which(program)
    if bcecmd is None or not os.access(bcecmd, os.X_OK) or not Path(bcecmd).is_file():
        where = f"{bcecmd} is no program that can be run" if bcecmd else f"{program} is not on PATH"
        raise pytest.UsageError(f"{_URL}={path}: bcecmd_path: {where}; install bcecmd, or give an s3:// URL")
    return GoldenOptions(bos_path, upload, str(path), overwrite, bcecmd, str(conf_path))


def golden_words(golden: GoldenOptions | None) -> list[str]:
    """The options, to be typed again; without secrets."""
    if golden is None:
        return []
    return [f"{_URL}={golden.shown}", f"{_MODE}={'upload' if golden.upload else 'download'}"]


def without_secrets(case: CaseOptions) -> CaseOptions:
    """The same, fit to be kept."""
    if case.golden is None:
        return case
    return msgspec.structs.replace(case, golden=msgspec.structs.replace(case.golden, url=redact(case.golden.url)))


def words_without_secrets(words: str, golden: GoldenOptions | None) -> str:
    """A command line, fit to be shown."""
    return words if golden is None else scrub(words, [golden.url])
