"""Withdrawal: what may be forgotten of a person is, somebody else is asked, and what was released stays."""

import json
import secrets
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from tests.service.test_http import Site, as_
from tests.service.world import SECRET, STUDY, World, check_in_as, definition, enrol, private, take_step, world
from voxpop.service.keys import hash_key, new_key
from voxpop.service.refusals import Refusal
from voxpop.service.stores import schema
from voxpop.service.stores.migrate import open_store
from voxpop.service.study import life, log, participants
from voxpop.service.study.collecting import askable
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.inbox import Upload, store
from voxpop.service.study.invitations import Funnel, Invitations
from voxpop.service.study.life import Wanted
from voxpop.service.study.participants import Newcomer, forget_again, register
from voxpop.service.study.released import ReleaseRecord
from voxpop.service.study.status import status_of

CENTRAL = definition(private("central"), deadline=100.0)
TWICE = definition(private("central"), participations=3, budget=20.0)


def collecting(it: World) -> None:
    it.settle()
    it.play_all()
    it.settle()


def rows(it: World, table: sa.Table) -> list[Any]:
    with it.coordinator.database.read() as connection:
        return list(connection.execute(sa.select(table)))


def person(it: World, key: str) -> Any:
    return next((row for row in rows(it, schema.people) if row.key_hash == hash_key(key)), None)


def numbers(it: World) -> tuple[int, int, int]:
    """Return the counts of people, after comparing them with the people."""
    status, people = it.status, [row for row in rows(it, schema.people) if not row.withdrawn]
    assert status.registered == len(people)
    assert status.never_asked == sum(row.participations == 0 for row in people)
    return status.registered, status.never_asked, status.withdrawn


def leave(it: World, *keys: str) -> None:
    """Let people withdraw, whose devices do not check in any more."""
    for key in keys:
        participants.withdraw(it.coordinator.context, STUDY, key)
        it.keys.remove(key)


def said(it: World, key: str) -> str:
    return str(json.loads(check_in_as(it.coordinator, STUDY, key)).get("status", "invited"))


def test_a_report_that_waits_is_deleted_and_somebody_else_is_asked(address: str) -> None:
    with world(address, CENTRAL, 20) as it:
        collecting(it)
        invited = dict(it.invited())
        for key in invited:
            assert it.answer(key, invited[key]) is True
        leaver = next(iter(invited))
        leave(it, leaver)
        assert person(it, leaver) is None
        assert (len(rows(it, schema.inbox)), len(rows(it, schema.receipts)), len(rows(it, schema.invitations))) == (
            11,
        ) * 3
        assert (it.status.answered, it.status.invited) == (11, 0)
        assert it.status.funnel == Funnel(12, 11, 1, 0)
        assert numbers(it) == (19, 19, 1)
        it.settle()
        assert it.status.wave == 1  # the eleven are not released without a twelfth
        ((newcomer, _),) = it.invited()
        assert newcomer not in invited
        it.answer_all()
        it.settle()
        assert it.coordinator.snapshots.current(STUDY).closed[0].feedback.count == 12
        assert numbers(it) == (19, 7, 1)


def test_repeating_a_withdrawal_changes_nothing_and_nobody_is_withdrawn_by_another_key(address: str) -> None:
    with world(address, CENTRAL, 20) as it:
        collecting(it)
        leaver = it.keys[0]
        for _ in range(3):
            participants.withdraw(it.coordinator.context, STUDY, leaver)
        participants.withdraw(it.coordinator.context, STUDY, new_key())
        assert numbers(it) == (19, 19, 1)
        with pytest.raises(Refusal, match="there is no study"):
            participants.withdraw(it.coordinator.context, "cocoa", leaver)


def test_one_who_was_never_in_a_release_may_register_again_as_someone_new(address: str) -> None:
    with world(address, CENTRAL, 20) as it:
        participants.withdraw(it.coordinator.context, STUDY, it.keys[0])
        with pytest.raises(Refusal, match="not registered") as call:
            check_in_as(it.coordinator, STUDY, it.keys[0])
        assert call.value.status == 401
        assert enrol(it.coordinator, STUDY, it.keys[0])
        assert numbers(it) == (20, 20, 1)


def test_of_one_who_took_part_only_key_hash_and_participations_stay(address: str) -> None:
    with world(address, CENTRAL, 40) as it:
        collecting(it)
        leaver = next(iter(it.invited()))[0]
        it.answer_all()
        it.settle()
        before = it.coordinator.log(STUDY)
        participants.withdraw(it.coordinator.context, STUDY, leaver)
        left = person(it, leaver)
        assert (left.participations, left.withdrawn) == (1, True)
        assert left.id not in {row.person for row in rows(it, schema.invitations)}
        known = {row.id for row in rows(it, schema.invitations)}
        assert {row.invitation for row in rows(it, schema.receipts)} <= known
        assert len(rows(it, schema.receipts)) == 11
        assert said(it, leaver) == "withdrawn"
        with pytest.raises(Refusal, match="has withdrawn from the study") as call:
            enrol(it.coordinator, STUDY, leaver)
        assert call.value.status == 410
        assert it.coordinator.log(STUDY) == before  # what was released stays
        assert numbers(it) == (39, 28, 1)


def test_one_who_withdrew_is_never_asked_again_where_people_may_take_part_again(address: str) -> None:
    with world(address, TWICE, 12) as it:
        collecting(it)
        it.answer_all()
        it.settle()
        leaver = it.keys[0]
        participants.withdraw(it.coordinator.context, STUDY, leaver)  # after the rounds of the next wave began
        collecting(it)
        assert set(dict(it.invited())) == set(it.keys[1:])
        assert person(it, leaver).id not in {row.person for row in rows(it, schema.invitations)}
        assert it.status.short == 1  # and not the one who left
        assert numbers(it) == (11, 0, 1)


def test_rounds_do_not_begin_for_people_who_have_left(address: str) -> None:
    with world(address, TWICE, 12) as it:
        collecting(it)
        it.answer_all()
        it.settle()
        assert it.status.wave == 2
        participants.withdraw(it.coordinator.context, STUDY, it.keys[0])
        with it.coordinator.database.read() as connection:
            assert askable(connection, it.coordinator.snapshots.current(STUDY)) == 11


def test_one_who_leaves_between_the_draw_and_the_invitation_is_not_invited(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(address, TWICE, 12) as it:
        collecting(it)
        it.answer_all()
        it.settle()
        it.play_all()
        leavers = it.keys[:1]
        drawn = Invitations.draw

        def overtaken(*given: Any) -> list[int]:
            chosen = drawn(*given)
            while leavers:  # on SQLite the draw only reads, and others may write meanwhile
                participants.withdraw(it.coordinator.context, STUDY, leavers.pop())
            return chosen

        monkeypatch.setattr(Invitations, "draw", overtaken)
        it.settle()
        assert len(dict(it.invited())) == 11
        assert person(it, it.keys[0]).id not in {row.person for row in rows(it, schema.invitations)}


def test_a_number_that_sqlite_gives_again_is_not_taken_for_one_who_was_there_before(address: str) -> None:
    with world(address, CENTRAL, 13) as it:
        collecting(it)
        leave(it, *it.keys[-2:])  # the last to register, before the rounds began
        it.register(2)
        it.settle()
        assert set(dict(it.invited())) == set(it.keys[:11])


def test_a_number_of_a_deleted_study_is_not_given_to_one_who_was_there_before(address: str) -> None:
    with world(address, CENTRAL, 13) as it:
        coordinator = it.coordinator
        coordinator.create("cocoa", CENTRAL)
        register(coordinator.context, [Newcomer("cocoa", new_key()) for _ in range(5)])
        collecting(it)
        life.change(coordinator.context, "cocoa", Wanted.ENDED)
        life.delete(coordinator.context, "cocoa")
        it.register(3)
        leave(it, *dict(it.invited()))
        it.settle()
        assert set(dict(it.invited())) == set(it.keys[:1])


def test_those_who_withdraw_at_any_stage_are_counted_right(address: str) -> None:
    with world(address, CENTRAL, 60) as it:
        leave(it, it.keys[0])
        it.settle()
        leave(it, it.keys[0])
        it.play_all()
        it.settle()
        invited = dict(it.invited())
        silent, awake, *_ = invited
        it.answer(awake, invited[awake])
        leave(it, silent)
        life.change(it.coordinator.context, STUDY, Wanted.PAUSED)
        leave(it, awake)
        assert said(it, list(invited)[2]) == "invited"
        life.change(it.coordinator.context, STUDY, Wanted.RUNNING)
        assert numbers(it) == (56, 56, 4)
        it.settle()
        assert it.status.funnel == Funnel(14, 0, 2, 0)
        late = it.upload(invited[silent], np.array([[0.5]]))
        assert isinstance(late, Refusal)
        assert late.status == 401
        it.answer_all()
        it.settle()
        taken = next(row for row in rows(it, schema.people) if row.participations)
        leave(it, next(key for key in it.keys if hash_key(key) == taken.key_hash))
        life.change(it.coordinator.context, STUDY, Wanted.ENDED)
        leave(it, it.keys[-1])
        assert numbers(it)[2] == 6
        assert it.coordinator.snapshots.current(STUDY).closed[0].feedback.count == 12


def test_people_who_answer_and_leave_at_the_same_moment_are_counted_or_forgotten(address: str) -> None:
    """Two coordinators take reports, withdrawals and steps in any order; the release counts those who stayed."""
    with (
        world(address, CENTRAL, 60) as it,
        closing(open_store(address, "coordinator")) as shared,
        ThreadPoolExecutor(6) as threads,
    ):
        other = Coordinator(shared, SECRET, clock=it.clock)
        collecting(it)
        invited = dict(it.invited())
        leavers = list(invited)[::2]
        uploads = [Upload((STUDY, 1), invited[key]["token"], np.array([0.5]).tobytes()) for key in invited]
        work: list[Callable[[], Any]] = [partial(store, other.context, [upload]) for upload in uploads]
        work += [partial(participants.withdraw, it.coordinator.context, STUDY, key) for key in leavers]
        work += [partial(take_step, who, STUDY) for who in (it.coordinator, other) for _ in range(4)]
        secrets.SystemRandom().shuffle(work)
        for done in [threads.submit(task) for task in work]:
            done.result()
        it.keys = [key for key in it.keys if key not in leavers]
        it.settle()
        assert numbers(it) == (54, 54, 6)
        assert it.status.answered == len(rows(it, schema.inbox)) == 6
        for _, invitation in list(it.invited()):
            assert it.upload(invitation, np.array([[0.5]])) is True
        it.settle()
        assert it.coordinator.snapshots.current(STUDY).closed[0].feedback.count == 12
        assert numbers(it) == (54, 42, 6)


def test_nothing_of_one_who_withdrew_is_on_disk(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), CENTRAL, 30) as it:
        collecting(it)
        key, invitation = next(iter(it.invited()))
        assert it.answer(key, invitation) is True
        report, token = np.array(it.reports[1][0]).tobytes(), hash_key(invitation["token"])
        (digest,) = [row.digest for row in rows(it, schema.receipts)]

        def stored() -> bytes:
            return b"".join(path.read_bytes() for path in tmp_path.glob("c.db*"))

        traces = (report, token, digest, hash_key(key))
        assert all(trace in stored() for trace in traces)
        participants.withdraw(it.coordinator.context, STUDY, key)
        assert not any(trace in stored() for trace in traces)


def copied(folder: Path) -> Path:
    """Copy an SQLite database, as a backup does."""
    backup = folder / "backup.db"
    with closing(sqlite3.connect(folder / "c.db")) as source, closing(sqlite3.connect(backup)) as copy:
        source.backup(copy)
    return backup


def test_a_restored_backup_forgets_again_those_who_withdrew_since(tmp_path: Path) -> None:
    record = ReleaseRecord(tmp_path / "released")
    record.prepare()
    with world(str(tmp_path / "c.db"), CENTRAL, 20, released=record) as it:
        collecting(it)
        invited = dict(it.invited())
        for key in list(invited)[:6]:
            it.answer(key, invited[key])
        backup = copied(tmp_path)
        first, *_, silent = invited
        back = next(key for key in it.keys if key not in invited)
        for key in (first, silent, back):
            participants.withdraw(it.coordinator.context, STUDY, key)
        assert enrol(it.coordinator, STUDY, back)  # as someone new, who must not be forgotten
        assert forget_again(it.coordinator.context) == 0
    shutil.copy(backup, tmp_path / "restored.db")
    with closing(open_store(str(tmp_path / "restored.db"), "coordinator")) as database:
        coordinator = Coordinator(database, SECRET, clock=it.clock, released=record)
        again = World(coordinator, it.clock, keys=it.keys)
        assert person(again, first) is not None
        assert forget_again(coordinator.context) == 2
        assert person(again, first) is person(again, silent) is None
        assert person(again, back) is not None
        assert len(rows(again, schema.inbox)) == 5
        assert numbers(again) == (18, 18, 2)
        assert forget_again(coordinator.context) == 0


def test_a_withdrawal_that_fails_changes_nothing_and_one_that_was_cut_off_is_completed_by_the_next_start(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = ReleaseRecord(tmp_path / "released")
    record.prepare()
    with world(address, CENTRAL, 20, released=record) as it:
        collecting(it)
        key = next(iter(it.invited()))[0]
        noted = ReleaseRecord.note_forgotten

        def cut_off(self: ReleaseRecord, study: str, key_hash: bytes) -> None:
            noted(self, study, key_hash)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(ReleaseRecord, "note_forgotten", cut_off)
            with pytest.raises(KeyboardInterrupt):
                participants.withdraw(it.coordinator.context, STUDY, key)
        assert said(it, key) == "invited"
        assert numbers(it) == (20, 20, 0)
        assert forget_again(it.coordinator.context) == 1
        assert person(it, key) is None
        assert numbers(it) == (19, 19, 1)


def test_the_record_of_a_deleted_study_forgets_who_left_it(tmp_path: Path) -> None:
    record = ReleaseRecord(tmp_path / "released")
    record.prepare()
    with world(str(tmp_path / "c.db"), CENTRAL, 20, released=record) as it:
        participants.withdraw(it.coordinator.context, STUDY, it.keys[0])
        assert record.forgotten(STUDY) == [hash_key(it.keys[0])]
        life.change(it.coordinator.context, STUDY, Wanted.ENDED)
        life.delete(it.coordinator.context, STUDY)
        assert record.forgetful() == []
        assert forget_again(it.coordinator.context) == 0


def test_a_withdrawal_over_http_needs_the_participant_s_own_key(tmp_path: Path) -> None:
    with closing(Site(tmp_path)) as site:
        site.collect()
        place = f"/v2/studies/{STUDY}/participant"
        assert site.client.delete(place).status_code == 401
        for _ in range(2):
            answer = site.client.delete(place, headers=as_(site.people[0]))
            assert (answer.status_code, answer.json()) == (200, {"status": "withdrawn"})
        assert status_of(site.coordinator.context, STUDY).withdrawn == 1
        assert site.client.delete("/v2/studies/cocoa/participant", headers=as_(site.people[1])).status_code == 404
        assert status_of(site.coordinator.context, STUDY).registered == 19


def test_invented_keys_do_not_hold_the_study_up(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(address, CENTRAL, people=3) as it:
        locked = []
        row_of = log.row_of

        def watched(connection: sa.Connection, study: str, lock: bool = False) -> Any:
            locked.append(lock)
            return row_of(connection, study, lock)

        monkeypatch.setattr(log, "row_of", watched)
        participants.withdraw(it.coordinator.context, STUDY, new_key())
        assert locked == [False]
        participants.withdraw(it.coordinator.context, STUDY, it.keys[0])
        participants.withdraw(it.coordinator.context, STUDY, it.keys[0])
        assert locked == [False, False, True, False]
