"""The picture of a comparison: policies as marks of what they cost and lose."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle

from voxpop.report.drawing import BLUE, GREEN, INK, MUTED, ORANGE, Axes, Figure, sheet, styled
from voxpop.report.figures.common import legend_below, plain_logarithm
from voxpop.simulation.comparison import CONTENDERS, COSTS, Cell, Cells

PURPLE, PINK, TEAL = "#862e9c", "#e64980", "#0c8599"
COLOURS = (PURPLE, BLUE, ORANGE, GREEN, TEAL, PINK, INK, MUTED)
MARKS = "osD^vPX*"
LEAST = 1e-3  # regret below this is drawn here: zero has no place on a logarithmic axis


@contextmanager
def panels(count: int, width: float = 5.4, height: float = 4.0) -> Iterator[tuple[Figure, Sequence[Axes]]]:
    """Make a figure with some panels side by side."""
    made = sheet(width * count, height)
    with styled():
        yield made, list(made.subplots(1, count, squeeze=False)[0])


def logarithmic(ax: Axes, sides: str = "xy") -> None:
    """Make axes logarithmic, with few, readable numbers; call it when everything is drawn."""
    for side in sides:
        getattr(ax, f"set_{side}scale")("log")
        low, high = getattr(ax, f"get_{side}lim")()
        plain_logarithm(getattr(ax, f"{side}axis"), low, high, short)


def short(value: float) -> str:
    """Write a number as axes show it.

    >>> [short(value) for value in (0.01, 500, 2e4, 1e6, 1e9)]
    ['0.01', '500', '20k', '1M', '1000M']
    """
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}" if value < 1e12 else f"{value:.0e}"
    return f"{value:g}"


def picture(study: str, cells: Cells, bound: Callable[[Axes], None] | None = None) -> Figure:
    """Draw regret against numbers sent, people and waves; `bound` adds something to the panel of people."""
    looks = looks_of(dict.fromkeys([*CONTENDERS, *cells]))
    with panels(len(COSTS), width=4.8) as (figure, axes):
        for ax, (cost, label) in zip(axes, COSTS.items(), strict=True):
            for name, cell in cells.items():
                _draw_mark(ax, name, cell, cost, *looks[name])
            ax.margins(0.1)
            logarithmic(ax)
            if bound is not None and cost == "people":
                bound(ax)
            ax.set(title=f"{study}: regret and {label}", xlabel=label)
        runs = max(len(cell.runs) for cell in cells.values())
        axes[0].set_ylabel(f"regret at T, mean and std of {runs} run{'s' * (runs > 1)}")
        legend_below(figure, axes)
    return figure


def looks_of(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Give every policy a colour and a mark of its own in all pictures, as far as there are enough."""
    return dict(zip(names, cycle(zip(COLOURS, MARKS, strict=True)), strict=False))


def _draw_mark(ax: Axes, name: str, cell: Cell, cost: str, colour: str, mark: str) -> None:
    """Draw mean regret against a mean cost, with standard deviations.

    A policy that costs nothing has no place on a logarithmic axis and becomes a dashed line.
    """
    x, y = cell.mean(cost), max(cell.mean(), LEAST)
    if x > 0:
        bars = (_bar(y, cell.std()), _bar(x, cell.std(cost)))
        ax.errorbar([x], [y], *bars, mark, color=colour, capsize=3, elinewidth=1, markersize=7, label=name)
    else:
        ax.axhline(y, color=colour, linestyle="--", linewidth=1, label=f"{name} (asks nobody)")


def _bar(mean: float, std: float) -> list[list[float]]:
    """Return a standard deviation down and up, cut so that it can be drawn on a logarithmic axis."""
    return [[min(std, 0.9 * mean)], [std]]
