"""The dates of a study: the schedule of a wave as rows, as CSV and as iCalendar, and what is in force when."""

import csv
import io
import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voxpop import Calendar, Choice, Float, InputError, Problem, Space, SquaredExponential, Study
from voxpop.journal.journal import Course, Definition, Opened
from voxpop.journal.question import Question
from voxpop.journal.schedule import decision_at, numbers, scheduled, turns
from voxpop.journal.wave import Wave
from voxpop.model.waves import Plan, changed
from voxpop.policies import make_policy

BERLIN = Calendar("day", "2026-03-27", "Europe/Berlin", ("sunday",))
NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
ODD = 'tea; "green", with a \\ and\na new line ' + 80 * "ü"


def problem(space: Space | None = None) -> Problem:
    decisions = (space or Space(price=Float(1.0, 3.0))).grid(5)
    return Problem(decisions, SquaredExponential(0.3), 0.3, bias_std=0.1, norm_bound=1.0, horizon=400)


def course(calendar: Calendar | None = BERLIN, name: str = "tea", **planned: Any) -> Course:
    """A course whose open wave plays three decisions four times each, in random orders and two blocks."""
    plan = Plan(1, np.array([0, 2, 4]), np.array([4, 4, 4]), 30, reference=2, rest=3, blocks=2)
    plan = changed(plan.shuffled(np.random.default_rng(1)), **planned)
    begun = Course.begin(Definition(problem(), make_policy(), name=name, calendar=calendar))
    wave = begun.following
    assert isinstance(wave, Wave)
    return begun.after(Opened(plan, wave.release))


def question_of(made: Course) -> Question:
    assert made.question is not None
    return made.question


def test_a_schedule_has_every_round_of_the_wave_in_the_order_of_play() -> None:
    made = course()
    rows = question_of(made).schedule()
    assert made.pending is not None
    prices = [made.problem.decisions[arm] for arm in made.pending.sequence.tolist()]
    assert [row["round"] for row in rows] == [*range(1, 16)]
    assert [row["decision"] for row in rows] == [*prices, *[made.problem.decisions[2]] * 3]
    assert [row["block"] for row in rows] == [1] * 6 + [2] * 6 + [None] * 3
    for block in (1, 2):
        assert set(Counter(row["decision"]["price"] for row in rows if row["block"] == block).values()) == {2}
    assert [row["from"].day for row in rows[:4]] == [27, 28, 30, 31]
    assert all(row["from"] < row["until"] for row in rows)


@pytest.mark.parametrize("planned", [{}, {"orders": None}])
def test_what_is_in_force_is_what_the_schedule_says(planned: dict[str, Any]) -> None:
    made = course(**planned)
    for row in question_of(made).schedule():
        assert decision_at(made, row["from"]) == row["decision"]


def test_without_a_calendar_rounds_are_numbers() -> None:
    rows = question_of(course(None)).schedule()
    assert [row["round"] for row in rows] == [*range(1, 16)]
    assert {(row["from"], row["until"]) for row in rows} == {(None, None)}


def test_the_next_wave_goes_on_where_the_last_one_ended() -> None:
    study = Study(problem(), calendar=BERLIN, most_waves=3, tolerance=0.01)
    first = study.ask()
    assert first is not None
    rng = np.random.default_rng(0)
    study.tell(1, rng.normal(0.5, 0.2, (first.people, len(first.decisions))))
    second = study.ask()
    assert second is not None
    assert second.first == first.first + len(first.schedule())
    assert second.schedule()[0]["from"] >= first.schedule()[-1]["until"]
    for row in [*first.schedule(), *second.schedule()]:
        assert study.decision_at(row["from"]) == row["decision"]
        assert study.decision_at(row["until"] - timedelta(minutes=1)) == row["decision"]
    assert study.decision_at(second.schedule()[-1]["until"] + timedelta(days=9)) == study.best.decision
    assert study.decision_at(date(2026, 3, 26)) is None  # before the start
    assert study.decision_at("2026-03-29") is None  # a Sunday


def test_a_study_from_a_pilot_has_dates_and_no_wave_is_longer_than_its_horizon() -> None:
    tastes = enumerate(np.random.default_rng(0).normal(4.0, 1.0, 40))
    rows = [{"person": who, "price": p, "reward": 3 - (p - t) ** 2 / 4} for who, t in tastes for p in range(1, 7)]
    asked = None
    for horizon in (3, 60, 2000):
        asked = Study.from_pilot(rows, horizon=horizon, points=11, calendar=BERLIN).ask()
        if asked is not None:
            schedule = asked.schedule()
            assert len(schedule) <= horizon
            assert schedule[0]["from"].isoformat() == "2026-03-27T00:00:00+01:00"
    assert asked is not None


def test_turns_end_when_the_decision_changes_and_before_closed_days() -> None:
    rows = question_of(course(orders=None, blocks=1)).schedule()
    made = [(numbers(turn), turn[0]["decision"]["price"], turn[0]["block"]) for turn in turns(rows)]
    # The 27th is a Friday, and nothing is played on Sundays.
    first = [("1 to 2", 1.0, 1), ("3 to 4", 1.0, 1), ("5 to 8", 2.0, 1), ("9 to 12", 3.0, 1)]
    assert made == [*first, ("13 to 14", 2.0, None), ("15", 2.0, None)]
    assert [row for turn in turns(rows) for row in turn] == rows


def test_a_round_of_a_wave_in_a_row_is_found_without_writing_all_of_them_down() -> None:
    made = course(orders=None, pulls=np.array([10**9, 10**9, 10**9]))
    assert decision_at(made, "2026-03-28") == made.problem.decisions[0]


def test_csv() -> None:
    made = course()
    rows = question_of(made).schedule()
    read = list(csv.DictReader(io.StringIO(scheduled(made, ".csv", NOW).decode())))
    assert list(read[0]) == ["round", "from", "until", "price", "block"]
    assert [int(row["round"]) for row in read] == [row["round"] for row in rows]
    assert [datetime.fromisoformat(row["from"]) for row in read] == [row["from"] for row in rows]
    assert [datetime.fromisoformat(row["until"]) for row in read] == [row["until"] for row in rows]
    assert [float(row["price"]) for row in read] == [row["decision"]["price"] for row in rows]
    assert [row["block"] for row in read] == [str(row["block"] or "") for row in rows]
    bare = list(csv.DictReader(io.StringIO(scheduled(course(None), ".csv", NOW).decode())))
    assert {(row["from"], row["until"]) for row in bare} == {("", "")}


def test_a_parameter_that_is_called_like_a_column() -> None:
    study = Study(problem(Space({"round": Choice(("=1", "b")), "block": Float(0.0, 1.0)})))
    study.ask()
    read = list(csv.DictReader(io.StringIO(scheduled(study.course, ".csv", NOW).decode())))
    assert list(read[0]) == ["round", "from", "until", "decision_round", "decision_block", "block"]
    assert {row["decision_round"] for row in read} <= {"'=1", "b"}


def events_of(data: bytes) -> list[dict[str, str]]:
    """Read an iCalendar file strictly: lines of at most 75 octets that end in CRLF, known properties, each once."""
    assert data.endswith(b"\r\n")
    assert b"\n" not in data.replace(b"\r\n", b"")
    assert b"\r" not in data.replace(b"\r\n", b"")
    lines = data.split(b"\r\n")
    assert all(len(line) <= 75 for line in lines)
    for line in lines:
        line.decode()  # no character is split
    unfolded = data.replace(b"\r\n ", b"").decode().split("\r\n")[:-1]
    assert unfolded[:3] == ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//voxpop//schedule//EN"]
    assert unfolded[-1] == "END:VCALENDAR"
    events: list[dict[str, str]] = []
    inside = False
    for said in unfolded[3:-1]:
        name, found, value = said.partition(":")
        assert found
        if name in ("BEGIN", "END"):
            assert value == "VEVENT"
            assert inside is (name == "END")
            inside = name == "BEGIN"
            events += [{}] * inside
            events = [*events[:-1], dict(events[-1])]
        else:
            assert inside
            assert name in ("UID", "DTSTAMP", "DTSTART", "DTEND", "SUMMARY", "DESCRIPTION")
            assert name not in events[-1]
            if name in ("SUMMARY", "DESCRIPTION"):
                assert not re.search(r"(?<!\\)(?:\\\\)*[;,]", value), value
                value = re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], value)
            events[-1][name] = value
    assert all(len(event) == 6 for event in events)
    return events


def utc(text: str) -> datetime:
    return datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


@pytest.mark.parametrize("name", ["tea", ODD])
def test_ics(name: str) -> None:
    made = course(name=name)
    rows = question_of(made).schedule()
    events = events_of(scheduled(made, ".ics", NOW))
    assert len({event["UID"] for event in events}) == len(events) == len(turns(rows))
    for event, turn in zip(events, turns(rows), strict=True):
        assert (utc(event["DTSTART"]), utc(event["DTEND"])) == (turn[0]["from"], turn[-1]["until"])
        assert utc(event["DTSTAMP"]) == NOW
        assert event["SUMMARY"] == f"price = {turn[0]['decision']['price']:g}"
        assert event["DESCRIPTION"] == f"{name}, wave 1, round {numbers(turn)}"
    later = events_of(scheduled(made, ".ics", NOW + timedelta(days=1)))
    assert [event["UID"] for event in later] == [event["UID"] for event in events]


def test_dates_that_are_not_there_are_refused() -> None:
    with pytest.raises(InputError, match=r"the study has no dates; add a \[calendar\] table"):
        scheduled(course(None), ".ics", NOW)
    with pytest.raises(InputError, match="the study has no dates"):
        Study(problem()).decision_at("2026-03-02")
    with pytest.raises(InputError, match="no wave is open"):
        scheduled(Study(problem()).course, ".csv", NOW)


def test_the_calendar_is_kept_in_the_journal_and_only_if_there_is_one(tmp_path: Path) -> None:
    study = Study(problem(), path=tmp_path / "tea.json", calendar=BERLIN)
    asked = study.ask()
    assert asked is not None
    again = Study.load(tmp_path / "tea.json")
    assert again.calendar == BERLIN
    assert again.ask() == asked
    assert asked.schedule() == Study.load(tmp_path / "tea.json").course.question.schedule()  # type: ignore[union-attr]
    Study(problem(), path=tmp_path / "bare.json").ask()
    assert "calendar" not in (tmp_path / "bare.json").read_text()
    assert Study.load(tmp_path / "bare.json").calendar is None


def test_a_horizon_beyond_the_last_year_is_refused_before_and_during_a_study() -> None:
    weeks = Calendar("520 weeks", "2026-03-27", "Europe/Berlin")
    with pytest.raises(InputError, match="400 rounds of '9999 weeks' from 2026-03-27 on end after the year 9999"):
        Study(problem(), calendar=Calendar("9999 weeks", "2026-03-27", "Europe/Berlin"))
    study = Study(problem(), calendar=weeks)
    with pytest.raises(InputError, match="900 rounds of '520 weeks'"):
        study.change_horizon(900)
    assert study.problem.horizon == 400
