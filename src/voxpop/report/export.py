"""A study's tables as files: what `voxpop export` writes, and what the console hands out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from voxpop.io import frames as exports
from voxpop.journal.journal import Course
from voxpop.journal.tables import TABLES, Row, columns_of, headline
from voxpop.report.summary import failure_chance

WRITERS: dict[str, Callable[[Sequence[str], list[Row]], bytes]] = {
    ".csv": exports.as_csv,
    ".parquet": exports.as_parquet,
}


def exported(course: Course, ending: str, table: str) -> bytes:
    """Write one of the `TABLES`, or all of them and the summary if the file is to end in .json."""
    if ending == ".json":
        return exports.as_json({"summary": summary(course), **{name: make(course) for name, make in TABLES.items()}})
    return WRITERS[ending](columns_of(course, table), TABLES[table](course))


def summary(course: Course) -> Row:
    """Return what to do, how sure that is and with which confidence, as one row with plain values."""
    chance = failure_chance(course.policy, course.problem, len(course.closed))
    return {**headline(course), "confidence": 1 - chance if chance < 1 else None}
