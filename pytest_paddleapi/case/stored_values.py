"""Results to what a store keeps, and back: the same bits, whatever the dtype."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import paddle
import torch

from ..golden.errors import DamagedGoldenError, NotStorableError
from ..golden.record import Node, Record, aligned
from .dtypes import CARRIER, dtype_name, numpy_dtype
from .tensors import leaves, to_torch

#: Digits of an integer that Python reads from text.
_MOST_DIGITS = 4000


class Packer:
    """Makes nodes of results; :attr:`values` are the bytes of their tensors, in the order of the nodes."""

    def __init__(self) -> None:
        self.values: list[memoryview] = []
        self._offset = 0

    def pack(self, value: Any, what: str) -> Node:
        """The node of a value; ``what`` names it in errors.

        Raises:
            NotStorableError: something in it is neither a tensor nor plain data.
        """
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, (list, tuple)):
            items = tuple(self.pack(item, f"{what}[{index}]") for index, item in enumerate(value))
            return Node("list" if isinstance(value, list) else "tuple", items=items)
        if isinstance(value, Mapping):
            pairs = ((self.pack(key, what), self.pack(item, f"{what}[{key!r}]")) for key, item in value.items())
            return Node("dict", items=tuple(node for pair in pairs for node in pair))
        if isinstance(value, slice):
            return Node("slice", items=tuple(self.pack(part, what) for part in (value.start, value.stop, value.step)))
        return _plain(value, what)

    def _tensor(self, tensor: torch.Tensor) -> Node:
        data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
        node = Node("tensor", dtype=dtype_name(tensor.dtype), shape=tuple(tensor.shape), offset=self._offset)
        self.values.append(memoryview(data))
        self._offset += aligned(data.nbytes)
        return node


def _plain(value: Any, what: str) -> Node:
    if value is None:
        return Node("none")
    if isinstance(value, (bool, np.bool_)):
        return Node("bool", str(bool(value)))
    if isinstance(value, (int, np.integer)) and abs(int(value)) < 10**_MOST_DIGITS:
        return Node("int", str(int(value)))
    if isinstance(value, (float, np.floating)):
        return Node("float", float(value).hex())
    if isinstance(value, (complex, np.complexfloating)):
        return Node("complex", f"{float(value.real).hex()} {float(value.imag).hex()}")
    if isinstance(value, str):
        return Node("str", value.encode("utf-8", "backslashreplace").decode())
    if isinstance(value, paddle.dtype):
        return Node("dtype", dtype_name(value))
    raise NotStorableError(f"{what} is of the type {type(value).__name__}, which cannot be stored")


def unpack(node: Node, record: Record) -> Any:
    """The value of a node; tensors lie in the record's own memory.

    Raises:
        DamagedGoldenError: it is no value.
    """
    try:
        return _unpack(node, record.payload)
    except (ValueError, TypeError, RuntimeError, AttributeError) as exc:
        raise DamagedGoldenError(f"{record.header.name} is damaged: a {node.kind} that is none ({exc})") from None


def _unpack(node: Node, payload: memoryview) -> Any:
    if node.kind == "tensor":
        return _tensor(node, payload)
    items = [_unpack(item, payload) for item in node.items]
    if node.kind == "dict":
        return dict(zip(items[::2], items[1::2]))
    if node.kind == "slice":
        return slice(*items)
    if node.kind in ("list", "tuple"):
        return items if node.kind == "list" else tuple(items)
    return _value(node)


def _value(node: Node) -> Any:
    text = node.text
    if node.kind == "none":
        return None
    if node.kind == "bool":
        return text == "True"
    if node.kind == "int":
        return int(text)
    if node.kind == "float":
        return float.fromhex(text)
    if node.kind == "complex":
        real, _, imaginary = text.partition(" ")
        return complex(float.fromhex(real), float.fromhex(imaginary))
    if node.kind == "dtype":
        found = getattr(paddle, text)
        if not isinstance(found, paddle.dtype):
            raise ValueError(f"{text[:40]!r} is no dtype")
        return found
    return text


def _tensor(node: Node, payload: memoryview) -> torch.Tensor:
    dtype = numpy_dtype(node.dtype)
    if not node.size:
        return to_torch(np.empty(node.shape, dtype))
    # float8 and bfloat16 are read as integers: their own types know no byte order.
    raw = np.dtype(CARRIER.get(node.dtype, dtype)).newbyteorder("<")
    array = np.frombuffer(payload, raw, math.prod(node.shape), node.offset)
    if node.dtype == "bool" and array.view(np.uint8).max() > 1:
        raise ValueError("a bool that is neither 0 nor 1")
    native = array.astype(raw.newbyteorder("="), copy=False)
    return to_torch(native.view(dtype).reshape(node.shape))


def form(tensor: torch.Tensor | None) -> Node | None:
    """The dtype and shape of a gradient that is fed in."""
    return None if tensor is None else Node("tensor", dtype=dtype_name(tensor.dtype), shape=tuple(tensor.shape))


def digest_of_tensors(tensors: Iterable[torch.Tensor | None]) -> str:
    """SHA-256 of their values, with dtypes and shapes."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(repr(form(tensor)).encode())
        if tensor is not None:
            found.update(memoryview(tensor.contiguous().reshape(-1).view(torch.uint8).numpy()))
    return found.hexdigest()


def digest_of_inputs(values: Mapping[str, Any]) -> str:
    """SHA-256 of the arguments, tensors with their values."""
    found = hashlib.sha256()
    for name, value in values.items():
        for path, leaf in leaves(value, name):
            found.update(path.encode("utf-8", "surrogatepass") + b"\0")
            if isinstance(leaf, np.ndarray):
                found.update(f"{leaf.dtype.name}{leaf.shape}".encode())
                data = np.ascontiguousarray(leaf).reshape(-1)
                found.update(data.view(np.uint8).data)
            else:
                found.update(repr(leaf).encode("utf-8", "surrogatepass"))
    return found.hexdigest()
