"""One table of dtypes: the config language's names in NumPy, Torch and Paddle."""

from __future__ import annotations

import builtins
from typing import Any

import ml_dtypes
import numpy as np
import paddle
import torch

from ..config import DtypeRef, TypeRef

_NUMPY: dict[str, Any] = {
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
#: NumPy cannot hand these to a framework: they travel as integers of the same size.
CARRIER: dict[str, Any] = {"bfloat16": np.uint16, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8}
LOW_PRECISION = frozenset({torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2})
#: Other spellings that people write where Paddle wants a dtype.
_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int64",
    "long": "int64",
    "bool_": "bool",
}
_OF_PYTHON_TYPE = {"bool": "bool", "int": "int64", "float": "float32", "complex": "complex64"}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a name of the config language."""
    return _NUMPY.get(name) or np.dtype(name)


def torch_dtype(value: Any) -> torch.dtype | None:
    """The Torch dtype for whatever Paddle takes as one: a name, a ``DtypeRef``, a type, None.

    Raises:
        TypeError: it names no dtype that Torch has.
    """
    if value is None or isinstance(value, torch.dtype):
        return value
    name = dtype_name(value)
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"Torch has no dtype {name!r}")
    return found


def dtype_name(value: Any) -> str:
    """The plain name, such as ``float32``, of any way to say a dtype.

    Raises:
        TypeError: ``value`` is none.
    """
    if isinstance(value, DtypeRef):
        return value.name
    if isinstance(value, TypeRef):
        return _OF_PYTHON_TYPE.get(value.name) or _ALIASES.get(value.name[6:], value.name[6:])
    if isinstance(value, str):
        name = value.rpartition(".")[2]
        return _ALIASES.get(name, name)
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, paddle.dtype):
        return str(value).removeprefix("paddle.")
    raise TypeError(f"{value!r} is not a dtype")


_VARTYPES = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "bfloat16": "BF16",
    "float32": "FP32",
    "float64": "FP64",
    "complex64": "COMPLEX64",
    "complex128": "COMPLEX128",
}


def paddle_value(value: Any) -> Any:
    """What a config's dtype or type reference is to Paddle; any other value as it is."""
    if isinstance(value, DtypeRef):
        if value.kind == "VarType":
            return getattr(paddle.base.core.VarDesc.VarType, _VARTYPES.get(value.name, value.name.upper()))
        return getattr(paddle, value.name)
    if isinstance(value, TypeRef):
        module, _, name = value.name.rpartition(".")
        return getattr(np if module else builtins, name)
    return value


def torch_value(value: Any) -> Any:
    """What a config's dtype or type reference is to a reference rule; any other value as it is."""
    return torch_dtype(value) if isinstance(value, (DtypeRef, TypeRef)) else value
