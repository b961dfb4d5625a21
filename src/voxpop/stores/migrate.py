"""Schema versions: brought up to date under a lock, and refused when they are stale."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from voxpop.core.errors import InputError
from voxpop.stores.database import Database, open_database

Kind = Literal["coordinator", "shuffler"]

FOLDER = Path(__file__).parent / "migrations"
LOCK = 0x766F78706F70  # any number that nobody else uses


def migrate(database: Database, kind: Kind) -> tuple[str | None, str]:
    """Bring a database up to date; the version it had and the one it has now."""
    config = _config(kind)
    with _locked(database) as connection:
        before = _version(connection)
        _refuse_stranger(database, connection, kind, before)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return before, _head(kind)


def open_store(address: str, kind: Kind, upgrade: bool = False) -> Database:
    """A database with the tables this voxpop knows; an empty one is set up, a stale one refused unless told."""
    database = open_database(address)
    with database.read() as connection:
        version = _version(connection)
        empty = version is None and not sa.inspect(connection).get_table_names()
        if not empty:
            _refuse_stranger(database, connection, kind, version)
    if empty or upgrade:
        migrate(database, kind)
    elif version != _head(kind):
        flag = " --shuffler" if kind == "shuffler" else ""
        raise InputError(
            f"the database {database.name} has schema version {version}, and this voxpop needs {_head(kind)}; "
            f"stop the service, make a copy, and run: voxpop migrate{flag} --database {database.name}"
        )
    return database


@contextmanager
def _locked(database: Database) -> Iterator[sa.Connection]:
    """A transaction that no other migration can be in at the same time."""
    with database.write() as connection:  # on SQLite that is the lock
        if not database.embedded:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
        yield connection


def _refuse_stranger(database: Database, connection: sa.Connection, kind: Kind, version: str | None) -> None:
    known = {revision.revision for revision in ScriptDirectory.from_config(_config(kind)).walk_revisions()}
    if version is None and set(sa.inspect(connection).get_table_names()) - {"alembic_version"}:
        raise InputError(f"the database {database.name} holds tables that are not voxpop's; name another one")
    if version is not None and version not in known:
        raise InputError(
            f"the database {database.name} has schema version {version}, which is not one of a {kind} of this voxpop; "
            "name the right database, or upgrade voxpop"
        )


def _version(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _head(kind: Kind) -> str:
    head = ScriptDirectory.from_config(_config(kind)).get_current_head()
    assert head is not None
    return head


def _config(kind: Kind) -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("version_locations", str(FOLDER / kind).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    return config
