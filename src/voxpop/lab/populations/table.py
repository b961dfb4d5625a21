"""People of whom there is a list: what each of them gains from each action on average."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from voxpop.core.errors import Array, InputError, require_array, require_integer, require_number
from voxpop.core.phases import Plan
from voxpop.core.problem import Indices


@dataclass(frozen=True, eq=False)
class TablePeople:
    """A row of mean rewards for each person. In a run each person is asked once, until all of them were asked.

    A round adds Gaussian noise of standard deviation `noise_std`; or, with `stakes`, it pays the action's stake or
    nothing, and the mean reward is the stake times the chance of it, such as a margin times the chance of a purchase.
    Stakes are those of the actions, the same for all people, or each person has their own.

    >>> people = TablePeople([[1.0, 0.0], [3.0, 1.0], [2.0, 5.0]])
    >>> people.mean
    array([2., 2.])
    >>> plan = Plan(1, np.array([1]), np.array([4]), people=3)
    >>> sorted(people.observe(plan, 3, np.random.default_rng(0))[:, 0].tolist())
    [0.0, 1.0, 5.0]
    """

    rewards: Array  # (people, actions)
    noise_std: float = 0.0
    stakes: Array | None = None  # (actions,) as they are given, or (people, actions)

    def __post_init__(self) -> None:
        rewards = require_array("the people's rewards", self.rewards)
        if rewards.ndim != 2 or 0 in rewards.shape:
            raise InputError(f"the people's rewards must have the shape (people, actions), got {rewards.shape}")
        object.__setattr__(self, "rewards", rewards)
        require_number("noise_std", self.noise_std, least=0)
        if self.stakes is not None:
            object.__setattr__(self, "stakes", self._checked_stakes())

    def _checked_stakes(self) -> Array:
        stakes = require_array("stakes", self.stakes)
        people, actions = self.rewards.shape
        if stakes.shape not in ((actions,), (people, actions)):
            raise InputError(
                f"stakes must be one number per action, {actions}, or one per person and action, "
                f"({people}, {actions}), got shape {stakes.shape}"
            )
        if self.noise_std:
            raise InputError(f"give stakes or a noise_std, not both; got a noise_std of {self.noise_std:g}")
        stakes = np.broadcast_to(stakes, self.rewards.shape)
        outside = (self.rewards * np.sign(stakes) < 0) | (np.abs(self.rewards) > np.abs(stakes) * (1 + 1e-9))
        if outside.any():
            person, action = np.argwhere(outside)[0].tolist()
            raise InputError(
                f"a mean reward must lie between 0 and the action's stake, got {self.rewards[person, action]:g} for "
                f"a stake of {stakes[person, action]:g} (person {person}, action {action})"
            )
        return stakes

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def mean(self) -> Array:
        """The truth: the mean reward of all these people for each action."""
        return np.asarray(self.rewards.mean(axis=0))

    def split(self, people: int, rng: np.random.Generator) -> tuple[TablePeople, TablePeople]:
        """Draw some people at random; return them, and the others."""
        require_integer("people to draw", people, least=1, most=len(self) - 1)
        order = rng.permutation(len(self))
        return self._only(order[:people]), self._only(order[people:])

    def _only(self, rows: Indices) -> TablePeople:
        stakes = None if self.stakes is None else self.stakes[rows]
        return replace(self, rewards=self.rewards[rows], stakes=stakes)

    def in_line(self, rng: np.random.Generator) -> Line:
        """Let the people stand in line, in random order, for one run."""
        return Line(self, rng)

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        """Draw the averages of people drawn at random, of shape (people, arms)."""
        return self.in_line(rng).observe(plan, people, rng)

    def observe_each(self, plan: Plan, rng: np.random.Generator) -> Array:
        """Draw the averages over rounds that are each answered by another person, of shape (arms,)."""
        return self.in_line(rng).observe_each(plan, rng)

    def averages(self, rows: Indices, arms: Indices, pulls: Indices | int, rng: np.random.Generator) -> Array:
        """Draw averages over `pulls` rounds of people in these rows at these arms, all broadcast to one shape."""
        rewards = self.rewards[rows, arms]
        if self.stakes is None:
            return np.asarray(rewards + self.noise_std / np.sqrt(pulls) * rng.standard_normal(rewards.shape))
        stakes = self.stakes[rows, arms]
        chances = np.divide(rewards, stakes, out=np.zeros_like(rewards), where=stakes != 0)
        return np.asarray(stakes * rng.binomial(pulls, np.clip(chances, 0.0, 1.0)) / pulls)


class Line:
    """People in random order, asked one after the other; once all were asked, they line up again in a new order."""

    def __init__(self, people: TablePeople, rng: np.random.Generator) -> None:
        self._people = people
        self._rng = rng
        self._order = rng.permutation(len(people))
        self._next = 0

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        """Draw the averages of the next people, of shape (people, arms)."""
        return self._people.averages(self._take(people)[:, None], plan.arms, plan.pulls, rng)

    def observe_each(self, plan: Plan, rng: np.random.Generator) -> Array:
        """Draw the averages over rounds that are each answered by the next person, of shape (arms,)."""
        means = []
        for arm, rounds in zip(plan.arms, plan.pulls.tolist(), strict=True):
            means.append(self._people.averages(self._take(rounds), arm, 1, rng).mean())
        return np.array(means)

    def _take(self, count: int) -> Indices:
        """Return the rows of the next people in line."""
        parts: list[Indices] = []
        while count > 0:
            if self._next == len(self._order):
                self._order, self._next = self._rng.permutation(len(self._people)), 0
            part = self._order[self._next : self._next + count]
            self._next += len(part)
            count -= len(part)
            parts.append(part)
        return np.concatenate(parts)
