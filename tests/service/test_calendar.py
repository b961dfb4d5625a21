"""Rounds that are played by the calendar: a wave begins with the next round, and any later time can be asked about."""

import math
from datetime import UTC, datetime

import pytest

from tests.service.world import STUDY, World, definition, world
from voxpop.errors import InputError
from voxpop.model.calendar import Calendar
from voxpop.service.refusals import Refusal
from voxpop.service.study.definition import Definition, Rules

HOUR = 3600.0
DAILY = Calendar("day", "1970-01-11", "UTC", ["wednesday"])  # the clock of the tests begins on Monday, 12 January
MONDAY = 11 * 24 * HOUR  # its midnight


def made(calendar: Calendar = DAILY) -> Definition:
    begun = definition()
    return Definition(begun.problem, begun.policy, begun.privacy, rules=Rules(), calendar=calendar)


def days(here: World, count: float) -> None:
    here.clock.now = MONDAY + count * 24 * HOUR
    here.settle()


def test_a_wave_begins_with_the_next_round_and_skips_closed_days(address: str) -> None:
    with world(address, made(), people=60) as here:
        here.settle()
        before = here.coordinator.decision(STUDY)
        assert (here.status.stage, before.rounds, here.status.played) == ("playing", 0, 0)
        plan = here.coordinator.snapshots.current(STUDY).open_wave.plan
        assert plan.asked == 1
        days(here, 1.5)  # Tuesday: the first round
        now = here.coordinator.decision(STUDY)
        assert (now.index, now.rounds) == (plan.sequence[0], 1)
        days(here, 2)  # Wednesday: it is over
        assert here.status.stage == "collecting"
        here.answer_all()
        here.settle()
        second = here.coordinator.snapshots.current(STUDY).open_wave.plan
        assert second.wave == 2
        for day, index in zip([3, 4, 5, 6, 7, 8, 10], second.sequence.tolist(), strict=False):  # from Thursday on
            days(here, day + 0.5)
            assert here.coordinator.decision(STUDY).index == index
            at = datetime.fromtimestamp(here.clock.now, UTC).isoformat()
            assert here.coordinator.decision(STUDY, at) == here.coordinator.decision(STUDY)


def test_a_clock_knows_when_the_rounds_will_be_played() -> None:
    """From Monday on, with a closed Wednesday, two rounds end with Thursday; a rate counts seconds."""
    assert made().end_of_rounds(MONDAY + HOUR, 2) == MONDAY + 4 * 24 * HOUR
    assert definition(rounds_per_second=0.5).end_of_rounds(100.0, 3) == 106.0
    assert definition().end_of_rounds(100.0, 3) == math.inf


def test_later_times_are_planned_and_earlier_ones_refused(address: str) -> None:
    with world(address, made(), people=60) as here:
        here.settle()
        plan = here.coordinator.snapshots.current(STUDY).open_wave.plan
        best = here.coordinator.decision(STUDY).index
        first = here.coordinator.decision(STUDY, "1970-01-13T12:00")
        assert (first.index, first.rounds) == (plan.sequence[0], 1)
        assert here.coordinator.decision(STUDY, "1970-01-13T12:00 01:00") == first  # a plus, in an address
        assert here.coordinator.decision(STUDY, "1970-02-01").index == best
        with pytest.raises(Refusal, match="began after 1970-01-10; ask for a later time"):
            here.coordinator.decision(STUDY, "1970-01-10")
        with pytest.raises(Refusal, match="a clock plays the rounds"):
            here.coordinator.play(STUDY, 1, "play-1", 1)


def test_without_a_calendar_only_the_present_is_known(address: str) -> None:
    with world(address, definition(), people=60) as here, pytest.raises(Refusal, match="has no calendar"):
        here.coordinator.decision(STUDY, "1970-02-01")


def test_the_study_ends_by_the_calendar_alone(address: str) -> None:
    with world(address, made(), people=200) as here:
        for _ in range(200):
            here.settle()
            if here.status.stage == "finished":
                break
            here.answer_all()
            here.clock.now += 12 * HOUR
        assert here.status.stage == "finished"


def test_a_calendar_and_a_rate_are_one_too_many() -> None:
    begun = definition(rounds_per_second=1.0)
    with pytest.raises(InputError, match=r"rounds are played by the \[calendar\] or by service.rounds_per_second"):
        Definition(begun.problem, begun.policy, begun.privacy, rules=begun.rules, calendar=DAILY)
