"""Rounds that are played by the calendar: a wave begins with the next round, and any later time can be asked about."""

import math
from datetime import UTC, datetime

import pytest

from tests.service.world import STUDY, World, definition, world
from voxpop.errors import InputError
from voxpop.model.calendar import Calendar
from voxpop.service.console.studies import study_view
from voxpop.service.refusals import Refusal
from voxpop.service.study.definition import Definition, Rules
from voxpop.service.study.life import Wanted, change
from voxpop.service.study.log import row_of
from voxpop.service.study.status import CurrentDecision, dated

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


def test_a_calendar_does_not_change_while_a_wave_plays_and_a_pause_moves_its_rounds(address: str) -> None:
    with world(address, made(), people=60) as here:
        for day in (0, 1.5, 2):
            days(here, day)
        here.answer_all()
        for day in (2, 3.5, 4.5):
            days(here, day)
        before = here.coordinator.decision(STUDY)
        assert before.rounds > 0
        with pytest.raises(Refusal, match=r"with another calendar, and what has begun never changes.*or pause") as told:
            here.coordinator.create(STUDY, made(Calendar("day", "1970-01-11", "UTC", ["friday"])))
        assert told.value.status == 409
        assert here.coordinator.decision(STUDY) == before
        assert here.coordinator.snapshots.current(STUDY).calendar == DAILY
        change(here.coordinator.context, STUDY, Wanted.PAUSED)
        days(here, 6.5)
        assert here.coordinator.decision(STUDY).rounds == 0
        change(here.coordinator.context, STUDY, Wanted.RUNNING)
        after = here.coordinator.decision(STUDY)
        assert (after.index, after.rounds, after.wave) == (before.index, before.rounds, before.wave)


def test_later_times_are_planned_and_earlier_ones_refused(address: str) -> None:
    with world(address, made(), people=60) as here:
        here.settle()
        plan = here.coordinator.snapshots.current(STUDY).open_wave.plan
        best = here.coordinator.decision(STUDY).index
        first = here.coordinator.decision(STUDY, "1970-01-13T12:00")
        assert (first.index, first.rounds) == (plan.sequence[0], 1)
        assert here.coordinator.decision(STUDY, "1970-01-13T12:00 01:00") == first  # a plus, in an address
        assert here.coordinator.decision(STUDY, "1970-02-01").index == best
        with pytest.raises(
            Refusal, match="nothing is known of 'tea' at 1970-01-10, before it began; ask for a later time"
        ):
            here.coordinator.decision(STUDY, "1970-01-10")
        with pytest.raises(Refusal, match="a clock plays the rounds"):
            here.coordinator.play(STUDY, 1, "play-1", 1)


def test_what_was_in_force_is_known_for_any_time(address: str) -> None:
    """Whatever happened since: waves, answers that came late, a pause, and the end in the middle of a wave."""
    with world(address, made(), people=60) as here:
        seen: dict[float, CurrentDecision] = {}

        def look() -> None:
            here.settle()
            seen[here.clock.now] = here.coordinator.decision(STUDY)

        for half in range(1, 40):
            days(here, half / 2 + 0.01)
            look()
            if half % 3 == 0 and here.status.stage == "collecting":
                here.answer_all()
            if half in (21, 25):
                here.clock.now += 60.0
                change(here.coordinator.context, STUDY, Wanted.PAUSED if half == 21 else Wanted.RUNNING)
                look()
        assert here.status.stage == "playing"
        here.clock.now += 1.0
        change(here.coordinator.context, STUDY, Wanted.ENDED)
        here.clock.now += 1.0
        for _ in range(2):  # also to a coordinator that has just begun
            for at, then in seen.items():
                asked = here.coordinator.decision(STUDY, datetime.fromtimestamp(at, UTC).isoformat())
                assert (asked.decision, asked.block, asked.wave) == (then.decision, then.block, then.wave), at
            here.coordinator.snapshots.forget(STUDY)
        assert len({then.index for then in seen.values()}) > 2
        assert {then.wave for then in seen.values()} > {1, 2}


def test_the_status_says_when_the_wave_is_played_and_when_the_study_ends(address: str) -> None:
    """From the next round on when enough people are registered, however late that is."""
    with world(address, made()) as here:
        here.settle()
        assert here.status.dates == (
            "Wave 1 takes 1 day: it is played on 13 January 1970, time of UTC, if enough people register before; "
            "people then have until 14 January 1970 to answer; the study's 31 rounds should end on 17 February 1970."
        )
        days(here, 7.5)
        assert "played on 20 January 1970, time of UTC, if" in here.status.dates
        here.register(60)
        here.settle()
        days(here, 8.5)
        now = here.status
        assert (now.stage, "played on 20 January 1970, time of UTC; people" in now.dates) == ("playing", True)
        assert now.dates in now.says
        days(here, 9)  # the answers are in; a closed Wednesday follows
        here.answer_all()
        here.settle()
        days(here, 10.25)
        plan = here.coordinator.snapshots.current(STUDY).open_wave.plan
        with here.coordinator.database.read() as connection:
            question = dated(here.coordinator.snapshots.current(STUDY), row_of(connection, STUDY), here.clock())
        assert question is not None
        rows = question.schedule()
        assert [row["from"].day for row in rows] == [22, 23]
        assert "takes 2 days: it is played from 22 January 1970 to 23 January 1970" in here.status.dates
        in_force = [here.coordinator.decision(STUDY, f"1970-01-{day}T12:00").decision for day in (22, 23)]
        assert [row["decision"] for row in rows] == in_force
        assert len(rows) == plan.length
        assert "1970" not in study_words(here)  # what follows from the plan alone would be wrong


def study_words(here: World) -> str:
    """Return what the page says that follows from the log alone."""
    found = study_view(here.coordinator, STUDY).findings
    return " ".join(map(str, [found.headline, *found.lines, found.asked]))


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
