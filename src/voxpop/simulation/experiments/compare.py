"""Policies compared by what they lose and what they ask of people: numbers sent, people and waves. Not in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from voxpop.errors import one_of
from voxpop.model.problem import Problem
from voxpop.report.drawing import MUTED
from voxpop.report.summary import number
from voxpop.simulation.experiments.drawing import panels
from voxpop.simulation.experiments.exhibits import Cell, Cells, Exhibit, Finding, Scale, Sheet, Shown, compare, quantity
from voxpop.simulation.experiments.marks import colours_of, draw_marks, name_marks
from voxpop.simulation.theory import largest_loss
from voxpop.simulation.wave_theory import least_regret, wave_bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The default first, then what a practitioner would use instead.
CONTENDERS = ("waves", "dpbe", "pilot-only", "equal-split", "halving", "thompson", "gp-ucb")
COSTS = {"numbers": "numbers sent", "people": "people asked", "waves": "waves"}
HORIZONS = {"pricing": 20_000, "synthetic": 40_000}  # the studies' own
DELTA = 0.05  # with which the bounds of idealised waves may fail
ACCURACIES = (4, 6, 8)  # how often the largest loss is halved
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
            "is a dashed line. Only policies that prove something have a certificate. Dotted: for any policy that "
            "asks this number of people there is a function on which it loses at least this much.",
        )
        for study, horizon in HORIZONS.items()
    ]


def contenders(study: str) -> list[str]:
    """List the policies for a study; without a pilot, one that keeps the pilot's best action makes no sense."""
    return [name for name in CONTENDERS if name != "pilot-only" or study == "pricing"]


def present(study: str, note: str, cells: Cells) -> Shown:
    """Draw the three panels, and make the tables and the findings."""
    problem = next(iter(cells.values())).trials[0].scenario().problem
    tables = [table(study, cells), promises(study, problem, cells)]
    return Shown(picture(study, cells, note, problem), tables, _findings(study, cells))


def picture(study: str, cells: Cells, note: str = "", problem: Problem | None = None) -> Figure:
    """Draw regret against numbers sent, people and waves; and, for a problem, the least regret for people asked."""
    colours = colours_of(dict.fromkeys([*CONTENDERS, *cells]))  # a policy has the same colour in every picture
    with panels(len(COSTS), note, width=4.8) as (figure, axes):
        for ax, (cost, label) in zip(axes, COSTS.items(), strict=True):
            draw_marks(ax, cells, cost, colours)
            if problem is not None and cost == "people":
                _draw_least(ax, problem)
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


def promises(study: str, problem: Problem, cells: Cells) -> Sheet:
    """List what idealised waves lose at most and what anyone loses at least, beside what waves lost."""
    found: dict[str, tuple[float, float, float]] = {}
    for halvings in ACCURACIES:
        accuracy = largest_loss(problem) / 2**halvings
        bound = wave_bounds(problem, accuracy, DELTA)
        people = sum(wave.people for wave in bound.waves)
        found[f"idealised waves, accuracy {number(accuracy)}"] = people, bound.numbers, bound.regret
    if "waves" in cells:
        asked, sent, lost = (cells["waves"].mean(name) for name in ("people", "numbers", "regret"))
        found["waves, measured"] = asked, sent, lost
    rows = [
        (name, *map(quantity, seen), quantity(least_regret(problem, max(seen[0], 1.0)))) for name, seen in found.items()
    ]
    headings = ("", "people", "numbers", "regret, at most or measured", "regret of anyone, at least")
    return Sheet(f"What can be promised for every function: {study}", "", headings, rows)


def _draw_least(ax: Axes, problem: Problem) -> None:
    """Draw the lower bound on regret, and make room below for its beginning if need be."""
    across, (low, high) = ax.get_xlim(), ax.get_ylim()
    people = np.geomspace(*across, 50)
    least = [least_regret(problem, count) for count in people]
    ax.plot(people, least, ":", color=MUTED, linewidth=1.5)
    ax.set(xlim=across, ylim=(min(low, least[0] / 2), high))


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
