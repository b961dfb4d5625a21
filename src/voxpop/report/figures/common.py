"""What several pictures have in common: their width, their axes, and legends that cover nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from voxpop.errors import Array
from voxpop.model.problem import Indices
from voxpop.report.decisions import Column
from voxpop.report.drawing import INK, PAPER
from voxpop.report.summary import number
from voxpop.report.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Canvas: TypeAlias = "Figure | SubFigure"
WIDTH = 5.2  # inches: readable on a telephone, and two side by side on a screen
SMALL = 8.5  # points
STAR: dict[str, Any] = {"marker": "*", "markersize": 14, "color": INK, "markeredgecolor": PAPER, "linestyle": "none"}
PILOT: dict[str, Any] = {"marker": "o", "markersize": 5, "color": INK, "fillstyle": "none", "linestyle": "none"}
WAVE: dict[str, Any] = {"marker": ".", "markersize": 5, "color": INK, "linestyle": "none"}
CERTIFIED, LIKELY, ESTIMATE, TRUTH = "certified", "likely", "estimate", "simulated truth"
ASSUMED = "assumed possible"
CHOSEN, FROM_PILOT, FROM_WAVES = "chosen", "pilot's answers", "answers"
DOTS = {FROM_PILOT: PILOT, FROM_WAVES: WAVE}


def legend_below(canvas: Canvas, *axes: Axes) -> None:
    """Write one legend below all axes, where it covers nothing, in as many columns as fit."""
    known = {
        label: handle
        for ax in axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
        if not label.startswith("_")
    }
    if not known:
        return
    longest = max(map(len, known))
    width = canvas.bbox.width / canvas.get_figure(root=True).dpi
    columns = max(1, min(len(known), int(width / (0.42 + 0.068 * longest))))
    canvas.legend(
        list(known.values()),
        list(known),
        loc="outside lower center",
        ncols=math.ceil(len(known) / math.ceil(len(known) / columns)),
        fontsize=SMALL,
        columnspacing=1.2,
        handletextpad=0.5,
    )


def set_axis(ax: Axes, column: Column, side: str = "x", most: int = 6) -> None:
    """Name an axis after its parameter, with the parameter's own values, or some of them if they are numbers."""
    from matplotlib.ticker import MaxNLocator

    axis = getattr(ax, f"{side}axis")
    axis.set_label_text(column.name)
    if column.logarithmic:
        getattr(ax, f"set_{side}scale")("log")
        plain_logarithm(axis, float(min(column.options)), float(max(column.options)))
    elif column.numeric:
        whole = all(isinstance(option, int) for option in column.options)
        axis.set_major_locator(MaxNLocator(most, integer=whole))
    else:
        names = [shortened(column.write(option), 14) for option in column.options]
        axis.set_ticks(range(len(names)), names)
        if side == "x" and sum(map(len, names)) > 24:
            axis.set_tick_params(rotation=30, labelsize=SMALL)
            for label in axis.get_ticklabels():
                label.set(ha="right", rotation_mode="anchor")


def plain_logarithm(axis: Any, low: float, high: float) -> None:
    """Write the numbers of a logarithmic axis as they are, and few of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0,) if high > 300 * low else (1.0, 3.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1000 else f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def shortened(text: str, most: int) -> str:
    """Cut a long name.

    >>> shortened("a very long name", 10)
    'a very lo…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def window(values: Sequence[Array], share: float = 0.12) -> tuple[float, float]:
    """Return limits that show all values that are known, with some room on both sides."""
    known = np.concatenate([np.ravel(part) for part in values])
    known = known[np.isfinite(known)]
    if not len(known):
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    room = share * (high - low) or 0.5 * abs(high) or 1.0
    return low - room, high + room


def reward_axis(ax: Axes, view: View, side: str = "y") -> None:
    """Name an axis after the reward. Better is up or right, so if less is better, the axis runs downwards."""
    axis = getattr(ax, f"{side}axis")
    axis.set_label_text(view.course.reward)
    axis.set_major_formatter(reward_ticks(view))
    ax.locator_params(axis=side, nbins=6)  # type: ignore[arg-type]


def reward_ticks(view: View) -> Callable[[float, float], str]:
    """Return how the ticks of a reward's axis are written: as people read rewards, or costs."""

    def written(value: float, _: float) -> str:
        shown = view.course.direction.turn(float(value))
        return number(shown) if abs(shown) >= 1000 else f"{shown:g}"

    return written


def answers_of(view: View) -> dict[str, tuple[Indices, Array]]:
    """Return the average answers of the pilot and of the study, with the decisions that they are about."""
    found: dict[str, list[tuple[Indices, Array]]] = {
        FROM_PILOT: [(view.layout.nearest(group.points), group.mean) for group in view.course.problem.pilot],
        FROM_WAVES: [(wave.plan.arms, wave.feedback.mean) for wave in view.course.closed],
    }
    return {
        name: (np.concatenate([at for at, _ in parts]), np.concatenate([means for _, means in parts]))
        for name, parts in found.items()
        if parts
    }


def set_title(canvas: Canvas, title: str) -> None:
    """Write the title at the left edge, where it has the whole width."""
    canvas.suptitle(shortened(title, 54), x=0.01, ha="left", weight="bold", fontsize=11)
