"""The list of APIs with what is known about each: ``python -m pytest_paddleapi.case.catalogue > docs/apis.md``.

It is made by program from the installed Paddle and the registered rules, never by hand.
"""

from __future__ import annotations

import importlib
import inspect
import operator
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import paddle
import torch

from .adapters.registry import find_adapter
from .callables import ClosedApiError, MissingApiError, paddle_function
from .compare.registry import ELEMENTWISE, find_comparator
from .inputs.registry import find_inputs
from .reference.registry import NoReference, all_references, find_reference

NAMESPACES = (
    "paddle",
    "paddle.Tensor",
    "paddle.nn.functional",
    "paddle.linalg",
    "paddle.fft",
    "paddle.signal",
    "paddle.sparse",
    "paddle.sparse.nn.functional",
    "paddle.geometric",
    "paddle.vision.ops",
    "paddle.incubate",
    "paddle.incubate.nn.functional",
    "paddle.nn.quant",
    "paddle.nn.utils",
    "paddle.text",
    "paddle.audio.functional",
    "paddle.autograd",
)
RENAME, RULE, PADDLE_ONLY, MEANINGLESS, MISSING = "rename", "rule", "Paddle-only", "no meaning in Torch", "missing"
KINDS = {
    RENAME: "Torch has the function under another name",
    RULE: "written in Torch operations",
    PADDLE_ONLY: "judged by what Paddle promises, without Torch",
    MEANINGLESS: "nothing to compare with; the table says why",
    MISSING: "nobody has written a rule yet",
}


@dataclass(frozen=True)
class Entry:
    """One line of the catalogue."""

    api: str
    kind: str
    why: str
    #: Arguments whose values a rule makes.
    inputs: tuple[str, ...]
    #: What Paddle's side makes of the written arguments, "" where they are used as they are.
    adapter: str
    comparison: str


def public_names(namespace: str) -> list[str]:
    """Functions (of ``Tensor``: methods and operators) of a namespace that a config can call, sorted.

    What has a rule is listed although Paddle does not export it; classes only if they have one.
    """
    found = _resolve(namespace)
    ruled = {api.rpartition(".")[2] for api in all_references() if api.rpartition(".")[0] == namespace}
    exported = getattr(found, "__all__", None) or [name for name in dir(found) if not name.startswith("_")]
    if namespace == "paddle.Tensor":
        exported = [*exported, *(name for name in dir(found) if _is_operator(name))]
    names = set()
    for name in {*exported, *ruled}:
        value = getattr(found, name, None)
        if not callable(value) or inspect.ismodule(value):
            continue
        if name in ruled or not inspect.isclass(value):
            names.add(name)
    return sorted(names)


def _resolve(namespace: str) -> Any:
    if namespace == "paddle.Tensor":
        return paddle.Tensor
    return importlib.import_module(namespace)


def _is_operator(name: str) -> bool:
    if not (name.startswith("__") and name.endswith("__")):
        return False
    # Reflected ones, such as __radd__, are not in the operator module.
    return name in vars(operator) or (name.startswith("__r") and "__" + name[3:] in vars(operator))


def describe(api: str) -> Entry:
    """What the registries know about one API."""
    found, comparator = find_reference(api), find_comparator(api)
    why = ""
    if not comparator.needs_reference:
        kind = PADDLE_ONLY
    elif found is None:
        kind = MISSING
    elif isinstance(found, NoReference):
        kind, why = MEANINGLESS, found.why
    else:
        kind = RENAME if found.kind == "rename" else RULE
    makers = tuple(find_inputs(api)) if kind not in (MISSING, MEANINGLESS) else ()
    comparison = comparator.meaning if kind not in (MISSING, MEANINGLESS) else ""
    return Entry(api, kind, why, makers, find_adapter(api).about, comparison)


def entries() -> dict[str, list[Entry]]:
    """The whole catalogue, by namespace."""
    return {space: [describe(f"{space}.{name}") for name in public_names(space)] for space in NAMESPACES}


def unknown_to_paddle() -> list[str]:
    """Registered names that the installed Paddle has not."""
    missing = []
    for api in sorted(all_references()):
        try:
            paddle_function(api)
        except (MissingApiError, ClosedApiError):
            missing.append(api)
    return missing


def markdown() -> str:
    """The catalogue as a Markdown document."""
    found = entries()
    return "\n".join([*_head(found), *(line for space in found.items() for line in _section(*space)), *_tail()])


def _head(found: dict[str, list[Entry]]) -> Iterator[str]:
    yield "# APIs"
    yield ""
    yield "Made by `python -m pytest_paddleapi.case.catalogue > docs/apis.md`; do not edit it by hand."
    yield f"Paddle {paddle.__version__}, Torch {torch.__version__.partition('+')[0]}."
    yield "Classes are left out unless a rule speaks of them."
    yield ""
    yield "| kind | meaning |"
    yield "| --- | --- |"
    for kind, meaning in KINDS.items():
        yield f"| {kind} | {meaning} |"
    yield ""
    yield f"| namespace | {' | '.join(KINDS)} | all |"
    yield f"| --- |{' ---: |' * (len(KINDS) + 1)}"
    total: Counter[str] = Counter()
    for space, listed in found.items():
        counts = Counter(entry.kind for entry in listed)
        total += counts
        yield _row([f"`{space}`", *(str(counts[kind]) for kind in KINDS), str(len(listed))])
    yield _row(["all", *(str(total[kind]) for kind in KINDS), str(sum(total.values()))])
    yield ""
    yield "*Input rule* names the arguments whose values a rule makes; all other tensors get ordinary values (both"
    yield "signs, magnitudes from 0.05 to 2). Where nothing else is said, results and gradients are compared element by"
    yield "element."
    yield ""


def _section(space: str, listed: Sequence[Entry]) -> Iterator[str]:
    yield f"## {space}"
    yield ""
    yield "| API | kind | input rule | comparison |"
    yield "| --- | --- | --- | --- |"
    for entry in listed:
        kind = f"{entry.kind}: {entry.why}" if entry.why else entry.kind
        made = ", ".join(f"`{name}`" for name in entry.inputs)
        if entry.adapter:
            made = f"{made}; {entry.adapter}" if made else entry.adapter
        comparison = "" if entry.comparison == ELEMENTWISE.meaning else entry.comparison
        yield _row([f"`{entry.api.removeprefix(space + '.')}`", kind, made, comparison])
    yield ""


def _tail() -> Iterator[str]:
    missing = unknown_to_paddle()
    if missing:
        yield "## Rules for names that this Paddle does not have"
        yield ""
        yield ", ".join(f"`{api}`" for api in missing)
        yield ""


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


if __name__ == "__main__":
    sys.stdout.write(markdown())
