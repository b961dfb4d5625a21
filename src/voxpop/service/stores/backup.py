"""A backup: a service's database as a compressed SQLite file, from which an empty database of either kind is made.

All rows are read in one transaction, so they belong together although the service goes on. Sessions of browsers are
left out: their operators sign in again.
"""

from __future__ import annotations

import gzip
import os
import shutil
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy as sa

from voxpop.errors import InputError
from voxpop.io.files import sync_folder
from voxpop.service.stores import migrate, schema
from voxpop.service.stores.database import Database, open_database
from voxpop.service.stores.migrate import Kind, known_version, require_sound

LEAST_UNPACKED, MOST_RATIO = 2**26, 50  # bytes that any backup may have, and how many times as large it may become
ROWS = 1000  # that are read or written at once
LEFT_OUT = (schema.version.name, schema.sessions.name)
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
            with closing(open_database(str(copy))) as copied:
                _copy_out(database, kind, copied)
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


def _copy_out(database: Database, kind: Kind, copied: Database) -> None:
    """Fill an empty SQLite database with what another one holds now, whatever is written there meanwhile."""
    level = {} if database.embedded else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with database.engine.connect().execution_options(**level) as connection, connection.begin():
        version = known_version(connection, kind, f"the database {database.name}")
        if version is None:
            raise InputError(f"the database {database.name} is empty; there is nothing to back up")
        migrate.require_newest(database, kind, version)
        with copied.write() as target:
            _copy_rows(connection, target, kind)


def restore_backup(database: Database, path: Path) -> Backup:
    """Fill an empty database with a backup, brought up to date, in one transaction."""
    require_sound(database)
    with _unpacked(path) as (backup, found), migrate.locked(database) as connection:
        if sa.inspect(connection).get_table_names():
            raise InputError(f"the database {database.name} is not empty; name a new one, so that nothing is lost")
        with found.read() as source:
            known_version(source, backup.kind, f"the backup {str(path)!r}")
        try:
            migrate.migrate(found, backup.kind)
            with found.read() as source:
                _copy_rows(source, connection, backup.kind)
            if backup.kind == "coordinator":
                require_names(connection)
        except Exception:  # whoever made it may have put anything into it
            raise _damaged(path) from None
        if backup.kind == "coordinator":
            schema.require_later(connection, restored=True)
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
                most = LEAST_UNPACKED + MOST_RATIO * path.stat().st_size
                while part := packed.read(2**20):
                    out.write(part)
                    if out.tell() > most:
                        raise EOFError
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
            except Exception:  # whoever made it may have put anything into it
                raise _damaged(path) from None
            yield backup, database


def _described(database: Database, made: int) -> Backup:
    """Say what a backup holds; refuse one with other tables than ours."""
    with database.read() as connection:
        version = str(migrate.version_of(connection))
        kind = {str(kind): kind for kind in migrate.KINDS}[version.rpartition("_")[0]]
        ours: sa.MetaData = getattr(schema, kind)
        here = set(sa.inspect(connection).get_table_names())
        if not here <= ours.tables.keys() or (version == migrate.HEADS[kind] and here != ours.tables.keys()):
            raise LookupError
        counted = [one for name, one in ours.tables.items() if name in here and name not in LEFT_OUT]
        counts = [sa.select(sa.func.count()).select_from(one) for one in counted]
        rows = sum(int(connection.execute(count).scalar_one()) for count in counts)
    return Backup(kind, version, made, rows)


def require_names(connection: sa.Connection) -> None:
    """Refuse studies whose names are none: files are called by them."""
    for column in (schema.studies.c.id, schema.deleted.c.study):
        if not all(map(schema.NAME.fullmatch, connection.execute(sa.select(column)).scalars())):
            raise LookupError


def _damaged(path: Path) -> InputError:
    return InputError(f"{str(path)!r} is not a whole backup of voxpop; use another one")


def _copy_rows(source: sa.Connection, target: sa.Connection, kind: Kind) -> None:
    """Make the tables of an empty database, and fill them with the rows of another one."""
    migrate.create_tables(target, kind)
    tables: sa.MetaData = getattr(schema, kind)
    for table in tables.sorted_tables:
        if table.name in LEFT_OUT:
            continue
        wanted = sa.select(table).execution_options(yield_per=ROWS)
        if table.name == schema.marks.name:
            wanted = wanted.where(table.c.name != "ready")  # which is there already
        for part in source.execute(wanted).mappings().partitions():
            target.execute(sa.insert(table), [dict(row) for row in part])
        key = table.autoincrement_column
        if key is not None and target.dialect.name == "postgresql":  # SQLite goes on counting by itself
            numbers = sa.func.pg_get_serial_sequence(table.name, key.name)
            target.execute(sa.select(sa.func.setval(numbers, sa.func.max(key))))
