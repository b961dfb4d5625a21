"""Schema versions: upgrade a database under a lock, and refuse one that is out of date."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from voxpop.errors import InputError
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

FOLDER = Path(__file__).parent / "migrations"
LOCK = 0x766F78706F70  # an arbitrary number that nothing else uses


def migrate(database: Database, kind: Kind) -> tuple[str | None, str]:
    """Bring a database up to date; return the version it had and the one it has now."""
    require_sound(database)
    with locked(database) as connection:
        before = version_of(connection)
        refuse_stranger(database, connection, kind, before)
        if before is None:
            _create(connection, kind)
        else:
            upgrade_to(connection, kind)
    database.scrub()  # so that the file itself has the number by which it is recognised
    return before, _head(kind)


def open_store(address: str, kind: Kind, upgrade: bool = False, create: bool = True) -> Database:
    """Open a database that has this voxpop's tables; an old one is upgraded or refused.

    One that does not exist or is empty is set up; without `create` it is refused, for those who look something up.
    """
    if not create:
        require_database(address)
    database = open_database(address)
    try:
        _prepare(database, kind, upgrade, create)
    except BaseException:
        database.close()
        raise
    return database


def _prepare(database: Database, kind: Kind, upgrade: bool, create: bool) -> None:
    require_sound(database)
    with database.read() as connection:
        version = version_of(connection)
        empty = version is None and not sa.inspect(connection).get_table_names()
        if not empty:
            refuse_stranger(database, connection, kind, version)
    if empty and not create:
        raise MissingDatabaseError(f"the database {database.name} is empty; {REMEDY}")
    if empty or upgrade:
        migrate(database, kind)
    elif version != _head(kind):
        flag = " --shuffler" if kind == "shuffler" else ""
        raise InputError(
            f"the database {database.name} has schema version {version}, and this voxpop needs {_head(kind)}; "
            f"stop the service, make a copy, and run: voxpop migrate{flag} --database {database.name}"
        )


@contextmanager
def locked(database: Database) -> Iterator[sa.Connection]:
    """Open a transaction in which no other migration can run at the same time."""
    with database.write() as connection:  # on SQLite that is the lock
        if not database.embedded:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
        yield connection


def refuse_stranger(database: Database, connection: sa.Connection, kind: Kind, version: str | None) -> None:
    """Refuse a database with tables of something else, or with a version that is not of this kind."""
    known = {revision.revision for revision in _scripts(kind).walk_revisions()}
    if version is None and set(sa.inspect(connection).get_table_names()) - {"alembic_version"}:
        raise InputError(f"the database {database.name} holds tables that are not voxpop's; name another one")
    if version is not None and version not in known:
        raise InputError(
            f"the database {database.name} has schema version {version}, which this voxpop does not know for a {kind}; "
            "name the right database, or upgrade voxpop"
        )


def _create(connection: sa.Connection, kind: Kind) -> None:
    """Make the tables of an empty database as they are now; a test compares them with what all migrations make."""
    tables: sa.MetaData = getattr(schema, kind)
    tables.create_all(connection)
    connection.execute(sa.insert(tables.tables["marks"]), {"name": "ready", "mark": b""})
    if connection.dialect.name == "sqlite":
        connection.execute(sa.text(f"PRAGMA user_version = {secrets.randbelow(2**31 - 1) + 1}"))
    MigrationContext.configure(connection).stamp(_scripts(kind), _head(kind))


def upgrade_to(connection: sa.Connection, kind: Kind, version: str = "head") -> None:
    """Bring the tables to a version, in the transaction of this connection."""
    config = _config(kind)
    config.attributes["connection"] = connection
    command.upgrade(config, version)


def version_of(connection: sa.Connection) -> str | None:
    """Return the version of a database's schema; None if it has none."""
    return MigrationContext.configure(connection).get_current_revision()


def _head(kind: Kind) -> str:
    head = _scripts(kind).get_current_head()
    assert head is not None
    return head


@cache
def _scripts(kind: Kind) -> ScriptDirectory:
    """Read the migrations of a kind of database, once: each is a module of its own."""
    return ScriptDirectory.from_config(_config(kind))


def _config(kind: Kind) -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("version_locations", str(FOLDER / kind).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    return config
