"""Policies compared by what they lose and what they ask of people: numbers sent, people and waves. Not in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from voxpop.core.errors import one_of
from voxpop.lab.experiments.drawing import panels
from voxpop.lab.experiments.exhibits import Cell, Cells, Exhibit, Finding, Scale, Sheet, Shown, compare, quantity
from voxpop.lab.experiments.marks import colours_of, draw_marks, name_marks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The default first, then what a practitioner would use instead.
CONTENDERS = ("waves", "dpbe", "pilot-only", "equal-split", "halving", "thompson", "gp-ucb")
COSTS = {"numbers": "numbers sent", "people": "people asked", "waves": "waves"}
HORIZONS = {"pricing": 20_000, "synthetic": 40_000}  # the studies' own
HEADINGS = ("policy", "regret at T", *COSTS.values(), "optimum kept", "certificate true")


def exhibits(scale: Scale) -> list[Exhibit]:
    """Make one exhibit with a pilot and one without."""
    return [
        Exhibit(
            name=f"compare/{study}",
            title=f"What a practitioner would use instead: {study}",
            labels=(),
            series={name: scale.trials(study, name, horizon=min(scale.horizon, horizon)) for name in contenders(study)},
            present=partial(present, study, scale.note),
            text="All policies ask the same people. Bars are standard deviations over runs. A policy that asks nobody "
            "is a dashed line. Only policies that prove something have a certificate.",
        )
        for study, horizon in HORIZONS.items()
    ]


def contenders(study: str) -> list[str]:
    """List the policies for a study; without a pilot, one that keeps the pilot's best action makes no sense."""
    return [name for name in CONTENDERS if name != "pilot-only" or study == "pricing"]


def present(study: str, note: str, cells: Cells) -> Shown:
    """Draw the three panels, and make the table and the findings."""
    return Shown(picture(study, cells, note), [table(study, cells)], _findings(study, cells))


def picture(study: str, cells: Cells, note: str = "") -> Figure:
    """Draw regret against numbers sent, people and waves."""
    colours = colours_of(dict.fromkeys([*CONTENDERS, *cells]))  # a policy has the same colour in every picture
    with panels(len(COSTS), note, width=4.8) as (figure, axes):
        for ax, (cost, label) in zip(axes, COSTS.items(), strict=True):
            draw_marks(ax, cells, cost, colours)
            ax.set(title=f"{study}: regret and {label}", xlabel=label)
        runs = max(len(cell.runs) for cell in cells.values())
        axes[0].set_ylabel(f"regret at T, mean and std of {runs} run{'s' * (runs > 1)}")
        figure.draw_without_rendering()
        for ax, cost in zip(axes, COSTS, strict=True):
            name_marks(ax, cells, cost, colours)
    return figure


def table(study: str, cells: Cells) -> Sheet:
    """List what every policy loses and asks for, and how often it is right where it claims something."""
    return Sheet(f"Regret and cost: {study}", "", HEADINGS, [row(name, cell) for name, cell in cells.items()])


def row(name: str, cell: Cell) -> Sequence[str]:
    """Write one policy as a row of the table."""
    costs = (quantity(cell.mean(cost)) for cost in COSTS)
    kept = cell.kept if cell.certified else ""
    return name, f"{quantity(cell.mean())} ± {quantity(cell.std())}", *costs, kept, cell.certified


def frontier(cells: Cells) -> list[str]:
    """List the policies that no other beats in both mean regret and mean numbers sent.

    One that is as good in one and better in the other beats it, too.
    """
    means = {name: (cell.mean(), cell.mean("numbers")) for name, cell in cells.items()}
    return [
        name
        for name, (regret, numbers) in means.items()
        if not any(r <= regret and n <= numbers and (r, n) != (regret, numbers) for r, n in means.values())
    ]


def verdict(cells: Cells) -> str:
    """Say which policies are on the frontier."""
    return f"No policy beats {one_of(frontier(cells))} in both regret and numbers sent."


def _findings(study: str, cells: Cells) -> list[Finding]:
    first, *others = cells
    ours, claim = cells[first], f"{study}: voxpop's {first}"
    found = []
    for name in others:
        if name in ("dpbe", "pilot-only", "gp-ucb"):
            found.append(compare(f"{claim} loses less than {name}", ours, cells[name]).as_target())
        if name in ("dpbe", "gp-ucb"):
            found.append(compare(f"{claim} sends less than {name}", ours, cells[name], "numbers").as_target())
    return found
