"""The life of a study: drafts, starting, pausing, ending, archiving and deleting, and who did it."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.helpers_waiting import until
from tests.service.world import SECRET, STUDY, World, check_in_as, definition, own_shuffler, private, take_step, world
from voxpop.policies import make_policy
from voxpop.service import audit
from voxpop.service.refusals import Refusal
from voxpop.service.stores import schema
from voxpop.service.stores.migrate import open_store
from voxpop.service.study import life, steps
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.life import Wanted, _remove
from voxpop.service.study.log import row_of
from voxpop.service.study.participants import Newcomer, check_in, register
from voxpop.service.study.released import ReleaseRecord
from voxpop.service.study.status import status_of

PRIVATE = definition(private("central"), deadline=100.0)


def collecting(it: World) -> None:
    """Bring the study to where people are invited."""
    it.settle()
    it.play_all()
    it.settle()
    assert it.status.stage == "collecting"


def actions(it: World) -> list[str]:
    return [entry.action for entry in reversed(audit.trail(it.coordinator.database))]


def rows_about(it: World, study: str) -> dict[str, int]:
    """Count the rows that belong to a study, by table."""
    owned = {name: table for name, table in schema.coordinator.tables.items() if "study" in table.c}
    kept = ("audit", "deleted")
    with it.coordinator.database.read() as connection:
        found = {
            name: connection.execute(
                sa.select(sa.func.count()).select_from(table).where(table.c.study == study)
            ).scalar_one()
            for name, table in owned.items()
            if name not in kept
        }
        found["receipts"] = connection.execute(sa.select(sa.func.count()).select_from(schema.receipts)).scalar_one()
    return {name: count for name, count in found.items() if count}


def test_a_draft_is_seen_by_nobody_and_can_be_changed_until_it_is_started(address: str) -> None:
    with world(address, PRIVATE) as it:
        coordinator = it.coordinator
        assert coordinator.create("cocoa", PRIVATE, draft=True, actor="ann")
        assert not take_step(coordinator, "cocoa")
        assert status_of(coordinator.context, "cocoa").life == "draft"
        for refused in (
            register(coordinator.context, [Newcomer("cocoa", "k" * 40)])[0],
            check_in(coordinator.context, [("cocoa", "k" * 40)])[0],
        ):
            assert isinstance(refused, Refusal)
            assert refused.status == 404
        with pytest.raises(Refusal, match="there is no study"):
            coordinator.decision("cocoa")
        assert coordinator.create("cocoa", definition(horizon=50), draft=True, actor="ben")
        assert coordinator.snapshots.current("cocoa").definition.problem.horizon == 50
        assert life.change(coordinator.context, "cocoa", Wanted.RUNNING, "ann")
        assert take_step(coordinator, "cocoa")
        assert register(coordinator.context, [Newcomer("cocoa", "k" * 40)]) == [True]
        with pytest.raises(Refusal, match="already another study 'cocoa', with another problem, and"):
            coordinator.create("cocoa", definition(horizon=60), draft=True)
        assert actions(it) == ["created", "created", "changed", "started"]


def test_two_operators_who_press_the_same_button_both_succeed(address: str) -> None:
    with world(address, PRIVATE) as it, ThreadPoolExecutor(8) as threads:
        it.coordinator.create("cocoa", PRIVATE, draft=True)
        start = partial(life.change, it.coordinator.context, "cocoa", Wanted.RUNNING)
        done = list(threads.map(start, map(str, range(8))))
        assert sorted(done) == [False] * 7 + [True]
        assert actions(it).count("started") == 1


def test_a_paused_study_plays_asks_and_releases_nothing_and_still_takes_reports(address: str) -> None:
    with world(address, PRIVATE, people=20) as it:
        it.settle()
        assert it.coordinator.decision(STUDY).rounds > 0
        life.change(it.coordinator.context, STUDY, Wanted.PAUSED)
        assert it.coordinator.decision(STUDY).rounds == 0
        with pytest.raises(Refusal, match="is paused; its rounds are not counted"):
            it.coordinator.play(STUDY, 1, "now", 1)
        assert any(sentence.startswith("Paused") for sentence in it.status.says)
        life.change(it.coordinator.context, STUDY, Wanted.RUNNING)
        collecting(it)
        life.change(it.coordinator.context, STUDY, Wanted.PAUSED)
        it.answer_all()
        assert STUDY not in it.coordinator.unfinished()
        assert not take_step(it.coordinator, STUDY)
        assert (it.status.stage, it.status.answered) == ("collecting", 12)
        life.change(it.coordinator.context, STUDY, Wanted.RUNNING)
        it.settle()
        assert it.status.wave == 2
        assert actions(it) == ["created", "paused", "resumed", "paused", "resumed"]


def test_a_pause_takes_no_time_from_those_who_are_invited(address: str) -> None:
    with world(address, PRIVATE, people=12) as it:
        collecting(it)
        it.clock.now += 60.0
        life.change(it.coordinator.context, STUDY, Wanted.PAUSED)
        it.clock.now += 10_000.0
        life.change(it.coordinator.context, STUDY, Wanted.RUNNING)
        it.settle()
        left = {invitation["seconds_left"] for _, invitation in it.invited()}
        assert left == {40.0}


def test_the_clock_of_the_rounds_stands_still_during_a_pause(address: str) -> None:
    with world(address, definition(private("central"), horizon=100, rounds_per_second=0.1), people=200) as it:
        for _ in range(2):  # waves of one and of two rounds
            it.settle()
            it.clock.now += 1000.0
            it.settle()
            it.answer_all()
        it.settle()
        it.clock.now += 20.0
        before = it.status.played
        assert 0 < before < it.status.rounds
        life.change(it.coordinator.context, STUDY, Wanted.PAUSED)
        it.clock.now += 10_000.0
        assert it.status.played == before
        life.change(it.coordinator.context, STUDY, Wanted.RUNNING)
        it.settle()
        assert it.status.played == before


@pytest.mark.parametrize("model", ["central", "local", "shuffle", "aggregate"])
def test_a_study_that_is_ended_keeps_what_was_released_and_nothing_of_the_open_wave(
    tmp_path: Path, address: str, model: str
) -> None:
    with own_shuffler(str(tmp_path / "s.db")) as shuffler:
        link = shuffler if model in ("shuffle", "aggregate") else None
        with world(address, definition(private(model)), people=60, shuffler=link) as it:
            collecting(it)
            it.answer_all()
            it.settle()
            collecting(it)
            key, invitation = next(iter(it.invited()))
            assert it.answer(key, invitation) is True
            best = it.status.best
            assert life.change(it.coordinator.context, STUDY, Wanted.ENDED, "ann")
            assert not life.change(it.coordinator.context, STUDY, Wanted.ENDED, "ben")
            status = it.status
            assert (status.stage, status.best, status.reason) == ("finished", best, "an operator ended it")
            assert json.loads(check_in_as(it.coordinator, STUDY, key))["status"] == "finished"
            for table in ("inbox", "plays", "totals"):
                assert table not in rows_about(it, STUDY)
            if model != "shuffle":
                late = it.upload(invitation, it.rng.normal(size=(1, len(invitation["wave"]["arms"]))))
                assert isinstance(late, Refusal)
            assert not it.coordinator.snapshots.current(STUDY).pending


def test_what_cannot_be_is_refused_with_the_remedy(address: str) -> None:
    with world(address, PRIVATE, people=12) as it:
        collecting(it)
        coordinator = it.coordinator
        for act, sentence in (
            (lambda: life.change(coordinator.context, STUDY, Wanted.ARCHIVED), "end it before you archive it"),
            (lambda: life.delete(coordinator.context, STUDY), "people may be answering; end it first"),
            (lambda: life.change(coordinator.context, "nothing", Wanted.PAUSED), "there is no study"),
        ):
            with pytest.raises(Refusal, match=sentence):
                act()
        coordinator.create("cocoa", PRIVATE, draft=True)
        for wanted, sentence in ((Wanted.PAUSED, "has not begun"), (Wanted.ENDED, "delete it instead")):
            with pytest.raises(Refusal, match=sentence):
                life.change(coordinator.context, "cocoa", wanted)
        life.change(coordinator.context, STUDY, Wanted.ENDED)
        for wanted, sentence in ((Wanted.PAUSED, "nothing to pause"), (Wanted.RUNNING, "cannot go on")):
            with pytest.raises(Refusal, match=sentence):
                life.change(coordinator.context, STUDY, wanted)
        assert life.change(coordinator.context, STUDY, Wanted.ARCHIVED)
        assert coordinator.studies(archived=False) == ["cocoa"]
        assert life.change(coordinator.context, STUDY, Wanted.RUNNING)
        assert coordinator.studies(archived=False) == ["cocoa", STUDY]


def test_deleting_leaves_no_row_and_no_coordinator_misses_the_study(tmp_path: Path, address: str) -> None:
    mine, other = (ReleaseRecord(tmp_path / name) for name in ("mine", "other"))
    for record in (mine, other):
        record.prepare()
    with world(address, PRIVATE, people=30, released=mine) as it:
        collecting(it)
        it.answer_all()
        it.settle()
        colleague = Coordinator(it.coordinator.database, SECRET, clock=it.clock, released=other)
        take_step(colleague, STUDY)
        assert [release and release.wave for release in (mine.of(STUDY), other.of(STUDY))] == [1, 1]
        life.change(it.coordinator.context, STUDY, Wanted.ENDED)
        assert rows_about(it, STUDY)
        life.delete(it.coordinator.context, STUDY, "ann")
        assert rows_about(it, STUDY) == {}
        assert mine.of(STUDY) is None
        with it.coordinator.database.read() as connection:
            assert other.all_lost(connection) == {}
        with pytest.raises(Refusal, match="there is no study"):
            status_of(it.coordinator.context, STUDY)
        with pytest.raises(Refusal, match="was deleted, and devices may remember it"):
            it.coordinator.create(STUDY, PRIVATE)
        last = audit.trail(it.coordinator.database, STUDY)[0]
        assert (last.actor, last.action) == ("ann", "deleted")
    open_store(address, "coordinator").close()


def test_a_step_that_began_before_a_pause_changes_nothing_after_it(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = steps._look
    with world(address, PRIVATE, people=20) as it:
        for stage, bring in (("open", it.settle), ("collecting", it.answer_all)):
            bring()
            if stage == "open":
                it.play_all()

            def look_and_wait(*given: Any) -> steps.Step:
                found = look(*given)
                life.change(it.coordinator.context, STUDY, Wanted.PAUSED)
                return found

            before = it.status.wave, it.status.stage, it.status.invited
            monkeypatch.setattr(steps, "_look", look_and_wait)
            take_step(it.coordinator, STUDY)
            assert (it.status.wave, it.status.stage, it.status.invited) == before
            monkeypatch.setattr(steps, "_look", look)
            life.change(it.coordinator.context, STUDY, Wanted.RUNNING)
            take_step(it.coordinator, STUDY)
        assert it.status.wave == 1
        assert it.status.stage == "closed"


@pytest.mark.parametrize("population", [None, 60])
def test_who_registers_while_a_study_is_deleted_hears_that_there_is_none(
    new_postgres: Callable[[], str], population: int | None
) -> None:
    """On SQLite one writes after the other; on PostgreSQL the newcomer waits for the deletion."""
    with world(new_postgres(), PRIVATE, people=3) as it, ThreadPoolExecutor(1) as threads:
        life.change(it.coordinator.context, STUDY, Wanted.ENDED)
        it.coordinator.create("cocoa", definition(policy=make_policy("waves", population=population)))
        context = it.coordinator.context
        with it.coordinator.database.write() as connection:
            row_of(connection, "cocoa", lock=True, alone=True)
            newcomer = threads.submit(register, context, [Newcomer("cocoa", "k" * 40)])
            waiting = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
            until(lambda: _count(it, waiting) > 0, "the newcomer's wait")
            _remove(connection, "cocoa")
        (refused,) = newcomer.result()
        assert isinstance(refused, Refusal)
        assert refused.status == 404


def _count(it: World, wanted: sa.TextClause) -> int:
    with it.coordinator.database.read() as connection:
        return int(connection.execute(wanted).scalar_one())
