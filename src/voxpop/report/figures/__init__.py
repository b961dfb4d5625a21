"""The pictures of a study, by name, as matplotlib figures."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from voxpop.core.errors import Array, InputError, require_choice
from voxpop.drivers.course import Course
from voxpop.report.drawing import BLUE, QUIET, sheet, styled
from voxpop.report.figures import costs, decision, maps, slices, waves
from voxpop.report.figures.common import WIDTH, Canvas
from voxpop.report.summary import Line, summarise
from voxpop.report.view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


WORDS = 2.3  # inches of the overview


def _always(view: View) -> bool:
    return True


@dataclass(frozen=True)
class Drawing:
    """A picture: what it is called, how it is drawn and explained, how tall it is, and which studies have it."""

    title: str
    draw: Callable[[Canvas, View], None]
    explain: Callable[[View], str]
    height: Callable[[View], float] = lambda view: 3.6
    fits: Callable[[View], bool] = _always


DRAWINGS: dict[str, Drawing] = {
    "decision": Drawing("The decision", decision.draw_decision, decision.explain_decision, decision.decision_height),
    "stakes": Drawing(
        "What asking costs, and what not asking would",
        costs.draw_stakes,
        costs.explain_stakes,
        costs.stakes_height,
        lambda view: view.stakes is not None,
    ),
    "waves": Drawing(
        "The estimate, wave by wave", waves.draw_waves, waves.explain_waves, waves.waves_height, waves.shows_waves
    ),
    "progress": Drawing(
        "What is known about the decision",
        waves.draw_progress,
        waves.explain_progress,
        fits=lambda view: len(view.trail) > 1,
    ),
    "cost": Drawing("Gain and cost of each wave", costs.draw_cost, costs.explain_cost, fits=costs.has_cost),
    "left": Drawing("What is left", waves.draw_left, waves.explain_left, fits=lambda view: len(view.course.phases) > 0),
    "slices": Drawing(
        "Parameter by parameter",
        slices.draw_slices,
        slices.explain_slices,
        slices.slices_height,
        lambda view: view.informed and len(view.layout.varied) > 1,
    ),
    "doubt": Drawing(
        "How unsure the estimates are",
        maps.draw_doubt,
        maps.explain_doubt,
        lambda view: 4.0,
        lambda view: view.informed and view.layout.kind == "map",
    ),
    "alternatives": Drawing(
        "The alternatives",
        decision.draw_alternatives,
        decision.explain_alternatives,
        decision.alternatives_height,
        decision.has_alternatives,
    ),
    "regret": Drawing(
        "Lost against the simulated truth",
        costs.draw_regret,
        costs.explain_regret,
        fits=lambda view: view.truth is not None,
    ),
}


def pictures(view: View) -> list[str]:
    """Return the names of the pictures that a study has."""
    return [name for name, drawing in DRAWINGS.items() if drawing.fits(view)]


def figure(course: Course, name: str = "decision", truth: Array | None = None) -> Figure:
    """Draw one picture of a study; `DRAWINGS` lists their names.

    >>> from voxpop.lab.trials import Trial
    >>> run = Trial("pricing", size=25, horizon=2000).run()
    >>> figure(run.course, "decision").axes[0].get_xlabel()
    'price'
    """
    return draw(View(course, truth), name)


def draw(view: View, name: str) -> Figure:
    """Draw one picture of a study that was looked at before."""
    drawing = DRAWINGS[require_choice("picture", name, DRAWINGS)]
    if not drawing.fits(view):
        raise InputError(f"this study has no picture {name!r} (now); it has {', '.join(pictures(view))}")
    made = sheet(WIDTH, drawing.height(view))
    with styled():
        drawing.draw(made, view)
    return made


def overview(course: Course, truth: Array | None = None) -> Figure:
    """Draw what a manager reads in ten seconds on one sheet: the decision, how sure, and what it cost.

    >>> from voxpop.lab.trials import Trial
    >>> run = Trial("pricing", size=25, horizon=2000).run()
    >>> len(overview(run.course).axes)
    2
    """
    view = View(course, truth)
    names = [name for name in ("decision", "stakes") if DRAWINGS[name].fits(view)]
    height = max(DRAWINGS[name].height(view) for name in names)
    made = sheet(11, WORDS + height)
    with styled():
        parts: Any = made.subfigures(2, 1, height_ratios=[WORDS, height])
        words, below = parts
        _write(words, view, [line for line in summarise(course, truth) if line.first])
        panels = below.subfigures(1, 2, width_ratios=[1.15, 1])
        for name, panel in zip(names, panels, strict=False):
            DRAWINGS[name].draw(panel, view)
    return made


def _write(words: SubFigure, view: View, lines: list[Line]) -> None:
    """Write the decision large, and beside each other what else comes first."""
    head, *others = lines
    about = view.course.name if view.truth is None else f"{view.course.name}, with simulated people"
    words.text(0.012, 0.97, f"{head.name}  ({about})", va="top", color=QUIET)
    words.text(0.012, 0.84, head.value, va="top", color=BLUE, fontsize=22, weight="bold")
    if head.note:
        words.text(0.988, 0.97, head.note, va="top", ha="right", color=QUIET)
    for place, line in enumerate(others):
        x, width = 0.012 + place / max(4, len(others)), int(116 / max(4, len(others)))
        value = textwrap.fill(line.value, width)
        words.text(x, 0.6, line.name, va="top", color=QUIET, fontsize=9)
        words.text(x, 0.51, value, va="top", weight="bold", fontsize=10.5)
        note = textwrap.fill(line.note, int(1.28 * width))
        words.text(x, 0.49 - 0.09 * (value.count("\n") + 1), note, va="top", color=QUIET, fontsize=8)
