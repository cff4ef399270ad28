"""``--paddleapi-dump``: keeps what a case works on in files that any tool can read.

Every tensor is one ``.npy`` file; ``index.json`` says what each of them is. NumPy has no bfloat16 and no float8: these
are stored as unsigned integers of the same size, and the index names the real dtype. Files are written as soon as
their content is there, so that a case that dies leaves all that it had.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np
import paddle
import torch

from ..config import Call, DtypeRef, TypeRef, print_call, print_value
from ..process.messages import CaseOptions
from .dtypes import CARRIER
from .record import Record
from .results import SideResult
from .tensors import leaves

__all__ = ["DUMP_FORMAT", "INDEX", "Dump"]

INDEX = "index.json"
DUMP_FORMAT = "pytest-paddleapi dump 1"
#: The variables that decide how a case runs; no other is kept, because any may hold a secret.
_VARIABLES = (
    "FLAGS_use_system_allocator",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
)


class Dump(Record):
    """Writes into ``folder``, which is there and empty, or holds an earlier dump, which is replaced.

    What cannot be written stops the dump and not the case: :attr:`trouble` says why.
    """

    def __init__(self, folder: str, call: Call, options: CaseOptions) -> None:
        #: Why the dump is not complete; empty where it is.
        self.trouble = ""
        self._folder = -1
        self._index: dict[str, Any] = {
            "format": DUMP_FORMAT,
            "config": print_call(call),
            "options": _options(options),
            "environment": _environment(options),
            "arguments": [],
            "arrays": [],
            "values": [],
            "notes": [],
        }
        with self._noticing():
            self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            for name in os.listdir(self._folder):
                if name == INDEX or name.endswith(".npy"):
                    os.unlink(name, dir_fd=self._folder)
            self._write_index()

    def __enter__(self) -> Dump:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._folder >= 0:
            os.close(self._folder)

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            self.trouble = str(exc)

    def inputs(self, values: Mapping[str, Any]) -> None:
        self._index["arguments"] = list(values)
        self._keep("input", "argument", values)

    def reference(self, result: SideResult) -> None:
        self._side("torch", result)
        self._keep("torch", "output gradient", dict(enumerate(result.cotangents)))
        self._keep("torch", "gradient", result.gradients)

    def paddle(self, result: SideResult) -> None:
        self._side("paddle", result)

    def paddle_fed(self, cotangents: Sequence[torch.Tensor | None]) -> None:
        self._keep("paddle", "output gradient", dict(enumerate(cotangents)))

    def paddle_gradients(self, gradients: Mapping[str, torch.Tensor]) -> None:
        self._keep("paddle", "gradient", gradients)

    # ----------------------------------------------------------------------------------------

    def _side(self, side: str, result: SideResult) -> None:
        self._index["notes"] += [f"{side}: {note}" for note in result.notes]
        self._keep(side, "output", {"": result.outputs})
        self._keep(side, "changed argument", result.changed)

    def _keep(self, side: str, role: str, values: Mapping[Any, Any]) -> None:
        """Write everything in ``values``, whose keys begin the names."""
        if self.trouble:
            return
        with self._noticing():
            for key, whole in values.items():
                for path, value in leaves(whole):
                    entry = {"side": side, "role": role, "name": f"{key}{path}"}
                    self._keep_one(entry, value, _array(value))
            self._write_index()

    def _keep_one(self, entry: dict[str, str], value: Any, array: tuple[str, Any] | None) -> None:
        if array is not None:
            self._index["arrays"].append({**entry, **self._write_array(entry["side"], entry["role"], *array)})
        elif value is not None or entry["role"] == "argument":
            self._index["values"].append({**entry, **_plain(value)})

    def _write_array(self, side: str, role: str, dtype: str, array: Any) -> dict[str, Any]:
        name = f"{len(self._index['arrays']):03}-{side}-{role.replace(' ', '-')}.npy"
        with self._new(name) as file:
            np.lib.format.write_array(file, array, allow_pickle=False)
        found = {"file": name, "dtype": dtype, "shape": list(array.shape)}
        return found if array.dtype.name == dtype else {**found, "stored_as": array.dtype.name}

    def _write_index(self) -> None:
        text = json.dumps(self._index, indent=1, allow_nan=False)
        with self._new(f"{INDEX}.new") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
        os.replace(f"{INDEX}.new", INDEX, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def _new(self, name: str) -> BinaryIO:
        """A new file of this user's alone; what has its name, a symlink too, is removed and not followed."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(name, flags, 0o600, dir_fd=self._folder), "wb")


def _array(value: Any) -> tuple[str, Any] | None:
    """The dtype's name and an array that NumPy alone can store; None for what is no tensor."""
    if isinstance(value, torch.Tensor):
        name = str(value.dtype).removeprefix("torch.")
        value = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
        if name in CARRIER:
            signed = torch.int16 if value.itemsize == 2 else torch.int8
            return name, value.view(signed).numpy().view(CARRIER[name])
        return name, value.numpy()
    if isinstance(value, np.ndarray):
        carrier = CARRIER.get(value.dtype.name)
        return value.dtype.name, value if carrier is None else value.view(carrier)
    return None


def _plain(value: Any) -> dict[str, str]:
    """A value in the spelling of the config language where it has one."""
    known = value is None or value is Ellipsis or isinstance(value, (bool, int, float, complex, str, DtypeRef, TypeRef))
    return {"type": type(value).__name__, "value": print_value(value) if known else repr(value)[:1000]}


def _options(options: CaseOptions) -> dict[str, Any]:
    tolerance = options.tolerance
    return {
        "mode": options.mode.value,
        "seed": options.seed,
        "tolerance": tolerance.kind,
        "atol": repr(tolerance.atol),
        "rtol": repr(tolerance.rtol),
        "tolerances_by_api": {name: [repr(a), repr(r)] for name, (a, r) in tolerance.per_api.items()},
        "backward": options.test_backward,
        "cache_inputs": options.cache_inputs,
        "threads": options.threads,
        "device": options.device,
        "torch_device": options.torch_device,
    }


def _environment(options: CaseOptions) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "versions": dict(_versions()),
        "device": str(paddle.device.get_device()),
        "torch_threads": torch.get_num_threads(),
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def _versions() -> Iterator[tuple[str, str]]:
    yield "paddle", str(paddle.__version__)
    yield "paddle_commit", str(getattr(paddle.version, "commit", ""))
    yield "torch", str(torch.__version__)
    yield "numpy", np.__version__
    yield "ml_dtypes", ml_dtypes.__version__
