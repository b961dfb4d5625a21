"""A database restored from an older backup is recognised, and releases nothing a second time."""

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.engine import make_url

from tests.helpers_cli import main_of, refusal
from tests.service.postgres import with_name
from tests.service.world import SECRET, STUDY, World, definition, private, take_step, world
from voxpop.errors import InputError
from voxpop.service.keys import write_key
from voxpop.service.serve import Settings, coordinator_of, settings_of
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import studies
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.released import ReleaseRecord
from voxpop.service.study.stages import Kind, Lost


def settings(folder: Path, address: str) -> Settings:
    secret = folder / "secret"
    if not secret.exists():
        write_key(secret, SECRET.decode())
    return settings_of(database=address, secret_file=secret)


def record_of(folder: Path) -> ReleaseRecord:
    record = ReleaseRecord(folder / "secret.released")
    record.prepare()
    return record


def start(folder: Path, address: str) -> None:
    """Start a coordinator, and stop it again."""
    coordinator_of(settings(folder, address)).coordinator.database.close()


def collect(it: World) -> None:
    """Conduct the next wave until all reports are in."""
    it.settle()
    it.play_all()
    it.settle()
    it.answer_all()


def closed(it: World) -> int:
    return sum(event.kind == Kind.CLOSED for event in it.coordinator.log(STUDY))


Copy = Callable[[], None]


@pytest.fixture
def backups(address: str, tmp_path: Path, postgres: str) -> tuple[Copy, Copy]:
    """Return functions that back the database up, and that put the backup in its place."""
    if not address.startswith("postgresql"):
        kept = tmp_path / "backup.db"

        def back_up() -> None:
            with closing(open_store(address, "coordinator")) as database:
                assert database.scrub()
            shutil.copy(address, kept)

        def restore() -> None:
            shutil.copy(kept, address)

        return back_up, restore
    name = str(make_url(address).database)

    def copy(source: str, target: str) -> None:
        with closing(psycopg.connect(postgres, autocommit=True)) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(target)))
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(target), sql.Identifier(source))
            )

    assert with_name(address, name) == address
    return lambda: copy(name, f"{name}_kept"), lambda: copy(f"{name}_kept", name)


@pytest.mark.parametrize("at", ["before the draw", "while people answer"])
def test_a_backup_from_before_a_release_is_refused(
    address: str, tmp_path: Path, backups: tuple[Copy, Copy], at: str
) -> None:
    back_up, restore = backups
    record = record_of(tmp_path)
    with world(address, definition(private("central")), 80, released=record) as it:
        collect(it)
        it.settle()  # wave 1 is released
        if at == "while people answer":
            collect(it)
        keys = it.keys
    back_up()
    with world(address, definition(private("central")), released=record) as it:
        it.keys = keys
        if at == "before the draw":
            collect(it)
        it.settle()
        assert closed(it) == 2
    start(tmp_path, address)  # it is healthy
    restore()
    with pytest.raises(InputError, match=f"lacks wave 2 of study '{STUDY}'; restore the newest one") as call:
        start(tmp_path, address)
    refusal(call)


def test_a_database_that_is_replaced_while_a_coordinator_runs_closes_no_wave(tmp_path: Path) -> None:
    noted: list[tuple[str, Any]] = []
    path, record = str(tmp_path / "c.db"), record_of(tmp_path)
    with world(path, definition(private("central")), 80, released=record) as it:
        collect(it)
        it.settle()
        release = record.of(STUDY)
        assert release is not None
        assert release.wave == 1
        it.play_all()
        it.settle()
        # As if wave 2 had been released by the database of which this is an older copy.
        record.note(type(release)(STUDY, release.created, 2, "another attempt"))
        it.coordinator.context.note = lambda kind, **values: noted.append((kind, values.get("lost")))
        it.answer_all()
        it.settle()
        assert closed(it) == 1
        assert noted == [("restored", f"wave 2 of study '{STUDY}'")]
        assert any("restore the newer database" in sentence for sentence in it.status.says)


class Killed(BaseException):
    """Stands in for the end of the process."""


def test_after_a_crash_between_note_and_release_the_wave_is_released_once(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, real = record_of(tmp_path), ReleaseRecord.note

    def crash(self: ReleaseRecord, release: Any) -> None:
        real(self, release)
        raise Killed

    with world(address, definition(private("central")), 80, released=record) as it:
        collect(it)
        monkeypatch.setattr(ReleaseRecord, "note", crash)
        with pytest.raises(Killed):
            it.settle()
        monkeypatch.undo()
        assert closed(it) == 0
        release = record.of(STUDY)
        assert release is not None
        assert release.wave == 1
    start(tmp_path, address)  # is not refused
    with world(address, definition(private("central")), released=record) as it:
        it.settle()
        assert closed(it) == 1
        assert record.of(STUDY) == release  # the same attempt


def test_coordinators_with_a_record_each_do_not_confuse_each_other(
    new_postgres: Callable[[], str], tmp_path: Path
) -> None:
    address, folders = new_postgres(), [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    first, second = map(record_of, folders)
    with world(address, definition(private("central")), 80, released=first) as it:
        mine = it.coordinator
        other = Coordinator(open_store(address, "coordinator"), SECRET, clock=it.clock, released=second)
        for coordinator in (mine, other, other, mine):
            it.coordinator = coordinator
            collect(it)
            it.settle()
        for record, wave in ((first, 4), (second, 3)):  # the second is behind, and that is fine
            release = record.of(STUDY)
            assert release is not None
            assert release.wave == wave
        other.database.close()
    for folder in folders:
        start(folder, address)


def test_a_database_without_the_study_is_refused_and_can_be_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.db"
    monkeypatch.setenv("VOXPOP_SECRET_FILE", str(settings(tmp_path, str(path)).secret_file))
    with world(str(path), definition(private("central")), 80, released=record_of(tmp_path)) as it:
        for _ in range(2):
            collect(it)
            it.settle()
    run = main_of(monkeypatch)
    assert "knows every wave" in run("restored", "--database", path).out
    path.unlink()
    shown = f"waves 1 to 2 of study '{STUDY}'"
    with pytest.raises(InputError, match=f"lacks {shown}"):
        start(tmp_path, str(path))
    assert f"lost: {shown}" in run("restored", "--database", path).out
    with pytest.raises(InputError, match="lacks"):  # looking changes nothing
        start(tmp_path, str(path))
    done = run("restored", "--database", path, "--accept")
    assert f"accepted: {shown}" in done.out
    assert '"event": "restored_accepted"' in done.err
    start(tmp_path, str(path))


def test_a_record_that_cannot_be_kept_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "secret.released").write_text("a file, not a folder")
    with pytest.raises(InputError, match="set VOXPOP_RELEASED") as call:
        start(tmp_path, str(tmp_path / "c.db"))
    refusal(call)


def test_a_record_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (record_of(tmp_path).folder / "tea.json").write_text("{}")
    with pytest.raises(InputError, match="is not a record of a release") as call:
        start(tmp_path, str(tmp_path / "c.db"))
    refusal(call)


def test_a_coordinator_notes_what_another_one_closed(tmp_path: Path) -> None:
    """With a folder each, a database restored from before that wave is refused by both."""
    path, mine, other = str(tmp_path / "c.db"), record_of(tmp_path), ReleaseRecord(tmp_path / "other")
    other.prepare()
    with world(path, definition(private("central")), 80, released=mine) as it:
        second = Coordinator(it.coordinator.database, SECRET, clock=it.clock, released=other)
        for wave in (1, 2):
            collect(it)
            it.settle()  # the first one closes the wave
            take_step(second, STUDY)
            release = other.of(STUDY)
            assert release is not None
            assert release.wave == wave
        known = other.of(STUDY)
        collect(it)
    with closing(open_store(path, "coordinator")) as database, database.read() as connection:
        assert known is not None
        assert other.lost(connection, STUDY) is None
        other.note(replace(known, wave=3))
        assert other.lost(connection, STUDY) == Lost(STUDY, 3, 3)


def test_an_attempt_that_failed_before_it_was_written_down_gets_a_new_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a backup made between the two attempts would pass for the newest database."""
    path, record = str(tmp_path / "c.db"), record_of(tmp_path)
    with world(path, definition(private("central")), 80, released=record) as it:
        collect(it)

        def full(*_: object) -> None:
            raise InputError("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(ReleaseRecord, "note", full)
            with pytest.raises(InputError, match="the disk is full"):
                it.settle()
        with it.coordinator.database.read() as connection:
            failed = connection.execute(sa.select(studies.c.attempt)).scalar_one()
        assert failed is not None
        assert closed(it) == 0
        it.settle()
        release = record.of(STUDY)
        assert release is not None
        assert release.attempt != failed
        assert closed(it) == 1
