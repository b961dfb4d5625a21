"""All studies at a glance: the same numbers as the status, without reading logs, in a constant number of queries."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from tests.service.world import STUDY, World, definition, world
from voxpop.model.words import describe
from voxpop.service.stores.schema import summaries
from voxpop.service.study import life, log, overview
from voxpop.service.study.life import Wanted
from voxpop.service.study.overview import look


@pytest.fixture
def here(address: str) -> Iterator[World]:
    with world(address, definition(), 40) as made:
        made.settle()
        yield made


@contextmanager
def statements(here: World) -> Iterator[list[str]]:
    """Collect the statements that the database gets."""
    sent: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        sent.append(statement)

    sa.event.listen(here.coordinator.database.engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        sa.event.remove(here.coordinator.database.engine, "before_cursor_execute", note)


def test_a_glance_agrees_with_the_status_at_every_stage(here: World) -> None:
    for _ in range(2):
        here.play_all()
        here.settle()
        invited = list(here.invited())
        here.answer(*invited[0])
        (glance,) = look(here.coordinator.context)
        status = here.status
        assert glance.summary is not None
        assert (glance.stage, glance.wave, glance.registered) == (status.stage, status.wave, 40)
        assert glance.never_asked == status.never_asked
        assert glance.funnel.answered == status.answered
        assert glance.summary.people == status.people
        assert glance.summary.rounds == status.rounds
        assert glance.summary.best == describe(status.best.decision)
        assert glance.summary.certified == status.best.certified
        assert glance.summary.answered is (status.wave > 1)
        assert glance.stage == "collecting"
        assert glance.closes_at == here.clock() + 86_400.0
        here.answer_all()
        here.settle()


def test_looking_again_reads_no_log(here: World) -> None:
    look(here.coordinator.context)
    with statements(here) as sent:
        look(here.coordinator.context)
    assert not any("events" in statement for statement in sent)


def test_the_number_of_queries_does_not_grow_with_the_studies(here: World) -> None:
    look(here.coordinator.context)
    with statements(here) as one:
        assert len(look(here.coordinator.context)) == 1
    for number in range(12):
        here.coordinator.create(f"study-{number}", definition())
    look(here.coordinator.context)
    with statements(here) as many:
        assert len(look(here.coordinator.context)) == 13
    assert len(many) == len(one)


def test_a_summary_follows_the_log(here: World) -> None:
    (before,) = look(here.coordinator.context)
    here.run()
    (after,) = look(here.coordinator.context)
    assert before.summary is not None
    assert after.summary is not None
    assert (before.summary.reason, bool(after.summary.reason)) == ("", True)
    with here.coordinator.database.read() as connection:
        assert connection.execute(sa.select(summaries.c.seq)).scalar_one() == log.row_of(connection, STUDY).seq


def test_an_older_summary_does_not_take_the_place_of_a_newer_one(here: World) -> None:
    """Another coordinator has read the log before, and writes later."""
    look(here.coordinator.context)
    with here.coordinator.database.read() as connection:
        known = dict(connection.execute(sa.select(summaries)).one()._mapping)
    overview._write(here.coordinator.context, **{**known, "seq": known["seq"] - 1, "body": "older"})
    with here.coordinator.database.read() as connection:
        assert dict(connection.execute(sa.select(summaries)).one()._mapping) == known


def test_a_study_that_is_deleted_meanwhile_does_no_harm(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    context = here.coordinator.context
    here.coordinator.create("gone", definition(), draft=True)
    write = overview._write

    def overtaken(context: Any, **row: Any) -> None:
        if row["study"] == "gone":
            life.delete(here.coordinator.context, "gone")
        write(context, **row)

    monkeypatch.setattr(overview, "_write", overtaken)
    assert [glance.study for glance in look(context)] == [STUDY]
    with here.coordinator.database.read() as connection:
        assert connection.execute(sa.select(summaries.c.study)).scalars().all() == [STUDY]


def test_a_draft_that_is_changed_has_a_new_summary(here: World) -> None:
    context = here.coordinator.context
    here.coordinator.create("draft", definition(), draft=True)
    look(context)
    here.coordinator.create("draft", definition(rounds_per_second=2.0), draft=True)
    (glance,) = look(context, "draft")
    assert glance.summary is not None
    assert glance.summary.rate == 2.0


def test_only_one_study_is_read_if_only_one_may_be_seen(here: World) -> None:
    here.coordinator.create("other", definition())
    assert [glance.study for glance in look(here.coordinator.context, STUDY)] == [STUDY]
    assert look(here.coordinator.context, "none") == ()


def test_an_ended_study_says_so(here: World) -> None:
    life.change(here.coordinator.context, STUDY, Wanted.ENDED, "me")
    (glance,) = look(here.coordinator.context)
    assert glance.stage == "finished"
    assert glance.summary is not None
    assert glance.summary.people == 0
