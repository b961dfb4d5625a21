"""Schema versions and backups: upgrade a database under a lock, refuse one that is out of date, and copy it to a file.

A backup is a service's database as a compressed SQLite file, from which an empty database of either kind is made. All
rows are read in one transaction, so they belong together although the service goes on. Sessions of browsers are left
out: their operators sign in again.
"""

from __future__ import annotations

import gzip
import json
import os
import secrets
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

import sqlalchemy as sa

from voxpop.errors import InputError
from voxpop.io.files import sync_folder
from voxpop.service.stores import schema
from voxpop.service.stores.database import (
    DAMAGED,
    REMEDY,
    Database,
    MissingDatabaseError,
    cause,
    open_database,
    require_database,
)

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
        name = "ok" if all(said == "ok" for said in found) else DAMAGED[0]
    except sa.exc.DatabaseError as error:
        name = cause(error)
    if name.startswith("SQLITE_NOTADB"):
        raise InputError(f"{database.name} is not an SQLite database; name another file, or restore this one")
    if name.startswith(DAMAGED):
        raise InputError(f"the database {database.name} is damaged; restore it from a backup")
    if name != "ok":
        raise InputError(f"cannot open the database {database.name} ({name}); check the file, its disk and who uses it")


SIZE = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "postgresql": "SELECT pg_database_size(current_database())",
}


@dataclass(frozen=True)
class DatabaseFacts:
    """Facts about a database."""

    kind: str  # with the version of the server or the library
    name: str  # without a password
    size: int  # bytes
    schema: str


def facts_of(database: Database) -> DatabaseFacts:
    """Look them up."""
    dialect = database.engine.dialect
    version = ".".join(str(part) for part in dialect.server_version_info or ())
    with database.read() as connection:
        size = int(connection.execute(sa.text(SIZE[dialect.name])).scalar_one())
        schema = version_of(connection)
    kind = "SQLite" if database.embedded else "PostgreSQL"
    return DatabaseFacts(f"{kind} {version}".strip(), database.name, size, schema or "none")


Kind = Literal["coordinator", "shuffler"]
KINDS: tuple[Kind, ...] = get_args(Kind)
HEADS: dict[Kind, str] = {"coordinator": "coordinator_9", "shuffler": "shuffler_3"}
LOCK = 0x766F78706F70  # an arbitrary number that nothing else uses


def _say_wave(connection: sa.Connection) -> None:
    """Call a wave what was called a phase: in columns, indexes and events; summaries are made anew on demand."""
    for name in ("studies", "plays", "invitations", "inbox", "totals", "tallies"):
        connection.exec_driver_sql(f"ALTER TABLE {name} RENAME COLUMN phase TO wave")
    for table in (schema.invitations, schema.inbox):
        connection.exec_driver_sql(f"DROP INDEX {table.name}_phase")
        next(index for index in table.indexes if index.name == f"{table.name}_wave").create(connection)
    connection.execute(sa.delete(schema.summaries))
    events = schema.events.c
    named = events.kind.in_(("opened", "closed"))  # a `created` one may have a label called phase
    for row in connection.execute(sa.select(schema.events).where(named)).all():
        text = json.dumps(_waves_of(json.loads(row.body)), allow_nan=False, separators=(",", ":"))
        ours = (events.study == row.study, events.seq == row.seq)
        connection.execute(sa.update(schema.events).where(*ours).values(body=text))


def _waves_of(part: Any) -> Any:
    if isinstance(part, dict):
        return {"wave" if name == "phase" else name: _waves_of(value) for name, value in part.items()}
    return [_waves_of(one) for one in part] if isinstance(part, list) else part


def _run(statement: str) -> Callable[[sa.Connection], object]:
    return lambda connection: connection.exec_driver_sql(statement)


def _know_codes_and_proofs(connection: sa.Connection) -> None:
    """Make the table of enrolment codes for one person each, and give batches a key under which proofs are checked.

    Shares without a proof, so far all, count as missing.
    """
    schema.codes.create(connection)
    kind = "BLOB" if connection.dialect.name == "sqlite" else "BYTEA"
    connection.exec_driver_sql(f"ALTER TABLE studies ADD COLUMN verify_key {kind}")
    for name in connection.execute(sa.select(schema.studies.c.id)).scalars().all():
        ours = sa.update(schema.studies).where(schema.studies.c.id == name)
        connection.execute(ours.values(verify_key=secrets.token_bytes(32)))


def _know_who_is_late(connection: sa.Connection) -> None:
    """Count for how many deadlines those who did not answer were asked; so far, each of them for one."""
    kind = "DOUBLE" if connection.dialect.name == "sqlite" else "DOUBLE PRECISION"
    connection.exec_driver_sql(f"ALTER TABLE tallies ADD COLUMN late {kind} DEFAULT 0 NOT NULL")
    connection.execute(sa.update(schema.tallies).values(late=schema.tallies.c.lapsed))


def _know_members(connection: sa.Connection) -> None:
    """Give people roles by study, and studies receivers, notes and a past.

    Anyone may go on reading the decisions of studies that there are: their devices may not send a key.
    """
    for table in (schema.stands, schema.notes, schema.grants, schema.hooks, schema.told, schema.deliveries):
        table.create(connection)
    connection.exec_driver_sql("ALTER TABLE studies ADD COLUMN public BOOLEAN DEFAULT FALSE NOT NULL")
    connection.exec_driver_sql("UPDATE studies SET public = TRUE")
    connection.exec_driver_sql("INSERT INTO grants SELECT name, study, 'viewer' FROM operators WHERE study IS NOT NULL")
    connection.exec_driver_sql("UPDATE operators SET role = 'member' WHERE role = 'viewer'")
    connection.exec_driver_sql("ALTER TABLE operators DROP COLUMN study")
    connection.exec_driver_sql("ALTER TABLE operators ADD COLUMN email VARCHAR(254)")
    connection.exec_driver_sql("ALTER TABLE operators ADD COLUMN subject TEXT")


# From which versions a database is upgraded: to which, and how.
UPGRADES: dict[str, tuple[str, Callable[[sa.Connection], object]]] = {
    "coordinator_3": ("coordinator_4", _say_wave),
    "coordinator_4": ("coordinator_5", _run("ALTER TABLE people ADD COLUMN stratum TEXT")),
    "coordinator_5": ("coordinator_6", _run("ALTER TABLE invitations ADD COLUMN block INTEGER DEFAULT 1 NOT NULL")),
    "coordinator_6": ("coordinator_7", _know_codes_and_proofs),
    "coordinator_7": ("coordinator_8", _know_who_is_late),
    "coordinator_8": ("coordinator_9", _know_members),
}


def migrate(database: Database, kind: Kind) -> tuple[str | None, str]:
    """Bring a database up to date; return the version it had and the one it has now."""
    require_sound(database)
    with locked(database) as connection:
        before = now = known_version(connection, kind, f"the database {database.name}")
        if now is None:
            create_tables(connection, kind)
        while now in UPGRADES:
            now, upgrade = UPGRADES[now]
            upgrade(connection)
            connection.execute(sa.update(schema.version).values(version_num=now))
    database.scrub()  # so that the file itself has the number by which it is recognised
    return before, HEADS[kind]


def open_store(address: str, kind: Kind, upgrade: bool = False, create: bool = True) -> Database:
    """Open a database that has this voxpop's tables; an old one is upgraded or refused.

    One that does not exist or is empty is set up; without `create` it is refused, for those who look something up.
    """
    if not create:
        require_database(address)
    database = open_database(address)
    try:
        require_sound(database)
        with database.read() as connection:
            version = known_version(connection, kind, f"the database {database.name}")
        if version is None and not create:
            raise MissingDatabaseError(f"the database {database.name} is empty; {REMEDY}")
        if version is None or upgrade:
            migrate(database, kind)
        else:
            require_newest(database, kind, version)
    except BaseException:
        database.close()
        raise
    return database


def require_newest(database: Database, kind: Kind, version: str) -> None:
    """Refuse a database that must be upgraded first."""
    if version != HEADS[kind]:
        flag = " --shuffler" if kind == "shuffler" else ""
        raise InputError(
            f"the database {database.name} has schema version {version}, and this voxpop needs {HEADS[kind]}; "
            f"stop the service, make a copy, and run: voxpop migrate{flag} --database {database.name}"
        )


@contextmanager
def locked(database: Database) -> Iterator[sa.Connection]:
    """Open a transaction in which no other migration can run at the same time."""
    with database.write() as connection:  # on SQLite that is the lock
        if not database.embedded:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
        yield connection


def known_version(connection: sa.Connection, kind: Kind, name: str) -> str | None:
    """Return the version of the database of this name, or None if it is empty; refuse one of another kind."""
    version = version_of(connection)
    if version is None and set(sa.inspect(connection).get_table_names()) - {schema.version.name}:
        raise InputError(f"{name} holds tables that are not voxpop's; name another one")
    known = {HEADS[kind], *(old for old in UPGRADES if old.startswith(kind))}
    if version is not None and version not in known:
        raise InputError(
            f"{name} has schema version {version}, which this voxpop does not know for a {kind}; name the right one, "
            "or use the voxpop that made it"
        )
    return version


def create_tables(connection: sa.Connection, kind: Kind) -> None:
    """Make the tables of an empty database."""
    tables: sa.MetaData = getattr(schema, kind)
    tables.create_all(connection)
    connection.execute(sa.insert(schema.marks), {"name": "ready", "mark": b""})
    connection.execute(sa.insert(schema.version), {"version_num": HEADS[kind]})
    if connection.dialect.name == "sqlite":
        connection.execute(sa.text(f"PRAGMA user_version = {secrets.randbelow(2**31 - 1) + 1}"))


def version_of(connection: sa.Connection) -> str | None:
    """Return the version of a database's schema; None if it has none."""
    if not sa.inspect(connection).has_table(schema.version.name):
        return None
    return connection.execute(sa.select(schema.version.c.version_num)).scalar_one_or_none()


# Backups


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
        require_newest(database, kind, version)
        with copied.write() as target:
            _copy_rows(connection, target, kind)


def restore_backup(database: Database, path: Path) -> Backup:
    """Fill an empty database with a backup, brought up to date, in one transaction."""
    require_sound(database)
    with _unpacked(path) as (backup, found), locked(database) as connection:
        if sa.inspect(connection).get_table_names():
            raise InputError(f"the database {database.name} is not empty; name a new one, so that nothing is lost")
        with found.read() as source:
            known_version(source, backup.kind, f"the backup {str(path)!r}")
        try:
            migrate(found, backup.kind)
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
        version = str(version_of(connection))
        kind = {str(kind): kind for kind in KINDS}[version.rpartition("_")[0]]
        ours: sa.MetaData = getattr(schema, kind)
        here = set(sa.inspect(connection).get_table_names())
        if not here <= ours.tables.keys() or (version == HEADS[kind] and here != ours.tables.keys()):
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
    create_tables(target, kind)
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
