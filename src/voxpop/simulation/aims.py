"""Before a study starts: what it takes to certify more or less, from rehearsals, and which of these aims pays.

A study may ask while asking pays, or until something is certified. Each aim is rehearsed with the same truths, drawn
from what the pilot says, and people who follow them. The aim that pays is that with the least loss in all: what is lost
against knowing the best decision from the start, and the price of the answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from statistics import fmean, median, stdev

import numpy as np

from voxpop.errors import InputError, require_integer
from voxpop.io.schema import Definition
from voxpop.model.words import number
from voxpop.policies import make_policy, policy_options
from voxpop.report.drawing import BLUE, MUTED, ORANGE, Figure
from voxpop.simulation.pictures import panels
from voxpop.simulation.rehearsals import Outcome, rehearse, truths_of
from voxpop.simulation.sweep import Backend, sweep

DRAWN = 1_000  # truths, for what is lost without asking
SHARES = (0.7, 0.5, 0.35, 0.25)  # of what is certified when asking no longer pays
FIRST = (0.3, 0.2, 0.14, 0.1)  # of the range of what is expected, where nothing is then


@dataclass(frozen=True)
class Aim:
    """What a study aims at, and how its rehearsals went."""

    definition: Definition
    tolerance: float | None  # None: it asks while asking pays
    outcomes: tuple[Outcome, ...]

    def typical(self, what: str) -> float:
        """Return the median of an outcome over the rehearsals."""
        return float(median(getattr(each, what) for each in self.outcomes))

    @property
    def reached(self) -> int:
        """How many rehearsals certified what they aimed at; of an aim without a tolerance, anything."""
        return sum(each.certified <= (self.tolerance or math.nextafter(math.inf, 0)) for each in self.outcomes)

    @cached_property
    def totals(self) -> list[float]:
        """What each rehearsal loses and costs in all, in money if the study has it."""
        money, sums = self.definition.money, self.outcomes
        if money is None:
            return [each.lost + each.answers for each in sums]
        return [money.people * each.lost + money.cost(each.numbers, each.answers) for each in sums]

    @property
    def total(self) -> float:
        """Their mean."""
        return fmean(self.totals)

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return stdev(self.totals) / math.sqrt(len(self.totals))

    @cached_property
    def not_asking(self) -> float:
        """What is expected to be lost if nobody is asked, and the pilot decides."""
        problem, policy, money = self.definition.problem, self.definition.policy, self.definition.money
        truths = truths_of(problem, 0, DRAWN)
        choice = policy.best(problem, policy.init(problem).concluded())
        lost = float((truths.max(axis=1) - truths[:, choice]).mean()) * problem.horizon
        return lost if money is None else money.people * lost


def aims_of(
    definition: Definition,
    runs: int = 16,
    seed: int = 0,
    where: Backend | None = None,
    watch: Callable[[int], object] = lambda left: None,
) -> list[Aim]:
    """Rehearse a study that asks while asking pays, and with several tolerances; its own is one of them.

    `watch` is told after each rehearsal how many there are in all.
    """
    require_integer("runs", runs, least=3)
    policy, own = definition.policy, definition.policy.settings().get("tolerance")
    if "tolerance" not in [one.name for one in policy_options(policy.name)]:
        raise InputError(f"the policy {policy.name!r} has no tolerance to plan for; use waves")
    total = runs * (1 + len(SHARES) + (own is not None))

    def aim(tolerance: float | None) -> Aim:
        settings = {**policy.settings(), "tolerance": tolerance}
        told = {name: value for name, value in settings.items() if value is not None}
        study = replace(definition, policy=make_policy(**{"name": policy.name, **told}))
        found: dict[int, Outcome] = {}
        for done in sweep(partial(_rehearsed, study), range(seed, seed + runs), where):
            if done.result is None:
                raise InputError(f"the rehearsal with seed {done.item} failed: {done.error}")
            found[done.item] = done.result
            watch(total)
        return Aim(study, tolerance, tuple(found[one] for one in sorted(found)))

    pays = aim(None)
    certified, (low, high) = pays.typical("certified"), definition.problem.limits
    certain = 0 < certified < math.inf
    spread = float(np.ptp(policy.init(definition.problem).centre)) or definition.problem.norm_bound
    wanted = {float(f"{share * (certified if certain else spread):.2g}") for share in (SHARES if certain else FIRST)}
    tolerances = {tolerance for tolerance in wanted if tolerance < high - low} | ({own} if own else set())
    return [pays, *map(aim, sorted(tolerances, reverse=True))]


def _rehearsed(definition: Definition, seed: int) -> Outcome:
    return rehearse(definition.problem, definition.policy, definition.privacy, seed)


def best_of(aims: Sequence[Aim]) -> Aim | None:
    """Return the aim that pays: that with the least loss in all; None if it is least without asking anybody."""
    best = min(aims, key=lambda aim: aim.total)
    return best if best.total < best.not_asking and best.typical("people") else None


def picture(aims: Sequence[Aim]) -> Figure:
    """Draw how many people it takes to certify so much, and what that loses and costs, with the aim that pays."""
    nobody, unit = aims[0].not_asking, aims[0].definition.unit
    panes = (
        ("Who is asked", "people", [aim.typical("people") for aim in aims]),
        ("What it loses and costs in all", unit, [aim.total for aim in aims]),
    )
    with panels(len(panes)) as (figure, axes):
        for ax, (title, label, values) in zip(axes, panes, strict=True):
            found = {(aim.typical("certified"), value): aim for aim, value in zip(aims, values, strict=True)}
            shown = sorted(place for place in found if math.isfinite(place[0]))
            if shown:
                ax.plot(*zip(*shown, strict=True), "o-", color=BLUE)
            for place in shown:
                aim = found[place]
                name = "while it pays" if aim.tolerance is None else f"until {number(aim.tolerance)}"
                ax.annotate(name, place, (4, 6), textcoords="offset points", fontsize=8)
                if aim.totals == getattr(best_of(aims), "totals", None):
                    ax.plot(*zip(place, strict=True), "*", color=ORANGE, markersize=17, label="pays")
                    ax.legend(loc="upper right")
            ax.margins(0.15)
            ax.set(title=title, xlabel="certified: nothing is better by more than", ylabel=label, ylim=(0, None))
        axes[1].axhline(nobody, color=MUTED, linestyle="--")
        axes[1].set_ylim(0, max(axes[1].get_ylim()[1], 1.1 * nobody))
        start = (axes[1].get_xlim()[0], nobody)
        axes[1].annotate("asking nobody", start, (4, -11), textcoords="offset points", color=MUTED)
    return figure
