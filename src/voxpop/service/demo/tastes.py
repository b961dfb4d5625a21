"""What simulated people gain from a decision: as the study's model says, or as a formula says of a list of people."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from voxpop.core.errors import Array
from voxpop.core.phases import Plan
from voxpop.core.problem import Problem
from voxpop.lab.populations.gp import GPPeople

HEIGHT = 0.7  # of the best decision above what was expected, as a share of what the norm bound allows


class Tastes(Protocol):
    """The tastes of people who are known by their numbers."""

    @property
    def mean(self) -> Array:
        """What people gain on average from each decision."""

    def averages(self, person: int, plan: Plan) -> Array:
        """Return a person's average reward from each arm of a phase."""


@dataclass(frozen=True, eq=False)
class ModelTastes:
    """People as the study's model describes them, around a smooth function with one best decision, drawn at random."""

    problem: Problem
    seed: int = 0

    @cached_property
    def mean(self) -> Array:
        """What people gain on average; its norm is within the study's bound, so that its certificates hold."""
        problem = self.problem
        best = problem.decisions.points[[np.random.default_rng(self.seed).integers(problem.size)]]
        height = HEIGHT * problem.norm_bound / np.sqrt(problem.kernel.diagonal(best)[0])
        return np.asarray(problem.prior_mean + height * problem.kernel(problem.decisions.points, best)[:, 0])

    def averages(self, person: int, plan: Plan) -> Array:
        """Draw a person's averages, which are the same if they are drawn again."""
        rng = np.random.default_rng([self.seed, person, plan.phase])
        return np.asarray(GPPeople(self.problem, self.mean).observe(plan, 1, rng)[0])


@dataclass(frozen=True, eq=False)
class ListedTastes:
    """People of whom it is known what each gains from each decision; a round adds noise."""

    rewards: Array  # (people, decisions)
    noise_std: float = 0.0
    seed: int = 0

    @cached_property
    def mean(self) -> Array:
        """What people gain on average."""
        return np.asarray(self.rewards.mean(axis=0))

    def averages(self, person: int, plan: Plan) -> Array:
        """Draw a person's averages, which are the same if they are drawn again."""
        rng = np.random.default_rng([self.seed, person, plan.phase])
        return np.asarray(
            self.rewards[person, plan.arms] + self.noise_std * rng.standard_normal(len(plan.arms)) / np.sqrt(plan.pulls)
        )
