"""Names in a piece of syntax: which of them are global, and how they are changed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from .modules import Imported, imported_names

#: From a global name, the attribute that is asked of it (or None), and whether it is used only when a function is
#: called, to what stands for it in the script; None leaves name and attribute as they are.
Rename = Callable[[str, "str | None", bool], "str | None"]


def without_decorators(node: ast.stmt, dropped: frozenset[str]) -> ast.stmt:
    """Take away the decorators that only register; they are known by their names."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        node.decorator_list = [one for one in node.decorator_list if decorator_name(one) not in dropped]
    return node


def decorator_name(node: ast.expr) -> str:
    """The name of a decorator, called or not."""
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def local_imports(node: ast.AST, package: str) -> Iterator[Imported]:
    """What import statements within functions bind."""
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Import, ast.ImportFrom)):
            yield from imported_names(inner, package)


class Globals(ast.NodeTransformer):
    """Gives every global name of a piece of syntax to ``rename``, and puts in what that answers.

    Names in annotations are left alone: nothing evaluates them. Relative imports within functions are taken out,
    because the script has what they bring at its top. ``keep_name``: the piece has its name in the script already.
    """

    def __init__(self, rename: Rename, *, keep_name: bool = False) -> None:
        self._rename = rename
        self._keep_name = keep_name
        self._scopes: list[frozenset[str]] = []
        self.changed = False

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if self._is_local(node.id):
            return node
        return self._put(node, self._rename(node.id, None, bool(self._scopes)), node.id)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and not self._is_local(node.value.id):
            found = self._rename(node.value.id, node.attr, bool(self._scopes))
            if found is not None:
                return self._put(node, found, None)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [self.visit(one) for one in node.decorator_list]
        self._visit_defaults(node.args)
        if not self._scopes:
            node.name = self._own_name(node.name)
        self._scopes.append(_locals_of(node))
        node.body = [new for one in node.body if (new := self.visit(one)) is not None] or [ast.Pass()]
        self._scopes.pop()
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        if not self._scopes:
            node.name = self._own_name(node.name)
        return self.generic_visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._visit_defaults(node.args)
        self._scopes.append(frozenset(_arguments(node.args)))
        node.body = self.visit(node.body)
        self._scopes.pop()
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.target = self.visit(node.target)
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        if node.level == 0:
            return node
        self.changed = True
        return None

    def _visit_defaults(self, arguments: ast.arguments) -> None:
        arguments.defaults = [self.visit(one) for one in arguments.defaults]
        arguments.kw_defaults = [one if one is None else self.visit(one) for one in arguments.kw_defaults]

    def _own_name(self, name: str) -> str:
        if self._keep_name:
            return name
        found = self._rename(name, None, True)
        self.changed |= found is not None and found != name
        return found or name

    def _put(self, node: Any, found: str | None, name: str | None) -> ast.AST:
        if found is None or found == name:
            return node
        self.changed = True
        return ast.copy_location(ast.Name(found, node.ctx), node)

    def _is_local(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    extra = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    yield from (one.arg for one in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *extra])


def _locals_of(function: ast.FunctionDef) -> frozenset[str]:
    """Names that a function binds itself; a comprehension's are taken for its own."""
    found = set(_arguments(function.args))
    pending: list[ast.AST] = list(function.body)
    globals_: set[str] = set()
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
            continue  # what is bound in there is not ours
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.Import):
            found.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Global):
            globals_.update(node.names)
        pending.extend(ast.iter_child_nodes(node))
    return frozenset(found - globals_)
