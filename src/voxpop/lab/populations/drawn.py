"""People drawn anew for every answer, by a function: the shortest way to one's own people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from voxpop.core.errors import Array, InputError, require_array
from voxpop.core.phases import Plan
from voxpop.core.problem import Indices

Answer = Callable[[int, Indices, Indices, np.random.Generator], Array]


@dataclass(frozen=True)
class DrawnPeople:
    """People of whom there are always more.

    `answer(people, arms, rounds, rng)` draws that many new people and returns what each gained on average from each
    arm, over its rounds, as a matrix (people, arms). Arms are numbers of decisions.

    >>> def answer(people, arms, rounds, rng):
    ...     return rng.normal(np.array([1.0, 2.0, 1.5])[arms], 0.3, size=(people, len(arms)))
    >>> people = DrawnPeople(answer)
    >>> people.observe(Plan(1, np.array([0, 2]), np.array([1, 1]), 5), 5, np.random.default_rng(0)).shape
    (5, 2)
    >>> people.estimate(3).round(1)
    array([1. , 2. , 1.5])
    """

    answer: Answer

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        """Draw the averages of new people, of shape (people, arms)."""
        return self._asked(people, plan.arms, plan.pulls, rng)

    def observe_each(self, plan: Plan, rng: np.random.Generator) -> Array:
        """Draw the averages over rounds that are each answered by a new person, of shape (arms,)."""
        once = np.ones(1, dtype=np.intp)
        pairs = zip(plan.arms, plan.pulls.tolist(), strict=True)
        return np.array([self._asked(rounds, np.array([arm]), once, rng).mean() for arm, rounds in pairs])

    def estimate(self, size: int, people: int = 20_000, rounds: int = 100, seed: int = 0) -> Array:
        """Estimate the truth about all `size` decisions from many people; the studies of a simulation never see it."""
        every, rng, total = np.arange(size), np.random.default_rng(seed), np.zeros(size)
        left = people
        while left > 0:  # a million answers at a time
            some = min(left, max(1, 1_000_000 // size))
            total += self._asked(some, every, np.full(size, rounds), rng).sum(axis=0)
            left -= some
        return total / people

    def _asked(self, people: int, arms: Indices, rounds: Indices, rng: np.random.Generator) -> Array:
        found = require_array("the answers", self.answer(people, arms, rounds, rng))
        if found.shape != (people, len(arms)):
            raise InputError(f"the answers must have the shape (people, arms), {people, len(arms)}, got {found.shape}")
        return found
