"""Schema versions: upgrade a database under a lock, and refuse one that is out of date."""

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
from voxpop.stores.soundness import require_sound

Kind = Literal["coordinator", "shuffler"]

FOLDER = Path(__file__).parent / "migrations"
LOCK = 0x766F78706F70  # an arbitrary number that nothing else uses


def migrate(database: Database, kind: Kind) -> tuple[str | None, str]:
    """Bring a database up to date; return the version it had and the one it has now."""
    require_sound(database)
    config = _config(kind)
    with _locked(database) as connection:
        before = schema_version(connection)
        _refuse_stranger(database, connection, kind, before)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    database.scrub()  # so that the file itself has the number by which it is recognised
    return before, _head(kind)


def open_store(address: str, kind: Kind, upgrade: bool = False) -> Database:
    """Open a database that has this voxpop's tables. An empty one is set up; an old one is upgraded or refused."""
    database = open_database(address)
    try:
        _prepare(database, kind, upgrade)
    except BaseException:
        database.close()
        raise
    return database


def _prepare(database: Database, kind: Kind, upgrade: bool) -> None:
    require_sound(database)
    with database.read() as connection:
        version = schema_version(connection)
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


@contextmanager
def _locked(database: Database) -> Iterator[sa.Connection]:
    """Open a transaction in which no other migration can run at the same time."""
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
            f"the database {database.name} has schema version {version}, which this voxpop does not know for a {kind}; "
            "name the right database, or upgrade voxpop"
        )


def schema_version(connection: sa.Connection) -> str | None:
    """Return the version of a database's tables; None if it has none."""
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
