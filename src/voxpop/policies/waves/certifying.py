"""Waves whose aim is a certificate: the cheapest that are expected to reach the tolerance.

Widths are known before the answers, and the pooled means predict the leads. A wave of U people about arms A is expected
to bound f(x) - f(b) by u(x) = m_x - m_b + width(x), and to certify the largest u that earlier waves do not bound
better. Arms are added where u is the largest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from voxpop.core.channel import Channel
from voxpop.core.errors import Array
from voxpop.core.phases import Forecast, Plan
from voxpop.core.problem import Indices, Problem
from voxpop.core.state import State
from voxpop.policies.waves.planning import Limits, numbers_of_people, useful_rounds
from voxpop.policies.waves.statements import Wave

AIM = 0.93  # of the tolerance, since the answers may turn out a little worse than predicted
MOST_ARMS = 128
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
    known: Array  # (n,) what earlier waves already certify about f(x) - f(best)
    z: float
    answer_cost: float
    limits: Limits
    fewest: int
    population: int | None

    def plan(self, tolerance: float) -> Plan | None:
        """Return the cheapest wave that is expected to certify the tolerance; None if none is."""
        return min(self._plans(AIM * tolerance), key=_cost, default=None)

    @cached_property
    def _considered(self) -> Indices:
        """The active actions whose bounds are predicted: all, or those that may be the hardest to beat."""
        active = self.state.active
        if len(active) <= MOST_CONSIDERED:
            return active
        return np.union1d(active[np.argsort(-self.known[active], kind="stable")[:MOST_CONSIDERED]], [self.state.best])

    def _plans(self, aim: float) -> Iterator[Plan]:
        for rounds in useful_rounds(self.problem):
            for crowd in CROWDS:
                arms = np.array([self.state.best])
                while len(arms) < min(MOST_ARMS, len(self._considered)):
                    bounds = self._bounds(arms, rounds, crowd)
                    bounds[np.isin(self._considered, arms)] = -np.inf
                    step = -(-len(arms) // 6)
                    worst = np.argsort(-bounds, kind="stable")[:step]
                    arms = np.concatenate([arms, self._considered[worst[np.isfinite(bounds[worst])]]])
                    if len(arms) * rounds >= self.limits.rounds:
                        break
                    yield from self._cheapest(arms, rounds, aim)

    def _cheapest(self, arms: Indices, rounds: int, aim: float) -> Iterator[Plan]:
        """Offer these arms to the fewest people who are expected to be enough."""
        most = min(self.limits.people, self.limits.numbers // len(arms), MOST_ASKED)
        if most < self.fewest:
            return
        people = numbers_of_people(self.fewest, most).astype(int)
        low, high = -1, len(people)
        while high - low > 1:
            middle = (low + high) // 2
            enough = self._bounds(arms, rounds, int(people[middle])).max() <= aim
            low, high = (low, middle) if enough else (middle, high)
        if high < len(people):
            yield self._plan(arms, rounds, int(people[high]))

    def _plan(self, arms: Indices, rounds: int, people: int) -> Plan:
        best = self.state.best
        exploring = rounds * float((self.mean[best] - self.mean[arms]).sum())
        certificate = max(0.0, float(self._bounds(arms, rounds, people).max()))
        forecast = Forecast(0.0, self.answer_cost * people * len(arms), exploring, certificate)
        pulls = np.full(len(arms), rounds, dtype=np.intp)
        return Plan(self.state.phase + 1, np.sort(arms), pulls, people, best, forecast=forecast)

    def _bounds(self, arms: Indices, rounds: int, people: int) -> Array:
        """Predict the bounds on f(x) - f(best) after a wave."""
        problem, best, at = self.problem, self.state.best, self._considered
        plan = Plan(self.state.phase + 1, arms, np.full(len(arms), rounds, dtype=np.intp), people)
        noise = problem.answer_noise(plan.arms, plan.pulls, people)
        hidden = self.channel.prospect(problem, self.state, plan)
        if hidden is not None:
            variance = float(hidden.variance(np.array([float(people)]))[0])
            if not np.isfinite(variance):
                return np.full(len(at), np.inf)
            noise = noise + variance * hidden.shape
        wave = Wave(problem, arms, noise, None, self.state.norm_bound, self.population)
        width = wave.gaps(at, best, np.zeros(len(arms)), self.z).width
        bound = np.minimum(self.mean[at] - self.mean[best] + width, self.known[at])
        return np.where(at == best, -np.inf, bound)


def _cost(plan: Plan) -> float:
    assert plan.forecast is not None
    return plan.forecast.cost
