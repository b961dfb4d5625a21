"""The database: an upgrade makes its schema, a stale one is refused, and locks are taken where needed."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
import sqlalchemy as sa

from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.service.stores.database import _url, cause, open_database
from voxpop.service.stores.migrate import migrate, open_store


@pytest.mark.parametrize("version", [f"coordinator_{number}" for number in range(3, 9)])
def test_an_upgrade_makes_the_same_tables(address: str, version: str) -> None:
    """A new database is made of the schema at once, and an older one is upgraded: both must be the same."""
    with closing(open_store(address, "coordinator")) as database:
        with database.write() as connection:
            new = described(connection)
            if version < "coordinator_8":
                connection.exec_driver_sql("ALTER TABLE tallies DROP COLUMN late")
            for table in ("stands", "notes", "grants", "hooks", "told", "deliveries"):
                connection.exec_driver_sql(f"DROP TABLE {table}")
            for table, column in (("studies", "public"), ("operators", "email"), ("operators", "subject")):
                connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN {column}")
            connection.exec_driver_sql("ALTER TABLE operators ADD COLUMN study VARCHAR(64)")
            if version < "coordinator_7":
                connection.exec_driver_sql("ALTER TABLE studies DROP COLUMN verify_key")
                connection.exec_driver_sql("DROP TABLE codes")
            if version < "coordinator_6":
                connection.exec_driver_sql("ALTER TABLE invitations DROP COLUMN block")
            if version < "coordinator_5":
                connection.exec_driver_sql("ALTER TABLE people DROP COLUMN stratum")
            if version == "coordinator_3":
                say_phase(connection)
            connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{version}'")
            assert described(connection) != new
        assert migrate(database, "coordinator") == (version, "coordinator_9")
        with database.read() as connection:
            assert described(connection) == new


def say_phase(connection: sa.Connection) -> None:
    """Call a wave a phase, as the version before last did."""
    for name in ("studies", "plays", "invitations", "inbox", "totals", "tallies"):
        connection.exec_driver_sql(f"ALTER TABLE {name} RENAME COLUMN wave TO phase")
    for name in ("invitations", "inbox"):
        connection.exec_driver_sql(f"DROP INDEX {name}_wave")
        connection.exec_driver_sql(f"CREATE INDEX {name}_phase ON {name} (study, phase)")


def described(connection: sa.Connection) -> dict[str, object]:
    """All that the database itself says of its tables."""
    inspector = sa.inspect(connection)
    return {
        table: (
            sorted(
                (column["name"], str(column["type"]), column["nullable"]) for column in inspector.get_columns(table)
            ),
            sorted((index["name"] or "", *index["column_names"]) for index in inspector.get_indexes(table)),
            inspector.get_pk_constraint(table)["constrained_columns"],
            sorted(key["constrained_columns"] for key in inspector.get_foreign_keys(table)),
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


@pytest.mark.parametrize("password", ["p@ss/w:ord", "a@b@c", "plain", "sla/sh"])
def test_a_password_may_hold_any_sign(password: str) -> None:
    for written in (password, quote(password, safe="")):
        url = _url(f"postgresql://me:{written}@db.example:5433/voxpop?connect_timeout=2")
        assert (url.username, url.password, url.host, url.port) == ("me", password, "db.example", 5433)
        assert (url.database, url.drivername) == ("voxpop", "postgresql+psycopg")
        assert password not in url.render_as_string(hide_password=True)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ('connection failed: FATAL:  password authentication failed for user "me"', "password refused"),
        ("connection failed: FATAL:  sorry, too many clients already", "too many connections"),
        ("FATAL:  remaining connection slots are reserved for roles with", "too many connections"),
        ('connection to server at "127.0.0.1", port 1 failed: Connection refused', "connection refused"),
        ("failed to resolve host 'db.nowhere': Name or service not known", "unknown host"),
        ("secret words of a person", "OperationalError"),
    ],
)
def test_a_cause_of_postgresql_is_named_in_our_words(said: str, name: str) -> None:
    assert cause(sa.exc.OperationalError(None, None, psycopg.OperationalError(said))) == name


def test_a_server_that_is_not_there_and_a_wrong_password_are_told_apart() -> None:
    with pytest.raises(InputError, match=r"connection refused; check host and port, and start the server") as call:
        open_database("postgresql://me:p@ss@127.0.0.1:1/x?connect_timeout=2")
    assert "p@ss" not in str(call.value)
    refusal(call)
