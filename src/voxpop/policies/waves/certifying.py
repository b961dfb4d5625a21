"""The cheapest wave that is expected to certify a tolerance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from voxpop.errors import Array
from voxpop.gp.belief import within
from voxpop.model.problem import Indices, Problem
from voxpop.model.state import Channel, State
from voxpop.model.waves import Forecast, Plan, changed
from voxpop.policies.waves.planning import Limits, blocks_in, numbers_of_people, useful_rounds
from voxpop.policies.waves.sealing import Evidence, Part

CERTIFIED_RATIO = 1.1  # between numbers of people
SEALED_AT_LAST = 0.9  # the share that is sealed in a wave that aims at a certificate
MOST_ARMS = 128
MEASURING = (1, 4, 16)  # rounds of an arm that show enough of shocks, whether people need them or not
CROWDS = (200, 5_000)  # numbers of people for which arms are chosen
MOST_ASKED = 1_000_000  # people
MOST_CONSIDERED = 400  # actions whose bounds are predicted


@dataclass(frozen=True, eq=False)
class Certifier:
    """Everything that the waves which aim at one certificate have in common."""

    problem: Problem
    state: State
    channel: Channel
    mean: Array  # (n,) pooled
    evidence: Evidence  # what is sealed already
    level: float  # at which the decision is to be certified
    reserve: float  # standard errors by which answers may turn out worse than expected
    answer_cost: float
    limits: Limits
    fewest: int
    same: int = 0  # the people who answer in every wave, if they are the same
    also: int = 0  # metrics besides the objective
    safe: NDArray[np.bool_] | None = None  # (n,) which actions may be tried; None: all

    def plan(self, tolerance: float, dearest: float = math.inf) -> Plan | None:
        """Return the cheapest wave that is expected to certify the tolerance; None if all cost at least `dearest`."""
        best: Plan | None = None
        for arms, rounds in self._offers():
            found = self._cheaper(arms, rounds, tolerance, dearest)
            if found is not None and found.forecast is not None:
                best, dearest = found, found.forecast.cost
        return best

    @cached_property
    def _considered(self) -> Indices:
        """The active actions whose bounds are predicted: all, or those that may be the hardest to beat."""
        active = self.state.active
        if len(active) <= MOST_CONSIDERED:
            return active
        bounds = self.mean[active] + self.evidence.widths(active, self.state.best, self.level, self.reserve)
        return np.union1d(active[np.argsort(-bounds, kind="stable")[:MOST_CONSIDERED]], [self.state.best])

    def _offers(self) -> Iterator[tuple[Indices, int]]:
        """Offer sets of arms, each time with those whose bounds are the largest, and rounds for each of them."""
        for rounds in sorted({*useful_rounds(self.problem, self._considered, self.limits.together)[::2], *MEASURING}):
            for crowd in CROWDS:
                arms = np.array([self.state.best])
                while len(arms) < min(MOST_ARMS, len(self._considered)):
                    bounds = self._bounds(arms, rounds, crowd)
                    bounds[np.isin(self._considered, arms)] = -np.inf
                    if self.safe is not None:
                        bounds[~self.safe[self._considered]] = -np.inf
                    step = -(-len(arms) // 6)
                    worst = np.argsort(-bounds, kind="stable")[:step]
                    new = self._considered[worst[np.isfinite(bounds[worst])]]
                    if not len(new):
                        break
                    arms = np.concatenate([arms, new])
                    if len(arms) * rounds * self.limits.turn >= self.limits.rounds:
                        break
                    yield arms, rounds

    def _cheaper(self, arms: Indices, rounds: int, aim: float, cost: float) -> Plan | None:
        """Plan these arms with the fewest people who are expected to be enough; None if that takes at least `cost`."""
        numbers, exploring = self._wave(arms, rounds, 1).numbers, self._exploring(arms, rounds)
        price = self.answer_cost * numbers
        most = min(self.limits.people, self.limits.numbers // numbers, max(MOST_ASKED, self.same))
        most = most if math.isinf(cost) else min(most, math.ceil((cost - exploring) / price) - 1)
        if most < self.fewest:
            return None
        people = numbers_of_people(self.fewest, most, CERTIFIED_RATIO).astype(int)
        low, high = -1, len(people) - 1
        if self._bounds(arms, rounds, int(people[high])).max() > aim:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            enough = self._bounds(arms, rounds, int(people[middle])).max() <= aim
            low, high = (low, middle) if enough else (middle, high)
        return self._plan(arms, rounds, int(people[high]))

    def _exploring(self, arms: Indices, rounds: int) -> float:
        return rounds * self.limits.turn * float((self.mean[self.state.best] - self.mean[arms]).sum())

    def _plan(self, arms: Indices, rounds: int, people: int) -> Plan:
        best = self.state.best
        certificate = max(0.0, float(self._bounds(arms, rounds, people).max()))
        plan = self._wave(np.sort(arms), rounds, people)
        price = self.answer_cost * people * (plan.numbers // people)
        forecast = Forecast(0.0, price, self._exploring(arms, rounds), certificate)
        return changed(plan, reference=best, forecast=forecast, sealed=SEALED_AT_LAST)

    def _wave(self, arms: Indices, rounds: int, people: int) -> Plan:
        blocks = blocks_in(self.problem, self.channel, rounds, len(arms), people)
        limits, pulls = self.limits, self.limits.pulls(arms, rounds)
        plan = Plan(self.state.wave + 1, arms, pulls, people, blocks=blocks, same=self.same, also=self.also)
        return changed(plan, washout=limits.washout, cycle=limits.cycle)

    def _bounds(self, arms: Indices, rounds: int, people: int) -> Array:
        """Predict the bounds on f(x) - f(best) after a wave."""
        problem, best, at = self.problem, self.state.best, self._considered
        plan = self._wave(arms, rounds, people)
        noise = problem.answer_noise(plan.arms, plan.lived, plan.answers)
        hidden = self.channel.prospect(problem, self.state, plan)
        if hidden is not None:
            variance = float(hidden.variance(np.array([float(people)]))[0])
            if not np.isfinite(variance):
                return np.full(len(at), np.inf)
            noise = noise + variance * hidden.of_metric(0, len(arms))
        length = plan.asked if self.evidence.drift else 0
        part = Part(
            arms,
            np.zeros(len(arms)),
            noise / SEALED_AT_LAST,
            wave=plan.wave,
            rounds=1 / plan.turns / SEALED_AT_LAST,
            first=self.evidence.now,
            length=length,
        )
        after = replace(self.evidence, parts=(*self.evidence.parts, part), now=self.evidence.now + length)
        if plan.blocks > 1 and len(arms) > 1:
            known = float(plan.turns[0]) / plan.answers * within(problem.answer_noise(arms, plan.lived))
            freedom = float((plan.blocks - 1) * (len(arms) - 1))
            after = replace(after, shocks=after.shocks.measured(freedom, known))
        bound = self.mean[at] - self.mean[best] + after.widths(at, best, self.level, self.reserve)
        return np.where(at == best, -np.inf, bound)
