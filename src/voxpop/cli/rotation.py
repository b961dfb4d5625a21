"""`voxpop keys rotate`: replace a secret, or the key shared with a shuffler, without losing a wave."""

from __future__ import annotations

import os
import time
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from voxpop.cli.operators import need_service
from voxpop.errors import InputError

AGAIN = "start all services that have it again, one by one"
NEXT = {
    "added": f"a new key is only accepted so far; copy the file to everyone who has it, {AGAIN}, then use --promote",
    "promoted": f"the new key is the one in use; {AGAIN}, and when the waves open now are closed, use --retire",
    "replaced": "a new key is the one in use; start the coordinator again, and when the waves open now are closed, "
    "use --retire",
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
    need_service()
    from voxpop.service.rotation import note_rotation, read_key_file, require_unneeded, write_key_file
    from voxpop.service.stores.migrate import open_store

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
