"""Config text to :class:`Call`. Nothing is ever evaluated: only the forms listed here have a meaning."""

from __future__ import annotations

import ast
import math
import re
import warnings
from typing import Any

from .errors import ConfigSyntaxError
from .model import ITEMSIZE, Call, DtypeRef, TensorSpec, TypeRef
from .printing import print_value
from .scan import MAX_DEPTH, readable_source

#: Ten times the longest line known; the parser's time grows with the length.
MAX_LINE = 400_000
#: Attribute values of Paddle operators are 64 bits wide at most, signed or unsigned.
MAX_INT = 2**64
MAX_DIM = 2**63 - 1

_API = re.compile(r"\s*(paddle(?:\.[A-Za-z_][A-Za-z0-9_]*)+)\s*\(")
_LINE_END = re.compile(r"\r\n|\r|\n")
_CONSTANTS: dict[str, Any] = {
    "nan": math.nan,
    "inf": math.inf,
    "Ellipsis": Ellipsis,
    # What repr() of a complex number holds: (1+nanj), (2-infj).
    "nanj": complex(0.0, math.nan),
    "infj": complex(0.0, math.inf),
}
#: ``int4`` and the like are words in strings; as types only these are known.
TYPE_NAMES = frozenset(
    {"bool", "int", "float", "complex", "str"}
    | {f"numpy.{name}" for name in ("bool", "bool_", "float16", "float32", "float64", "complex64", "complex128")}
    | {f"numpy.{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
DTYPE_NAMES = frozenset(ITEMSIZE) | {"uint16", "uint32", "uint64"}


def parse_call(text: str) -> Call:
    """Parse one line.

    Raises:
        ConfigSyntaxError: the line is not in the language; it quotes the line and the column.
    """
    if len(text) > MAX_LINE:
        raise ConfigSyntaxError(text, MAX_LINE, f"the line is longer than {MAX_LINE} characters")
    head = _API.match(text)
    if head is None:
        raise ConfigSyntaxError(text, _api_fault(text), 'expected a call such as paddle.abs(Tensor([2],"float32"))')
    source = readable_source(text)
    reader = _Reader(text, head.start(1))
    node = reader.parse(source)
    name = _dotted(node.func) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or name != head.group(1):
        raise reader.error(node, "expected one call of a dotted name under paddle.")
    return reader.call(head.group(1), node)


def _api_fault(text: str) -> int:
    """The column after what can be read as the beginning of an API name."""
    start = len(text) - len(text.lstrip())
    word = re.compile(r"paddle(?:\.[A-Za-z_][A-Za-z0-9_]*)*").match(text, start)
    return word.end() if word else start


def _dotted(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    parts.append(node.id)
    return ".".join(reversed(parts))


def _short(value: Any) -> str:
    shown = repr(value) if isinstance(value, str) else print_value(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


class _Reader:
    """Turns whitelisted AST nodes into values; knows the text for its error messages."""

    def __init__(self, text: str, offset: int) -> None:
        self.text = text
        self.offset = offset

    def parse(self, source: str) -> ast.expr:
        try:
            if "\\" not in source:
                return ast.parse(source.strip(), mode="eval").body
            with warnings.catch_warnings():
                # "invalid escape sequence": the value is what Python says it is.
                warnings.simplefilter("ignore")
                return ast.parse(source.strip(), mode="eval").body
        except SyntaxError as exc:
            column = self.column(exc.lineno or 1, max(0, (exc.offset or 1) - 1))
            raise ConfigSyntaxError(self.text, column, f"not a valid expression: {exc.msg}") from None
        except (RecursionError, MemoryError):
            raise ConfigSyntaxError(self.text, self.offset, "the expression is too deeply nested") from None

    def column(self, line: int, character: int) -> int:
        """Where in the whole text stands what Python counts from the beginning of its ``line``, from 1."""
        start = self.offset
        for _ in range(line - 1):
            end = _LINE_END.search(self.text, start)
            if end is None:
                break
            start = end.end()
        return start + character

    def error(self, node: ast.AST, reason: str) -> ConfigSyntaxError:
        line, count = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        start = self.column(line, 0)
        # The AST counts UTF-8 bytes; people count characters.
        prefix = self.text[start : start + count].encode()[:count]
        return ConfigSyntaxError(self.text, start + len(prefix.decode(errors="ignore")), reason)

    def call(self, api: str, node: ast.Call) -> Call:
        args = tuple(self.value(arg, 0) for arg in node.args)
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.error(keyword.value, "** is not in the config language")
            if keyword.arg in kwargs:
                raise self.error(keyword.value, f"argument {_short(keyword.arg)} is given twice")
            kwargs[keyword.arg] = self.value(keyword.value, 0)
        return Call(api, args, tuple(kwargs.items()))

    def value(self, node: ast.expr, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise self.error(node, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(node, ast.Constant):
            return self.constant(node)
        if isinstance(node, ast.List):
            return [self.value(item, depth + 1) for item in node.elts]
        if isinstance(node, ast.Tuple):
            return tuple(self.value(item, depth + 1) for item in node.elts)
        if isinstance(node, ast.Dict):
            return self.dictionary(node, depth)
        if isinstance(node, ast.UnaryOp):
            return self.signed(node, depth)
        if isinstance(node, ast.BinOp):
            return self.complex_sum(node, depth)
        if isinstance(node, ast.Name) and node.id in _CONSTANTS:
            return _CONSTANTS[node.id]
        if isinstance(node, ast.Attribute) and _dotted(node) in ("math.inf", "math.nan"):
            return math.inf if node.attr == "inf" else math.nan
        if isinstance(node, ast.Call):
            return self.constructor(node, depth)
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = _dotted(node) or ""
            hint = f'; write "{name}"' if name in ITEMSIZE else ""
            raise self.error(node, f"unknown name {_short(name or 'of an attribute')}{hint}")
        raise self.error(node, f"a {type(node).__name__.lower()} expression is not in the config language")

    def constant(self, node: ast.Constant) -> Any:
        value = node.value
        if isinstance(value, int) and not isinstance(value, bool) and not -MAX_INT <= value <= MAX_INT:
            raise self.error(node, "the integer needs more than 64 bits")
        if value is None or value is Ellipsis or isinstance(value, (bool, int, float, complex, str)):
            return value
        raise self.error(node, f"a {type(value).__name__} literal is not in the config language")

    def dictionary(self, node: ast.Dict, depth: int) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key_node, value_node in zip(node.keys, node.values):
            if key_node is None:
                raise self.error(value_node, "** is not in the config language")
            key = self.value(key_node, depth + 1)
            if not isinstance(key, (str, int, float, bool, type(None))):
                raise self.error(key_node, "a dict key must be a string, a number, True, False or None")
            if key in result:
                raise self.error(key_node, "a dict key is given twice")
            result[key] = self.value(value_node, depth + 1)
        return result

    def signed(self, node: ast.UnaryOp, depth: int) -> Any:
        value = self.value(node.operand, depth + 1)
        if isinstance(node.op, (ast.USub, ast.UAdd)) and _is_number(value):
            return -value if isinstance(node.op, ast.USub) else value
        raise self.error(node, "a sign must stand before a number")

    def complex_sum(self, node: ast.BinOp, depth: int) -> complex:
        left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
        real_plus_imaginary = (
            isinstance(left, (int, float))
            and not isinstance(left, bool)
            and isinstance(right, complex)
            and right.real == 0
        )
        if not real_plus_imaginary or not isinstance(node.op, (ast.Add, ast.Sub)):
            raise self.error(
                node, "arithmetic is not in the config language, except in a complex number such as 1.5-2j"
            )
        # Not ``left - right``: that would turn the sign of a zero real part.
        return complex(float(left), right.imag if isinstance(node.op, ast.Add) else -right.imag)

    def constructor(self, node: ast.Call, depth: int) -> Any:
        name = _dotted(node.func)
        build = {
            "Tensor": self.tensor,
            "Dtype": self.dtype,
            "VarType": self.dtype,
            "type": self.type,
        }.get(name or "")
        if build is not None:
            if node.keywords:
                raise self.error(node, f"{name}(...) takes no named arguments")
            return build(node, depth)
        if name not in ("tuple", "slice", "complex", "list"):
            raise self.error(node, f"{_short(name) if name else 'this'}(...) is not in the config language")
        if node.keywords:
            raise self.error(node, f"{name}(...) takes no named arguments")
        values = [self.value(arg, depth + 1) for arg in node.args]
        if name == "list":
            raise self.error(node, "a list is written list[...]")
        if name == "tuple":
            return tuple(values)
        if name == "slice":
            if not 1 <= len(values) <= 3:
                raise self.error(node, "slice takes one to three values")
            return slice(*values)
        if not 1 <= len(values) <= 2 or not all(_is_number(v) and not isinstance(v, complex) for v in values):
            raise self.error(node, "complex takes one or two real numbers")
        return complex(*values)

    def tensor(self, node: ast.Call, depth: int) -> TensorSpec:
        if len(node.args) != 2:
            raise self.error(node, 'a tensor is written Tensor([2, 3],"float32")')
        shape, dtype = (self.value(arg, depth + 1) for arg in node.args)
        if not isinstance(shape, (list, tuple)):
            raise self.error(node.args[0], "a tensor's shape is a list of dimensions")
        for index, dim in enumerate(shape):
            if not isinstance(dim, int) or isinstance(dim, bool) or not 0 <= dim <= MAX_DIM:
                dims = getattr(node.args[0], "elts", None) or getattr(node.args[0], "args", [])
                raise self.error(dims[index], f"{_short(dim)} is not a dimension: it must be an integer, 0 or more")
        if isinstance(dtype, DtypeRef):
            dtype = dtype.name
        if not isinstance(dtype, str) or dtype not in ITEMSIZE:
            raise self.error(node.args[1], f"{_short(dtype)} is not a dtype; known are {', '.join(ITEMSIZE)}")
        return TensorSpec(tuple(shape), dtype)

    def dtype(self, node: ast.Call, depth: int) -> DtypeRef:
        kind = _dotted(node.func) or ""
        name = _dotted(node.args[0]) if len(node.args) == 1 else None
        if name is None or name.rpartition(".")[2] not in DTYPE_NAMES or name.count(".") > 1:
            raise self.error(node, f"{kind} takes the name of a dtype, such as {kind}(float32)")
        return DtypeRef(name.rpartition(".")[2], kind)

    def type(self, node: ast.Call, depth: int) -> TypeRef:
        name = _dotted(node.args[0]) if len(node.args) == 1 else None
        if name not in TYPE_NAMES:
            raise self.error(node, "type takes a Python or NumPy scalar type, such as type(numpy.float64)")
        return TypeRef(name or "")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex)) and not isinstance(value, bool)
