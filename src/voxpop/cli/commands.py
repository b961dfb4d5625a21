"""The list of commands, each imported when it is called: `voxpop --help` only reads what they say of themselves."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.resources import files
from inspect import getdoc
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

MODULES = {  # of voxpop.cli, by command, in the order of the help
    "run": "simulate",
    "simulate": "simulate",
    "compare": "simulate",
    "calibrate": "calibrate",
    "plan": "plan",
    "ask": "study",
    "played": "study",
    "tell": "study",
    "undo": "study",
    "watch": "study",
    "status": "study",
    "report": "study",
    "export": "study",
    "audit": "audit",
    "demo": "demo",
    "fleet": "demo",
    "serve": "service",
    "shuffler": "service",
    "migrate": "service",
    "backup": "service",
    "restore": "service",
    "restored": "service",
    "keys": "keys",
    "study": "operators",
    "webhooks": "webhooks",
}


class Commands(TyperGroup):
    """All commands, each imported when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return list(MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        """Return a stand-in that has the name and the help of a command."""
        known = cmd_name in MODULES
        return TyperCommand(cmd_name, help=first_paragraph(MODULES[cmd_name], cmd_name)) if known else None

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that is called."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, found and load(str(found.name)), rest


def load(name: str) -> Any:
    """Import a command or a group of commands.

    A function of one argument `chosen` takes its options as a frozen dataclass, whose fields they are.
    """
    found = getattr(import_module(f"voxpop.cli.{MODULES[name]}"), name)
    if isinstance(found, typer.Typer):
        return unwrapped(typer.main.get_command(found))
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    options = get_type_hints(found).get("chosen")
    alone.command(name, help=getdoc(found))(options or found)
    command: Any = typer.main.get_command(alone)
    if options is not None:
        make = command.callback
        command.callback = lambda **values: found(make(**values))
    return unwrapped(command)


def unwrapped(command: Any) -> Any:
    """Join the lines of each paragraph of a command's help, which the terminal wraps at its own width."""
    for one in getattr(command, "commands", {}).values():
        unwrapped(one)
    if command.help:
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in command.help.split("\n\n"))
    return command


def first_paragraph(module: str, name: str) -> str:
    """Read what a command says of itself: the start of its docstring, or the `help` of a group."""
    source = files("voxpop.cli").joinpath(f"{module}.py").read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return str(ast.get_docstring(node)).split("\n\n")[0]
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name and isinstance(node.value, ast.Call):
            return next(str(ast.literal_eval(word.value)) for word in node.value.keywords if word.arg == "help")
    raise LookupError(f"no command {name} in {module}")
