"""`voxpop backup` and `voxpop restore`: a service's database in one file, and back."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from voxpop.cli.display import console, errors
from voxpop.cli.operators import DATABASES, DatabaseOption, need_service

if TYPE_CHECKING:
    from voxpop.service.stores.backup import Backup


def backup(
    out: Annotated[Path, typer.Option(help="The new file, which only you can read.")],
    database: DatabaseOption = None,
    of_shuffler: Annotated[bool, typer.Option("--shuffler", help="It is a shuffler's database.")] = False,
) -> None:
    """Write a service's database to one file, while the service runs.

    The file also holds the reports of open waves: protect it as you protect them. It does not hold the secret.
    """
    need_service()
    from voxpop.service.stores.backup import write_backup
    from voxpop.service.stores.database import open_database, require_database

    kind = "shuffler" if of_shuffler else "coordinator"
    address = database or DATABASES[kind]
    require_database(address)
    with closing(open_database(address)) as opened:
        made = write_backup(opened, "shuffler" if of_shuffler else "coordinator", out)
        console.print(f"{opened.name} -> {out}: {_described(made)}", highlight=False, soft_wrap=True)


def restore(
    file: Annotated[Path, typer.Argument(help="A file that voxpop backup wrote.")],
    database: DatabaseOption = None,
    check: Annotated[bool, typer.Option("--check", help="Only read the file, and say whether it is whole.")] = False,
) -> None:
    """Fill an empty database, SQLite or PostgreSQL, from a backup.

    The record of what was released is not part of a backup, and stays as it is: by it, a coordinator recognises a
    database that is older than its releases, and does not start.
    """
    need_service()
    from voxpop.service.stores.backup import check_backup, restore_backup
    from voxpop.service.stores.database import open_database

    found = check_backup(file)
    if check:
        console.print(f"{file} is whole: {_described(found)}", highlight=False, soft_wrap=True)
        return
    address = database or DATABASES[found.kind]
    with closing(open_database(address)) as opened:
        restored = restore_backup(opened, file)
        console.print(f"{file} -> {opened.name}: {_described(restored)}", highlight=False, soft_wrap=True)
    if found.kind == "coordinator":
        _say_what_is_lost(address)


def _say_what_is_lost(address: str) -> None:
    """Warn at once of what the coordinator would refuse when it starts."""
    from voxpop.service.serve import lost_releases
    from voxpop.service.settings import settings_of

    for lost in lost_releases(settings_of(database=address)).values():
        errors.print(
            f"warning: {lost} was released after this backup was made; restore a newer one, or see: voxpop restored",
            highlight=False,
            soft_wrap=True,
        )


def _described(found: Backup) -> str:
    made = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(found.made))
    return f"{found.rows:,} rows of {found.schema}, as of {made}"
