"""What several pictures have in common: width, axes, panels, bands, answers, and legends that cover nothing."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from voxpop.errors import Array
from voxpop.model.problem import Indices
from voxpop.model.state import State
from voxpop.model.words import number
from voxpop.report.drawing import BLUE, INK, MIDDLE, PAPER, SKY, VEIL, Axes, Figure, SubFigure
from voxpop.report.view import Column, View
from voxpop.report.view import window as window

Canvas: TypeAlias = Figure | SubFigure
WIDTH = 5.2  # inches: readable on a telephone, and two side by side on a screen
SMALL = 8.5  # points
STAR: dict[str, Any] = {"marker": "*", "markersize": 14, "color": INK, "markeredgecolor": PAPER, "linestyle": "none"}
PILOT: dict[str, Any] = {"marker": "o", "markersize": 5, "color": INK, "fillstyle": "none", "linestyle": "none"}
WAVE: dict[str, Any] = {"marker": ".", "markersize": 5, "color": INK, "linestyle": "none"}
CERTIFIED, LIKELY, ESTIMATE, TRUTH = "certified", "likely", "estimate", "simulated truth"
CHOSEN, FROM_PILOT, FROM_WAVES = "chosen", "pilot's answers", "answers"
DOTS = {FROM_PILOT: PILOT, FROM_WAVES: WAVE}


def legend_below(canvas: Canvas, axes: Sequence[Axes]) -> None:
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


def panels(canvas: Canvas, count: int, across: int, sharex: bool = False) -> list[Axes]:
    """Make some panels in rows, of one scale, with small numbers; the rest of the last row stays empty."""
    made = canvas.subplots(math.ceil(count / across), across, squeeze=False, sharex=sharex, sharey=True).ravel()
    for ax in made:
        ax.tick_params(labelsize=SMALL)
    for ax in made[count:]:
        ax.set_visible(False)
    return list(made[:count])


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


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def plain_logarithm(axis: Any, low: float, high: float, write: Callable[[float], str] = _plain) -> None:
    """Write the numbers of a logarithmic axis as they are, and few of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0,) if high > 300 * low else (1.0, 3.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))
    axis.set_minor_formatter(NullFormatter())


def shortened(text: str, most: int) -> str:
    """Cut a long name.

    >>> shortened("a very long name", 10)
    'a very lo…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


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


def answers_of(view: View, column: Column | None = None) -> dict[str, tuple[Any, Array]]:
    """Return the average answers of the pilot and of the study.

    With them come the decisions that they are about, or where these stand on the axis of a parameter.
    """
    layout = view.layout

    def tried(points: Array) -> Indices | Array:
        return layout.nearest(points) if column is None else layout.places_of(points, column)

    def asked(arms: Indices) -> Indices | Array:
        return arms if column is None else column.places[arms]

    found: dict[str, list[tuple[Indices | Array, Array]]] = {
        FROM_PILOT: [(tried(group.points), group.mean) for group in view.course.problem.pilot],
        FROM_WAVES: [(asked(wave.plan.arms), wave.objective.mean) for wave in view.course.closed],
    }
    return {
        name: (np.concatenate([at for at, _ in parts]), np.concatenate([means for _, means in parts]))
        for name, parts in found.items()
        if parts
    }


def draw_bands(
    ax: Axes, view: View, column: Column, along: Indices, state: State | None = None, bounds: bool = False, **line: Any
) -> None:
    """Draw some decisions along a parameter: what is certified, if wanted, the likely band, and the estimate."""
    state = state or view.course.state
    places, estimate, likely = column.places[along], view.estimate(state)[along], view.likely(state)
    if bounds:
        lower, upper = (ends[along] for ends in view.bounds(state))
        ax.fill_between(places, lower, upper, facecolor=VEIL, edgecolor=MIDDLE, linewidth=0.6, label=CERTIFIED)
    if likely is not None:
        low, high = (ends[along] for ends in likely)
        if column.numeric:
            ax.fill_between(places, low, high, color=SKY, linewidth=0, label=LIKELY)
        else:
            ax.vlines(places, low, high, color=SKY, linewidth=7, label=LIKELY)
    ax.plot(places, estimate, color=BLUE, label=ESTIMATE, **line)
