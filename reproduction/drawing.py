"""What the figures of the experiments share: curves with their spread, and marks of cost."""

from collections.abc import Mapping, Sequence

import numpy as np

from voxpop.report.drawing import BLUE, GREEN, INK, MUTED, ORANGE, Axes
from voxpop.simulation.comparison import Cell, Cells, grid
from voxpop.simulation.pictures import PURPLE, logarithmic

COLOURS = {
    "DPBE": BLUE,
    "DPBE-Fixed": ORANGE,
    "DPBE-NoBatching": GREEN,
    "voxpop": PURPLE,
    "GP-UCB": INK,
    "BPE": ORANGE,
    "mini-GP-Opt": MUTED,
    "BBKB": GREEN,
}


def horizon_of(cell: Cell) -> int:
    """Return T of the cell's runs."""
    return int(cell.trials[0].horizon or 0)


def draw_curves(ax: Axes, cells: Cells, colours: Mapping[str, str], title: str, per_round: bool = False) -> None:
    """Draw mean cumulative regret with its standard deviation; or regret per round, on logarithmic axes."""
    for name, cell in cells.items():
        rounds = grid(horizon_of(cell))
        curves = cell.curves
        if per_round:
            rounds, curves = rounds[1:], curves[:, 1:] / rounds[1:]
        mean, std = curves.mean(axis=0), curves.std(axis=0)
        low = np.maximum(mean - std, mean / 10) if per_round else np.maximum(mean - std, 0)
        ax.fill_between(rounds, low, mean + std, color=colours[name], alpha=0.15, linewidth=0)
        ax.plot(rounds, mean, color=colours[name], linewidth=1.8, label=name)
    horizon = max(map(horizon_of, cells.values()))
    if per_round:
        logarithmic(ax)
        ax.set(title=title, xlabel="round", ylabel="regret per round")
    else:
        ax.set_xlim(0, horizon)
        ax.set_ylim(bottom=0)
        ax.locator_params(axis="x", nbins=5)
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.yaxis.set_major_formatter("{x:,.0f}")
        ax.set(title=title, xlabel="round", ylabel="cumulative regret")
    ax.legend(fontsize=8)


def draw_costs(ax: Axes, cells: Cells, colours: Mapping[str, str]) -> None:
    """Draw every run as a dot: what it sent against what it lost; the mean as a star."""
    for name, cell in cells.items():
        numbers, regret = cell["numbers"], cell["regret"]
        ax.plot(numbers, regret, ".", color=colours[name], alpha=0.5)
        ax.plot([numbers.mean()], [regret.mean()], "*", color=colours[name], markersize=13, label=name)
    logarithmic(ax)
    ax.set(title="What it sent, and what it lost", xlabel="numbers sent", ylabel="regret at T")
    ax.legend(fontsize=8)


def draw_trend(ax: Axes, cells: Mapping[float, Cell], name: str, label: str, colour: str) -> None:
    """Draw a mean against a setting, with its standard deviation."""
    settings = list(cells)
    mean = np.array([cell.mean(name) for cell in cells.values()])
    std = np.array([cell.std(name) for cell in cells.values()])
    low = np.minimum(std, 0.9 * mean)  # so that it can be drawn on a logarithmic axis
    ax.errorbar(settings, mean, yerr=[low, std], fmt="o-", color=colour, capsize=3, linewidth=1.5, label=label)


def shades(base: str, count: int) -> list[str]:
    """Make colours from light to full."""
    from matplotlib.colors import to_hex, to_rgb

    rgb = np.array(to_rgb(base))
    return [to_hex(1 - (1 - rgb) * share) for share in np.linspace(0.3, 1, count)]


def draw_bars(axes: Sequence[Axes], names: Sequence[str], bars: Mapping[str, tuple[Sequence[Cell], str, str]]) -> None:
    """Draw regret and numbers sent as bars, a group for each name; a bar has cells, a colour and a hatch."""
    width = 0.8 / len(bars)
    for ax, field, title in zip(axes, ("regret", "numbers"), ("Regret at T", "Numbers sent"), strict=True):
        for place, (label, (cells, colour, hatch)) in enumerate(bars.items()):
            at = np.arange(len(names)) + width * (place - (len(bars) - 1) / 2)
            heights = [cell.mean(field) for cell in cells]
            ax.bar(at, heights, width, color=colour, alpha=0.55 if hatch else 1, hatch=hatch, label=label)
        logarithmic(ax, "y")
        ax.set_xticks(range(len(names)), names)
        ax.set(title=title)
    axes[0].legend(fontsize=8, loc="upper left")
