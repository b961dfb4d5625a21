"""The phases of a study as a table, for the terminal and for the page; the pilot is wave 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from voxpop.report.summary import number, phase_word
from voxpop.study.course import Course
from voxpop.study.wave import ClosedPhase


@dataclass(frozen=True)
class PhaseTable:
    """Headings, one row of cells for each phase, and what else happened."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: list[str]


Column = Callable[[ClosedPhase], str]
ASKED: dict[str, Column] = {
    "rounds": lambda phase: f"{phase.plan.length:,}",
    "played": lambda phase: f"{len(phase.plan.arms):,}",
    "people": lambda phase: f"{phase.people:,}",
    "numbers": lambda phase: f"{phase.numbers:,}",
}
EXPECTED: dict[str, Column] = {
    "expected gain": lambda phase: _expected(phase, "gain"),
    "cost of answers": lambda phase: _expected(phase, "answers"),
    "cost of trying": lambda phase: _expected(phase, "exploring"),
}
LEFT: dict[str, Column] = {"left": lambda phase: f"{phase.info.active_after:,}"}
WIDTH: dict[str, Column] = {"widest bound": lambda phase: f"±{number(phase.info.max_width)}"}


def phase_table(course: Course) -> PhaseTable:
    """List every phase; with what was expected of it, if the policy said so."""
    word, waves = phase_word(course), any(plan.forecast is not None for plan in course.plans)
    columns = {**ASKED, **(EXPECTED if waves else {}), **LEFT, **({} if waves else WIDTH)}
    rows = [(str(phase.plan.phase), *(cell(phase) for cell in columns.values())) for phase in course.phases]
    if course.problem.pilot:
        rows.insert(0, _pilot(course, list(columns)))
    happened = {
        "the norm bound was raised": [phase.plan.phase for phase in course.phases if phase.info.refuted],
        "the model check failed": [phase.plan.phase for phase in course.phases if phase.info.warning],
    }
    notes = [f"{what} after {word} {', '.join(map(str, when))}" for what, when in happened.items() if when]
    return PhaseTable((word, *columns), rows, notes)


def _pilot(course: Course, columns: list[str]) -> tuple[str, ...]:
    """Write the pilot as wave 0. Its rounds are no rounds of the study."""
    groups = course.problem.pilot
    left = course.phases[0].info.active_before if course.phases else len(course.state.active)
    known = {
        "rounds": "pilot",
        "played": f"{len({tuple(point) for group in groups for point in group.points.tolist()}):,}",
        "people": f"{course.pilot_people:,}",
        "numbers": f"{course.pilot_numbers:,}",
        "left": f"{left:,}",
    }
    return "0", *(known.get(column, "") for column in columns)


def _expected(phase: ClosedPhase, name: str) -> str:
    forecast = phase.plan.forecast
    return "" if forecast is None else number(getattr(forecast, name))
