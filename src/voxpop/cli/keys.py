"""`voxpop keys`: the keys of operators, viewers and services, and how to replace a secret without losing a wave."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Literal

import typer

from voxpop.cli.display import console, table_of
from voxpop.cli.operators import DATABASES, DatabaseOption, said_when
from voxpop.errors import InputError
from voxpop.service.keys import new_key, write_key
from voxpop.service.operators import KeyInfo, KeyRole, add_key, grant, list_keys, require_holder, revoke_key
from voxpop.service.refusals import Refusal
from voxpop.service.rotation import note_rotation, read_key_file, require_unneeded, write_key_file
from voxpop.service.stores.database import Database, MissingDatabaseError
from voxpop.service.stores.migrate import open_store

AGAIN = "services take it within seconds; start those again that were given it by a variable"
NEXT = {
    "added": f"a new key is only accepted so far; copy the file to everyone who has it, {AGAIN}, then use --promote",
    "promoted": f"the new key is the one in use; {AGAIN}, and when the waves open now are closed, use --retire",
    "replaced": f"a new key is the one in use; {AGAIN}, and when the waves open now are closed, use --retire",
    "retired": f"only the key in use is left; {AGAIN}",
}


def rotate(
    file: Annotated[Path, typer.Argument(help="The file of a secret, or of the key shared with a shuffler.")],
    add: Annotated[bool, typer.Option("--add", help="Add a new key that is only accepted.")] = False,
    promote: Annotated[bool, typer.Option("--promote", help="Put the key that was added in use.")] = False,
    retire: Annotated[bool, typer.Option("--retire", help="Drop all keys but the one in use.")] = False,
    database: Annotated[
        str | None,
        typer.Option(
            help="The coordinator's database: refuses to drop a secret that is needed, and keeps a trail. The one "
            "beside the secret unless given, or that of VOXPOP_DATABASE."
        ),
    ] = None,
    unchecked: Annotated[
        bool,
        typer.Option("--unchecked", help="They are keys that no database knows: those shared with a shuffler."),
    ] = False,
) -> None:
    """Replace a key step by step: --add, --promote, --retire; without an option add one and put it in use at once.

    At once is right for the secret of a single coordinator. Several coordinators, or a coordinator and a shuffler, must
    all accept the new key before one of them uses it.
    """
    if add + promote + retire > 1:
        raise InputError("--add, --promote and --retire are steps of their own; give one of them, or none")
    before = read_key_file(file)
    if add:
        after, step = before.add(), "added"
    elif promote:
        after, step = before.promote(), "promoted"
    elif retire:
        after, step = before.retire(), "retired"
    else:
        after, step = before.add().promote(), "replaced"
    named = None if unchecked else os.environ.get("VOXPOP_DATABASE") or None  # on a shuffler it is the shuffler's
    address = database or _database_of(file) or named
    if retire and address is None and not unchecked:
        raise InputError(
            "an open invitation may need an older secret; give --database, or --unchecked for a shuffler's key"
        )
    with nullcontext() if address is None else closing(open_store(address, "coordinator", create=False)) as store:
        if store is not None and retire:
            require_unneeded(store, before, after)
        write_key_file(file, before, after)
        if store is not None:
            note_rotation(store, time.time(), file, step)
    typer.echo(f"{file}: {NEXT[step]}")


def _database_of(file: Path) -> str | None:
    """Return the embedded database that a secret lies beside; None if there is none."""
    beside = file.with_name(file.name.removesuffix(".secret"))
    return str(beside) if beside != file and beside.is_file() else None


keys = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode="rich", help="Make, list and revoke keys."
)
keys.command("rotate")(rotate)

Holder = Annotated[str, typer.Argument(help="Whose key it is; a new one replaces the old.")]
Studies = Annotated[list[str], typer.Argument(metavar="STUDY...", help="The studies.")]
NewFile = Annotated[
    Path | None, typer.Option("--file", help="Write it to a new file that only you can read, instead of printing it.")
]


@keys.command("random")
def random_key(file: NewFile = None) -> None:
    """Make a new random key, for a secret file or a shuffler key file."""
    if file is None:
        typer.echo(new_key())
    else:
        write_key(file, new_key())
        typer.echo(f"{file}: a new key, which only you can read")


@keys.command("operator")
def operator_key(name: Holder, database: DatabaseOption = None, file: NewFile = None) -> None:
    """Make an operator's key and show it, once; only its hash is kept."""
    _add(name, "operator", None, database, file)


@keys.command("owner")
def owner_key(name: Holder, studies: Studies, database: DatabaseOption = None, file: NewFile = None) -> None:
    """Make a key for someone who may do everything with these studies, and nothing else."""
    _add(name, "owner", studies, database, file)


@keys.command("viewer")
def viewer_key(name: Holder, studies: Studies, database: DatabaseOption = None, file: NewFile = None) -> None:
    """Make a key for someone who may look at these studies, and change nothing."""
    _add(name, "viewer", studies, database, file)


@keys.command("application")
def application_key(
    name: Holder,
    study: Annotated[str, typer.Argument(help="The study whose decisions it plays.")],
    database: DatabaseOption = None,
    file: NewFile = None,
) -> None:
    """Make a key for a study's application: it may report rounds and read the decision in force, and nothing else."""
    _add(name, "application", [study], database, file)


@keys.command("account")
def account(
    name: Annotated[str, typer.Argument(help="Who it is; what there is under the name is replaced.")],
    email: Annotated[str, typer.Argument(help="The address for which the identity provider vouches.")],
    role: Annotated[KeyRole, typer.Option(help="operator, or with studies: owner or viewer.")] = "operator",
    study: Annotated[list[str] | None, typer.Option(help="A study of an owner or viewer; may be repeated.")] = None,
    database: DatabaseOption = None,
) -> None:
    """Let someone sign in with the identity provider (--oidc-issuer) instead of a key."""
    with _store(database) as store:
        add_key(store, name, None, time.time(), role, study, email=email)
    typer.echo(f"{name} signs in as {email}")


@keys.command("allow")
def allow(
    name: Annotated[str, typer.Argument(help="Who is given the role.")],
    study: Annotated[str, typer.Argument(help="In which study.")],
    role: Annotated[Literal["owner", "viewer", "none"], typer.Argument(help="owner, viewer, or none.")] = "viewer",
    database: DatabaseOption = None,
) -> None:
    """Give an owner or viewer a role in one more study, another role, or none; the key stays the same."""
    with _store(database) as store:
        grant(store, name, study, None if role == "none" else role, time.time())
    typer.echo(f"{name}: {role} of {study}")


@keys.command("list")
def list_all(database: DatabaseOption = None) -> None:
    """List all keys: whose they are, what for, and whether they were revoked."""
    columns = ("name", "role", "studies", "made", "revoked")
    with _store(database) as store:
        rows = [
            (key.name, key.role, said_roles(key), said_when(key.created_at), said_when(key.revoked_at))
            for key in list_keys(store)
        ]
    console.print(table_of(columns, rows, left=columns), highlight=False, markup=False)


@keys.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(help="Whose key it is.")],
    database: DatabaseOption = None,
    last: Annotated[
        bool, typer.Option("--last", help="Also if it is the last operator's: nobody can operate the service then.")
    ] = False,
) -> None:
    """Revoke a key at once, and sign its browsers out; repeating it changes nothing."""
    with _store(database) as store:
        done = revoke_key(store, name, time.time(), last=last)
    typer.echo(f"the key of {name} {'is' if done else 'was already'} revoked")


def said_roles(key: KeyInfo) -> str:
    """Say in which studies a key has which role."""
    return "all" if key.role == "operator" else ", ".join(f"{study} ({role})" for study, role in key.studies.items())


def _add(name: str, role: KeyRole, study: list[str] | None, database: str | None, file: Path | None) -> None:
    """Make a key and show it, or write it to a file that is gone again if the key could not be stored."""
    name = require_holder(name)
    key = new_key()
    if file is not None:
        write_key(file, key)
    try:
        with _store(database, first=role == "operator") as store:
            add_key(store, name, key, time.time(), role, study)
    except BaseException:
        if file is not None:
            file.unlink()
        raise
    about = f"the key of {name}, {role}" + (f" of {', '.join(study)}" if study else "")
    typer.echo(key if file is None else f"{file}: {about}, which only you can read; --key-file {file} uses it")


@contextmanager
def _store(database: str | None, first: bool = False) -> Iterator[Database]:
    """Open the coordinator's database; the `first` key may be made before the service was ever started."""
    address = database or DATABASES["coordinator"]
    try:
        store = open_store(address, "coordinator", create=False)
    except MissingDatabaseError:
        if not first:
            raise
        store = open_store(address, "coordinator")
        note = f"note: {store.name} is a new database; its keys are for a coordinator that is started with it"
        typer.echo(note, err=True)
    with closing(store):
        try:
            yield store
        except Refusal as refusal:
            raise InputError(refusal.sentence) from None
