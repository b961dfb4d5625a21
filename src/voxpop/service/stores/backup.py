"""A backup: every row of a service's tables in one file, which an empty database of either kind can be made from.

The file is lines of JSON, compressed. The first says what it is; then comes each table, with its rows; the last says
how many rows there were, with a checksum of all lines before it. All rows are read in one transaction, so that they
belong together although the service goes on. Sessions of browsers are left out: their operators sign in again.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.util.exc import CommandError

from voxpop.errors import InputError
from voxpop.io.files import partial, sync_folder
from voxpop.service.stores.database import Database
from voxpop.service.stores.migrate import Kind, locked, refuse_stranger, require_sound, upgrade_to, version_of
from voxpop.service.stores.schema import EVERYBODY

FORMAT = 1
MARK = "voxpop backup"  # the first name in every file
ROWS = 1000  # that are read or written at once
LEFT_OUT = ("alembic_version", "sessions")
KINDS: tuple[Kind, ...] = ("coordinator", "shuffler")


@dataclass(frozen=True)
class Backup:
    """What a backup says of itself."""

    kind: Kind
    schema: str
    made: float  # seconds since 1970
    rows: int


def write_backup(database: Database, kind: Kind, path: Path) -> Backup:
    """Write a new file that only its owner can read; it appears under its name when it is complete."""
    require_sound(database)
    if path.exists():
        raise InputError(f"the file {str(path)!r} exists; name another one, so that no backup is lost")
    unfinished = partial(path)
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            with gzip.GzipFile("", "wb", 6, file, 0) as packed, _one_moment(database) as connection:
                made = _dump(database, connection, kind, packed)
            file.flush()
            os.fsync(file.fileno())
        _give_name(unfinished, path)
        sync_folder(path.resolve().parent)
    except OSError as error:
        sentence = f"cannot write {str(path)!r}: {error.strerror}; nothing was written, name a file in another folder"
        raise InputError(sentence) from None
    finally:
        with suppress(OSError):
            unfinished.unlink()
    return made


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


@contextmanager
def _one_moment(database: Database) -> Iterator[sa.Connection]:
    """Open a transaction that sees the database as it is now, whatever is written meanwhile."""
    level = {} if database.embedded else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with database.engine.connect().execution_options(**level) as connection, connection.begin():
        yield connection


def _dump(database: Database, connection: sa.Connection, kind: Kind, file: gzip.GzipFile) -> Backup:
    version = version_of(connection)
    refuse_stranger(database, connection, kind, version)
    if version is None:
        raise InputError(f"the database {database.name} is empty; there is nothing to back up")
    digest, counted = hashlib.sha256(), dict[str, int]()

    def write(said: Any) -> None:
        line = json.dumps(said, default=_encoded, separators=(",", ":")).encode() + b"\n"
        digest.update(line)
        file.write(line)

    made = time.time()
    write({MARK: FORMAT, "kind": kind, "schema": version, "made": made})
    for table in _tables(connection):
        names = [column.name for column in table.columns]
        write({"table": table.name, "columns": names})
        # Read as it is stored: SQLite lets a column hold what its type does not say.
        stored: list[sa.ColumnClause[Any]] = [sa.literal_column(f'"{name}"') for name in names]
        found: sa.Select[*tuple[Any, ...]] = sa.select(*stored).select_from(table)
        counted[table.name] = 0
        for row in connection.execute(found.execution_options(yield_per=ROWS)):
            write(list(row))
            counted[table.name] += 1
    write({"rows": counted, "sha256": digest.hexdigest()})
    return Backup(kind, version, made, sum(counted.values()))


def restore_backup(database: Database, path: Path) -> Backup:
    """Fill an empty database with a backup, in one transaction, and bring it up to date."""
    require_sound(database)
    documents = _documents(path)
    head = _head(path, documents)
    with locked(database) as connection:
        if sa.inspect(connection).get_table_names():
            raise InputError(f"the database {database.name} is not empty; name a new one, so that nothing is lost")
        _make_tables(path, connection, head)
        rows = _fill(path, connection, documents)
        upgrade_to(connection, head["kind"])
    database.scrub()  # so that the file itself has the number by which it is recognised
    return Backup(head["kind"], head["schema"], head["made"], rows)


def check_backup(path: Path) -> Backup:
    """Read a whole backup, and refuse a damaged one."""
    documents = _documents(path)
    head = _head(path, documents)
    rows = sum(isinstance(said, list) for said in documents)
    return Backup(head["kind"], head["schema"], head["made"], rows)


def _documents(path: Path) -> Iterator[Any]:
    """Yield what the lines of a backup say; at the end, refuse it if anything is missing or was changed."""
    digest, counted, table = hashlib.sha256(), dict[str, int](), ""
    try:
        with gzip.open(path, "rb") as file:
            for line in file:
                said = json.loads(line, object_hook=_decoded)
                if isinstance(said, dict) and "sha256" in said:
                    if said == {"rows": counted, "sha256": digest.hexdigest()} and not file.read(1):
                        return
                    break
                digest.update(line)
                if isinstance(said, list):
                    counted[table] += 1
                elif "table" in said:
                    table = str(said["table"])
                    counted[table] = 0
                yield said
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r}; check the path") from None
    except (OSError, EOFError, ValueError, LookupError, TypeError, zlib.error):
        pass
    raise _damaged(path)


def _damaged(path: Path) -> InputError:
    return InputError(f"{str(path)!r} is not a whole backup of voxpop; use another one")


def _head(path: Path, documents: Iterator[Any]) -> dict[str, Any]:
    """Read the first line."""
    head = next(documents, None)
    if not isinstance(head, dict) or head.keys() != {MARK, "kind", "schema", "made"} or head["kind"] not in KINDS:
        raise _damaged(path)
    if head[MARK] != FORMAT:
        raise InputError(f"{str(path)!r} was made by a newer voxpop; upgrade voxpop before you restore it")
    return head


def _make_tables(path: Path, connection: sa.Connection, head: dict[str, Any]) -> None:
    """Make the tables as they were in the version of the backup, without any row."""
    try:
        upgrade_to(connection, head["kind"], head["schema"])
    except CommandError:
        raise InputError(
            f"{str(path)!r} has schema version {head['schema']}, which this voxpop does not know; upgrade voxpop"
        ) from None
    for table in reversed(_tables(connection)):
        connection.execute(sa.delete(table))


def _fill(path: Path, connection: sa.Connection, documents: Iterator[Any]) -> int:
    """Insert all rows, and return how many there are."""
    tables, count = {table.name: table for table in _tables(connection)}, 0
    try:
        for said, rows in _chunks(documents):
            columns = [tables[said["table"]].columns[name] for name in said["columns"]]
            values = [
                {column.name: _fitting(column, value) for column, value in zip(columns, row, strict=True)}
                for row in rows
            ]
            connection.execute(sa.insert(tables[said["table"]]), values)
            count += len(rows)
    except (LookupError, TypeError, ValueError) as error:
        raise error if isinstance(error, InputError) else _damaged(path) from None
    for table in tables.values():
        _go_on_counting(connection, table)
    _require_later(connection, tables)
    return count


def _chunks(documents: Iterator[Any]) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Yield the rows of one table after the other, some at a time."""
    table, rows = dict[str, Any](), list[Any]()
    for said in documents:
        if isinstance(said, list):
            rows.append(said)
        if rows and (len(rows) == ROWS or isinstance(said, dict)):
            yield table, rows
            rows = []
        if isinstance(said, dict):
            table = said
    if rows:
        yield table, rows


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


def _require_later(connection: sa.Connection, tables: dict[str, sa.Table]) -> None:
    """Let nobody who registers from now on pass for one who was there before the rounds of a wave began.

    The numbers of people who were deleted before the backup was made are given again: nobody here has them.
    """
    studies, people = tables.get("studies"), tables.get("people")
    if studies is None or people is None or "newest" not in studies.columns:
        return
    last = connection.execute(sa.select(sa.func.coalesce(sa.func.max(people.c.id), 0))).scalar_one()
    later = (studies.c.newest > last) & (studies.c.newest < EVERYBODY)
    connection.execute(sa.update(studies).where(later).values(newest=last))


def _tables(connection: sa.Connection) -> list[sa.Table]:
    """Return the tables as they are in the database, those that others refer to first."""
    found = sa.MetaData()
    found.reflect(connection)
    return [table for table in found.sorted_tables if table.name not in LEFT_OUT]


def _encoded(value: Any) -> dict[str, str]:
    return {"base64": base64.b64encode(bytes(value)).decode()}


def _decoded(document: dict[str, Any]) -> Any:
    return base64.b64decode(document["base64"]) if document.keys() == {"base64"} else document
