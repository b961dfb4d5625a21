"""The people of a pilot, drawn again and again: what they answered, and what the model makes of the rest.

Person i of the pilot answered y_i about the actions X_i. Under the model, f_u ~ GP(f, v^2 k) with noise of variance
sigma^2 / rounds in an average, this person's rewards at all actions are Gaussian around

    f + v^2 k(., X_i) A_i (y_i - f(X_i)),    A_i = (v^2 K_i + sigma^2 W_i^-1)^-1,

with covariance v^2 k - v^4 k(., X_i) A_i k(X_i, .). A person of this population is one of the pilot's, drawn with
replacement, with rewards drawn from that law. If the model is right, such people deviate from f as the model says. If
not, they keep what the pilot saw of them: two kinds of people stay two kinds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from voxpop.calibration.pilot import Pilot
from voxpop.core.errors import Array
from voxpop.core.evidence import Evidence
from voxpop.core.phases import Plan
from voxpop.core.problem import Indices, Problem
from voxpop.lab.populations.gp import square_root


@dataclass(frozen=True, eq=False)
class _Pattern:
    """People of the pilot who tried the same, given what they answered."""

    tried: Array  # (a, d) points
    counts: Array  # (a,) rounds
    answers: Array  # (people, a)
    means: Array  # (people, n) what to expect of each
    reach: Array  # (n, a) v^2 k(., X) A^(1/2): what their answers took away from the covariance


@dataclass(frozen=True, eq=False)
class ResampledPeople:
    """People drawn from a pilot, whose actions are points of the problem's kernel, around the estimate `f` (n,)."""

    problem: Problem
    f: Array
    pilot: Pilot
    estimates: Array  # (actions,) f at the pilot's actions

    @cached_property
    def _patterns(self) -> list[_Pattern]:
        problem, points = self.problem, self.pilot.decisions.points
        found = []
        for actions, counts, answers in self.pilot.patterns():
            tried = points[actions]
            noise = problem.bias_std**2 * problem.kernel(tried, tried)
            noise.flat[:: len(tried) + 1] += problem.noise_std**2 / counts
            values, vectors = np.linalg.eigh(noise)
            root = vectors / np.sqrt(values)  # A = root root'
            reach = problem.bias_std**2 * problem.kernel(problem.decisions.points, tried) @ root
            means = self.f + (answers - self.estimates[actions]) @ root @ reach.T
            found.append(_Pattern(tried, counts, answers, means, reach))
        return found

    @property
    def mean(self) -> Array:
        """The truth: the mean reward of this population for each action."""
        return np.asarray(self._means.mean(axis=0))

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        """Draw the averages of new people, of shape (people, arms)."""
        arms, who = plan.arms, rng.integers(len(self._means), size=people)
        answers = self._means[np.ix_(who, arms)]
        for kind, pattern in enumerate(self._patterns):
            places = np.flatnonzero(self._kinds[who] == kind)
            spread = self.problem.answer_noise(arms, plan.pulls) - pattern.reach[arms] @ pattern.reach[arms].T
            answers[places] += rng.standard_normal((len(places), len(arms))) @ square_root(spread).T
        return answers

    def observe_each(self, plan: Plan, rng: np.random.Generator) -> Array:
        """Draw the averages over rounds that are each answered by a new person, of shape (arms,)."""
        return np.array(
            [
                self._rounds(arm, rounds, rng).mean()
                for arm, rounds in zip(plan.arms.tolist(), plan.pulls.tolist(), strict=True)
            ]
        )

    def _rounds(self, arm: int, rounds: int, rng: np.random.Generator) -> Array:
        """Draw the answers of a new person in each round, about one arm."""
        who = rng.integers(len(self._means), size=rounds)
        return np.asarray(self._means[who, arm] + self._spread[who, arm] * rng.standard_normal(rounds))

    @cached_property
    def _means(self) -> Array:
        """What to expect of each person of the pilot, (people, n)."""
        return np.concatenate([pattern.means for pattern in self._patterns])

    @cached_property
    def _kinds(self) -> Indices:
        """The number of each person's pattern."""
        return np.repeat(np.arange(len(self._patterns)), [len(pattern.means) for pattern in self._patterns])

    @cached_property
    def _spread(self) -> Array:
        """The standard deviation of one round of each person, (people, n)."""
        problem = self.problem
        prior = problem.bias_std**2 * problem.prior_variance
        left = [
            np.tile(np.maximum(prior - (pattern.reach**2).sum(axis=1), 0.0), (len(pattern.means), 1))
            for pattern in self._patterns
        ]
        return np.asarray(np.sqrt(np.concatenate(left) + problem.noise_std**2))

    def pilot_again(self, rng: np.random.Generator) -> tuple[Evidence, ...]:
        """Draw the pilot's people again, with replacement, and return what this other pilot found."""
        return tuple(
            Evidence(each.tried, each.counts, len(each.answers), _redrawn(each.answers, rng).mean(axis=0))
            for each in self._patterns
        )


def _redrawn(answers: Array, rng: np.random.Generator) -> Array:
    rows: Indices = rng.integers(len(answers), size=len(answers))
    return np.asarray(answers[rows])
