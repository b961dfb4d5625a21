"""The dates of a study: what is in force when, and the open wave as a CSV or an iCalendar file (RFC 5545)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from voxpop.errors import InputError
from voxpop.io.frames import as_csv
from voxpop.journal.journal import Course
from voxpop.journal.question import parameters_of
from voxpop.model.waves import Plan
from voxpop.model.words import describe

Row = dict[str, Any]  # of Question.schedule
OWN = ("round", "from", "until", "block")  # the columns of a schedule, beside those of the parameters
NO_CALENDAR = "the study has no dates; add a [calendar] table to the study file, or Study(..., calendar=Calendar(...))"


def _waves(course: Course) -> list[Plan]:
    """Return the waves that were played, and the one that is open."""
    return [*course.plans, *([] if course.pending is None else [course.pending])]


def decision_at(course: Course, when: datetime | date | str) -> Any:
    """Return the decision in force at a time: as the waves were planned, and after the last one the best known.

    Nothing is in force before the start and on closed days.
    """
    if course.calendar is None:
        raise InputError(NO_CALENDAR)
    number = course.calendar.round_at(when)
    if number is None:
        return None
    for plan in _waves(course):
        if number <= plan.length:
            return course.problem.decisions[_played(plan, number - 1)]
        number -= plan.length
    return course.answer.decision


def _played(plan: Plan, turn: int) -> int:
    """Return the action of one round of a wave, of which there may be very many."""
    if turn >= plan.asked:
        return plan.reference
    if plan.orders is None:
        return int(plan.arms[np.searchsorted(np.cumsum(plan.pulls), turn, side="right")])
    return int(plan.arms[plan.orders.flat[turn]])


def wave_dates(course: Course) -> dict[int, tuple[str, str]]:
    """Say when each wave ends, and how long it takes; empty without a calendar."""
    found: dict[int, tuple[str, str]] = {}
    if (calendar := course.calendar) is None:
        return found
    first = 1
    for plan in _waves(course):
        found[plan.wave] = calendar.until(first, plan.length), calendar.lasting(first, plan.length)
        first += plan.length
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


def scheduled(course: Course, ending: str, now: datetime) -> bytes:
    """Write the schedule of the open wave as a file that ends in .csv or .ics."""
    if (question := course.question) is None:
        raise InputError("no wave is open, so there is no schedule to write; leave out --schedule")
    rows = question.schedule()
    if ending == ".csv":
        made = [_csv_row(row) for row in rows]
        return as_csv(list(made[0]), made)
    if course.calendar is None:
        raise InputError(NO_CALENDAR)
    study = hashlib.sha256(course.name.encode()).hexdigest()[:16]
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//voxpop//schedule//EN"]
    for turn in turns(rows):
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


def _csv_row(row: Row) -> Row:
    decision = {f"decision_{name}" if name in OWN else name: it for name, it in parameters_of(row["decision"]).items()}
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
