"""Imports: no module depends on itself, directly or through others, and the mathematics stays pure."""

import ast
from graphlib import CycleError, TopologicalSorter
from importlib.resources import files

import pytest

from voxpop.lab.experiments.dependencies import Module, dependencies, imported_modules, modules_of

MODULES = modules_of("voxpop", files("voxpop"))
GRAPH = {name: imported_modules(module, MODULES) for name, module in MODULES.items()}

PURE = ("core", "selection", "widths", "belief", "policies", "privacy", "calibration")
MAY_IMPORT = {name: {*PURE, "runtime"} for name in PURE} | {
    "runtime": {"core", "runtime"},
    "belief": {"core", "runtime", "selection", "widths", "belief"},
}

# What the mathematics may import from outside: nothing that sees files, the network, the clock or the environment.
LIBRARIES = {"numpy", "scipy", "dp_accounting", "opendp"}
STANDARD = {
    "__future__",
    "abc",
    "collections",
    "contextlib",
    "dataclasses",
    "difflib",
    "functools",
    "inspect",
    "itertools",
    "json",
    "math",
    "numbers",
    "typing",
}
# Noise for real people comes from the operating system.
EXCEPTIONS = {("voxpop.privacy.sources", "os")}


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def in_packages(*packages: str) -> list[str]:
    return [name for name in sorted(MODULES) if package_of(name) in packages]


def outside(module: str) -> set[str]:
    """The packages that a module imports from outside."""
    return {found.split(".")[0] for found in MODULES[module].imported} - {"voxpop"}


def test_no_module_imports_itself_in_a_roundabout_way() -> None:
    """An import inside a function counts: it only hides a cycle."""
    try:
        TopologicalSorter(GRAPH).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@pytest.mark.parametrize("name", in_packages(*MAY_IMPORT))
def test_the_lower_layers_do_not_know_the_upper_ones(name: str) -> None:
    assert {package_of(found) for found in GRAPH[name]} <= MAY_IMPORT[package_of(name)]


@pytest.mark.parametrize("name", in_packages(*PURE))
def test_the_mathematics_sees_no_file_clock_or_network(name: str) -> None:
    odd = outside(name) - STANDARD - LIBRARIES
    assert {found for found in odd if (name, found) not in EXCEPTIONS} == set()
    calls = [node.func for node in ast.walk(ast.parse(MODULES[name].source)) if isinstance(node, ast.Call)]
    assert not [call for call in calls if isinstance(call, ast.Name) and call.id in ("open", "input", "print")]


@pytest.mark.parametrize(("name", "imported"), sorted(EXCEPTIONS))
def test_every_exception_is_needed(name: str, imported: str) -> None:
    assert imported in outside(name)


# The reading of import statements itself


SOURCE = b"""
from __future__ import annotations
import os.path, p.b
from p import c, VALUE
from p.d import thing as other
from . import e
from .f import name
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from p import types_only
else:
    import p.g
def late():
    try:
        from p.h.i import deep
    except ImportError:
        import p.j
class Inside:
    import p.k
import pq
"""


def test_every_import_statement_is_found() -> None:
    modules = {name: Module(name, b"", is_package=name == "p") for name in ("p", *(f"p.{c}" for c in "abcdefgjk"))}
    modules |= {name: Module(name, b"", is_package=False) for name in ("p.h", "p.h.i", "p.types_only", "pq")}
    found = imported_modules(Module("p.a", SOURCE, is_package=False), modules)
    assert found == {"p", *(f"p.{c}" for c in "bcdefgjk"), "p.h.i", "pq"}


@pytest.mark.parametrize(("name", "is_package"), [("p.a.b", False), ("p.a", True)])
def test_relative_imports_start_where_the_module_is(name: str, is_package: bool) -> None:
    assert Module(name, b"from .c import d\nfrom .. import e", is_package).imported == {"p.a.c.d", "p.e"}


def test_dependencies_are_followed_to_the_end() -> None:
    sources = {"p": b"import p.d", "p.a": b"import p.b", "p.b": b"from p.c import x", "p.c": b"import p.a", "p.d": b""}
    modules = {name: Module(name, source, is_package=name == "p") for name, source in sources.items()}
    assert dependencies("p.a", modules) == {"p.a", "p.b", "p.c"}
    assert dependencies("p", modules) == {"p", "p.d"}
