"""Imports: no module depends on itself, directly or through others, and the mathematics stays pure."""

import ast
from graphlib import CycleError, TopologicalSorter
from importlib.resources import files

import pytest

from tests.imports import Module, dependencies, imported_modules, modules_of

MODULES = modules_of("voxpop", files("voxpop"))
GRAPH = {name: imported_modules(module, MODULES) for name, module in MODULES.items()}

# The rooms in the order of dependence: each imports from those before it and from itself. The first seven are pure.
ROOMS: tuple[str, ...] = ("errors", "runtime", "model", "gp", "privacy", "policies", "calibration")
ROOMS += ("io", "journal", "report", "study", "simulation", "client", "service", "cli")
PURE = tuple(room for room in ROOMS[: ROOMS.index("io")] if room != "runtime")  # which looks at the machine

# What the mathematics may import from outside: nothing that sees files, the network, the clock or the environment.
LIBRARIES = {"numpy", "scipy", "dp_accounting", "opendp", "Crypto", "msgspec", "torch", "botorch", "gpytorch"}
STANDARD = {
    "__future__",
    "abc",
    "ast",
    "base64",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "decimal",
    "difflib",
    "enum",
    "functools",
    "inspect",
    "itertools",
    "json",
    "math",
    "numbers",
    "operator",
    "re",
    "typing",
    "unicodedata",
    "warnings",
}
# Noise for real people comes from the operating system, and local time from the time zone database.
EXCEPTIONS = {
    ("voxpop.model.calendar", "datetime"),
    ("voxpop.model.calendar", "zoneinfo"),
    ("voxpop.privacy.sources", "os"),
}


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


def test_every_room_imports_only_from_those_before_it() -> None:
    assert {package_of(name) for name in MODULES} == {"", "__main__", *ROOMS}
    upward = [
        f"{name} imports {found}"
        for name in in_packages(*ROOMS)
        for found in GRAPH[name]
        if package_of(found) and ROOMS.index(package_of(found)) > ROOMS.index(package_of(name))
    ]
    assert upward == []


def test_the_mathematics_sees_no_file_clock_or_network() -> None:
    odd = {(name, found) for name in in_packages(*PURE) for found in outside(name) - STANDARD - LIBRARIES}
    assert odd - EXCEPTIONS == set()
    for name in in_packages(*PURE):
        calls = [node.func for node in ast.walk(ast.parse(MODULES[name].source)) if isinstance(node, ast.Call)]
        named = {call.id for call in calls if isinstance(call, ast.Name)}
        assert not named & {"open", "input", "print"}, name
        methods = {call.attr for call in calls if isinstance(call, ast.Attribute)}
        assert not methods & {"now", "today", "utcnow"}, name


@pytest.mark.parametrize(("name", "imported"), sorted(EXCEPTIONS))
def test_every_exception_is_needed(name: str, imported: str) -> None:
    assert imported in outside(name)


# Randomness

# What real people's answers pass through.
SERVING = ("privacy", "calibration", "client", "service", "io", "journal", "study")
PREDICTABLE = {  # where a generator that can be repeated is used, and for what
    ("voxpop.client.retries", "random"),  # pauses between attempts
    ("voxpop.journal.replay", "Simulated"),  # a check, after the fact
    ("voxpop.privacy", "Simulated"),
    ("voxpop.privacy.sources", "Simulated"),
    ("voxpop.service.study.steps", "default_rng"),  # orders of play, with a seed of the operating system
    ("voxpop.service.demo.crowd", "default_rng"),  # the people of voxpop demo and voxpop fleet
    ("voxpop.service.console.sample", "default_rng"),  # the simulated people of the sample study
    ("voxpop.study.study", "default_rng"),  # the order of play, seeded by the operating system
}
GENERATORS = {"random", "uuid", "Simulated", "__import__", "import_module"}  # or ways around an import statement
TYPES = {"Generator"}  # of numpy.random: an argument's type


def predictable(source: bytes) -> set[str]:
    """Return the generators and the members of numpy.random that a module names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {part for alias in names for part in alias.name.split(".") if part in GENERATORS}
            case ast.ImportFrom(module=module, names=names):
                found |= {part for part in (module or "").split(".") if part in GENERATORS}
                found |= {alias.name for alias in names if alias.name in GENERATORS}
            case ast.Attribute(value=ast.Attribute(attr="random"), attr=name) if name not in TYPES:
                found.add(name)
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.ClassDef(name=name) if name in GENERATORS - {
                "random"
            }:
                found.add(name)
    return found


def test_no_generator_that_can_be_repeated_serves_real_people() -> None:
    used = {(name, found) for name in in_packages(*SERVING) for found in predictable(MODULES[name].source)}
    assert used == PREDICTABLE


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import random", {"random"}),
        ("from random import Random", {"random"}),
        ("import numpy.random", {"random"}),
        ("from numpy import random as chance", {"random"}),
        ("x = np.random.default_rng(0)", {"default_rng"}),
        ("x = numpy.random.normal()", {"normal"}),
        ("def f(rng: np.random.Generator) -> None: ...", set()),
        ("from voxpop.privacy import Simulated", {"Simulated"}),
        ("x = privacy.Simulated(rng)", {"Simulated"}),
        ("x = __import__('random')", {"__import__"}),
        ("from importlib import import_module", {"import_module"}),
        ("import secrets; secrets.SystemRandom().random()", set()),
    ],
)
def test_generators_are_found_where_they_are(text: str, found: set[str]) -> None:
    """Guards the test above."""
    assert predictable(text.encode()) == found


def test_noise_takes_nothing_but_random_bits_from_the_operating_system() -> None:
    """Whatever else `os` gives, such as the environment, can be the same twice."""
    nodes = list(ast.walk(ast.parse(MODULES["voxpop.privacy.sources"].source)))
    names = [node for node in nodes if isinstance(node, ast.Name) and node.id == "os"]
    taken = [node.attr for node in nodes if isinstance(node, ast.Attribute) and node.value in names]
    assert taken == ["urandom"] * len(names)
    assert taken


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
