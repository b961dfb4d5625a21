"""A study that was deleted stays deleted: a restored backup that knows it again releases nothing and asks nobody."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.service.world import SECRET, STUDY, Clock, World, definition, private, take_step, world
from voxpop.service import audit, operators
from voxpop.service.keys import new_key, write_key
from voxpop.service.refusals import Refusal
from voxpop.service.serve import coordinator_of, settings_of
from voxpop.service.stores.database import Database, open_database
from voxpop.service.stores.migrate import restore_backup, write_backup
from voxpop.service.study import life, participants
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.life import Wanted
from voxpop.service.study.released import LastRelease, ReleaseRecord
from voxpop.service.study.scheduler import Scheduler

PRIVATE = definition(private("central"))


@pytest.fixture
def record(tmp_path: Path) -> ReleaseRecord:
    record = ReleaseRecord(tmp_path / "secret.released")
    record.prepare()
    return record


@pytest.fixture
def it(tmp_path: Path, record: ReleaseRecord) -> Iterator[World]:
    """All reports of a wave are in; a backup is made, and the wave released."""
    write_key(tmp_path / "secret", SECRET.decode())
    with world(str(tmp_path / "before.db"), PRIVATE, 30, released=record) as it:
        it.settle()
        it.play_all()
        it.settle()
        it.coordinator.create("other", PRIVATE)
        it.answer_all()
        write_backup(it.coordinator.database, "coordinator", tmp_path / "backup")
        it.settle()
        assert it.status.wave == 2
        yield it


@pytest.fixture
def restored(it: World, address: str, tmp_path: Path) -> Iterator[Database]:
    """The backup in a database of each kind, after the study was ended and deleted."""
    life.change(it.coordinator.context, STUDY, Wanted.ENDED)
    life.delete(it.coordinator.context, STUDY)
    with closing(open_database(address)) as database:
        restore_backup(database, tmp_path / "backup")
        yield database


def start(folder: Path, address: str) -> None:
    coordinator_of(settings_of(database=address, secret_file=folder / "secret")).coordinator.database.close()


def test_a_start_deletes_again_what_a_restored_backup_knows(
    restored: Database, address: str, tmp_path: Path, record: ReleaseRecord
) -> None:
    coordinator = Coordinator(restored, SECRET, released=record)
    assert coordinator.studies() == ["other", STUDY]
    for _ in range(2):  # the second start changes nothing
        start(tmp_path, address)
        assert coordinator.studies() == ["other"]
        (entry,) = [entry for entry in audit.trail(restored, STUDY) if entry.action == "deleted"]
        assert (entry.actor, entry.detail) == ("service", "again: a restored backup knew it")
        assert record.of(STUDY) is None
    with pytest.raises(Refusal, match="was deleted, and devices may remember it"):
        coordinator.create(STUDY, PRIVATE)


def test_a_coordinator_that_runs_releases_nothing_of_a_deleted_study(restored: Database, record: ReleaseRecord) -> None:
    """The database was put back under it."""
    noted: list[str] = []
    coordinator = Coordinator(restored, SECRET, released=record, clock=Clock())
    coordinator.context.note = lambda kind, **_: noted.append(kind)
    assert take_step(coordinator, STUDY)
    assert noted == ["deleted_again"]
    assert coordinator.studies() == ["other"]


class Killed(BaseException):
    """Stands in for the end of the process."""


def test_after_a_crash_before_the_commit_the_study_is_deleted_at_the_next_start(
    it: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., None] = ReleaseRecord.bury

    def crash(*given: Any) -> None:
        real(*given)
        raise Killed

    life.change(it.coordinator.context, STUDY, Wanted.ENDED)
    monkeypatch.setattr(ReleaseRecord, "bury", crash)
    with pytest.raises(Killed):
        life.delete(it.coordinator.context, STUDY)
    monkeypatch.undo()
    assert it.coordinator.studies() == ["other", STUDY]
    start(tmp_path, str(tmp_path / "before.db"))
    assert it.coordinator.studies() == ["other"]


def test_coordinators_with_a_record_each_learn_of_a_deletion(it: World, tmp_path: Path) -> None:
    """Also if one of them wrote a release down while another deleted the study."""
    other = ReleaseRecord(tmp_path / "another" / "secret.released")
    other.folder.parent.mkdir()
    other.prepare()
    write_key(tmp_path / "another" / "secret", SECRET.decode())
    life.change(it.coordinator.context, STUDY, Wanted.ENDED)
    life.delete(it.coordinator.context, STUDY)
    start(tmp_path / "another", str(tmp_path / "before.db"))
    ((name, created),) = other.buried()
    assert name == STUDY
    other.note(LastRelease(STUDY, created, 1, ""))
    with closing(open_database(str(tmp_path / "after.db"))) as database:
        restore_backup(database, tmp_path / "backup")
        with database.read() as connection:
            assert other.all_lost(connection) == {}
    start(tmp_path / "another", str(tmp_path / "after.db"))


def test_a_draft_leaves_nothing_and_its_name_is_free_again(it: World, record: ReleaseRecord) -> None:
    it.coordinator.create("cocoa", PRIVATE, draft=True)
    life.delete(it.coordinator.context, "cocoa")
    assert record.buried() == set()
    assert it.coordinator.create("cocoa", PRIVATE)


def test_files_of_others_in_the_record_are_left_alone(it: World, record: ReleaseRecord, tmp_path: Path) -> None:
    participants.withdraw(it.coordinator.context, STUDY, it.keys[0])
    forgotten = record.forgotten(STUDY)
    assert len(forgotten) == 1
    for place in ("forgotten", f"forgotten/{STUDY}", "deleted", f"deleted/{STUDY}"):
        (record.folder / place).mkdir(parents=True, exist_ok=True)
        (record.folder / place / ".DS_Store").touch()
    assert record.forgotten(STUDY) == forgotten
    assert record.forgetful() == [STUDY]
    start(tmp_path, str(tmp_path / "before.db"))
    assert it.coordinator.studies() == ["other", STUDY]


@pytest.mark.parametrize("draft", [False, True])
def test_keys_for_a_deleted_study_are_revoked(it: World, draft: bool) -> None:
    """Whoever had one for a draft must not see another study that gets its name."""
    database, keys = it.coordinator.database, {name: new_key() for name in ("ann", "ben", "cleo")}
    it.coordinator.create("cocoa", PRIVATE, draft=draft)
    for name, study in (("ann", "cocoa"), ("ben", STUDY)):
        operators.add_key(database, name, keys[name], 1.0, "viewer", study)
    operators.add_key(database, "cleo", keys["cleo"], 1.0)
    session = operators.sign_in(database, keys["ann"], 2.0)
    assert session is not None
    if draft:  # changing it changes nothing for those who may see it
        it.coordinator.create("cocoa", definition(horizon=50), draft=True)
        assert operators.principal_of(database, keys["ann"]) is not None
    else:
        life.change(it.coordinator.context, "cocoa", Wanted.ENDED)
    life.delete(it.coordinator.context, "cocoa", "cleo")
    with pytest.raises(Refusal, match="was revoked"):
        operators.principal_of(database, keys["ann"])
    assert operators.session_of(database, session.cookie, 3.0) is None
    assert all(operators.principal_of(database, keys[name]) is not None for name in ("ben", "cleo"))
    said = [(entry.actor, entry.action, entry.detail) for entry in audit.trail(database, "cocoa")]
    assert said[:2] == [("cleo", "deleted", ""), ("cleo", "key revoked", "ann")]


def test_other_coordinators_forget_the_snapshot_of_a_deleted_study(it: World) -> None:
    other = Coordinator(it.coordinator.database, SECRET, clock=it.clock)
    for study in (STUDY, "other"):
        other.snapshots.current(study)
    life.change(it.coordinator.context, STUDY, Wanted.ENDED)
    life.delete(it.coordinator.context, STUDY)
    Scheduler(other)._look()
    assert other.snapshots.names() == {"other"}
