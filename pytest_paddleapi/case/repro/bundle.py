"""Extracts functions of this package, with everything that they use of it, into one flat piece of source."""

from __future__ import annotations

import ast
import builtins
import copy
import enum
import importlib
import types
from collections.abc import Callable, Mapping
from typing import Any

from .literal import literal
from .modules import Imported, Module, is_own, read_module
from .names import Globals, decorator_name, local_imports, without_decorators

#: Decorators that put a function into a registry; the script has none.
_REGISTERING = frozenset({"reference", "comparator", "inputs", "adapter", "rule"})
#: Where functions of the frameworks have their public names.
_HOMES = (
    "torch",
    "torch.linalg",
    "torch.special",
    "torch.fft",
    "torch.nn.functional",
    "torch.Tensor",
    "paddle",
    "paddle.linalg",
    "paddle.nn.functional",
    "paddle.sparse",
    "numpy",
    "math",
    "operator",
    "builtins",
)

Name = tuple[str, str]


class Bundle:
    """Collects definitions. ``substitutes`` maps (module, name) to the (module, name) that stands in for it.

    A name that two modules have gets a number in the script.
    """

    def __init__(self, substitutes: Mapping[Name, Name] | None = None) -> None:
        self._substitutes = dict(substitutes or {})
        self._imports: dict[str, str] = {}
        self._names: dict[Any, str] = {}
        self._taken: set[str] = set(dir(builtins)) - {"reduce"}
        self._parts: list[str] = []
        self._waiting: list[Name] = []
        self._defined: set[Name] = set()

    @property
    def imports(self) -> list[str]:
        """The import statements, sorted."""
        return sorted(set(self._imports.values()), key=lambda line: (line.startswith("from"), line))

    @property
    def definitions(self) -> list[str]:
        """The definitions, each after those that it needs when the script is loaded.

        Raises:
            LookupError: one of them needs what has no source.
        """
        while self._waiting:
            self._define(self._waiting.pop(0))
        return list(self._parts)

    def need(self, module: str, name: str, *, later: bool = False) -> str:
        """The script's name for what ``name`` at the top of ``module`` is.

        It is defined now, or ``later`` where only calls of functions use it.

        Raises:
            LookupError: there is no such thing, or it has no source.
        """
        key: Name = self._substitutes.get((module, name), (module, name))
        source = read_module(key[0])
        if key[1] in source.statements:
            if key not in self._names:
                self._reserve(key, key[1])
            if later:
                self._waiting.append(key)
            else:
                self._define(key)
            return self._names[key]
        if key[1] in source.imports:
            return self._import(source.imports[key[1]], later)
        raise LookupError(f"{key[0]} defines no {key[1]}")

    def expression(self, value: Any) -> str:
        """Source that gives ``value``: functions of this package and of the frameworks, types, plain values.

        Raises:
            LookupError: there is no way to write it down.
        """
        if isinstance(value, types.FunctionType) and is_own(value.__module__):
            return self._function(value)
        if isinstance(value, enum.Enum):
            return f"{self.expression(type(value))}.{value.name}"
        if isinstance(value, type) and is_own(value.__module__):
            return self.need(value.__module__, value.__qualname__)
        if isinstance(value, (list, tuple, dict)):
            return literal(value, self.expression)
        if callable(value) or isinstance(value, types.ModuleType):
            return self._public_name(value)
        if type(value).__module__ == "torch":
            self._imports["torch"] = "import torch"
            return repr(value)
        return literal(value, self.expression)

    def define(self, wanted: str, text: Callable[[str], str]) -> str:
        """Add a definition that stands in no module; ``text`` gets its name, which is ``wanted`` or near to it."""
        name = self._reserve(object(), wanted)
        self._parts.append(text(name))
        return name

    def use(self, line: str) -> None:
        """Add an import statement."""
        self._imports[line] = line

    # Definitions ----------------------------------------------------------------------------

    def _define(self, key: Name) -> None:
        if key not in self._defined:
            self._defined.add(key)
            module = read_module(key[0])
            self._parts.append(self._source(module.statements[key[1]], module))

    def _source(self, statement: ast.stmt, module: Module, frozen: Mapping[str, str] | None = None) -> str:
        """The text of a statement for the script; ``frozen`` has the script's names of what a closure holds."""
        node = copy.deepcopy(statement)
        registered = any(decorator_name(one) in _REGISTERING for one in getattr(node, "decorator_list", ()))
        node = without_decorators(node, _REGISTERING)
        inner = {one.alias: one for one in local_imports(node, module.package) if is_own(one.module)}

        def rename(name: str, attribute: str | None, later: bool) -> str | None:
            if frozen and name in frozen:
                return None if attribute else frozen[name]
            imported = inner.get(name) or module.imports.get(name)
            if imported is not None and is_own(imported.module):
                return self._own_import(imported, attribute, later)
            if attribute is not None:
                return None
            if name in module.statements or imported is not None:
                return self.need(module.name, name, later=later) if imported is None else self._import(imported, later)
            return None

        globals_ = Globals(rename, keep_name=frozen is not None)
        new = globals_.visit(node)
        plain = not globals_.changed and (registered or not getattr(statement, "decorator_list", ()))
        if plain and frozen is None:
            return module.text_of(statement)
        return ast.unparse(ast.fix_missing_locations(new))

    def _own_import(self, imported: Imported, attribute: str | None, later: bool) -> str | None:
        as_module = f"{imported.module}.{imported.name}" if imported.name else imported.module
        try:
            read_module(as_module)
        except (LookupError, ModuleNotFoundError):
            return None if attribute else self.need(imported.module, imported.name, later=later)
        return self.need(as_module, attribute, later=later) if attribute else None

    def _import(self, imported: Imported, later: bool) -> str:
        if is_own(imported.module):
            return self.need(imported.module, imported.name, later=later)
        if not imported.name:
            line = f"import {imported.module}"
            if imported.alias != imported.module.partition(".")[0]:
                line += f" as {imported.alias}"
        else:
            line = f"from {imported.module} import {imported.name}"
            if imported.alias != imported.name:
                line += f" as {imported.alias}"
        self._imports[f"{imported.module}:{imported.alias}"] = line
        self._taken.add(imported.alias)
        return imported.alias

    # Objects --------------------------------------------------------------------------------

    def _function(self, function: types.FunctionType) -> str:
        # Not ``__module__``: a wrapper has that of what it wraps.
        module = read_module(function.__globals__["__name__"])
        statement = module.statements.get(function.__name__)
        real = importlib.import_module(module.name)
        if isinstance(statement, ast.FunctionDef) and statement.lineno == _line(function, statement):
            return self.need(module.name, function.__name__)
        if getattr(real, function.__name__, None) is function and isinstance(statement, ast.Assign):
            return self.need(module.name, function.__name__)
        if function in self._names:
            return self._names[function]
        return self._closure(function, module)

    def _closure(self, function: types.FunctionType, module: Module) -> str:
        """A function that was made by another one: what it closes over is written beside it."""
        node = _find(function, module)
        wanted = function.__name__ if function.__name__.isidentifier() else "rule"
        name = self._reserve(function, wanted if wanted != "<lambda>" else "function")
        frozen: dict[str, str] = {}
        for free, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            frozen[free] = self._constant(free, cell.cell_contents)
        if isinstance(node, ast.Lambda):
            arguments = node.args
            node = ast.FunctionDef(name, arguments, [ast.Return(node.body)], [], None)
            ast.fix_missing_locations(node)
        else:
            node = copy.deepcopy(node)
            node.decorator_list = []
            node.name = name
        self._parts.append(self._source(node, module, frozen))
        return name

    def _constant(self, name: str, value: Any) -> str:
        """Something that a closure holds, under a name of its own where its text is no name."""
        text = self.expression(value)
        if text.replace(".", "").replace("_", "").isalnum() and not text[0].isdigit():
            return text
        own = self._reserve(object(), f"{name}_value")
        self._parts.append(f"{own} = {text}")
        return own

    def _public_name(self, value: Any) -> str:
        if isinstance(value, types.ModuleType):
            self._imports[value.__name__] = f"import {value.__name__}"
            return value.__name__
        name = getattr(value, "__name__", "")
        for home in (*_HOMES, str(getattr(value, "__module__", ""))):
            base, _, _ = home.partition(".Tensor")
            try:
                holder = importlib.import_module(base)
            except (ImportError, ValueError):
                continue
            if home.endswith(".Tensor"):
                holder = holder.Tensor
            if getattr(holder, name, None) is value:
                if base != "builtins":
                    self._imports[base] = f"import {base}"
                return name if base == "builtins" else f"{home}.{name}"
        raise LookupError(f"{value!r} has no public name that a script could use")

    def _reserve(self, key: Any, wanted: str) -> str:
        name, number = wanted, 2
        while name in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name)
        self._names[key] = name
        return name


def _line(function: types.FunctionType, statement: ast.FunctionDef) -> int:
    """The line of ``def``: a code object begins with the first decorator."""
    first = min([statement.lineno, *(one.lineno for one in statement.decorator_list)])
    return statement.lineno if function.__code__.co_firstlineno == first else -1


def _find(function: types.FunctionType, module: Module) -> ast.FunctionDef | ast.Lambda:
    """The syntax of a function that is not at the top of its module."""
    first = function.__code__.co_firstlineno
    found: list[ast.FunctionDef | ast.Lambda] = []
    for node in ast.walk(ast.parse(module.source)):
        if isinstance(node, ast.FunctionDef):
            if first in (node.lineno, *(one.lineno for one in node.decorator_list)):
                found.append(node)
        elif isinstance(node, ast.Lambda) and node.lineno == first:
            found.append(node)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    is_lambda = code.co_name == "<lambda>"
    fitting = [
        node
        for node in found
        if isinstance(node, ast.Lambda) == is_lambda
        and tuple(one.arg for one in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]) == names
    ]
    if len(fitting) != 1:
        raise LookupError(f"{function!r} in {module.name} has no source that can be told from others")
    return fitting[0]
