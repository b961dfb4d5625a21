"""A study's tables: its waves for the terminal and the page, and the files that `voxpop export` writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from voxpop.io import frames
from voxpop.journal.journal import Course
from voxpop.journal.question import confidence_of
from voxpop.journal.schedule import wave_dates
from voxpop.journal.tables import TABLES, Row, columns_of, headline, wave_rows
from voxpop.model.words import number

# The headings of the wave table, with the columns of `wave_rows`, and with the parts of a forecast.
COUNTED = {"rounds": "rounds", "played": "decisions", "people": "people", "numbers": "numbers"}
EXPECTED = {"expected gain": "gain", "cost of answers": "answers", "cost of trying": "exploring"}


@dataclass(frozen=True)
class WaveTable:
    """Headings, one row of cells for each wave, and what else happened."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: list[str]


def wave_table(course: Course) -> WaveTable:
    """List every wave, the pilot as wave 0; with what was expected of it, if the policy said so."""
    planned = any(plan.forecast is not None for plan in course.plans)
    dated = wave_dates(course)
    widths = {wave.plan.wave: f"±{number(wave.info.max_width)}" for wave in course.closed}
    rows, forecasts = [], {plan.wave: course.forecast(plan) for plan in course.plans}
    for row in wave_rows(course):
        if row["status"] == "open":
            continue
        cells = {"wave": str(row["wave"]), **{name: f"{row[column]:,}" for name, column in COUNTED.items()}}
        if row["status"] == "pilot":
            cells["rounds"] = "pilot"  # which are no rounds of the study
        elif row["blocks"] > 1:
            cells["rounds"] += f" in {row['blocks']} blocks"
        if dated:
            cells["takes"], cells["until"] = reversed(dated.get(row["wave"], ("", "")))
        if planned:
            said = forecasts.get(row["wave"])
            cells |= {name: "" if said is None else number(getattr(said, part)) for name, part in EXPECTED.items()}
        cells["left"] = f"{row['left']:,}"
        rows.append(tuple(cells.values()) if planned else (*cells.values(), widths.get(row["wave"], "")))
    happened = {
        "the norm bound was raised": [wave.plan.wave for wave in course.closed if wave.info.refuted],
        "the model check failed": [wave.plan.wave for wave in course.closed if wave.info.warning],
    }
    notes = [f"{what} after wave {', '.join(map(str, when))}" for what, when in happened.items() if when]
    counted = ("wave", *COUNTED, *(("takes", "until") if dated else ()))
    expected = EXPECTED if course.money is None else [f"{name} ({course.money.unit})" for name in EXPECTED]
    headings = (*counted, *(expected if planned else ()), "left", *(() if planned else ("widest bound",)))
    return WaveTable(headings, rows, notes)


WRITERS: dict[str, Callable[[Sequence[str], list[Row]], bytes]] = {
    ".csv": frames.as_csv,
    ".parquet": frames.as_parquet,
}


def exported(course: Course, ending: str, table: str) -> bytes:
    """Write one of the `TABLES`, or all of them and the summary if the file is to end in .json."""
    if ending == ".json":
        return frames.as_json({"summary": summary(course), **{name: make(course) for name, make in TABLES.items()}})
    return WRITERS[ending](columns_of(course, table), TABLES[table](course))


def summary(course: Course) -> Row:
    """Return what to do, how sure that is and with which confidence, as one row with plain values."""
    return {**headline(course), "confidence": confidence_of(course.policy, course.problem, len(course.closed))}
