"""Starting the command: `--help` imports nothing that it does not need, and says what the commands say."""

import ast
import json
from importlib import import_module
from importlib.resources import files

import pytest
import typer

import voxpop
from tests.helpers_cli import python
from voxpop.cli.commands import MODULES, first_paragraph, load

HEAVY = {"numpy", "scipy", "matplotlib", "sqlalchemy", "pandas", "pydantic", "starlette", "uvicorn", "httpx", "numba"}

LOADED = """
import json, sys
from voxpop.cli import main
sys.argv = ["voxpop", *sys.argv[1:]]
try:
    main()
except SystemExit as stop:
    print(json.dumps([stop.code or 0, sorted({name.split(".")[0] for name in sys.modules}), sorted(sys.modules)]))
"""


def loaded_by(*arguments: str) -> tuple[set[str], set[str]]:
    """Run the command in a process of its own; return the packages and the modules that it loaded."""
    done = python(LOADED, *arguments)
    code, packages, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stderr
    return set(packages), set(modules)


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_loads_no_heavy_module(option: str) -> None:
    packages, modules = loaded_by(option)
    assert packages & HEAVY == set()
    assert {name for name in modules if name.startswith("voxpop.")} == {"voxpop.cli", "voxpop.cli.commands"}


def test_the_help_of_a_command_loads_only_that_command() -> None:
    """Guards the test above: what a command needs is noticed."""
    packages, modules = loaded_by("simulate", "--help")
    assert "numpy" in packages
    assert "voxpop.cli.simulate" in modules
    assert not modules & {"voxpop.cli.service", "sqlalchemy", "matplotlib"}


@pytest.mark.parametrize("name", MODULES)
def test_the_list_says_what_the_command_says(name: str) -> None:
    found = getattr(import_module(f"voxpop.cli.{MODULES[name]}"), name)
    said = str(found.info.help if isinstance(found, typer.Typer) else found.__doc__).split("\n\n")[0]
    assert first_paragraph(MODULES[name], name) == said
    assert load(name).get_short_help_str(200).rstrip(".") == said.rstrip(".")


WITHOUT = """
import sys
from voxpop.cli import main
sys.modules[sys.argv.pop(1)] = None
main()
"""


@pytest.mark.parametrize(
    ("missing", "arguments"),
    [("starlette", ("serve",)), ("sqlalchemy", ("keys", "list")), ("httpx", ("status", "tea"))],
)
def test_a_command_that_needs_the_service_says_what_to_install(missing: str, arguments: tuple[str, ...]) -> None:
    done = python(f"import os; os.environ['VOXPOP_KEY'] = 'k' * 40\n{WITHOUT}", missing, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    sentence = f"error: the service needs {missing}; install it with: pip install 'voxpop[service,privacy]'\n"
    assert done.stderr == sentence


def test_a_missing_module_of_our_own_is_a_fault_and_not_something_to_install() -> None:
    done = python(WITHOUT, "voxpop.service.keys", "keys", "list")
    assert "ModuleNotFoundError" in done.stderr


def test_names_of_the_package_are_loaded_on_demand_and_are_those_that_type_checkers_see() -> None:
    tree = ast.parse(files("voxpop").joinpath("__init__.py").read_text(encoding="utf-8"))
    (seen,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = {name.name: node.module for node in seen.body if isinstance(node, ast.ImportFrom) for name in node.names}
    assert imports == voxpop._MODULES
    assert sorted(imports) == voxpop.__all__
    for name, module in imports.items():
        assert getattr(voxpop, name) is getattr(import_module(str(module)), name)
    with pytest.raises(AttributeError, match="module 'voxpop' has no attribute 'Studdy'"):
        _ = voxpop.Studdy
