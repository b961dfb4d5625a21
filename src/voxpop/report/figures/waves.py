"""Wave by wave: what was asked, what was known afterwards, and what was left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from voxpop.errors import Array
from voxpop.model.problem import Indices
from voxpop.model.state import State
from voxpop.report.decisions import Column
from voxpop.report.drawing import BLUE, INK, MIDDLE, ORANGE, SKY
from voxpop.report.figures.common import (
    CERTIFIED,
    CHOSEN,
    ESTIMATE,
    FROM_PILOT,
    FROM_WAVES,
    LIKELY,
    PILOT,
    SMALL,
    STAR,
    TRUTH,
    WAVE,
    Canvas,
    answers_of,
    draw_bands,
    panels,
    reward_axis,
    set_axis,
    window,
)
from voxpop.report.figures.decision import ASKED, mark_choice, paint
from voxpop.report.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = {2: 8, 3: 9}  # at most, by how many stand side by side
PIXELS = 48  # of a small map, along each side
OPEN = "to be asked"


@dataclass(frozen=True, eq=False)
class Stage:
    """The pilot, a wave, or the wave that is open: what was asked, and what is known afterwards."""

    title: str
    state: State
    at: tuple[Array, ...]  # what was asked, on each axis
    answers: Array  # or estimates, if the wave is open
    open: bool = False


def stages_of(view: View) -> list[Stage]:
    """Return all stages of a study along a line or on a map."""
    course, columns, made = view.course, view.layout.varied, []
    if course.problem.pilot:
        places, answers = zip(*(answers_of(view, column)[FROM_PILOT] for column in columns), strict=True)
        made.append(Stage(f"pilot: {course.pilot_people:,} people", view.trail[0], places, answers[0]))
    for wave, state in zip(course.closed, view.trail[1:], strict=True):
        at = tuple(column.places[wave.plan.arms] for column in columns)
        made.append(Stage(f"wave {wave.plan.wave}: {wave.people:,} people", state, at, wave.feedback.mean))
    if (plan := course.pending) is not None:
        at = tuple(column.places[plan.arms] for column in columns)
        state = view.trail[-1]
        made.append(Stage(f"wave {plan.wave}: {plan.people:,} to ask", state, at, state.centre[plan.arms], open=True))
    return made


def shown_stages(view: View) -> list[Stage]:
    """Return the stages that get a panel."""
    stages, most = stages_of(view), PANELS[panels_across(view)]
    kept = np.linspace(0, len(stages) - 1, min(most, len(stages))).round().astype(int)
    return [stages[place] for place in kept.tolist()]


def shows_waves(view: View) -> bool:
    """Return True if the course can be drawn in panels."""
    return view.layout.kind in ("line", "map") and bool(view.trail) and bool(stages_of(view))


def panels_across(view: View) -> int:
    """Return how many panels stand side by side."""
    return 3 if view.layout.kind == "map" else 2


def waves_height(view: View) -> float:
    """Return how tall the panels are together."""
    return 1.0 + 1.55 * math.ceil(len(shown_stages(view)) / panels_across(view))


def draw_waves(canvas: Canvas, view: View) -> tuple[str, str]:
    """Draw a panel for each wave: what was asked, and the estimate afterwards."""
    stages, across = shown_stages(view), panels_across(view)
    draw = _draw_map_stage if view.layout.kind == "map" else _draw_line_stage
    made = panels(canvas, len(stages), across, sharex=True)
    for ax, stage in zip(made, stages, strict=True):
        draw(ax, view, stage)
        ax.set_title(stage.title, fontsize=SMALL, weight="normal")
        ax.label_outer()
    for ax in made[-across:]:  # nothing is below these
        ax.tick_params(labelbottom=True)
    said = "What was asked in each wave, and the estimate afterwards, from all answers up to then."
    hidden = len(stages_of(view)) - len(stages)
    return "The estimate, wave by wave", said + (f" {hidden} in between are left out." if hidden else "")


def _draw_line_stage(ax: Axes, view: View, stage: Stage) -> None:
    column, state = view.layout.varied[0], stage.state
    bounds = CERTIFIED if view.likely(state) is None else ""
    draw_bands(ax, view, column, np.argsort(column.places), state, bounds, linewidth=1.4)
    label, style = (OPEN, PILOT) if stage.open else (FROM_WAVES, WAVE)
    ax.plot(*stage.at, stage.answers, label=label, **style)
    best = view.course.policy.best(view.course.problem, state)
    ax.plot([column.places[best]], [state.centre[best]], label="decision then", **STAR | {"markersize": 11})
    means = [means for _, means in answers_of(view).values()]
    ax.set_ylim(*window([*map(view.estimate, view.trail[_first(view) :] or view.trail), *means], 0.15))
    set_axis(ax, column)
    reward_axis(ax, view)


def _draw_map_stage(ax: Axes, view: View, stage: Stage) -> None:
    values = [view.estimate(known) for known in view.trail]
    limits = float(min(map(np.nanmin, values))), float(max(map(np.nanmax, values)))
    paint(ax, view, view.estimate(stage.state), limits=limits, pixels=PIXELS)
    ax.plot(*stage.at, "o", label=OPEN if stage.open else "asked", **ASKED | {"markersize": 4})
    mark_choice(ax, view, stage.state, 11)
    for column, side in zip(view.layout.varied, "xy", strict=True):
        set_axis(ax, column, side, 3)


def draw_progress(canvas: Canvas, view: View) -> tuple[str, str]:
    """Draw how the bounds of the chosen decision narrowed."""
    ax, best, first = canvas.subplots(), view.answer.index, _first(view)
    stages = np.arange(first, len(view.trail))
    states = [view.trail[stage] for stage in stages.tolist()]
    centre = np.array([state.centre[best] for state in states])
    lower, upper = (np.array([getattr(state, end)[best] for state in states]) for end in ("lower", "upper"))
    ax.vlines(stages, lower, upper, color=MIDDLE, linewidth=1.5, label=CERTIFIED)
    spreads = [view.likely(state) for state in states]
    likely = np.array([0.0 if spread is None else spread[best] for spread in spreads])
    if likely.any():
        ax.vlines(stages, centre - likely, centre + likely, color=SKY, linewidth=9, label=LIKELY)
    ax.plot(stages, centre, "o-", color=BLUE, linewidth=1, markersize=5, label=ESTIMATE)
    for wave in view.course.closed:
        kept = wave.plan.arms == best
        ax.plot(np.full(kept.sum(), wave.plan.wave), wave.feedback.mean[kept], label=FROM_WAVES, **WAVE)
    if view.truth is not None:
        ax.axhline(view.truth[best], color=ORANGE, linewidth=1.5, linestyle="--", label=TRUTH)
    ax.set_ylim(*window([centre - likely, centre + likely, lower[-1:], upper[-1:]]))
    _stage_axis(ax, first, len(view.course.closed))
    reward_axis(ax, view)
    said = f"The estimate of {view.choice} after each wave, with its bounds. What ends at the edge goes on."
    return f"What is known about {view.choice}", said


def draw_left(canvas: Canvas, view: View) -> tuple[str, str]:
    """Draw what could still be best after each wave, and what was asked about."""
    course, valued = view.course, view.layout.kind == "line" and bool(view.trail)
    actives = [course.policy.init(course.problem).active, *(wave.active for wave in course.closed)]
    (_draw_left_values if valued else _draw_left_count)(canvas.subplots(), view, actives)
    said = (
        "Decisions that could still be best before each wave, as far as that is certified. What is unlikely is "
        "not asked about, long before it is ruled out."
    )
    title = "What was asked, and what is left, wave by wave" if valued else "How many decisions are left, wave by wave"
    return title, said


def _draw_left_values(ax: Axes, view: View, actives: Sequence[Indices]) -> None:
    column, course = view.layout.varied[0], view.course
    for group in course.problem.pilot:
        places = view.layout.places_of(group.points, column)
        ax.plot(np.zeros(len(places)), places, label="asked in the pilot", **PILOT)
    runs = [(stage, *run) for stage, active in enumerate(actives, start=1) for run in runs_of(column, active)]
    ax.vlines(*np.transpose(runs), color=SKY, linewidth=9, label="could be best")
    for plan in view.plans:
        label, style = ("asked", WAVE) if plan is not course.pending else (OPEN, PILOT)
        ax.plot(np.full(len(plan.arms), plan.wave), column.places[plan.arms], label=label, **style)
    end = len(view.plans) + 1
    ax.plot([end], [column.places[view.answer.index]], label=CHOSEN, clip_on=False, **STAR)
    if view.truth is not None:
        ax.axhline(column.places[int(view.truth.argmax())], color=ORANGE, linestyle="--", label="truly best")
    _stage_axis(ax, _first(view), end, "now" if course.ended is None else "end")
    set_axis(ax, column, "y")
    ax.update_datalim([(end, column.places.min()), (end, column.places.max())])
    ax.autoscale_view(scalex=False)


def runs_of(column: Column, active: Indices) -> list[tuple[float, float]]:
    """Join neighbouring values of a parameter: return the ends of each run, half a step further out.

    >>> runs_of(Column("price", (1.0, 2.0, 3.0, 4.0, 5.0)), np.array([0, 1, 4]))
    [(0.5, 2.5), (4.5, 5.5)]
    """
    order = np.argsort(column.places)
    ranks = np.sort(np.argsort(order)[active])
    values, half = column.places[order], np.ptp(column.places) / (len(order) - 1) / 2
    parts = np.split(ranks, np.flatnonzero(np.diff(ranks) > 1) + 1)
    return [(float(values[part[0]] - half), float(values[part[-1]] + half)) for part in parts]


def _draw_left_count(ax: Axes, view: View, actives: Sequence[Indices]) -> None:
    counts, asked = [len(active) for active in actives], [len(plan.arms) for plan in view.course.plans]
    stages = np.arange(1, len(counts) + 1)
    bars = ax.bar(stages, counts, 0.6, color=SKY, label="could be best")
    if len(counts) <= 12:
        ax.bar_label(bars, [f"{count:,}" for count in counts], padding=2, fontsize=SMALL)
    ax.bar(stages[: len(asked)], asked, 0.3, color=INK, label="asked about")
    _stage_axis(ax, 1, len(counts), "now" if view.course.ended is None else "end")
    ax.set_ylabel("decisions")


def _first(view: View) -> int:
    """Return the first stage at which something is known: 0, the pilot, if there was one."""
    return 0 if view.course.problem.pilot else 1


def _stage_axis(ax: Axes, first: int, last: int, end: str = "") -> None:
    """Mark whole waves; the pilot is wave 0. What is left at the end may come after the last."""
    ax.set_xlim(first - 0.6, max(3, last) + 0.6)
    stages = list(range(first, last + (not end), max(1, (last - first) // 8)))
    names = ["pilot" if stage == 0 else f"{stage}" for stage in stages]
    ax.set_xticks([*stages, last] if end else stages, [*names, end] if end else names)
    ax.set_xlabel("wave")
