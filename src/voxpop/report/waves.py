"""The waves of a study as a table, for the terminal and for the page; the pilot is wave 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from voxpop.journal.journal import Course
from voxpop.journal.wave import ClosedWave
from voxpop.report.summary import number


@dataclass(frozen=True)
class WaveTable:
    """Headings, one row of cells for each wave, and what else happened."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: list[str]


Column = Callable[[ClosedWave], str]
ASKED: dict[str, Column] = {
    "rounds": lambda wave: f"{wave.plan.length:,}",
    "played": lambda wave: f"{len(wave.plan.arms):,}",
    "people": lambda wave: f"{wave.people:,}",
    "numbers": lambda wave: f"{wave.numbers:,}",
}
EXPECTED: dict[str, Column] = {
    "expected gain": lambda wave: _expected(wave, "gain"),
    "cost of answers": lambda wave: _expected(wave, "answers"),
    "cost of trying": lambda wave: _expected(wave, "exploring"),
}
LEFT: dict[str, Column] = {"left": lambda wave: f"{wave.info.active_after:,}"}
WIDTH: dict[str, Column] = {"widest bound": lambda wave: f"±{number(wave.info.max_width)}"}


def wave_table(course: Course) -> WaveTable:
    """List every wave; with what was expected of it, if the policy said so."""
    waves = any(plan.forecast is not None for plan in course.plans)
    columns = {**ASKED, **(EXPECTED if waves else {}), **LEFT, **({} if waves else WIDTH)}
    rows = [(str(wave.plan.wave), *(cell(wave) for cell in columns.values())) for wave in course.closed]
    if course.problem.pilot:
        rows.insert(0, _pilot(course, list(columns)))
    happened = {
        "the norm bound was raised": [wave.plan.wave for wave in course.closed if wave.info.refuted],
        "the model check failed": [wave.plan.wave for wave in course.closed if wave.info.warning],
    }
    notes = [f"{what} after wave {', '.join(map(str, when))}" for what, when in happened.items() if when]
    return WaveTable(("wave", *columns), rows, notes)


def _pilot(course: Course, columns: list[str]) -> tuple[str, ...]:
    """Write the pilot as wave 0. Its rounds are no rounds of the study."""
    groups = course.problem.pilot
    left = course.closed[0].info.active_before if course.closed else len(course.state.active)
    known = {
        "rounds": "pilot",
        "played": f"{len({tuple(point) for group in groups for point in group.points.tolist()}):,}",
        "people": f"{course.pilot_people:,}",
        "numbers": f"{course.pilot_numbers:,}",
        "left": f"{left:,}",
    }
    return "0", *(known.get(column, "") for column in columns)


def _expected(wave: ClosedWave, name: str) -> str:
    forecast = wave.plan.forecast
    return "" if forecast is None else number(getattr(forecast, name))
