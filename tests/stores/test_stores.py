"""The database: migrations make its schema, a stale one is refused, and locks are taken where needed."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from tests.helpers_cli import main_of, refusal
from voxpop.errors import InputError
from voxpop.service.stores import schema
from voxpop.service.stores.database import open_database
from voxpop.service.stores.migrate import Kind, _config, migrate, open_store, upgrade_to


@pytest.mark.parametrize("kind", ["coordinator", "shuffler"])
def test_migrations_make_the_schema(address: str, kind: Kind) -> None:
    """A new database is made of the schema at once, and an old one by all migrations: both must be the same."""
    database = open_database(address)
    with database.write() as connection:
        upgrade_to(connection, kind)
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), getattr(schema, kind)) == []
        migrated = described(connection)
    with database.write() as connection:
        getattr(schema, kind).drop_all(connection)
        connection.execute(sa.text("DROP TABLE alembic_version"))
    database.close()
    made = open_store(address, kind)
    with made.read() as connection:
        assert described(connection) == migrated
    made.close()


def described(connection: sa.Connection) -> dict[str, object]:
    """All that the database itself says of its tables, and the rows with which they begin."""
    inspector = sa.inspect(connection)
    return {
        table: (
            sorted(
                (column["name"], str(column["type"]), column["nullable"]) for column in inspector.get_columns(table)
            ),
            sorted(index["name"] or "" for index in inspector.get_indexes(table)),
            inspector.get_pk_constraint(table)["constrained_columns"],
            sorted(key["constrained_columns"] for key in inspector.get_foreign_keys(table)),
            [[str(part or "") for part in row] for row in connection.execute(sa.text(f"SELECT * FROM {table}"))],
        )
        for table in sorted(inspector.get_table_names())
    }


def stale(path: Path) -> str:
    database = open_store(str(path), "coordinator")
    with database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'coordinator_0'"))
    database.close()
    return str(path)


def test_an_unknown_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="coordinator_0, which this voxpop does not know for a coordinator") as call:
        open_store(stale(tmp_path / "a.db"), "coordinator")
    refusal(call)


def test_a_stale_version_is_refused_with_the_command_that_upgrades_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database before the first version has alembic's table and no others."""
    path = str(tmp_path / "a.db")
    database = open_database(path)
    with database.write() as connection:
        connection.execute(sa.text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
    database.close()
    with pytest.raises(InputError, match=f"run: voxpop migrate --database {path}") as call:
        open_store(path, "coordinator")
    refusal(call)
    done = main_of(monkeypatch)("migrate", "--database", path)
    assert (done.code, done.out.strip()) == (0, f"{path}: empty -> coordinator_4")
    open_store(path, "coordinator").close()


def test_another_kind_of_database_is_refused(tmp_path: Path) -> None:
    open_store(str(tmp_path / "a.db"), "shuffler").close()
    with pytest.raises(InputError, match="which this voxpop does not know for a coordinator"):
        open_store(str(tmp_path / "a.db"), "coordinator")
    database = open_database(str(tmp_path / "b.db"))
    with database.write() as connection:
        connection.execute(sa.text("CREATE TABLE recipes (id INTEGER)"))
    with pytest.raises(InputError, match="tables that are not voxpop's"):
        migrate(database, "coordinator")
    database.close()


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("mysql://x/y", "unknown kind of database 'mysql'"),
        ("/no/such/folder/a.db", "there is no folder"),
        ("://", "not a URL"),
        ("sqlite://", "outlives it"),
        ("postgresql://nobody@127.0.0.1:1/x?connect_timeout=2", "cannot reach the database"),
    ],
)
def test_addresses_that_cannot_be_opened_are_refused(address: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as call:
        open_database(address)
    refusal(call)


def test_a_password_is_not_in_the_refusal() -> None:
    with pytest.raises(InputError) as call:
        open_database("postgresql://nobody:sesame@127.0.0.1:1/x?connect_timeout=2")
    assert "sesame" not in str(call.value)


def test_sqlite_loses_no_update(tmp_path: Path) -> None:
    """Read, then write: with the driver's own transactions, some of these increments would be lost or refused."""
    database = open_database(str(tmp_path / "a.db"))
    with database.write() as connection:
        connection.execute(sa.text("CREATE TABLE counter (value INTEGER)"))
        connection.execute(sa.text("INSERT INTO counter VALUES (0)"))

    def count() -> None:
        for _ in range(50):
            with database.write() as connection:
                value = connection.execute(sa.text("SELECT value FROM counter")).scalar_one()
                connection.execute(sa.text("UPDATE counter SET value = :v"), {"v": value + 1})

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as connection:
        assert connection.execute(sa.text("SELECT value FROM counter")).scalar_one() == 200
        settings = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("journal_mode", "synchronous")
        ]
    assert settings == ["wal", 2]
    database.close()


def test_sqlite_waits_for_a_writer_before_it_turns_the_log_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another connection writes, SQLite refuses the switch at once, whatever the busy timeout."""
    path, pauses = tmp_path / "a.db", []
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            other.rollback()

        monkeypatch.setattr("voxpop.service.stores.database.time.sleep", pause)
        database = open_database(str(path))
        with database.read() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        database.close()
    assert len(pauses) == 1


def test_sqlite_does_not_wait_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxpop.service.stores.database.BUSY_SECONDS", 0)
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        database = open_database(str(path))
        with pytest.raises(sa.exc.OperationalError, match="database is locked"), database.read():
            pass
        database.close()


def test_a_connection_that_died_while_idle_is_replaced(
    new_postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voxpop.service.stores.database.IDLE_SECONDS", 0.0)
    address = new_postgres()
    database, other = open_database(address), open_database(address)
    mine = sa.select(sa.func.pg_backend_pid())
    with database.read() as connection:
        pid = connection.execute(mine).scalar_one()
    with other.write() as connection:
        connection.execute(sa.select(sa.func.pg_terminate_backend(pid)))
    with database.read() as connection:
        assert connection.execute(mine).scalar_one() != pid
    database.close()
    other.close()


OLD = """
    INSERT INTO studies (id, seq, phase, stage, played, opened_at, short) VALUES
        ('tea', 1, 1, 'collecting', 4, 0, 0), ('cocoa', 1, 1, 'open', 0, 0, 0);
    INSERT INTO people (id, study, key_hash, participations) VALUES
        (1, 'tea', 'a', 0), (2, 'tea', 'b', 1), (3, 'tea', 'c', 0), (4, 'cocoa', 'd', 0);
    INSERT INTO invitations (study, phase, person, nonce, token_hash, deadline, ready, expired) VALUES
        ('tea', 1, 1, '', 'x', 0, true, false), ('tea', 1, 2, '', 'y', 0, true, true),
        ('tea', 1, 3, '', 'z', 0, true, false), ('tea', 2, 3, '', 'w', 0, true, false)
"""


def test_a_coordinator_of_the_first_version_is_upgraded_with_what_it_holds(address: str) -> None:
    database = open_database(address)
    config = _config("coordinator")
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "coordinator_1")
        for statement in OLD.split(";"):
            connection.exec_driver_sql(statement)
    with pytest.raises(InputError, match="run: voxpop migrate"):
        open_store(address, "coordinator")
    assert migrate(database, "coordinator") == ("coordinator_1", "coordinator_4")
    with database.read() as connection:
        counts = connection.execute(sa.select(schema.counts).order_by("study")).all()
        rows = connection.execute(sa.select(schema.studies).order_by("id")).all()
    assert [tuple(row) for row in counts] == [("cocoa", 1, 1, 0), ("tea", 3, 2, 0)]
    assert [(row.invited, row.newest is None, row.attempt) for row in rows] == [(0, True, None), (2, False, None)]
    database.close()
