"""The file of ``--paddleapi-tolerances``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from .config.model import ITEMSIZE


class _Tolerance(msgspec.Struct, forbid_unknown_fields=True):
    atol: float
    rtol: float


def _entry(path: Path, name: str, value: Any) -> _Tolerance:
    try:
        # Not strict: YAML 1.1 reads 1e-3 as text.
        return msgspec.convert(value, _Tolerance, strict=False)
    except msgspec.ValidationError as exc:
        raise pytest.UsageError(
            f"--paddleapi-tolerances={path}: {name}: {exc}. Write: {name}: {{atol: 1e-3, rtol: 1e-3}}"
        ) from None


def read_tolerances(path: Path) -> dict[str, tuple[float, float]]:
    """A per-API tolerance file: ``API`` or ``API:dtype`` to ``atol`` and ``rtol``.

    Raises:
        pytest.UsageError: the file cannot be read or is not of this form.
    """
    try:
        data = path.read_bytes()
        if path.suffix == ".toml":
            found = msgspec.toml.decode(data, type=dict[str, Any])
        else:
            found = msgspec.yaml.decode(data, type=dict[str, Any])
    except OSError as exc:
        raise pytest.UsageError(f"--paddleapi-tolerances={path}: {exc.strerror}") from None
    except (msgspec.MsgspecError, ImportError) as exc:
        raise pytest.UsageError(
            f"--paddleapi-tolerances={path}: {exc}. Write lines such as: paddle.exp: {{atol: 1e-3, rtol: 1e-3}}"
        ) from None
    entries = {name: _entry(path, name, value) for name, value in found.items()}
    for name, entry in entries.items():
        if not (name.startswith("paddle.") and entry.atol >= 0 and entry.rtol >= 0):
            raise pytest.UsageError(
                f"--paddleapi-tolerances={path}: {name!r} must be a Paddle API with tolerances of at least 0"
            )
        dtype = name.partition(":")[2]
        if ":" in name and dtype not in ITEMSIZE:
            raise pytest.UsageError(
                f"--paddleapi-tolerances={path}: {name!r}: no dtype {dtype!r}; there are {', '.join(sorted(ITEMSIZE))}"
            )
    return {name: (entry.atol, entry.rtol) for name, entry in entries.items()}
