"""The picture of a comparison: policies as marks of what they cost and lose, with names that cover nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING

from voxpop.report.drawing import BLUE, GREEN, INK, MUTED, ORANGE, sheet, styled
from voxpop.simulation.comparison import CONTENDERS, COSTS, Cell, Cells

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

PURPLE, PINK, TEAL = "#862e9c", "#e64980", "#0c8599"
CYCLE = (PURPLE, BLUE, ORANGE, GREEN, TEAL, PINK, INK, MUTED)
LEAST = 1e-3  # regret below this is drawn here: zero has no place on a logarithmic axis
CLEAR = 3  # pixels between a name and anything else


@contextmanager
def panels(count: int, note: str, width: float = 5.4, height: float = 4.0) -> Iterator[tuple[Figure, Sequence[Axes]]]:
    """Make a figure with some panels side by side, and a note that warns of a reduced run."""
    made = sheet(width * count, height)
    with styled():
        axes = made.subplots(1, count, squeeze=False)[0]
        if note:
            made.text(0.995, 0.005, note, ha="right", va="bottom", fontsize=8, color=ORANGE, weight="bold")
            made.get_layout_engine().set(rect=(0, 0.035, 1, 0.965))  # type: ignore[union-attr, call-arg]
        yield made, list(axes)


def logarithmic(ax: Axes, sides: str = "xy") -> None:
    """Make axes logarithmic, with few, readable numbers; call it when everything is drawn."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for side in sides:
        getattr(ax, f"set_{side}scale")("log")
        low, high = getattr(ax, f"get_{side}lim")()
        axis = getattr(ax, f"{side}axis")
        axis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axis.set_minor_formatter(NullFormatter())


def short(value: float) -> str:
    """Write a number as axes show it.

    >>> [short(value) for value in (0.01, 500, 2e4, 1e6, 1e9)]
    ['0.01', '500', '20k', '1M', '1000M']
    """
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}" if value < 1e12 else f"{value:.0e}"
    return f"{value:g}"


def picture(study: str, cells: Cells, note: str = "", bound: Callable[[Axes], None] | None = None) -> Figure:
    """Draw regret against numbers sent, people and waves; `bound` adds something to the panel of people."""
    colours = colours_of(dict.fromkeys([*CONTENDERS, *cells]))  # a policy has the same colour in every picture
    with panels(len(COSTS), note, width=4.8) as (figure, axes):
        for ax, (cost, label) in zip(axes, COSTS.items(), strict=True):
            draw_marks(ax, cells, cost, colours)
            if bound is not None and cost == "people":
                bound(ax)
            ax.set(title=f"{study}: regret and {label}", xlabel=label)
        runs = max(len(cell.runs) for cell in cells.values())
        axes[0].set_ylabel(f"regret at T, mean and std of {runs} run{'s' * (runs > 1)}")
        figure.draw_without_rendering()
        for ax, cost in zip(axes, COSTS, strict=True):
            name_marks(ax, cells, cost, colours)
    return figure


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """Give every policy a colour of its own, as far as there are enough."""
    return {name: CYCLE[number % len(CYCLE)] for number, name in enumerate(names)}


def draw_marks(ax: Axes, cells: Cells, cost: str, colours: Mapping[str, str]) -> None:
    """Draw mean regret against a mean cost, with standard deviations, on logarithmic axes.

    A policy that costs nothing has no place on a logarithmic axis and becomes a dashed line.
    """
    for name, cell in cells.items():
        x, y = _place(cell, cost)
        if x > 0:
            up, right = _bar(y, cell.std()), _bar(x, cell.std(cost))
            ax.errorbar([x], [y], up, right, fmt="o", color=colours[name], capsize=3, elinewidth=1, markersize=7)
        else:
            ax.axhline(y, color=colours[name], linestyle="--", linewidth=1)
    ax.margins(0.1)
    logarithmic(ax)


def name_marks(ax: Axes, cells: Cells, cost: str, colours: Mapping[str, str]) -> None:
    """Write each name beside its mark, where it covers nothing; call it when the figure has its final layout."""
    places = {name: _place(cell, cost) for name, cell in cells.items()}
    taken = [box for name, cell in cells.items() for box in _boxes(ax, cell, cost)]
    for name in sorted(places, key=lambda name: -places[name][1]):
        x, y = places[name]
        at = places[name] if x > 0 else (ax.get_xlim()[0], y)
        text = name if x > 0 else f"{name} (asks nobody)"
        written = _write(ax, text, at, colours[name])
        taken.append(_settle(written, _steps(x > 0), taken, ax.get_window_extent()))


def _place(cell: Cell, cost: str) -> tuple[float, float]:
    return cell.mean(cost), max(cell.mean(), LEAST)


def _bar(mean: float, std: float) -> list[list[float]]:
    """Return a standard deviation down and up, cut so that it can be drawn on a logarithmic axis."""
    return [[min(std, 0.9 * mean)], [std]]


def _boxes(ax: Axes, cell: Cell, cost: str) -> list[Bbox]:
    """Return what a mark and its bars cover, in pixels."""
    from matplotlib.transforms import Bbox

    x, y = _place(cell, cost)
    if not x > 0:
        left, right = ax.get_xlim()
        ends = [((left, y), (right, y))]
    else:
        (left,), (right,) = _bar(x, cell.std(cost))
        (down,), (up,) = _bar(y, cell.std())
        ends = [((x - left, y), (x + right, y)), ((x, y - down), (x, y + up))]
    return [Bbox(ax.transData.transform(pair)).padded(CLEAR) for pair in ends]


def _steps(mark: bool) -> list[tuple[float, float]]:
    """List offsets in points at which a name may stand, the nearest first; above or below, if it is of a line."""
    if not mark:
        return [(right, up) for right, up in product((6, 60, 120, 180), (8, -8))]
    return [(far * right, far * up) for far in (1, 1.8, 2.6, 3.4) for right, up in product((8, -8, 0), (8, -8))]


def _write(ax: Axes, name: str, at: tuple[float, float], colour: str) -> Annotation:
    """Write a name at a place, without a say in the layout."""
    text = ax.annotate(name, at, (0, 0), textcoords="offset points", color=colour, fontsize=9, va="center")
    text.set_in_layout(False)
    return text


def _settle(text: Annotation, steps: Iterable[tuple[float, float]], taken: Sequence[Bbox], inside: Bbox) -> Bbox:
    """Move a name to the first offset at which it covers nothing, or else the least; return its box."""

    def moved(step: tuple[float, float]) -> Bbox:
        text.set_position(step)
        text.set_horizontalalignment("left" if step[0] > 0 else "right" if step[0] < 0 else "center")
        return text.get_window_extent()

    found: dict[int, tuple[float, float]] = {}
    for step in steps:
        clashes = _clashes(moved(step), taken, inside)
        found.setdefault(clashes, step)
        if clashes == 0:
            break
    return moved(found[min(found)])


def _clashes(box: Bbox, taken: Iterable[Bbox], inside: Bbox) -> int:
    """Count what a name covers; leaving the panel is worse than anything."""
    outside = box.x0 < inside.x0 or box.x1 > inside.x1 or box.y0 < inside.y0 or box.y1 > inside.y1
    return sum(bool(box.overlaps(other)) for other in taken) + (100 if outside else 0)
