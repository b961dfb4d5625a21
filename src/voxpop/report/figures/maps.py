"""Decisions with two numbers, on a map: what they are expected to give, and how unsure that is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from voxpop.errors import Array
from voxpop.model.problem import Indices
from voxpop.model.state import State
from voxpop.report.decisions import Column
from voxpop.report.drawing import BLUE, INK, MUTED, PAPER, SKY
from voxpop.report.figures.common import (
    CHOSEN,
    ESTIMATE,
    FROM_PILOT,
    LIKELY,
    SMALL,
    STAR,
    Canvas,
    answers_of,
    legend_below,
    reward_axis,
    reward_ticks,
    set_axis,
    set_title,
    window,
)
from voxpop.report.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes


PIXELS = 96  # along each side
ASKED: dict[str, Any] = {"linestyle": "none", "markersize": 6, "color": PAPER, "markeredgecolor": INK}
TRULY_BEST: dict[str, Any] = {"linestyle": "none", "markersize": 9, "color": PAPER, "markeredgecolor": INK}


def draw_map(canvas: Canvas, view: View) -> None:
    """Draw the estimate of every decision as a colour, with what was asked about and what was chosen."""
    ax = canvas.subplots()
    painted = paint(ax, view, view.estimate())
    for name, (decisions, _) in answers_of(view).items():
        marker, label = ("s", "asked in the pilot") if name == FROM_PILOT else ("o", "asked")
        _mark(ax, view, np.unique(decisions), marker, label, ASKED)
    if view.truth is not None:
        best = np.array([int(view.truth.argmax())])
        _mark(ax, view, best, "D", "truly best", TRULY_BEST)
    mark_choice(ax, view, view.course.state)
    bar = canvas.colorbar(painted, ax=ax, pad=0.02, aspect=30)
    bar.set_label(view.course.reward)
    bar.ax.yaxis.set_major_formatter(reward_ticks(view))
    bar.outline.set_visible(False)
    set_title(canvas, "Estimate of every decision" if view.informed else "Nobody has answered yet")
    legend_below(canvas, ax)


def draw_doubt(canvas: Canvas, view: View) -> None:
    """Draw how unsure the estimate of every decision is."""
    ax, likely, state = canvas.subplots(), view.likely(), view.course.state
    spread = (state.upper - state.lower) / 2 if likely is None else likely
    painted = paint(ax, view, spread, "magma_r")
    mark_choice(ax, view, state)
    bar = canvas.colorbar(painted, ax=ax, pad=0.02, aspect=30)
    bar.set_label(f"± {view.course.reward}")
    bar.outline.set_visible(False)
    set_title(canvas, "How unsure the estimates are")
    legend_below(canvas, ax)


def explain_doubt(view: View) -> str:
    """Say what the second map shows."""
    what = "certified bounds" if view.likely() is None else "two standard deviations"
    return f"Light is well known, dark is not: {what}. Where nothing promising lies, nobody was asked."


def mark_choice(ax: Axes, view: View, state: State, size: float = 16) -> None:
    """Mark the decision that a state recommends."""
    best = view.course.policy.best(view.course.problem, state)
    x, y = view.layout.varied
    ax.plot([x.places[best]], [y.places[best]], label=CHOSEN, clip_on=False, **STAR | {"markersize": size})


def paint(
    ax: Axes,
    view: View,
    values: Array,
    colours: str = "viridis",
    limits: tuple[float, float] | None = None,
    pixels: int = PIXELS,
) -> Any:
    """Colour every place of the map like the decision that is nearest to it."""
    from scipy.spatial import cKDTree

    x, y = view.layout.varied
    known = np.column_stack([x.shares, y.shares])
    edges = np.linspace(-0.02, 1.02, pixels + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    grid = np.stack(np.meshgrid(middles, middles), axis=-1).reshape(-1, 2)
    nearest = cKDTree(known).query(grid)[1].reshape(pixels, pixels)
    low, high = limits or (float(np.nanmin(values)), float(np.nanmax(values)))
    painted = ax.pcolormesh(
        _unscaled(x, edges), _unscaled(y, edges), values[nearest], cmap=colours, vmin=low, vmax=high, rasterized=True
    )
    set_axis(ax, x)
    set_axis(ax, y, "y")
    return painted


def _mark(ax: Axes, view: View, decisions: Indices, marker: str, label: str, style: dict[str, Any]) -> None:
    x, y = view.layout.varied
    ax.plot(x.places[decisions], y.places[decisions], marker, label=label, **style)


def _unscaled(column: Column, shares: Array) -> Array:
    """Return the places that lie at these shares of the axis."""
    ends = np.array([min(column.options), max(column.options)], dtype=float)
    if column.logarithmic:
        return np.asarray(np.exp(np.log(ends[0]) + shares * np.log(ends[1] / ends[0])))
    return np.asarray(ends[0] + shares * (ends[1] - ends[0]))


MOST = 6  # parameters that are drawn
MANY = 1000  # dots, beyond which they are one image
SHORT = 3  # a slice has at least this many decisions


def draw_slices(canvas: Canvas, view: View) -> None:
    """Draw a panel for each parameter."""
    columns = view.layout.varied[:MOST]
    panels = canvas.subplots(math.ceil(len(columns) / 2), 2, squeeze=False, sharey=True).ravel()
    for ax, column in zip(panels, columns, strict=False):
        along = slice_along(view, column)
        if along is None:
            _draw_all(ax, view, column)
        else:
            _draw_slice(ax, view, column, along)
        best = view.answer.index
        ax.plot([column.places[best]], [view.course.state.centre[best]], label=CHOSEN, **STAR)
        set_axis(ax, column)
        reward_axis(ax, view)
        ax.xaxis.label.set_weight("bold")
        ax.tick_params(labelsize=SMALL)
    for ax in panels[len(columns) :]:
        ax.set_visible(False)
    for row in panels.reshape(-1, 2):
        row[1].set_ylabel("")
    panels[0].set_ylim(*window([view.estimate()], 0.2))
    set_title(canvas, "Parameter by parameter")
    legend_below(canvas, *panels[: len(columns)])


def explain_slices(view: View) -> str:
    """Say what the panels show."""
    sliced = [slice_along(view, column) is not None for column in view.layout.varied[:MOST]]
    if all(sliced):
        return "The estimate along each parameter, while all others stay as in the decision."
    every = "The estimate of every decision against each parameter; decisions differ in the other parameters, too."
    return f"{every} Lines join those that differ from the chosen one in nothing else." if any(sliced) else every


def slices_height(view: View) -> float:
    """Return how tall the panels are together."""
    return 0.9 + 2.1 * math.ceil(len(view.layout.varied[:MOST]) / 2)


def slice_along(view: View, column: Column) -> Indices | None:
    """Return the decisions that differ from the chosen one in this parameter alone, if there are a few."""
    found = view.layout.along(view.answer.index, column)
    return found if len(found) >= min(SHORT, len(column.options)) else None


def _draw_slice(ax: Axes, view: View, column: Column, along: Indices) -> None:
    places, estimate, likely = column.places[along], view.estimate()[along], view.likely()
    if likely is not None:
        low, high = estimate - likely[along], estimate + likely[along]
        if column.numeric:
            ax.fill_between(places, low, high, color=SKY, linewidth=0, label=LIKELY)
        else:
            ax.vlines(places, low, high, color=SKY, linewidth=7, label=LIKELY)
    line = "-" if column.numeric else "none"
    ax.plot(places, estimate, "." if len(along) < 30 else "", linestyle=line, color=BLUE, label=ESTIMATE)


def _draw_all(ax: Axes, view: View, column: Column) -> None:
    state, estimate = view.course.state, view.estimate()
    left = np.isin(np.arange(len(estimate)), state.active)
    for which, colour, label in ((~left, MUTED, "cannot be best"), (left, BLUE, "could be best")):
        many = bool(which.sum() > MANY)
        ax.plot(column.places[which], estimate[which], ".", color=colour, markersize=4, label=label, rasterized=many)
