"""Policies compared by what they lose and what they ask of people: numbers sent, people and waves. Not in the paper."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from reproduction.exhibits import Exhibit, Finding, Scale, Sheet, Shown, compare
from reproduction.theory import largest_loss
from reproduction.wave_theory import least_regret, wave_bounds
from voxpop.model.problem import Problem
from voxpop.model.words import number
from voxpop.report.drawing import MUTED, Axes
from voxpop.simulation.comparison import CONTENDERS, HEADINGS, Cells, quantity, rows
from voxpop.simulation.pictures import picture
from voxpop.simulation.surveys import SURVEYS

WITH_PILOT = ["waves", "dpbe", "pilot-only", "thompson"]  # for studies of real people
HORIZONS = {"pricing": 20_000, "synthetic": 40_000}  # the studies' own
DELTA = 0.05  # with which the bounds of idealised waves may fail
ACCURACIES = (4, 6, 8)  # how often the largest loss is halved
TEXT = (
    "Bars are standard deviations over runs. A policy that asks nobody is a dashed line. Only policies that prove "
    "something have a certificate. Dotted: for any policy that asks this number of people there is a function on which "
    "it loses at least this much."
)
REAL = (
    "Real people, as their tastes were fitted to what they chose or answered; docs/people.md says how. In each run 40 "
    "of them answer a pilot, and the study asks the others. "
)


def exhibits(scale: Scale) -> Iterator[Exhibit]:
    """Make one exhibit with a pilot, one without, and one for each survey of real people."""
    made = [
        (f"compare/{study}", f"What a practitioner would use instead: {study}", contenders(study), horizon)
        for study, horizon in HORIZONS.items()
    ]
    made += [(f"people/{name}", survey.question, WITH_PILOT, survey.horizon) for name, survey in SURVEYS.items()]
    for name, title, policies, horizon in made:
        study = name.partition("/")[2]
        yield Exhibit(
            name=name,
            title=title,
            labels=(),
            series={each: scale.trials(study, each, horizon=min(scale.horizon, horizon)) for each in policies},
            present=partial(present, study),
            text=(REAL if study in SURVEYS else "All policies ask the same people. ") + TEXT,
        )


def contenders(study: str) -> list[str]:
    """List the policies for a study; without a pilot, one that keeps the pilot's best action makes no sense."""
    return [name for name in CONTENDERS if name != "pilot-only" or study == "pricing"]


def present(study: str, cells: Cells) -> Shown:
    """Draw the three panels, and make the tables and the findings."""
    problem = next(iter(cells.values())).trials[0].scenario().problem
    made = Sheet(f"Regret and cost: {study}", "", HEADINGS, rows(cells))
    figure = picture(study, cells, partial(draw_least, problem))
    return Shown(figure, [made, promises(study, problem, cells)], _findings(study, cells))


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
    lines = [
        (name, *map(quantity, seen), quantity(least_regret(problem, max(seen[0], 1.0)))) for name, seen in found.items()
    ]
    headings = ("", "people", "numbers", "regret, at most or measured", "regret of anyone, at least")
    return Sheet(f"What can be promised for every function: {study}", "", headings, lines)


def draw_least(problem: Problem, ax: Axes) -> None:
    """Draw the lower bound on regret, and make room below for its beginning if need be."""
    across, (low, high) = ax.get_xlim(), ax.get_ylim()
    people = np.geomspace(*across, 50)
    least = [least_regret(problem, count) for count in people]
    ax.plot(people, least, ":", color=MUTED, linewidth=1.5)
    ax.set(xlim=across, ylim=(min(low, least[0] / 2), high))


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
