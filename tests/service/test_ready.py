"""Ready means that what is sent will be stored and found again; otherwise nothing is acknowledged."""

import asyncio
import os
import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.helpers_waiting import HANGING
from tests.service.served import served
from tests.service.world import SECRET, STUDY, definition, quiet
from voxpop.service.keys import new_key
from voxpop.service.shuffler.batches import Shuffler
from voxpop.service.stores.database import Database
from voxpop.service.stores.migrate import Kind, open_store
from voxpop.service.stores.schema import people
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.web import service as readiness
from voxpop.service.web.coordinator_app import CoordinatorApp
from voxpop.service.web.limits import RateLimit
from voxpop.service.web.service import Readiness
from voxpop.service.web.shuffler_app import ShufflerApp

ROUTE = f"/v2/studies/{STUDY}/participant"


def app_of(database: Database, kind: Kind) -> Any:
    if kind == "shuffler":
        return ShufflerApp(Shuffler(database, quiet), "http://127.0.0.1:1", b"k" * 40)
    return CoordinatorApp(Coordinator(database, SECRET))


@contextmanager
def site(address: str, kind: Kind = "coordinator") -> Iterator[tuple[httpx.Client, Database]]:
    """Serve a service whose scheduler runs, and which asks its database each time that somebody asks it."""
    with ExitStack() as stack:
        database = stack.enter_context(closing(open_store(address, kind)))
        app = app_of(database, kind)
        if kind == "coordinator":
            app.coordinator.create(STUDY, definition())
        url = stack.enter_context(served(app.guarded(RateLimit(0, 1), 4096), "on"))
        yield stack.enter_context(httpx.Client(base_url=url, timeout=HANGING, verify=False)), database


def register(client: httpx.Client) -> int:
    return client.put(ROUTE, headers={"authorization": f"Bearer {new_key()}"}).status_code


@pytest.fixture(autouse=True)
def _ask_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "SHARED_SECONDS", 0.0)


def deleted(path: Path) -> None:
    path.unlink()


def replaced(path: Path) -> None:
    shutil.copy(path, path.with_name("other.db"))
    path.with_name("other.db").replace(path)


def garbled(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\xff" * 8192)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def another(path: Path) -> None:
    """Overwrite it with another, valid database; the inode stays."""
    other = path.with_name("other.db")
    open_store(str(other), "coordinator").close()
    with path.open("r+b") as file:
        file.write(other.read_bytes())


def without_log(path: Path) -> None:
    path.with_name(path.name + "-wal").unlink()


@pytest.mark.parametrize("fault", [deleted, replaced, garbled, emptied, another, without_log])
def test_nothing_is_acknowledged_into_a_file_that_nobody_will_find(
    tmp_path: Path, fault: Callable[[Path], None]
) -> None:
    path = tmp_path / "c.db"
    with site(str(path)) as (client, _):
        assert (register(client), client.get("/readyz").status_code) == (201, 200)
        fault(path)
        assert (register(client), register(client)) == (503, 503)
        said = client.get("/readyz")
        assert said.status_code == 503
        assert any(remedy in said.json()["error"] for remedy in ("stop the service", "check that it"))
        assert str(tmp_path) not in said.text  # anybody may ask


def test_a_file_that_comes_back_is_used_again(tmp_path: Path) -> None:
    path, away = tmp_path / "c.db", tmp_path / "away.db"
    with site(str(path)) as (client, database):
        path.rename(away)
        assert register(client) == 503
        away.rename(path)
        assert (register(client), client.get("/readyz").status_code) == (201, 200)
        with database.read() as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(people)).scalar_one() == 1


def test_a_database_may_be_named_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    path, target = tmp_path / "c.db", tmp_path / "elsewhere" / "real.db"
    path.symlink_to(target)
    target.touch(0o600)
    with site(str(path)) as (client, _):
        assert (register(client), client.get("/readyz").status_code) == (201, 200)
        target.with_name("real.db-wal").unlink()
        assert (register(client), client.get("/readyz").status_code) == (503, 503)


def test_a_connection_to_another_file_does_not_stay_in_the_pool(tmp_path: Path) -> None:
    path, away = tmp_path / "c.db", tmp_path / "away.db"
    with closing(open_store(str(path), "coordinator")) as database:
        database.engine.dispose()  # the next connection is a new one
        path.rename(away)
        open_store(str(path), "coordinator").close()
        with pytest.raises(Exception, match="replaced or deleted"), database.read():
            pass
        away.rename(path)
        with database.write() as connection:
            assert connection.exec_driver_sql("PRAGMA database_list").first()[2] == str(path)  # type: ignore[index]


@contextmanager
def no_more_than(size: int) -> Iterator[None]:
    """Let no file grow beyond this size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("kind", ["coordinator", "shuffler"])
def test_a_service_that_cannot_write_is_not_ready(tmp_path: Path, kind: Kind) -> None:
    with site(str(tmp_path / "c.db"), kind) as (client, database):
        assert client.get("/readyz").status_code == 200
        with ExitStack() as full:
            reader = full.enter_context(closing(sqlite3.connect(tmp_path / "c.db", isolation_level=None)))
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM marks").fetchall()  # as long as somebody reads, the log does not begin anew
            with database.write() as connection:  # and now it ends where its file does: it has no room from before
                connection.exec_driver_sql("INSERT INTO marks VALUES ('large', zeroblob(1000000))")
            with database.write():  # a transaction half written now would leave room for a small one
                full.enter_context(no_more_than((tmp_path / "c.db-wal").stat().st_size))
            said = client.get("/readyz")
            assert (said.status_code, "SQLITE_IOERR_WRITE" in said.text) == (503, True)
            if kind == "coordinator":
                assert register(client) == 503
        assert client.get("/readyz").status_code == 200


def test_a_disk_that_is_nearly_full_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with site(str(tmp_path / "c.db")) as (client, _):
        real = os.statvfs(tmp_path)
        fields = list(real)
        fields[4] = 2**20 // real.f_frsize  # f_bavail
        monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(fields))
        assert "make room" in client.get("/readyz").json()["error"]


@pytest.mark.parametrize("kind", ["coordinator", "shuffler"])
def test_postgresql_that_takes_no_writes_is_not_ready(new_postgres: Callable[[], str], kind: Kind) -> None:
    address = new_postgres()
    with site(address, kind) as (client, database):
        assert client.get("/readyz").status_code == 200
        with database.write() as connection:
            connection.exec_driver_sql("ALTER TABLE marks ADD CHECK (length(mark) = 0) NOT VALID")
        said = client.get("/readyz")
        assert (said.status_code, "23514 CheckViolation" in said.text) == (503, True)


def test_a_database_without_our_tables_is_not_ready(tmp_path: Path) -> None:
    with site(str(tmp_path / "c.db")) as (client, database):
        with database.write() as connection:
            connection.exec_driver_sql("DELETE FROM marks WHERE name = 'ready'")
        assert "not the one" in client.get("/readyz").json()["error"]


def test_a_flood_of_questions_writes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "SHARED_SECONDS", HANGING)
    with closing(open_store(str(tmp_path / "c.db"), "coordinator")) as database:
        writes: list[str] = []

        @sa.event.listens_for(database.engine, "before_cursor_execute")
        def _note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
            writes.append(statement)

        asked = Readiness(lambda: database)

        async def flood() -> list[str | None]:
            together = await asyncio.gather(*(asked.problem() for _ in range(50)))
            return [*together, await asked.problem()]

        assert asyncio.run(flood()) == [None] * 51
        assert sum(statement.startswith("UPDATE") for statement in writes) == 1


def test_a_database_that_hangs_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "DATABASE_SECONDS", 0.01)
    path = tmp_path / "c.db"
    with closing(open_store(str(path), "coordinator")) as database, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        asked, opened = Readiness(lambda: (opened.append(1), database)[1]), list[int]()  # type: ignore[func-returns-value]

        async def thrice() -> list[str | None]:
            found = [await asked.problem() for _ in range(3)]
            other.rollback()
            return found

        found = asyncio.run(thrice())
        assert all(sentence and "has not answered" in sentence for sentence in found)
        assert len(opened) == 1
