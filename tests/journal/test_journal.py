"""The journal of a study, wherever it is kept: what was appended is read, in order, by whoever opens it."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from tests.helpers_cli import refusal
from tests.journal.backends import BACKENDS, Backend, FileBackend, SqlBackend
from voxpop.errors import InputError
from voxpop.journal.journal import (
    Amended,
    Course,
    Definition,
    Event,
    Finished,
    Opened,
    Released,
    TakenBack,
    encode_event,
    fold,
)
from voxpop.journal.wave import Wave, release_wave
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Evidence, Problem
from voxpop.model.strata import Strata
from voxpop.policies import make_policy
from voxpop.privacy import Secure, make_privacy
from voxpop.service.stores.schema import events as events_table

POINTS = np.linspace(0.0, 1.0, 9)[:, None]
PILOT = Evidence(POINTS[[0, 4]], np.array([5.0, 5.0]), 20, np.array([0.6, 0.9]))


def definition(model: str = "central") -> Definition:
    problem = Problem(POINTS, SquaredExponential(0.4), 0.2, bias_std=0.4, norm_bound=1.5, horizon=2_000)
    return Definition(problem, make_policy(), make_privacy(model, None if model == "none" else 5.0), "tea", "cups")


def released(course: Course) -> Released:
    """Release what people answer to the open wave."""
    assert course.wave is not None
    plan = course.wave.plan
    rng = np.random.default_rng(plan.wave)
    answers = 1.0 - (plan.arms / 8 - 0.5) ** 2 + rng.normal(0.0, 0.3, (plan.people, len(plan.arms)))
    tally = course.wave.release.tally(course.wave.release.randomize(answers, Secure()))
    names = tuple(f"{course.events}-{person}" for person in range(plan.people))
    return Released(*release_wave(course.wave, [tally], course.ledger, Secure(), names))


def opened(course: Course) -> Opened:
    wave = course.following
    assert isinstance(wave, Wave)
    return Opened(wave.plan, wave.release)


@cache
def happened(model: str = "central") -> tuple[Definition, list[Event], Course]:
    """Conduct a study in which everything happens that can."""
    begun = definition(model)
    course, events = Course.begin(begun), list[Event]()

    def add(event: Event) -> None:
        nonlocal course
        events.append(event)
        course = course.after(event)

    add(Amended(pilot=(PILOT,)))
    add(opened(course))
    add(released(course))
    add(TakenBack(1))
    add(released(course))
    add(Amended(horizon=50_000))
    add(opened(course))
    add(released(course))
    add(Finished("somebody ended it", early=True))
    return begun, events, course


def written(events: Sequence[Event]) -> list[object]:
    return [encode_event(event) for event in events]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    if request.param == "file":
        yield FileBackend(tmp_path)
        return
    sqlite = request.param == "sqlite"
    made = SqlBackend(tmp_path, str(tmp_path / "c.db") if sqlite else request.getfixturevalue("new_postgres")())
    yield made
    made.database.close()


@pytest.mark.parametrize("model", ["none", "central", "local", "aggregate"])
def test_what_was_appended_is_read_and_the_same_course_follows(backend: Backend, model: str) -> None:
    begun, events, course = happened(model)
    journal = backend.create(begun)
    journal.append(events[:1], 0)
    journal.append(events[1:4], 1)
    journal.append(events[4:], 4)
    again = backend.open()
    assert again.definition.encode() == begun.encode()
    assert written(again.read()) == written(events)
    assert written(again.read(5)) == written(events[5:])
    assert list(again.read(len(events))) == []
    read = fold(again.definition, again.read())
    for part in ("lower", "upper", "centre", "active"):
        np.testing.assert_array_equal(getattr(read.state, part), getattr(course.state, part))
    assert (read.ended, read.early, read.events) == ("somebody ended it", True, len(events))
    assert (len(read.closed), len(read.entries), len(read.known)) == (2, 3, 3)
    assert read.known == course.known
    assert (read.problem.horizon, len(read.problem.pilot)) == (50_000, 1)


def test_a_definition_comes_back_with_strata_and_charges(backend: Backend) -> None:
    _, _, course = happened()
    parts = Strata({"young": 0.5, "old": 0.5})
    begun = Definition(course.problem, course.policy, strata=parts, charged=course.entries[:1])
    backend.create(begun)
    again = backend.open().definition
    assert again.strata == parts
    assert fold(again, []).entries == course.entries[:1]


def test_of_two_writers_the_second_is_refused(backend: Backend) -> None:
    begun, events, _ = happened()
    backend.create(begun).append(events[:2], 0)
    first, second = backend.open(), backend.open()
    first.read(), second.read()
    first.append(events[2:3], 2)
    with pytest.raises(InputError, match="changed by another program") as caught:
        second.append(events[2:4], 2)
    refusal(caught)
    assert written(backend.open().read()) == written(events[:3])
    assert written(second.read(2)) == written(events[2:3])
    second.append(events[3:4], 3)
    assert written(first.read()) == written(events[:4])


def test_an_event_that_was_expected_elsewhere_is_refused(backend: Backend) -> None:
    begun, events, _ = happened()
    journal = backend.create(begun)
    for expected in (1, 7):
        with pytest.raises(InputError, match="changed by another program"):
            journal.append(events[:1], expected)
    assert list(backend.open().read()) == []


def test_a_torn_write_is_cut_and_the_next_event_takes_its_place(backend: Backend) -> None:
    begun, events, _ = happened()
    backend.create(begun).append(events[:2], 0)
    backend.tear()
    journal = backend.open()
    assert written(journal.read()) == written(events[:2])
    journal.append(events[2:3], 2)
    assert written(backend.open().read()) == written(events[:3])


def test_what_cannot_be_written_did_not_happen(backend: Backend) -> None:
    begun, events, _ = happened()
    journal = backend.create(begun)
    journal.append(events[:2], 0)
    with backend.full():
        journal.append(events[2:4], 2)
    assert written(backend.open().read()) == written(events[:2])
    journal.append(events[2:4], 2)
    assert written(backend.open().read()) == written(events[:4])


def test_an_older_copy_of_a_private_study_is_refused(backend: Backend) -> None:
    begun, events, _ = happened()
    journal = backend.create(begun)
    journal.append(events[:2], 0)
    restore = backend.backup()
    journal.append(events[2:3], 2)
    restore()
    with pytest.raises(InputError, match="newest") as caught:
        backend.open()
    refusal(caught)


def test_a_copy_of_a_study_without_privacy_is_continued(backend: Backend) -> None:
    begun, events, _ = happened("none")
    journal = backend.create(begun)
    journal.append(events[:2], 0)
    restore = backend.backup()
    journal.append(events[2:3], 2)
    restore()
    if backend.refuses_every_copy:  # a service would ask the same people again
        with pytest.raises(InputError, match="newest"):
            backend.open()
        return
    again = backend.open()
    assert written(again.read()) == written(events[:2])
    again.append(events[2:3], 2)


def test_a_gap_in_the_journal_of_a_database_is_noticed(tmp_path: Path) -> None:
    definition, events, _ = happened()
    backend = SqlBackend(tmp_path, str(tmp_path / "tea.db"))
    journal = backend.create(definition)
    journal.append(events[:3], 0)
    with backend.database.write() as connection:
        connection.execute(sa.delete(events_table).where(events_table.c.seq == 2))
    with pytest.raises(AssertionError, match="the log has a gap"):
        journal.read()
    backend.database.close()


def test_events_that_cannot_follow_are_refused() -> None:
    definition, events, _ = happened()
    begun = Course.begin(definition)
    with pytest.raises(InputError, match="a release without an open wave"):
        begun.after(events[2])
    with pytest.raises(InputError, match="wave 1 cannot be taken back"):
        begun.after(TakenBack(1))
    with pytest.raises(InputError, match="wave 2 cannot be taken back"):
        fold(definition, events[:3]).after(TakenBack(2))


def test_what_was_taken_back_stays_charged_and_its_wave_is_open_again() -> None:
    begun, events, _ = happened()
    before, after = fold(begun, events[:2]), fold(begun, events[:4])
    assert after.wave is not None
    assert before.wave is not None
    assert encode_event(Opened(after.wave.plan, after.wave.release)) == encode_event(events[1])
    np.testing.assert_array_equal(after.state.upper, before.state.upper)
    assert (after.closed, after.known) == ((), before.known)
    assert len(after.entries) == 1
