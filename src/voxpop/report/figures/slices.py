"""Several parameters: how the estimate changes along each, while the others stay at the decision."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from voxpop.core.problem import Indices
from voxpop.report.decisions import Column
from voxpop.report.drawing import BLUE, MUTED, SKY
from voxpop.report.figures.common import (
    CHOSEN,
    ESTIMATE,
    LIKELY,
    SMALL,
    STAR,
    Canvas,
    legend_below,
    reward_axis,
    set_axis,
    set_title,
    window,
)
from voxpop.report.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    best, others = view.answer.index, [other for other in view.layout.varied if other is not column]
    same = np.ones(view.course.problem.size, dtype=bool)
    for other in others:
        same &= other.places == other.places[best]
    found = np.flatnonzero(same)
    enough = len(found) >= min(SHORT, len(column.options))
    return found[np.argsort(column.places[found])] if enough else None


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
