"""Backups: made while the service runs, restored into either kind of database, and studies go on from them."""

import gzip
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import sqlalchemy as sa

from tests.helpers_cli import main_of, refusal
from tests.service.world import SECRET, STUDY, Clock, World, definition, own_shuffler, private, world
from voxpop.errors import InputError
from voxpop.policies import make_policy
from voxpop.service import operators
from voxpop.service.keys import hash_key, new_key
from voxpop.service.serve import Settings, coordinator_of
from voxpop.service.stores import migrate as backups
from voxpop.service.stores.database import Database, open_database
from voxpop.service.stores.migrate import Backup, check_backup, open_store, restore_backup, write_backup
from voxpop.service.stores.schema import coordinator as tables
from voxpop.service.stores.schema import marks, people, sessions, studies
from voxpop.service.study import participants
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.released import ReleaseRecord

PEOPLE = 90
ASKED = make_policy("dpbe-fixed", people=14)  # in every wave


def rows_of(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table but the sessions, as values that compare across databases."""
    with database.read() as connection:
        found = {
            table.name: [tuple(row) for row in connection.execute(sa.select(table))]
            for table in tables.sorted_tables
            if table not in (sessions, marks)  # marks holds an empty text where SQLite set it up, and later bytes
        }
    return {name: sorted(rows, key=repr) for name, rows in found.items()}


def collecting(it: World) -> None:
    """Bring a study to the middle of its first wave: everyone is invited, and half of them have answered."""
    it.settle()
    it.play_all()
    it.settle()
    for key, invitation in list(it.invited())[::2]:
        assert it.answer(key, invitation) is True


@pytest.fixture(params=["sqlite", "postgresql"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Another empty database of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "elsewhere.db")
    make: Callable[[], str] = request.getfixturevalue("new_postgres")
    return make()


def continued(database: Database, it: World) -> World:
    """Go on with a study in another database, with the people who know it."""
    clock = Clock(it.clock.now)
    twin = World(Coordinator(database, SECRET, clock=clock), clock, keys=list(it.keys), plays=it.plays)
    twin.asked |= {key: list(waves) for key, waves in it.asked.items()}
    twin.reports |= {wave: list(reports) for wave, reports in it.reports.items()}
    return twin


def test_a_study_goes_on_from_a_backup_in_either_kind_of_database(address: str, elsewhere: str, tmp_path: Path) -> None:
    """Reports are in flight; the restored study has the same rows, and makes the same plans as the one left behind."""
    with world(address, definition(policy=ASKED), PEOPLE) as it:
        collecting(it)
        operators.add_key(it.coordinator.database, "me", key := new_key(), 1.0)
        operators.sign_in(it.coordinator.database, key, 2.0)
        made = write_backup(it.coordinator.database, "coordinator", tmp_path / "b")
        before = rows_of(it.coordinator.database)
        assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600
        with closing(open_database(elsewhere)) as database:
            assert restore_backup(database, tmp_path / "b") == made
            assert rows_of(database) == before
            with database.read() as connection:
                assert connection.execute(sa.select(sessions)).all() == []
            twin = continued(database, it)
            twin.register(3)  # new rows get numbers of their own
            with database.read() as connection:
                assert connection.execute(sa.select(sa.func.count()).select_from(people)).scalar_one() == PEOPLE + 3
            for one in (it, twin):
                one.answer_all()
                one.settle()
            plans = [
                [event.body["plan"] for event in one.coordinator.log(STUDY) if event.kind == "opened"]
                for one in (it, twin)
            ]
            assert len(plans[0]) == 2
            assert plans[0][0] == plans[1][0]
            twin.run()
            assert twin.status.stage == "finished"


def test_a_backup_during_uploads_holds_a_report_for_every_receipt(address: str, tmp_path: Path) -> None:
    """Reports and receipts are stored in one transaction, so a backup that saw them at two moments would differ."""
    with world(address, definition(policy=ASKED), PEOPLE) as it:
        collecting(it)
        left, enough = list(it.invited()), Event()
        assert len(left) > 4

        def upload() -> None:
            for number, (key, invitation) in enumerate(left):
                it.answer(key, invitation)
                if number == 2:
                    enough.set()

        thread = Thread(target=upload)
        thread.start()
        enough.wait()
        write_backup(it.coordinator.database, "coordinator", tmp_path / "b")
        thread.join()
        with closing(open_database(str(tmp_path / "new.db"))) as database:
            restore_backup(database, tmp_path / "b")
            rows = rows_of(database)
    answered = {row[0] for row in rows["receipts"]}
    assert {row[0] for row in rows["inbox"]} == answered
    assert len(answered) >= 3


def test_a_backup_that_is_older_than_what_was_released_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of releases is no part of a backup: by it the older database is recognised."""
    path, secret = tmp_path / "c.db", tmp_path / "c.db.secret"
    secret.write_text(new_key())
    secret.chmod(0o600)
    main = main_of(monkeypatch)
    record = ReleaseRecord(tmp_path / "c.db.released")
    with world(str(path), definition(policy=ASKED), PEOPLE, released=record) as it:
        record.prepare()
        collecting(it)
        assert main("backup", "--database", path, "--out", tmp_path / "b").code == 0
        it.answer_all()
        it.settle()
        assert record.of(STUDY) is not None
    for file in tmp_path.glob("c.db*"):
        if file.suffix != ".secret" and file.is_file():
            file.unlink()
    done = main("restore", tmp_path / "b", "--database", path)
    assert done.code == 0
    assert "warning: wave 1 of study 'tea' was released after this backup was made" in done.err
    with pytest.raises(InputError, match="is older than what was released from it, and lacks wave 1") as call:
        coordinator_of(Settings(database=str(path)))
    refusal(call)


def test_newcomers_to_a_restored_database_are_not_asked_about_rounds_before_them(
    new_postgres: Callable[[], str], elsewhere: str, tmp_path: Path
) -> None:
    """PostgreSQL gives no number twice; a restored database goes on after the last person who is left."""
    with world(new_postgres(), definition(policy=ASKED), PEOPLE) as it:
        it.settle()
        it.play_all()
        it.settle()
        for key in it.keys[-5:]:
            participants.withdraw(it.coordinator.context, STUDY, key)
        write_backup(it.coordinator.database, "coordinator", tmp_path / "b")
    with closing(open_database(elsewhere)) as database:
        restore_backup(database, tmp_path / "b")
        continued(database, it).register(1)
        with database.read() as connection:
            newest = connection.execute(sa.select(studies.c.newest)).scalar_one()
            assert newest < connection.execute(sa.select(sa.func.max(people.c.id))).scalar_one()


def test_no_other_file_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program may take the name while the backup is made."""

    def taken(*given: Any) -> Backup:
        (tmp_path / "b").write_text("another backup")
        return described(*given)

    described = backups._described
    monkeypatch.setattr(backups, "_described", taken)
    with pytest.raises(InputError, match="File exists; nothing was written, name a file in another folder") as call:
        small_backup(tmp_path)
    refusal(call)
    assert (tmp_path / "b").read_text() == "another backup"
    assert list(tmp_path.glob(".b*")) == []


def test_the_backup_of_a_shuffler_is_restored(tmp_path: Path, elsewhere: str) -> None:
    with (
        own_shuffler(str(tmp_path / "s.db")) as shuffler,
        world(str(tmp_path / "c.db"), definition(private("shuffle")), 600, shuffler) as it,
    ):
        collecting(it)
        made = write_backup(shuffler.database, "shuffler", tmp_path / "b")
    assert made.kind == "shuffler"
    with closing(open_database(elsewhere)) as database:
        assert restore_backup(database, tmp_path / "b") == made
        with database.read() as connection:
            assert connection.execute(sa.text("SELECT count(*) FROM reports")).scalar_one() > 0
    open_store(elsewhere, "shuffler").close()


def small_backup(folder: Path) -> Path:
    with closing(open_store(str(folder / "c.db"), "coordinator")) as database:
        operators.add_key(database, "me", new_key(), 1.0)
        write_backup(database, "coordinator", folder / "b")
    return folder / "b"


def test_only_an_empty_database_is_filled(tmp_path: Path) -> None:
    backup = small_backup(tmp_path)
    with closing(open_database(str(tmp_path / "c.db"))) as database:
        before = rows_of(database)
        with pytest.raises(InputError, match="is not empty") as call:
            restore_backup(database, backup)
        assert rows_of(database) == before
    refusal(call)


def changed(backup: Path, how: str) -> None:
    packed = backup.read_bytes()
    if how == "a byte was lost":
        packed = packed[:-30]
    elif how == "a byte was changed":
        # One of the checksum: of the packed bytes before it, a few can change without changing what is unpacked.
        packed = packed[:-8] + bytes([packed[-8] ^ 1]) + packed[-7:]
    elif how == "it is another file":
        packed = gzip.compress(b"hello\n")
    elif how == "it is not compressed":
        packed = b"hello\n"
    elif how == "it is empty":
        packed = b""
    elif how == "a page is no page of a database":
        content = bytearray(gzip.decompress(packed))
        content[4096:8192] = b"x" * 4096
        packed = gzip.compress(bytes(content))
    else:
        unpacked = backup.with_name("unpacked.db")
        unpacked.write_bytes(gzip.decompress(packed))
        with closing(sqlite3.connect(unpacked)) as file:
            file.execute("CREATE TABLE recipes (id INTEGER)")
        packed = gzip.compress(unpacked.read_bytes())
    backup.write_bytes(packed)


@pytest.mark.parametrize(
    "how",
    [
        "a byte was lost",
        "a byte was changed",
        "it is another file",
        "it is not compressed",
        "it is empty",
        "a page is no page of a database",
        "it has a table that is not ours",
    ],
)
def test_a_damaged_backup_is_refused_and_leaves_the_database_empty(tmp_path: Path, how: str) -> None:
    backup = small_backup(tmp_path)
    check_backup(backup)
    changed(backup, how)
    with closing(open_database(str(tmp_path / "new.db"))) as database:
        with pytest.raises(InputError, match="is not a whole backup") as call:
            restore_backup(database, backup)
        with database.read() as connection:
            assert sa.inspect(connection).get_table_names() == []
    refusal(call)


def test_a_backup_of_a_newer_voxpop_is_refused(tmp_path: Path) -> None:
    backup = small_backup(tmp_path)
    unpacked = tmp_path / "unpacked.db"
    unpacked.write_bytes(gzip.decompress(backup.read_bytes()))
    with closing(sqlite3.connect(unpacked)) as file:
        file.execute("UPDATE alembic_version SET version_num = 'coordinator_99'")
        file.commit()
    backup.write_bytes(gzip.compress(unpacked.read_bytes()))
    with (
        closing(open_database(str(tmp_path / "new.db"))) as database,
        pytest.raises(
            InputError, match="coordinator_99, which this voxpop does not know for a coordinator; name"
        ) as call,
    ):
        restore_backup(database, backup)
    refusal(call)


def test_a_backup_holds_no_session_and_nothing_that_was_deleted(tmp_path: Path) -> None:
    with closing(open_store(str(tmp_path / "c.db"), "coordinator")) as database:
        operators.add_key(database, "me", key := new_key(), 1.0)
        session = operators.sign_in(database, key, 2.0)
        assert session is not None
        write_backup(database, "coordinator", tmp_path / "b")
    content = gzip.decompress((tmp_path / "b").read_bytes())
    assert hash_key(key) in content
    assert hash_key(session.cookie) not in content


def test_the_commands_refuse_what_would_lose_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main, backup = main_of(monkeypatch), small_backup(tmp_path)
    for arguments, sentence in [
        (["backup", "--database", tmp_path / "none.db", "--out", tmp_path / "x"], "there is no database"),
        (["backup", "--database", tmp_path / "c.db", "--out", backup], "exists; name another one"),
        (["backup", "--database", tmp_path / "c.db", "--out", tmp_path / "no" / "b"], "nothing was written"),
        (["backup", "--database", tmp_path / "c.db", "--out", tmp_path / "x", "--shuffler"], "does not know for a shu"),
        (["restore", tmp_path / "none", "--database", tmp_path / "new.db"], "there is no file"),
        (["restore", backup, "--database", tmp_path / "c.db"], "is not empty"),
    ]:
        done = main(*arguments)
        assert done.code == 2
        assert sentence in done.err
    assert not (tmp_path / "none.db").exists()
    assert not (tmp_path / "x").exists()
    checked = main("restore", backup, "--check")
    assert checked.code == 0
    assert "is whole: " in checked.out
