"""The pictures of a study, by name, as matplotlib figures."""

import math
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from voxpop.errors import Array, InputError, require_choice
from voxpop.journal.journal import Course
from voxpop.report.drawing import BLUE, QUIET, Figure, SubFigure, sheet, styled
from voxpop.report.figures import decision, waves
from voxpop.report.figures.common import WIDTH, Canvas, legend_below, shortened
from voxpop.report.summary import Line, summarise
from voxpop.report.view import View

WORDS, LINE = 2.3, 0.145  # inches of the overview: for its words, and for each line more than fits there
FITTING = 6
WIDEST = 1.8  # times as wide as others is the column of a fact that takes many words
FIRST = ("decision", "stakes")  # on the overview, and on the first screen of the page


@dataclass(frozen=True)
class Drawing:
    """A picture: how it is drawn, how tall it is, and which studies have it.

    Whatever draws it returns a title and a sentence that says what it shows.
    """

    draw: Callable[[Canvas, View], tuple[str, str]]
    height: Callable[[View], float] = lambda view: 3.6
    fits: Callable[[View], bool] = lambda view: True

    def on(self, canvas: Canvas, view: View) -> str:
        """Draw it with its title and legend; return what it shows."""
        title, said = self.draw(canvas, view)
        canvas.suptitle(shortened(title, 54), x=0.01, ha="left", weight="bold", fontsize=11)
        legend_below(canvas, canvas.axes)
        return said


DRAWINGS: dict[str, Drawing] = {
    "decision": Drawing(
        decision.draw_decision,
        lambda view: {"line": 3.8, "map": 4.2}.get(view.layout.kind, 1.5 + 0.24 * decision.listed(view)),
    ),
    "stakes": Drawing(
        waves.draw_stakes,
        lambda view: 2.35 + 0.75 * (bool(view.course.closed) + bool(view.course.problem.pilot)),
        lambda view: view.stakes is not None,
    ),
    "guardrails": Drawing(
        decision.draw_guardrails,
        lambda view: 1.5 + 0.24 * decision.listed(view),
        lambda view: view.informed and bool(view.course.problem.guardrails),
    ),
    "waves": Drawing(
        waves.draw_waves,
        lambda view: 1.0 + 1.55 * math.ceil(len(waves.shown_stages(view)) / waves.PANELS[view.layout.kind][0]),
        lambda view: view.layout.kind in waves.PANELS and bool(view.trail) and bool(waves.stages_of(view)),
    ),
    "progress": Drawing(waves.draw_progress, fits=lambda view: len(view.trail) > 1),
    "watch": Drawing(waves.draw_watch, fits=lambda view: bool(view.course.passed)),
    "cost": Drawing(waves.draw_cost, fits=lambda view: bool(view.course.all_plans)),
    "left": Drawing(waves.draw_left, fits=lambda view: bool(view.course.closed)),
    "slices": Drawing(
        decision.draw_slices,
        lambda view: 0.9 + 2.1 * math.ceil(len(view.layout.varied[: decision.SLICES]) / 2),
        lambda view: view.informed and len(view.layout.varied) > 1,
    ),
    "doubt": Drawing(
        decision.draw_doubt,
        lambda view: 4.0,
        lambda view: view.layout.kind == "map" and view.informed and (bool(view.likely()) or decision.certifies(view)),
    ),
    "alternatives": Drawing(
        decision.draw_alternatives,
        lambda view: 1.5 + 0.22 * decision.listed(view, decision.MOST),
        decision.has_alternatives,
    ),
    "regret": Drawing(waves.draw_regret, fits=lambda view: view.truth is not None),
}


def pictures(view: View) -> list[str]:
    """Return the names of the pictures that a study has."""
    return [name for name, drawing in DRAWINGS.items() if drawing.fits(view)]


def figure(course: Course, name: str = "decision", truth: Array | None = None) -> Figure:
    """Draw one picture of a study; `DRAWINGS` lists their names.

    >>> from voxpop.simulation.trials import Trial
    >>> run = Trial("pricing", size=25, horizon=2000).run()
    >>> figure(run.course, "decision").axes[0].get_xlabel()
    'price'
    """
    return draw(View(course, truth), name)[0]


def draw(view: View, name: str) -> tuple[Figure, str]:
    """Draw one picture of a study that was looked at before; also return what it shows."""
    drawing = DRAWINGS[require_choice("picture", name, DRAWINGS)]
    if not drawing.fits(view):
        raise InputError(f"this study has no picture {name!r} (now); it has {', '.join(pictures(view))}")
    made = sheet(WIDTH, drawing.height(view))
    with styled():
        return made, drawing.on(made, view)


def overview(course: Course, truth: Array | None = None) -> Figure:
    """Draw what a manager reads in ten seconds on one sheet: the decision, how sure, and what it cost.

    >>> from voxpop.simulation.trials import Trial
    >>> run = Trial("pricing", size=25, horizon=2000).run()
    >>> len(overview(run.course).axes)
    2
    """
    view = View(course, truth)
    names = [name for name in FIRST if DRAWINGS[name].fits(view)]
    height = max(DRAWINGS[name].height(view) for name in names)
    head, *others = (line for line in summarise(course, truth) if line.first)
    shares = [min(WIDEST, max(1.0, len(line.value) / 30, len(line.note) / 100)) for line in others]
    widths = [share / max(4, sum(shares)) for share in shares]
    columns = [
        replace(line, value=textwrap.fill(line.value, int(110 * wide)), note=textwrap.fill(line.note, int(148 * wide)))
        for line, wide in zip(others, widths, strict=True)
    ]
    lines = max((column.value.count("\n") + column.note.count("\n") + 2 for column in columns), default=0)
    tall = WORDS + LINE * max(0, lines - FITTING)
    made = sheet(11, tall + height)
    with styled():
        parts: Any = made.subfigures(2, 1, height_ratios=[tall, height])
        words, below = parts
        _write(words, view, head, dict(zip(accumulate(widths, initial=0.012), columns, strict=False)), WORDS / tall)
        for name, panel in zip(names, below.subfigures(1, 2, width_ratios=[1.15, 1]), strict=False):
            DRAWINGS[name].on(panel, view)
    return made


def _write(words: SubFigure, view: View, head: Line, columns: Mapping[float, Line], unit: float) -> None:
    """Write the decision large, and below it what else comes first, by its place across.

    `unit` is WORDS as a share of the height.
    """

    def write(x: float, down: float, text: str, **named: Any) -> None:
        words.text(x, 1 - down * unit, text, va="top", **named)

    about = view.course.name if view.truth is None else f"{view.course.name}, with simulated people"
    write(0.012, 0.03, f"{head.name}  ({about})", color=QUIET)
    write(0.012, 0.16, head.value, color=BLUE, fontsize=22, weight="bold")
    if head.note:
        write(0.988, 0.03, head.note, ha="right", color=QUIET)
    for x, column in columns.items():
        write(x, 0.4, column.name, color=QUIET, fontsize=9)
        write(x, 0.49, column.value, weight="bold", fontsize=10.5)
        write(x, 0.51 + 0.09 * (column.value.count("\n") + 1), column.note, color=QUIET, fontsize=8)
