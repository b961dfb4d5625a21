"""What operators may want to know about a database: its kind, its version, its size and that of its tables."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from voxpop.stores.database import Database
from voxpop.stores.migrate import version_of

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
