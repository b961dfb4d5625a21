"""The calendar: rounds tile time, whatever clocks do; closed days are skipped; and what cannot be is refused."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxpop import Calendar, InputError
from voxpop.model.calendar import WEEKDAYS, Span

BERLIN = "Europe/Berlin"
ROUNDS = ("minute", "45 minutes", "hour", "5 hours", "day", "3 days", "week", "2 weeks")
# Clocks change at one or two at night, at midnight (Beirut, Havana), by half an hour (Lord Howe), or never.
ZONES = (BERLIN, "Europe/London", "America/New_York", "Asia/Beirut", "America/Havana", "Australia/Lord_Howe", "UTC")


def utc(span: Span) -> tuple[datetime, datetime]:
    """A span in UTC: Python compares times of one zone by what clocks show."""
    return span.begins.astimezone(UTC), span.ends.astimezone(UTC)


@st.composite
def calendars(draw: st.DrawFn) -> Calendar:
    day = draw(st.dates(date(2024, 1, 1), date(2030, 1, 1)))
    hour = draw(st.sampled_from(["", "T00:00", "T02:30", "T09:15", "T23:59"]))
    weekdays = draw(st.lists(st.sampled_from(WEEKDAYS), max_size=6, unique=True))
    closed = [day + timedelta(days) for days in draw(st.lists(st.integers(-3, 30), max_size=5))]
    made = draw(st.sampled_from(ROUNDS)), f"{day}{hour}", draw(st.sampled_from(ZONES))
    try:
        return Calendar(*made, closed=(*weekdays, *map(str, closed)))
    except InputError:  # the time does not exist, or twice
        return Calendar(made[0], f"{day}", made[2])


@given(calendars(), st.integers(1, 400))
def test_rounds_tile_time_without_gaps_but_for_closed_days_and_overlaps(calendar: Calendar, first: int) -> None:
    spans = list(calendar.spans(first, 40))
    assert spans == [calendar.span(first + place) for place in range(40)]
    for span, following in pairwise(spans):
        begins, ends = utc(span)
        assert begins < ends <= utc(following)[0]
        if not calendar.closed:
            assert ends == utc(following)[0]


@given(calendars(), st.integers(1, 2000), st.floats(0, 0.999999))
def test_the_round_of_a_time_inverts_the_time_of_a_round(calendar: Calendar, number: int, within: float) -> None:
    begins, ends = utc(calendar.span(number))
    inside = begins + within * (ends - begins)
    assert calendar.round_at(inside) == calendar.round_at(inside.astimezone(ZoneInfo("Asia/Tokyo"))) == number
    assert calendar.round_at(ends - timedelta(microseconds=1)) == number
    following = utc(calendar.span(number + 1))[0]
    assert calendar.round_at(following) == number + 1
    assert calendar.round_at(ends) == (None if ends < following else number + 1)
    assert calendar.round_at(inside, horizon=number - 1) is None
    assert calendar.round_at(utc(calendar.span(1))[0] - timedelta(microseconds=1)) is None


@given(calendars(), st.integers(1, 400))
def test_what_is_skipped_is_closed_all_day(calendar: Calendar, number: int) -> None:
    """Walk through the days between two rounds, one by one."""
    end, begin = calendar.span(number).ends, calendar.span(number + 1).begins
    moment = end.astimezone(UTC)
    while moment < begin.astimezone(UTC):
        day = moment.astimezone(end.tzinfo).date()
        # A day's round that begins at nine lasts until nine on the next day, and belongs to the first.
        days = {day, day - timedelta(1)} if "day" in calendar.round or "week" in calendar.round else {day}
        assert any(WEEKDAYS[one.weekday()] in calendar.closed or str(one) in calendar.closed for one in days)
        assert (calendar.round_at(moment), calendar.begun(moment)) == (None, number)
        moment += timedelta(hours=6)


@pytest.mark.parametrize(
    ("start", "hours"), [("2026-03-28", [24, 23, 24]), ("2026-10-24", [24, 25, 24]), ("2026-06-01", [24, 24, 24])]
)
def test_a_day_is_a_local_day_when_clocks_change(start: str, hours: list[float]) -> None:
    calendar = Calendar("day", start, BERLIN)
    spans = list(calendar.spans(1, 3))
    assert [span.hours for span in spans] == hours
    assert {span.begins.hour for span in spans} == {0}
    odd = [said for said in calendar.changes(1, 3) if "as clocks change" in said]
    assert len(odd) == (hours[1] != 24)
    assert all(f"has {hours[1]} hours" in said and "round 2 (" in said for said in odd)


def test_a_week_and_its_hours() -> None:
    week = Calendar("week", "2026-03-23T09:00", BERLIN)
    assert [(span.begins.hour, span.hours) for span in week.spans(1, 2)] == [(9, 167), (9, 168)]
    hour = Calendar("hour", "2026-03-29T00:00", BERLIN)
    assert [span.begins.hour for span in hour.spans(1, 4)] == [0, 1, 3, 4]
    hour = Calendar("hour", "2026-10-25T00:00", BERLIN)
    assert [span.begins.hour for span in hour.spans(1, 5)] == [0, 1, 2, 2, 3]
    assert hour.changes(1, 5) == []


def test_a_time_that_clocks_skip_later_is_as_much_later() -> None:
    spans = list(Calendar("day", "2026-03-28T02:30", BERLIN).spans(1, 3))
    assert [f"{span.begins:%H:%M}" for span in spans] == ["02:30", "03:30", "02:30"]
    assert [span.hours for span in spans] == [24, 23, 24]
    assert Calendar("day", "2026-03-28T02:30", BERLIN).round_at("2026-03-29T03:15") == 1


def test_closed_days() -> None:
    closed = ["Sunday", date(2026, 4, 3), "2026-04-06 to 2026-04-07"]
    days = Calendar("day", date(2026, 4, 2), BERLIN, closed)  # type: ignore[arg-type]  # as TOML has them
    assert [span.begins.day for span in days.spans(1, 4)] == [2, 4, 8, 9]
    assert (days.lasting(1, 3), days.until(1, 3)) == ("1 week", "8 April 2026")
    assert days.round_at("2026-04-03T12:00") is None
    weekdays = Calendar("day", "2026-04-10", BERLIN, ["saturday", "sunday"])  # a Friday
    assert [weekdays.begun(f"2026-04-{day:02}T12:00") for day in range(9, 15)] == [0, 1, 1, 1, 2, 3]
    week = Calendar("week", "2026-04-06", BERLIN, ["saturday", "sunday"])
    assert [span.begins.day for span in week.spans(1, 3)] == [6, 13, 20]
    off = Calendar("week", "2026-04-06", BERLIN, ["saturday", "sunday", "2026-04-13 to 2026-04-17"])
    assert [span.begins.day for span in off.spans(1, 3)] == [6, 20, 27]
    assert off.changes(1, 3) == []
    half = Calendar("week", "2026-04-06", BERLIN, ["saturday", "sunday", "2026-04-15 to 2026-04-19"])
    assert half.changes(1, 3) == ["round 2 (13 April 2026) has 3 closed days, and counts as a whole round"]
    hours = Calendar("12 hours", "2026-04-04", BERLIN, ["sunday"])
    assert [(span.begins.day, span.begins.hour) for span in hours.spans(1, 3)] == [(4, 0), (4, 12), (6, 0)]


@pytest.mark.parametrize(
    ("unit", "count", "said"),
    [
        ("week", 6, "6 weeks"),
        ("day", 20, "20 days"),
        ("day", 21, "3 weeks"),
        ("3 days", 1, "3 days"),
        ("30 minutes", 3, "90 minutes"),
        ("30 minutes", 4, "2 hours"),
        ("hour", 1, "1 hour"),
    ],
)
def test_lengths_in_words(unit: str, count: int, said: str) -> None:
    assert Calendar(unit, "2026-03-02", "UTC").lasting(1, count) == said


def test_ends_in_words() -> None:
    assert Calendar("week", "2026-02-02", BERLIN).until(1, 6) == "15 March 2026"
    assert Calendar("day", "2026-02-02T09:30", BERLIN).until(1) == "3 February 2026, 09:30"
    assert Calendar("day", "2026-03-27", "Asia/Beirut").until(1, 2) == "28 March 2026"  # clocks skip its midnight


GOOD = {"round": "day", "start": "2026-03-02", "zone": BERLIN, "closed": ["sunday"]}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"round": "fortnight"}, r"unknown calendar\.round 'fortnight'; write minute, hour, day or week"),
        ({"round": "0 days"}, "unknown calendar.round"),
        ({"round": "1.5 days"}, "unknown calendar.round"),
        ({"round": ""}, "unknown calendar.round"),
        ({"round": "999999 weeks"}, "end after the year 9999; shorten the horizon"),
        ({"zone": "Europe/Berln"}, "unknown calendar.zone 'Europe/Berln'; did you mean 'Europe/Berlin'"),
        ({"zone": "../etc/passwd"}, "unknown calendar.zone"),
        ({"zone": "Europe"}, "unknown calendar.zone"),
        ({"zone": 5}, "unknown calendar.zone 5"),
        ({"start": "soon"}, "calendar.start must be a date such as 2026-03-02, got 'soon'"),
        ({"start": "2026-03-02T09:00+01:00"}, "without an offset"),
        ({"start": "2026-03-02T09:00:30"}, "in whole minutes"),
        ({"start": "2026-03-29T02:30"}, "2026-03-29T02:30 does not exist in Europe/Berlin, as clocks change"),
        ({"start": "20260329T0230"}, "does not exist in Europe/Berlin"),
        ({"start": "2026-10-25T02:30"}, "2026-10-25T02:30 happens twice in Europe/Berlin, as clocks change"),
        ({"start": "2026-03-29T01:30", "zone": "Europe/London"}, "does not exist in Europe/London"),
        ({"closed": list(WEEKDAYS)}, "leaves nothing to play; open one"),
        ({"closed": ["sonntag"]}, "calendar.closed must be a weekday or a date such as 2026-03-02, got 'sonntag'"),
        ({"closed": ["2026-12-24T10:00"]}, "calendar.closed must be"),
        ({"closed": ["2026-12-24 to 2026-12-20"]}, "ends before it begins; correct its dates"),
        ({"closed": ["2026-12-24 to 9999-12-20"]}, "longer than 3,660 days; correct its dates"),
        ({"closed": "sunday"}, r"must be a list such as \['sunday', '2026-12-24'\], got 'sunday'"),
        ({"closed": 5}, "must be a list"),
        ({"start": "9999-12-31"}, "end after the year 9999"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Calendar(**{**GOOD, **wrong})  # type: ignore[arg-type]


def test_a_cycle_is_a_week_of_the_calendar() -> None:
    Calendar("day", "2026-03-02", BERLIN).check_cycle(7)
    Calendar("day", "2026-03-02", BERLIN, ["sunday"]).check_cycle(6)
    Calendar("day", "2026-03-02", BERLIN).check_cycle(30)
    Calendar("week", "2026-03-02", BERLIN).check_cycle(4)
    Calendar("hour", "2026-03-02", BERLIN, ["sunday"]).check_cycle(7)
    for calendar, cycle, remedy in (
        (Calendar("day", "2026-03-02", BERLIN, ["sunday"]), 7, "has 6 rounds, and the cycle 7; give cycle = 6"),
        (Calendar("day", "2026-03-02", BERLIN), 5, "has 7 rounds, and the cycle 5; give cycle = 7"),
        (Calendar("week", "2026-03-02", BERLIN), 7, "has 1 round, and the cycle 7; leave out the cycle"),
    ):
        with pytest.raises(InputError, match=remedy):
            calendar.check_cycle(cycle)


def test_a_horizon_beyond_the_last_year_is_refused() -> None:
    for closed in ((), ("sunday",)):
        calendar = Calendar("week", "2026-03-02", BERLIN, closed)
        calendar.check(10_000)
        for far in (420_000, 10**30):
            with pytest.raises(InputError, match="end after the year 9999"):
                calendar.check(far)


def test_times_where_no_round_can_be() -> None:
    calendar = Calendar("day", "2026-03-02", BERLIN, ["sunday"])
    assert calendar.round_at("0001-01-01") is None
    assert calendar.round_at("9999-12-31T23:59", horizon=1000) is None
    with pytest.raises(InputError, match="the time must be a date such as 2026-03-02, got 'tomorrow'"):
        calendar.round_at("tomorrow")
