"""The package's own modules as syntax trees: what each name at their top is."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True)
class Imported:
    """A name that an import binds: ``name`` of ``module``, or the module itself where ``name`` is empty."""

    module: str
    name: str
    alias: str


@dataclass
class Module:
    """One module's source and its top-level names, each with the statement that binds it last."""

    name: str
    #: What relative imports in it start from.
    package: str
    source: str
    statements: dict[str, ast.stmt] = field(default_factory=dict)
    imports: dict[str, Imported] = field(default_factory=dict)

    def text_of(self, node: ast.AST) -> str:
        """The source of a statement, without its decorators."""
        first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", None)
        return "\n".join(self.source.splitlines()[first - 1 : last])


@cache
def read_module(name: str) -> Module:
    """The module ``name`` of this package, from its file.

    Raises:
        LookupError: it has no source file.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise LookupError(f"the module {name} has no source file, so a script cannot hold what it defines")
    path = Path(spec.origin)
    source = path.read_text(encoding="utf-8")
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    module = Module(name, package, source)
    for statement in _top_level(ast.parse(source).body):
        for one in imported_names(statement, package):
            module.imports[one.alias] = one
        for bound in _bound_names(statement):
            module.statements[bound] = statement
    return module


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that are run on import; what only type checkers read is left out."""
    for statement in body:
        if isinstance(statement, ast.If):
            if "TYPE_CHECKING" not in ast.unparse(statement.test):
                yield from _top_level(statement.body)
        else:
            yield statement


def imported_names(statement: ast.stmt, package: str) -> Iterator[Imported]:
    """What an import statement in ``package`` binds; nothing for other statements."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            bound = alias.asname or alias.name.partition(".")[0]
            yield Imported(alias.name if alias.asname else bound, "", bound)
    elif isinstance(statement, ast.ImportFrom):
        base = package.split(".")[: len(package.split(".")) - statement.level + 1] if statement.level else []
        module = ".".join([*base, *([statement.module] if statement.module else [])])
        for alias in statement.names:
            yield Imported(module, alias.name, alias.asname or alias.name)


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name) and _is_store(node))
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id


def _is_store(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def is_own(module: str) -> bool:
    """True for the modules of this package."""
    return module == PACKAGE or module.startswith(f"{PACKAGE}.")
