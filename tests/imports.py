"""Which modules of a package a module depends on, read from the import statements in their source code."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources.abc import Traversable
from importlib.util import resolve_name
from itertools import chain


@dataclass(frozen=True)
class Module:
    """A module's name and its source code."""

    name: str
    source: bytes
    is_package: bool

    @property
    def imported(self) -> frozenset[str]:
        """Everything imported anywhere in the module, except for type checkers only: `from a import b` as `a.b`."""
        package = self.name if self.is_package else self.name.rpartition(".")[0]
        return _names(self.source, package)


def modules_of(name: str, folder: Traversable) -> dict[str, Module]:
    """Read the source code of every module of a package, which is in this folder."""
    found: dict[str, Module] = {}
    for entry in folder.iterdir():
        if entry.is_dir() and entry.joinpath("__init__.py").is_file():
            found |= modules_of(f"{name}.{entry.name}", entry)
        elif entry.name == "__init__.py":
            found[name] = Module(name, entry.read_bytes(), is_package=True)
        elif entry.name.endswith(".py"):
            module = f"{name}.{entry.name.removesuffix('.py')}"
            found[module] = Module(module, entry.read_bytes(), is_package=False)
    return found


def imported_modules(module: Module, modules: Mapping[str, Module]) -> set[str]:
    """Find those of the modules that a module imports from.

    Python runs a package's `__init__` before any of its modules. That counts only where something is imported from
    the package itself: a module does not depend on names that a package gathers for others.
    """
    found = (_module_of(name, modules) for name in module.imported)
    return {name for name in found if name is not None}


def dependencies(start: str, modules: Mapping[str, Module], leaves: Collection[str] = ()) -> set[str]:
    """Find the modules that a module depends on, including itself; what the leaves import does not count."""
    found, waiting = {start}, [start]
    while waiting:
        name = waiting.pop()
        new = set() if name in leaves else imported_modules(modules[name], modules) - found
        found |= new
        waiting += new
    return found


def _module_of(imported: str, modules: Mapping[str, Module]) -> str | None:
    """Find the module that an imported name is, or is in; None if it is not one of these modules."""
    while imported and imported not in modules:
        imported = imported.rpartition(".")[0]
    return imported or None


@cache
def _names(source: bytes, package: str) -> frozenset[str]:
    """Find what a source imports; parsing it is all the work, and sources seldom change."""
    return frozenset(_imported(ast.parse(source), package))


def _imported(node: ast.AST, package: str) -> Iterator[str]:
    match node:
        case ast.Import(names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module, names, level):
            source = resolve_name("." * level + (module or ""), package) if level else module
            yield from (f"{source}.{alias.name}" for alias in names)
        case ast.If(ast.Name("TYPE_CHECKING"), _, orelse):
            yield from chain.from_iterable(_imported(each, package) for each in orelse)
        case _:
            yield from chain.from_iterable(_imported(each, package) for each in ast.iter_child_nodes(node))
