"""Wave by wave: what was asked, what was known afterwards, and what was left."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from voxpop.model.problem import Indices
from voxpop.model.state import State
from voxpop.model.waves import Plan
from voxpop.report.decisions import Column
from voxpop.report.drawing import BLUE, INK, MIDDLE, ORANGE, SKY, VEIL
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
    legend_below,
    reward_axis,
    set_axis,
    set_title,
    window,
)
from voxpop.report.figures.maps import ASKED, mark_choice, paint
from voxpop.report.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = {2: 8, 3: 9}  # at most, by how many stand side by side
PIXELS = 48  # of a small map, along each side
OPEN = "to be asked"


def draw_waves(canvas: Canvas, view: View) -> None:
    """Draw a panel for each wave: what was asked, and the estimate afterwards."""
    stages = shown_stages(view)
    draw = _draw_map_stage if view.layout.kind == "map" else _draw_line_stage
    across = panels_across(view)
    rows = math.ceil(len(stages) / across)
    panels = canvas.subplots(rows, across, squeeze=False, sharex=True, sharey=True).ravel()
    for ax, stage in zip(panels, stages, strict=False):
        draw(ax, view, stage)
        ax.set_title(_stage_title(view, stage), fontsize=SMALL, weight="normal")
        ax.tick_params(labelsize=SMALL)
        ax.label_outer()
    for ax in panels[len(stages) :]:
        ax.set_visible(False)
    for ax in panels[len(stages) - across : len(stages)]:  # nothing is below these
        ax.tick_params(labelbottom=True)
    set_title(canvas, "The estimate, wave by wave")
    legend_below(canvas, *panels[: len(stages)])


def explain_waves(view: View) -> str:
    """Say what the panels show."""
    said = "What was asked in each wave, and the estimate afterwards, from all answers up to then."
    hidden = len(_stages(view)) - len(shown_stages(view))
    return said + (f" {hidden} in between are left out." if hidden else "")


def waves_height(view: View) -> float:
    """Return how tall the panels are together."""
    return 1.0 + 1.55 * math.ceil(len(shown_stages(view)) / panels_across(view))


def panels_across(view: View) -> int:
    """Return how many panels stand side by side."""
    return 3 if view.layout.kind == "map" else 2


def shows_waves(view: View) -> bool:
    """Return True if the course can be drawn in panels."""
    return view.layout.kind in ("line", "map") and bool(view.trail) and bool(shown_stages(view))


def shown_stages(view: View) -> list[int]:
    """Return which waves get a panel: 0 is the pilot, and an open wave comes last."""
    stages, most = _stages(view), PANELS[panels_across(view)]
    kept = np.linspace(0, len(stages) - 1, min(most, len(stages))).round().astype(int)
    return [stages[place] for place in kept.tolist()]


def _stages(view: View) -> list[int]:
    return list(range(_first(view), len(view.course.closed) + (view.course.pending is not None) + 1))


def _stage_title(view: View, stage: int) -> str:
    waves = view.course.closed
    if stage == 0:
        return f"pilot: {view.course.pilot_people:,} people"
    if stage > len(waves):
        assert view.course.pending is not None
        return f"wave {stage}: {view.course.pending.people:,} to ask"
    return f"wave {stage}: {waves[stage - 1].people:,} people"


def pending_of(view: View) -> list[Plan]:
    """Return the wave that is open, if one is."""
    return [] if view.course.pending is None else [view.course.pending]


def _first(view: View) -> int:
    """Return the first stage at which something is known: 0, the pilot, if there was one."""
    return 0 if view.course.problem.pilot else 1


def _state_at(view: View, stage: int) -> State:
    return view.trail[min(stage, len(view.course.closed))]


def _to_ask(view: View, stage: int) -> Indices | None:
    """Return what an open wave asks about."""
    pending = view.course.pending
    return pending.arms if pending is not None and stage > len(view.course.closed) else None


def _draw_line_stage(ax: Axes, view: View, stage: int) -> None:
    column, state = view.layout.varied[0], _state_at(view, stage)
    order = np.argsort(column.places)
    places, estimate, likely = column.places[order], view.estimate(state)[order], view.likely(state)
    if likely is None:
        ax.fill_between(places, state.lower[order], state.upper[order], color=VEIL, label=CERTIFIED)
    else:
        low, high = estimate - likely[order], estimate + likely[order]
        ax.fill_between(places, low, high, color=SKY, linewidth=0, label=LIKELY)
    ax.plot(places, estimate, color=BLUE, linewidth=1.4, label=ESTIMATE)
    arms = _to_ask(view, stage)
    if arms is not None:
        ax.plot(column.places[arms], state.centre[arms], label=OPEN, **PILOT)
    elif stage == 0:
        for group in view.course.problem.pilot:
            ax.plot(view.layout.places_of(group.points, column), group.mean, label=FROM_WAVES, **WAVE)
    else:
        wave = view.course.closed[stage - 1]
        ax.plot(column.places[wave.plan.arms], wave.feedback.mean, label=FROM_WAVES, **WAVE)
    best = view.course.policy.best(view.course.problem, state)
    ax.plot([column.places[best]], [state.centre[best]], label="decision then", **STAR | {"markersize": 11})
    means = [means for _, means in answers_of(view).values()]
    states = view.trail[_first(view) :] or view.trail
    ax.set_ylim(*window([*map(view.estimate, states), *means], 0.15))
    set_axis(ax, column)
    reward_axis(ax, view)


def _draw_map_stage(ax: Axes, view: View, stage: int) -> None:
    state = _state_at(view, stage)
    values = [view.estimate(known) for known in view.trail]
    limits = float(min(map(np.nanmin, values))), float(max(map(np.nanmax, values)))
    paint(ax, view, view.estimate(state), limits=limits, pixels=PIXELS)
    arms, label = _to_ask(view, stage), OPEN
    if arms is None:
        arms = answers_of(view)[FROM_PILOT][0] if stage == 0 else view.course.closed[stage - 1].plan.arms
        label = "asked"
    x, y = view.layout.varied
    ax.plot(x.places[arms], y.places[arms], "o", label=label, **ASKED | {"markersize": 4})
    mark_choice(ax, view, state, 11)
    set_axis(ax, x, "x", 3)
    set_axis(ax, y, "y", 3)


def draw_progress(canvas: Canvas, view: View) -> None:
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
    _stage_axis(ax, view, first, len(view.course.closed))
    reward_axis(ax, view)
    set_title(canvas, f"What is known about {view.choice}")
    legend_below(canvas, ax)


def explain_progress(view: View) -> str:
    """Say what the picture of the narrowing bounds shows."""
    return f"The estimate of {view.choice} after each wave, with its bounds. What ends at the edge goes on."


def draw_left(canvas: Canvas, view: View) -> None:
    """Draw what could still be best after each wave, and what was asked about."""
    if view.layout.kind == "line" and view.trail:
        _draw_left_values(canvas, view)
    else:
        _draw_left_count(canvas, view)


def explain_left(view: View) -> str:
    """Say what the picture of the decisions left shows."""
    return (
        "Decisions that could still be best before each wave, as far as that is certified. What is unlikely is "
        "not asked about, long before it is ruled out."
    )


def _actives(view: View) -> list[Indices]:
    """Return what could be best before the first wave and after each."""
    course = view.course
    return [course.policy.init(course.problem).active, *(wave.active for wave in course.closed)]


def _draw_left_values(canvas: Canvas, view: View) -> None:
    ax, column, course = canvas.subplots(), view.layout.varied[0], view.course
    for group in course.problem.pilot:
        places = view.layout.places_of(group.points, column)
        ax.plot(np.zeros(len(places)), places, label="asked in the pilot", **PILOT)
    runs = [(stage, *run) for stage, active in enumerate(_actives(view), start=1) for run in runs_of(column, active)]
    ax.vlines(*np.transpose(runs), color=SKY, linewidth=9, label="could be best")
    for label, plans, style in (("asked", course.plans, WAVE), (OPEN, pending_of(view), PILOT)):
        if plans:
            at = np.repeat([plan.wave for plan in plans], [len(plan.arms) for plan in plans])
            ax.plot(at, column.places[np.concatenate([plan.arms for plan in plans])], label=label, **style)
    best = view.answer.index
    end = len(course.closed) + 1 + (course.pending is not None)
    ax.plot([end], [column.places[best]], label=CHOSEN, clip_on=False, **STAR)
    if view.truth is not None:
        ax.axhline(column.places[int(view.truth.argmax())], color=ORANGE, linestyle="--", label="truly best")
    _stage_axis(ax, view, _first(view), end, "now" if course.ended is None else "end")
    set_axis(ax, column, "y")
    ax.update_datalim([(end, column.places.min()), (end, column.places.max())])
    ax.autoscale_view(scalex=False)
    set_title(canvas, "What was asked, and what is left, wave by wave")
    legend_below(canvas, ax)


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


def _draw_left_count(canvas: Canvas, view: View) -> None:
    ax, course = canvas.subplots(), view.course
    counts = [len(active) for active in _actives(view)]
    stages = np.arange(1, len(counts) + 1)
    ax.bar(stages, counts, 0.6, color=SKY, label="could be best")
    asked = [len(plan.arms) for plan in course.plans]
    ax.bar(stages[: len(asked)], asked, 0.3, color=INK, label="asked about")
    for stage, count in zip(stages.tolist(), counts, strict=True):
        if len(counts) <= 12:
            ax.annotate(f"{count:,}", (stage, count), (0, 2), textcoords="offset points", ha="center", fontsize=SMALL)
    _stage_axis(ax, view, 1, len(counts), "now" if course.ended is None else "end")
    ax.set_ylabel("decisions")
    set_title(canvas, "How many decisions are left, wave by wave")
    legend_below(canvas, ax)


def _stage_axis(ax: Axes, view: View, first: int, last: int, end: str = "") -> None:
    """Mark whole waves; the pilot is wave 0. What is left at the end may come after the last."""
    ax.set_xlim(first - 0.6, max(3, last) + 0.6)
    stages = list(range(first, last + (not end), max(1, (last - first) // 8)))
    names = ["pilot" if stage == 0 else f"{stage}" for stage in stages]
    ax.set_xticks([*stages, last] if end else stages, [*names, end] if end else names)
    ax.set_xlabel("wave")
