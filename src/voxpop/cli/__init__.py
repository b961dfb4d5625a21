"""The command line: `voxpop --help`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from voxpop import __version__
from voxpop.cli.commands import Commands

app = typer.Typer(
    name="voxpop",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help=(
        "The best decision for a whole population, from a small, biased sample of its people.\n\n"
        "[bold]Start here:[/bold]  voxpop run  finds the best price for a simulated population of customers, "
        "and writes a report with pictures.\n\n"
        "[bold]With your own people:[/bold]  voxpop calibrate pilot.csv  writes a study file from a pilot;  "
        "voxpop run study.toml  rehearses it;  voxpop ask  and  voxpop tell  conduct it, wave by wave;  "
        "voxpop status,  voxpop report  and  voxpop export  show what it has found.\n\n"
        "[bold]For research:[/bold]  voxpop simulate synthetic --json;  voxpop compare pricing  sets "
        "policies against each other.\n\n"
        "[bold]Privately:[/bold]  add  --privacy central --epsilon 5;  voxpop audit  attacks the releases.\n\n"
        "[bold]On people's devices:[/bold]  voxpop demo  shows a coordinator, a shuffler and hundreds of devices at "
        "work;  voxpop serve  runs a coordinator."
    ),
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"voxpop {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


def main(command: Callable[[], object] = app) -> None:
    """Run the command line; an error that the user can fix is one sentence and exit code 2."""
    try:
        command()
    except ValueError as error:
        from voxpop.errors import InputError

        if not isinstance(error, InputError):
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except ModuleNotFoundError as missing:
        package = str(missing.name).partition(".")[0]
        if package == "voxpop":
            raise
        remedy = "install it with: pip install 'voxpop[service,privacy]'"
        typer.echo(f"error: the service needs {package}; {remedy}", err=True)
        sys.exit(2)
    except OSError as error:
        typer.echo(
            f"error: {error.filename or 'input or output'}: {error.strerror}; check the path and the disk", err=True
        )
        sys.exit(2)
    except SystemExit as stop:
        # Typer exits silently when it is interrupted; a command that has more to say exits by itself.
        if isinstance(getattr(stop.__context__, "__cause__", None), KeyboardInterrupt):
            typer.echo("stopped", err=True)
        raise
