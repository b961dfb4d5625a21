"""What simulated people gain from a decision: as the study's model says, or as a formula says of a list of people."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from voxpop.errors import Array
from voxpop.gp.belief import believe
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.simulation.people import GPPeople
from voxpop.simulation.trials import MOST_DECISIONS, truth_of

HEIGHT = 0.7  # of the best decision above what was expected, as a share of what the norm bound allows


class Tastes(Protocol):
    """The tastes of people who are known by their numbers."""

    @property
    def mean(self) -> Array:
        """What people gain on average from each decision."""

    @property
    def origin(self) -> str:
        """Where these tastes come from, for people to read."""

    def averages(self, person: int, plan: Plan) -> Array:
        """Return a person's average reward from each arm of a wave."""


@dataclass(frozen=True, eq=False)
class ModelTastes:
    """People as the study's model describes them, around a truth that is drawn at random.

    If the study has a pilot, the truth is drawn from what the pilot says: people who contradict it would rightly fail
    the model check. Otherwise it is a smooth function with one best decision.
    """

    problem: Problem
    seed: int = 0

    @cached_property
    def mean(self) -> Array:
        """What people gain on average; without a pilot its norm is within the study's bound."""
        problem = self.problem
        if problem.pilot:
            too_many = problem.size > MOST_DECISIONS  # to draw from; the estimate itself is as plausible
            return believe(problem).mean if too_many else truth_of(problem, self.seed)
        best = problem.decisions.points[[np.random.default_rng(self.seed).integers(problem.size)]]
        height = HEIGHT * problem.norm_bound / np.sqrt(problem.kernel.diagonal(best)[0])
        return np.asarray(problem.prior_mean + height * problem.kernel(problem.decisions.points, best)[:, 0])

    @property
    def origin(self) -> str:
        """What the truth was drawn from."""
        drawn = "what the study's pilot says" if self.problem.pilot else "the study's assumptions, as it has no pilot"
        return f"around a truth drawn from {drawn} (seed {self.seed})"

    def averages(self, person: int, plan: Plan) -> Array:
        """Draw a person's averages, which are the same if they are drawn again."""
        rng = np.random.default_rng([self.seed, person, plan.wave])
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

    @property
    def origin(self) -> str:
        """Who these people are."""
        return f"of {len(self.rewards):,} people in a file, by a formula"

    def averages(self, person: int, plan: Plan) -> Array:
        """Draw a person's averages, which are the same if they are drawn again."""
        rng = np.random.default_rng([self.seed, person, plan.wave])
        return np.asarray(
            self.rewards[person, plan.arms] + self.noise_std * rng.standard_normal(len(plan.arms)) / np.sqrt(plan.pulls)
        )
