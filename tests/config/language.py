"""Calls for Hypothesis, and lines that are almost configs."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from pytest_paddleapi.config import ITEMSIZE, Call, DtypeRef, TensorSpec, TypeRef

VARIED = Path(__file__).parent / "data" / "varied_configs.txt"

DTYPES = st.sampled_from(sorted(ITEMSIZE))
IDENTIFIERS = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).map(lambda name: f"{name}_x")
APIS = st.lists(IDENTIFIERS, min_size=1, max_size=4).map(lambda parts: ".".join(["paddle", *parts]))
TEXTS = st.text(st.characters(exclude_categories=()), max_size=12)
TENSORS = st.builds(TensorSpec, st.lists(st.integers(0, 2**40), max_size=5).map(tuple), DTYPES)
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**64), 2**64),
    st.floats(),
    st.complex_numbers(),
    TEXTS,
    st.just(Ellipsis),
    TENSORS,
    st.builds(DtypeRef, DTYPES, st.sampled_from(["Dtype", "VarType"])),
    st.builds(TypeRef, st.sampled_from(["bool", "int", "float", "numpy.float64", "numpy.int32", "numpy.bool_"])),
)
KEYS = st.one_of(TEXTS, st.integers(-9, 9), st.none())
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
        st.builds(slice, inner, inner, inner),
    ),
    max_leaves=12,
)
CALLS = st.builds(
    Call,
    APIS,
    st.lists(VALUES, max_size=4).map(tuple),
    st.dictionaries(IDENTIFIERS, VALUES, max_size=4).map(lambda named: tuple(named.items())),
)


def examples(count: int) -> settings:
    """So many examples, however long they take on a busy machine."""
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def holds_nan(value: Any) -> bool:
    """Equality cannot be used on it."""
    if isinstance(value, Call):
        return any(map(holds_nan, [*value.args, *(item for _, item in value.kwargs)]))
    if isinstance(value, (list, tuple)):
        return any(map(holds_nan, value))
    if isinstance(value, dict):
        return any(map(holds_nan, value.values()))
    if isinstance(value, slice):
        return any(map(holds_nan, (value.start, value.stop, value.step)))
    if isinstance(value, complex):
        return math.isnan(value.real) or math.isnan(value.imag)
    return isinstance(value, float) and math.isnan(value)


def varied_lines() -> list[str]:
    """Real-looking configs, every form of the language among them."""
    return [line for line in VARIED.read_text("utf-8").splitlines() if line and not line.startswith("#")]


_PIECES = [
    *"()[]{}<>,,..:;=+-*/%@!&|^~?$#'\"\\ \t\n\r\0\x0c\x7f0123456789eEjJxX_",
    "\udc80", "é", "漢", "\u200b", "\ufeff", "\U0001f600", "\xa0",
    "list[", "tuple(", "slice(", "Tensor([2],\"float32\")", "Tensor(", "Dtype(", "type(", "complex(", "nan", "-inf",
    "lambda:", "lambda x:", "not ", "await ", " if ", " else ", " for x in ", "yield ", "import os", "__import__('os')",
    "eval('1')", "exec('1')", "open('/etc/passwd')", "().__class__.__bases__[0]", "f'{1+1}'", "b'a'", "r'a'", "rb\"a\"",
    "'''", '"""', "\\N{DASH}", "\\x4", "\\u12", "\\ud800", "1_000", "0x10", "0o7", "0b1", "07", "1e999", "1j", "9" * 50,
    "**{}", "*[]", ":=", "==", "->", "...", "True", "None", "Ellipsis", "math.inf", "math.nan", "os.system",
    "(" * 40, "[" * 60, "-" * 30, "x=" * 5, "1+" * 20, "a." * 20, "{1:" * 10,
]  # fmt: skip


def mutated_lines(seed: int, count: int) -> Iterator[str]:
    """Lines that were configs before random pieces were put in, cut out, doubled or exchanged; some are only pieces."""
    rng = random.Random(seed)
    sources = varied_lines()
    for _ in range(count):
        if rng.random() < 0.1:
            yield f"paddle.abs({''.join(rng.choices(_PIECES, k=rng.randint(1, 30)))})"
            continue
        text = rng.choice(sources)
        for _ in range(rng.randint(1, 4)):
            text = _mutate(rng, text, sources)
        yield text


def _mutate(rng: random.Random, text: str, sources: list[str]) -> str:
    start = rng.randint(0, len(text))
    end = min(len(text), start + rng.choice([0, 1, 2, 5, 20]))
    kind = rng.randrange(5)
    if kind == 0:
        return text[:start] + rng.choice(_PIECES) + text[start:]
    if kind == 1:
        return text[:start] + text[end:]
    if kind == 2:
        return text[:start] + rng.choice(_PIECES) + text[end:]
    if kind == 3:
        return text[:end] + text[start:end] * rng.randint(1, 3) + text[end:]
    other = rng.choice(sources)
    return text[:start] + other[rng.randint(0, len(other)) :]
