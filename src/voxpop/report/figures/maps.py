"""Decisions with two numbers, on a map: what they are expected to give, and how unsure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from voxpop.core.errors import Array
from voxpop.core.problem import Indices
from voxpop.core.state import State
from voxpop.report.decisions import Column
from voxpop.report.drawing import INK, PAPER
from voxpop.report.figures.common import (
    CHOSEN,
    FROM_PILOT,
    STAR,
    Canvas,
    answers_of,
    legend_below,
    reward_ticks,
    set_axis,
    set_title,
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
    known = np.column_stack([_scaled(x, x.places), _scaled(y, y.places)])
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


def _scaled(column: Column, places: Array) -> Array:
    """Return places as shares of the axis."""
    ends = np.array([min(column.options), max(column.options)], dtype=float)
    if column.logarithmic:
        places, ends = np.log(places), np.log(ends)
    return np.asarray((places - ends[0]) / (ends[1] - ends[0]))


def _unscaled(column: Column, shares: Array) -> Array:
    """Undo `_scaled`."""
    ends = np.array([min(column.options), max(column.options)], dtype=float)
    if column.logarithmic:
        return np.asarray(np.exp(np.log(ends[0]) + shares * np.log(ends[1] / ends[0])))
    return np.asarray(ends[0] + shares * (ends[1] - ends[0]))
