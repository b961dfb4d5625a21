"""A backup: a service's database as a compressed SQLite file, from which an empty database of either kind is made.

SQLite's own backup copies an SQLite database; the rows of another one are read in one transaction. Either way they
belong together although the service goes on. Sessions of browsers are left out: their operators sign in again.
"""

from __future__ import annotations

import gzip
import os
import shutil
import sqlite3
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa
from alembic.util.exc import CommandError

from voxpop.errors import InputError
from voxpop.io.files import sync_folder
from voxpop.service.stores.database import Database, open_database
from voxpop.service.stores.migrate import Kind, locked, refuse_stranger, require_sound, upgrade_to, version_of
from voxpop.service.stores.schema import EVERYBODY, people, studies

ROWS = 1000  # that are read or written at once
LEFT_OUT = ("alembic_version", "sessions")
KINDS: dict[str, Kind] = {"coordinator": "coordinator", "shuffler": "shuffler"}
EARLIER = b'{"voxpop backup":'  # how a backup began that was not a database


@dataclass(frozen=True)
class Backup:
    """What a backup says of itself."""

    kind: Kind
    schema: str
    made: int  # seconds since 1970
    rows: int


def write_backup(database: Database, kind: Kind, path: Path) -> Backup:
    """Write a new file that only its owner can read; it appears under its name when it is complete."""
    require_sound(database)
    if path.exists():
        raise InputError(f"the file {str(path)!r} exists; name another one, so that no backup is lost")
    folder = path.resolve().parent
    try:
        with TemporaryDirectory(prefix=f".{path.name}.", dir=folder) as own:  # which only its owner can enter
            copy, packed = Path(own) / "copy.db", Path(own) / "packed"
            made = int(time.time())
            _copy_out(database, kind, copy)
            with closing(open_database(str(copy))) as copied:
                found = _described(copied, made)
            with os.fdopen(os.open(packed, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                with gzip.GzipFile("", "wb", 6, file, made) as out, copy.open("rb") as source:
                    shutil.copyfileobj(source, out)
                file.flush()
                os.fsync(file.fileno())
            _give_name(packed, path)
        sync_folder(folder)
    except OSError as error:
        sentence = f"cannot write {str(path)!r}: {error.strerror}; nothing was written, name a file in another folder"
        raise InputError(sentence) from None
    return found


def _give_name(unfinished: Path, path: Path) -> None:
    """Give a complete file its name, and never replace another one."""
    try:
        os.link(unfinished, path)
    except FileExistsError:
        raise
    except OSError:  # some disks and network folders know no second name of a file: take the name, then rename
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            unfinished.replace(path)
        except OSError:
            path.unlink()
            raise


def _copy_out(database: Database, kind: Kind, path: Path) -> None:
    """Make an SQLite file of a database as it is now, whatever is written meanwhile."""
    level = {} if database.embedded else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with database.engine.connect().execution_options(**level) as connection, connection.begin():
        version = version_of(connection)
        refuse_stranger(database, connection, kind, version)
        if version is None:
            raise InputError(f"the database {database.name} is empty; there is nothing to back up")
        if not database.embedded:
            with closing(open_database(str(path))) as copy, copy.write() as target:
                _copy_rows(connection, target, kind, version)
            return
        with closing(sqlite3.connect(path)) as copied:
            driver: Any = connection.connection.driver_connection
            driver.backup(copied)
            if copied.execute("SELECT 1 FROM sqlite_master WHERE name = 'sessions'").fetchone():
                copied.execute("DELETE FROM sessions")
                copied.commit()
            copied.execute("PRAGMA journal_mode = DELETE")
            copied.execute("VACUUM")  # so that nothing of what was deleted is in the file


def restore_backup(database: Database, path: Path) -> Backup:
    """Fill an empty database with a backup, in one transaction, and bring it up to date."""
    require_sound(database)
    with _unpacked(path) as (backup, found), locked(database) as connection:
        if sa.inspect(connection).get_table_names():
            raise InputError(f"the database {database.name} is not empty; name a new one, so that nothing is lost")
        try:
            with found.read() as source:
                _copy_rows(source, connection, backup.kind, backup.schema)
        except CommandError:
            raise InputError(
                f"{str(path)!r} has schema version {backup.schema}, which this voxpop does not know; upgrade voxpop"
            ) from None
        except (LookupError, TypeError, ValueError, sa.exc.DatabaseError):
            raise _damaged(path) from None
        upgrade_to(connection, backup.kind)
        if backup.kind == "coordinator":
            _require_later(connection)
    database.scrub()  # so that the file itself has the number by which it is recognised
    return backup


def check_backup(path: Path) -> Backup:
    """Read a whole backup, and refuse a damaged one."""
    with _unpacked(path) as (backup, _):
        return backup


@contextmanager
def _unpacked(path: Path) -> Iterator[tuple[Backup, Database]]:
    """Open a backup as a database of its own; refuse what is damaged, or was made by an earlier version."""
    with TemporaryDirectory(prefix="voxpop-") as own:
        file = Path(own) / "backup.db"
        try:
            with gzip.open(path, "rb") as packed, file.open("wb") as out:
                shutil.copyfileobj(packed, out)
                made = packed.mtime or 0
        except FileNotFoundError:
            raise InputError(f"there is no file {str(path)!r}; check the path") from None
        except (OSError, EOFError, zlib.error):
            raise _damaged(path) from None
        with file.open("rb") as start:
            if start.read(len(EARLIER)) == EARLIER:
                raise InputError(
                    f"{str(path)!r} is a backup of format 1, which an earlier voxpop made; restore it with that one, "
                    "and bring the database up to date with: voxpop migrate"
                )
        with closing(open_database(str(file))) as database:
            try:
                require_sound(database)
                backup = _described(database, made)
            except (InputError, LookupError, sa.exc.DatabaseError):
                raise _damaged(path) from None
            yield backup, database


def _described(database: Database, made: int) -> Backup:
    """Say what a backup holds."""
    with database.read() as connection:
        version = str(version_of(connection))
        counts = [sa.select(sa.func.count()).select_from(table) for table in _tables(connection)]
        rows = sum(int(connection.execute(count).scalar_one()) for count in counts)
    return Backup(KINDS[version.rpartition("_")[0]], version, made, rows)


def _damaged(path: Path) -> InputError:
    return InputError(f"{str(path)!r} is not a whole backup of voxpop; use another one")


def _copy_rows(source: sa.Connection, target: sa.Connection, kind: Kind, version: str) -> None:
    """Make the tables of a version, and fill them with the rows of another database of that version."""
    upgrade_to(target, kind, version)
    tables = {table.name: table for table in _tables(target)}
    for table in reversed(tables.values()):
        target.execute(sa.delete(table))  # what the migrations put there
    for table in _tables(source):
        into = tables[table.name]
        columns = [into.columns[column.name] for column in table.columns]
        # Read as it is stored: SQLite lets a column hold what its type does not say.
        stored: list[sa.ColumnClause[Any]] = [sa.literal_column(f'"{column.name}"') for column in columns]
        wanted: sa.Select[*tuple[Any, ...]] = sa.select(*stored).select_from(table)
        for part in source.execute(wanted.execution_options(yield_per=ROWS)).partitions():
            rows = [
                {column.name: _fitting(column, value) for column, value in zip(columns, row, strict=True)}
                for row in part
            ]
            target.execute(sa.insert(into), rows)
        _go_on_counting(target, into)


def _fitting(column: sa.Column[Any], value: Any) -> Any:
    """Return a value as the column takes it: SQLite has no truth values, and may hold text where bytes belong."""
    if isinstance(column.type, sa.Boolean) and value is not None:
        return bool(value)
    if isinstance(column.type, sa.LargeBinary) and isinstance(value, str):
        return value.encode()
    return value


def _go_on_counting(connection: sa.Connection, table: sa.Table) -> None:
    """Let PostgreSQL number new rows after those that are there; SQLite does so by itself."""
    keys = list(table.primary_key.columns)
    if connection.dialect.name != "postgresql" or len(keys) != 1:
        return
    (key,) = keys
    name = connection.execute(sa.select(sa.func.pg_get_serial_sequence(table.name, key.name))).scalar_one()
    last = connection.execute(sa.select(sa.func.max(key))).scalar_one()
    if name is not None and last is not None:
        connection.execute(sa.select(sa.func.setval(name, last)))


def _require_later(connection: sa.Connection) -> None:
    """Let nobody who registers from now on pass for one who was there before the rounds of a wave began.

    The numbers of people who were deleted before the backup was made are given again: nobody here has them.
    """
    last = connection.execute(sa.select(sa.func.coalesce(sa.func.max(people.c.id), 0))).scalar_one()
    later = (studies.c.newest > last) & (studies.c.newest < EVERYBODY)
    connection.execute(sa.update(studies).where(later).values(newest=last))


def _tables(connection: sa.Connection) -> list[sa.Table]:
    """Return the tables as they are in the database, those that others refer to first."""
    found = sa.MetaData()
    found.reflect(connection)
    return [table for table in found.sorted_tables if table.name not in LEFT_OUT]
