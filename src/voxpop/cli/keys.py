"""`voxpop keys`: the keys of operators, viewers and services."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.table import Table

from voxpop.cli.display import console
from voxpop.cli.operators import DATABASES, DatabaseOption, need_service, said_when
from voxpop.cli.rotation import rotate

if TYPE_CHECKING:
    from voxpop.service.operators import KeyRole
    from voxpop.service.stores.database import Database

Result = TypeVar("Result")

keys = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode="rich", help="Make, list and revoke keys."
)
keys.command("rotate")(rotate)

NewFile = Annotated[
    Path | None, typer.Option("--file", help="Write it to a new file that only you can read, instead of printing it.")
]


@keys.command("random")
def random_key(file: NewFile = None) -> None:
    """Make a new random key, for a secret file or a shuffler key file."""
    from voxpop.service.keys import new_key, write_key

    if file is None:
        typer.echo(new_key())
    else:
        write_key(file, new_key())


@keys.command("operator")
def operator_key(
    name: Annotated[str, typer.Argument(help="Whose key it is; a new one replaces the old.")],
    database: DatabaseOption = None,
    file: NewFile = None,
) -> None:
    """Make an operator's key and show it, once; only its hash is kept."""
    _add(name, "operator", None, database, file)


@keys.command("viewer")
def viewer_key(
    name: Annotated[str, typer.Argument(help="Whose key it is; a new one replaces the old.")],
    study: Annotated[str, typer.Argument(help="The study that they may see.")],
    database: DatabaseOption = None,
    file: NewFile = None,
) -> None:
    """Make a key for someone who may look at one study, and change nothing."""
    _add(name, "viewer", study, database, file)


@keys.command("list")
def list_all(database: DatabaseOption = None) -> None:
    """List all keys: whose they are, what for, and whether they were revoked."""
    need_service()
    from voxpop.service.operators import list_keys

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("name", "role", "study", "made", "revoked"):
        table.add_column(column)
    for key in _with_store(database, list_keys):
        table.add_row(key.name, key.role, key.study or "all", said_when(key.created_at), said_when(key.revoked_at))
    console.print(table, highlight=False, markup=False)


@keys.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(help="Whose key it is.")],
    database: DatabaseOption = None,
    last: Annotated[
        bool, typer.Option("--last", help="Also if it is the last operator's: nobody can operate the service then.")
    ] = False,
) -> None:
    """Revoke a key at once, and sign its browsers out; repeating it changes nothing."""
    need_service()
    from voxpop.service.operators import revoke_key

    done = _with_store(database, lambda store: revoke_key(store, name, time.time(), last=last))
    typer.echo(f"the key of {name} {'is' if done else 'was already'} revoked")


def _add(name: str, role: KeyRole, study: str | None, database: str | None, file: Path | None) -> None:
    """Make a key and show it, or write it to a file that is gone again if the key could not be stored."""
    need_service()
    from voxpop.service.keys import new_key, write_key
    from voxpop.service.operators import add_key, require_holder

    require_holder(name)
    key, first = new_key(), role == "operator"  # who may be given a key before the service was ever started

    def store_key(store: Database) -> None:
        add_key(store, name, key, time.time(), role, study)

    if file is None:
        _with_store(database, store_key, first)
        typer.echo(key)
        return
    write_key(file, key)
    try:
        _with_store(database, store_key, first)
    except BaseException:
        file.unlink()
        raise


def _with_store(database: str | None, use: Callable[[Database], Result], create: bool = False) -> Result:
    """Open the coordinator's database for one use; with `create` a new one is set up, and this is said."""
    from voxpop.errors import InputError
    from voxpop.service.refusals import Refusal

    with closing(_opened(database or DATABASES["coordinator"], create)) as store:
        try:
            return use(store)
        except Refusal as refusal:
            raise InputError(refusal.sentence) from None


def _opened(address: str, create: bool) -> Database:
    from voxpop.service.stores.database import MissingDatabaseError
    from voxpop.service.stores.migrate import open_store

    try:
        return open_store(address, "coordinator", create=False)
    except MissingDatabaseError:
        if not create:
            raise
    made = open_store(address, "coordinator")
    typer.echo(f"note: {made.name} is a new database; its keys are for a coordinator that is started with it", err=True)
    return made
