"""Whether a file is a database, and a whole one: checked when a service starts, before anything is stored in it."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from voxpop.core.errors import InputError
from voxpop.stores.causes import cause
from voxpop.stores.database import DAMAGED, Database

MOST_BYTES = 256 * 2**20  # of a file that is read as a whole, which takes about a second
ESSENTIAL = ("studies", "events", "marks", "batches")  # small tables, which are checked in a file of any size


def require_sound(database: Database) -> None:
    """Refuse a file that is no SQLite database, or a damaged one.

    SQLite's quick_check reads every page, but does not compare indices with their tables, which would take several
    times as long. Of a file above `MOST_BYTES` only the tables without which no study can go on are read.
    """
    if database.file is None:
        return
    small = Path(database.file.path).stat().st_size <= MOST_BYTES
    try:
        with database.read() as connection:
            tables = sa.inspect(connection).get_table_names()
            checks = [""] if small else [f"({name})" for name in ESSENTIAL if name in tables]
            found = [connection.exec_driver_sql(f"PRAGMA quick_check{check}").scalars().first() for check in checks]
    except sa.exc.DatabaseError as error:
        raise _refusal(database, cause(error)) from None
    if any(said != "ok" for said in found):
        raise _refusal(database, DAMAGED[0])


def _refusal(database: Database, name: str) -> InputError:
    if name.startswith("SQLITE_NOTADB"):
        return InputError(f"{database.name} is not an SQLite database; name another file, or restore this one")
    if name.startswith(DAMAGED):
        return InputError(f"the database {database.name} is damaged; restore it from a backup")
    return InputError(f"cannot open the database {database.name} ({name}); check the file, its disk and who uses it")
