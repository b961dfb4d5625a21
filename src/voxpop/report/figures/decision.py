"""The decision: what is known of every alternative, along one parameter or one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from voxpop.errors import Array
from voxpop.model.problem import Indices
from voxpop.report.drawing import BLUE, INK, MIDDLE, ORANGE, SKY, VEIL
from voxpop.report.figures.common import (
    ASSUMED,
    CERTIFIED,
    CHOSEN,
    DOTS,
    ESTIMATE,
    FROM_PILOT,
    FROM_WAVES,
    LIKELY,
    SMALL,
    STAR,
    TRUTH,
    Canvas,
    answers_of,
    legend_below,
    reward_axis,
    set_axis,
    set_title,
    shortened,
    window,
)
from voxpop.report.figures.maps import draw_map
from voxpop.report.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEST = 12  # alternatives that are listed on the first picture
MOST = 40  # and on the long list
MANY = 60  # answers
LONGEST = 30  # letters of a decision's name


def draw_decision(canvas: Canvas, view: View) -> None:
    """Draw the estimate of every decision, and the one that is chosen."""
    {"line": _draw_line, "map": draw_map}.get(view.layout.kind, draw_best)(canvas, view)


def explain_decision(view: View) -> str:
    """Say what the picture of the decision shows."""
    if not view.informed:
        return f"Nobody has answered yet. {view.choice} is a place to start."
    if view.layout.kind == "map":
        return f"The estimate of every decision, as a colour. Chosen: {view.choice}."
    bands = [f"certified: {view.sure}, if the model holds"] * bool(view.course.closed)
    bands += ["likely: within two standard deviations of the estimate"] * (view.likely() is not None)
    said = "; ".join(bands).capitalize() + ". What ends at the edge goes on." if bands else ""
    rows = f"The {_listed(view, BEST)} best decisions by their estimates"
    what = f"The estimate for every {view.layout.label}" if view.layout.kind == "line" else rows
    return f"{what}, with bounds. Chosen: {view.choice}. {said}"


def decision_height(view: View) -> float:
    """Return how tall the picture is."""
    return {"line": 3.8, "map": 4.2}.get(view.layout.kind, 1.5 + 0.24 * _listed(view, BEST))


def draw_alternatives(canvas: Canvas, view: View) -> None:
    """Draw the long list of alternatives."""
    draw_best(canvas, view, MOST)


def explain_alternatives(view: View) -> str:
    """Say what the long list shows."""
    return (
        f"{_listed(view, MOST)} of {view.course.problem.size:,} decisions, the best by estimate first, with what "
        "people answered. What ends at the edge goes on."
    )


def alternatives_height(view: View) -> float:
    """Return how tall the long list is."""
    return 1.5 + 0.22 * _listed(view, MOST)


def has_alternatives(view: View) -> bool:
    """Return True if a list says more than the picture of the decision."""
    listed = 0 if view.layout.kind == "map" else BEST
    return view.informed and view.layout.kind != "line" and view.course.problem.size > listed


def _draw_line(canvas: Canvas, view: View) -> None:
    """Draw estimate, bounds and answers along the only parameter."""
    ax, column, state, best = canvas.subplots(), view.layout.varied[0], view.course.state, view.answer.index
    order = np.argsort(column.places)
    _draw_bands(ax, column.places[order], view, order)
    if view.truth is not None:
        ax.plot(column.places[order], view.truth[order], color=ORANGE, linewidth=1.5, linestyle="--", label=TRUTH)
    for name, at, means in _answers_along(view):
        ax.plot(at, means, label=name, **DOTS[name])
    place = float(column.places[best])
    ax.axvline(place, color=INK, linewidth=0.8, linestyle=":")
    ax.plot([place], [state.centre[best]], label=CHOSEN if view.informed else "for now", **STAR)
    low, high = _limits(view)
    ax.set_ylim(low, high + 0.1 * (high - low))  # with room for the name
    set_axis(ax, column)
    reward_axis(ax, view)
    ax.margins(x=0.02)
    _name_choice(ax, view, place)
    set_title(canvas, f"What people say about every {column.name}" if view.informed else "Nobody has answered yet")
    legend_below(canvas, ax)


def _name_choice(ax: Axes, view: View, place: float) -> None:
    """Write the choice beside its line, on the side that has more room."""
    right = ax.transAxes.inverted().transform(ax.transData.transform((place, 0.0)))[0] > 0.5
    ax.annotate(
        shortened(view.choice, 36),
        (place, 1.0),
        (-5 if right else 5, -1),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="right" if right else "left",
        va="top",
        weight="bold",
    )


def _answers_along(view: View) -> list[tuple[str, Array, Array]]:
    """Return whose answers they are, at which values of the only parameter, and how large they are."""
    column, found = view.layout.varied[0], answers_of(view)
    made = []
    if FROM_PILOT in found:
        points = np.concatenate([group.points for group in view.course.problem.pilot])
        made.append((FROM_PILOT, view.layout.places_of(points, column), found[FROM_PILOT][1]))
    if FROM_WAVES in found:
        at, means = found[FROM_WAVES]
        made.append((FROM_WAVES, column.places[at], means))
    return made


def _draw_bands(ax: Axes, places: Array, view: View, order: Indices) -> None:
    """Draw the certified band, the likely band and the estimate along a numeric parameter."""
    state, estimate, likely = view.course.state, view.estimate()[order], view.likely()
    if view.course.closed or not view.informed:
        lower, upper = state.lower[order], state.upper[order]
        label = CERTIFIED if view.informed else ASSUMED
        ax.fill_between(places, lower, upper, facecolor=VEIL, edgecolor=MIDDLE, linewidth=0.6, label=label)
    if view.informed and likely is not None:
        low, high = estimate - likely[order], estimate + likely[order]
        ax.fill_between(places, low, high, color=SKY, linewidth=0, label=LIKELY)
    if view.informed:
        marker = "." if np.isnan(estimate).any() else ""
        ax.plot(places, estimate, color=BLUE, linewidth=1.8, marker=marker, label=ESTIMATE)


def draw_best(canvas: Canvas, view: View, most: int = BEST) -> None:
    """Draw the decisions of largest estimate one below the other, each with its bounds and its answers."""
    ax, state, likely, best = canvas.subplots(), view.course.state, view.likely(), view.answer.index
    rows = ranked(view)[:most]
    estimate, places = view.estimate()[rows], np.arange(len(rows))
    if view.course.closed or not view.informed:
        label = CERTIFIED if view.informed else ASSUMED
        ax.hlines(places, state.lower[rows], state.upper[rows], color=MIDDLE, linewidth=1.5, label=label)
    spread = np.zeros(len(rows)) if likely is None else likely[rows]
    if view.informed and likely is not None:
        ax.hlines(places, estimate - spread, estimate + spread, color=SKY, linewidth=8, label=LIKELY)
    if view.informed:
        ax.plot(estimate, places, "o", color=BLUE, markersize=5, label=ESTIMATE)
    if view.truth is not None:
        ax.plot(view.truth[rows], places, "|", color=ORANGE, markersize=11, markeredgewidth=2.5, label=TRUTH)
    at = {decision: row for row, decision in enumerate(rows.tolist())}
    for name, (decisions, means) in answers_of(view).items():
        listed = np.isin(decisions, rows)
        if listed.any():
            ax.plot(means[listed], [at[decision] for decision in decisions[listed].tolist()], label=name, **DOTS[name])
    ax.plot([state.centre[best]], [0], label=CHOSEN if view.informed else "for now", **STAR)
    ax.set_xlim(*window([estimate - spread, estimate + spread, _bounds(view)]))
    _name_rows(ax, view, rows)
    reward_axis(ax, view, "x")
    size = view.course.problem.size
    listed_all = "Nobody has answered yet" if not view.informed else "All decisions, best first"
    set_title(canvas, listed_all if len(rows) == size else f"The {len(rows)} best of {size:,} decisions")
    legend_below(canvas, ax)


def _name_rows(ax: Axes, view: View, rows: Indices) -> None:
    """Write the name of each decision at its row; the first is the chosen one."""
    layout = view.layout
    names = [shortened(layout.short_name(row), LONGEST) for row in rows.tolist()]
    ax.set_yticks(range(len(rows)), names, fontsize=SMALL)
    ax.get_yticklabels()[0].set_fontweight("bold")
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_ylabel(shortened(", ".join(column.name for column in layout.varied or layout.columns), 40))


def ranked(view: View) -> Indices:
    """Return the decisions from the largest estimate to the smallest: the chosen one first, those given up last."""
    score = np.nan_to_num(view.estimate(), nan=-np.inf)
    score[view.answer.index] = np.inf
    return np.argsort(-score, kind="stable")


def _listed(view: View, most: int) -> int:
    return min(most, view.course.problem.size)


def _limits(view: View) -> tuple[float, float]:
    """Return limits that show estimates, answers, and all that is certified about the choice."""
    means = [_most_of(means) for _, means in answers_of(view).values()]
    truth = [] if view.truth is None else [view.truth]
    likely = view.likely()
    spread = np.zeros(1) if likely is None else likely[view.answer.index]
    chosen = view.course.state.centre[view.answer.index]
    return window([view.estimate(), chosen - spread, chosen + spread, _bounds(view), *means, *truth])


def _most_of(means: Array) -> Array:
    """Return the ends of all answers, or of nearly all if there are many: a stray one should not flatten the rest."""
    return np.asarray(np.quantile(means, (0.02, 0.98) if len(means) > MANY else (0, 1)))


def _bounds(view: View) -> Array:
    """Return the bounds of the choice, if they come from answers or nothing else is known."""
    kept = view.course.closed or not view.informed
    return np.array([view.answer.low, view.answer.high] if kept else [])
