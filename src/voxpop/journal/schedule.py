"""The dates of a study: what is in force when, and the open wave as a CSV or an iCalendar file (RFC 5545)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np

from voxpop.errors import InputError
from voxpop.io.cells import whole_number
from voxpop.io.columns import read_columns
from voxpop.io.csv_text import read_table
from voxpop.io.frames import as_csv
from voxpop.journal.journal import Course
from voxpop.journal.question import Question, parameters_of
from voxpop.model.waves import Plan
from voxpop.model.words import describe

Row = dict[str, Any]  # of Question.schedule
OWN = ("round", "from", "until", "block")  # the columns of a schedule, beside those of the parameters
NO_CALENDAR = "the study has no dates; add a [calendar] table to the study file, or Study(..., calendar=Calendar(...))"


def decision_at(course: Course, when: datetime | date | str) -> Any:
    """Return the decision in force at a time: as the waves were planned, and after the last one the best known.

    Nothing is in force before the start, on closed days, and where a round was not played.
    """
    if course.calendar is None:
        raise InputError(NO_CALENDAR)
    number = course.calendar.round_at(when)
    if number is None:
        return None
    for plan in course.all_plans:
        since = number - course.begins(plan.wave)
        if since <= plan.length:  # before the wave, and after an earlier one, the best known then
            action = _played(plan, since - 1) if since > 0 else course.known[plan.wave - 1].best
            return None if action < 0 else course.problem.decisions[action]
    return course.answer.decision


def read_rounds(course: Course, path: Path) -> dict[int, Any]:
    """Read what was in force in each round of the open wave, from a table like that of its schedule.

    A row without a decision says that none of the study's was in force.
    """
    if (question := course.question) is None:
        raise InputError("no wave is open whose rounds could have been played otherwise; ask first, or undo")
    example = parameters_of(question.decisions[0])
    table = read_table(path, {name.lower(): name for name in ("round", *map(_column, example))})
    table.require("round", *map(_column, example))
    numeric = [_column(name) for name, value in example.items() if isinstance(value, int | float)]
    amounts, found = read_columns(table, missing=numeric), dict[int, Any]()
    for row, cell in enumerate(table["round"].cells):
        if (number := whole_number(cell)) is None or number in found:
            twice = "stands twice; say once what was in force" if number in found else "is not the number of a round"
            raise table["round"].refusal(row, twice if cell else "write the number of the round")
        cells = {name: table[_column(name)].cells[row] for name in example}
        amount = {name: amounts[_column(name)].values[row] for name in example if _column(name) in numeric}
        found[number] = {**cells, **amount} if any(cells.values()) else None
    missing = set(range(question.first, question.first + len(question.schedule()) - question.rest)) - set(found)
    if missing:
        raise InputError(
            f"{path} does not say what was in force in round {min(missing)}; add the round, and leave its decision "
            "empty if there was none"
        )
    return found


def _played(plan: Plan, turn: int) -> int:
    """Return the action of one round of a wave, of which there may be very many; -1: none was in force."""
    if turn >= plan.asked:
        return plan.reference
    if plan.played is not None:
        return int(plan.played[turn])
    turn //= plan.washout + plan.each
    if plan.orders is None:
        return int(plan.arms[np.searchsorted(np.cumsum(plan.turns), turn, side="right")])
    return int(plan.arms[plan.orders.flat[turn]])


def wave_dates(course: Course) -> dict[int, tuple[str, str]]:
    """Say when each wave ends, and how long it takes; empty without a calendar."""
    found: dict[int, tuple[str, str]] = {}
    if (calendar := course.calendar) is None:
        return found
    for plan in course.all_plans:
        first = course.begins(plan.wave) + 1
        found[plan.wave] = calendar.until(first, plan.length), calendar.lasting(first, plan.length)
    return found


def turns(rows: Sequence[Row]) -> list[list[Row]]:
    """Group the rounds of a schedule by turns, which end when decision or block change, and before closed days."""
    made: list[list[Row]] = []
    for row in rows:
        last = made[-1][-1] if made else None
        if last and (last["decision"], last["block"], last["until"]) == (row["decision"], row["block"], row["from"]):
            made[-1].append(row)
        else:
            made.append([row])
    return made


def numbers(turn: Sequence[Row]) -> str:
    """Write the rounds of a turn."""
    return " to ".join(f"{number:,}" for number in sorted({turn[0]["round"], turn[-1]["round"]}))


def dated_turns(question: Question) -> list[tuple[str, str, str, str]]:
    """Write the turns of a wave with dates, as people read them: its rounds, from when until when, and the decision.

    >>> from voxpop import Calendar
    >>> week = Calendar("week", "2026-03-02", "Europe/Berlin")
    >>> dated_turns(Question(1, ({"price": 4.5},), (2,), people=2, calendar=week))
    [('1 to 2', '2 March 2026', '15 March 2026', 'price = 4.5')]
    """
    if (calendar := question.calendar) is None:
        return []
    return [
        (
            numbers(turn),
            calendar.written(turn[0]["from"]),
            calendar.written(turn[-1]["until"], last=True),
            describe(turn[0]["decision"])
            + (" (does not count)" if question.counting and turn[0]["block"] is None else ""),
        )
        for turn in turns(question.schedule())
    ]


def scheduled(course: Course, ending: str, now: datetime, question: Question | None = None) -> bytes:
    """Write the schedule of the open wave, or of a `question` that knows better when, to end in .csv or .ics."""
    if (question := question or course.question) is None:
        raise InputError("no wave is open, so there is no schedule to write; leave out --schedule")
    rows = question.schedule()
    if ending == ".csv":
        made = [_csv_row(row, question.decisions[0]) for row in rows]
        return as_csv(list(made[0]), made)
    if question.calendar is None:
        raise InputError(NO_CALENDAR)
    study = hashlib.sha256(course.name.encode()).hexdigest()[:16]
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//voxpop//schedule//EN"]
    for turn in turns([row for row in rows if row["decision"] is not None]):
        first, last = turn[0], turn[-1]
        lines += [
            "BEGIN:VEVENT",
            f"UID:{study}-{question.wave}-{first['round']}@voxpop",  # so that the events of a later file replace these
            f"DTSTAMP:{_utc(now)}",
            f"DTSTART:{_utc(first['from'])}",  # in UTC, so that no time can be misread
            f"DTEND:{_utc(last['until'])}",
            f"SUMMARY:{_escaped(describe(first['decision']))}",
            f"DESCRIPTION:{_escaped(f'{course.name}, wave {question.wave}, round {numbers(turn)}')}",
            "END:VEVENT",
        ]
    return b"".join(_folded(line) for line in [*lines, "END:VCALENDAR"])


def _column(name: str) -> str:
    """Return the column of a parameter."""
    return f"decision_{name}" if name in OWN else name


def _csv_row(row: Row, example: Any) -> Row:
    decision = dict.fromkeys(map(_column, parameters_of(example)))
    if row["decision"] is not None:
        decision = {_column(name): value for name, value in parameters_of(row["decision"]).items()}
    span = {name: row[name] and row[name].isoformat() for name in ("from", "until")}
    return {"round": row["round"], **span, **decision, "block": row["block"]}


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _escaped(text: str) -> str:
    """Escape what has a meaning in iCalendar text; control characters may not be in it."""
    text = text.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,").replace("\n", "\\n")
    return "".join(sign for sign in text if sign.isprintable())


def _folded(line: str) -> bytes:
    """Fold a line so that none has more than 75 octets, and no character is split."""
    made, width = b"", 0
    for sign in line:
        octets = sign.encode()
        if width + len(octets) > 75:
            made, width = made + b"\r\n ", 1
        made, width = made + octets, width + len(octets)
    return made + b"\r\n"
