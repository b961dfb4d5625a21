"""Simulated populations that answer. The truth they carry is for `metrics` alone."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from voxpop.calibration.pilot import Pilot
from voxpop.errors import Array, InputError, require_array, require_integer, require_number
from voxpop.model.problem import Evidence, Indices, Problem
from voxpop.model.waves import Plan

Answer = Callable[[int, Indices, Indices, np.random.Generator], Array]


class Answering(ABC):
    """People who answer about one arm after the other where every round is answered by another person."""

    @abstractmethod
    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        """Draw the averages of new people, of shape (people, arms)."""

    @abstractmethod
    def observe_one(self, arm: int, rounds: int, rng: np.random.Generator) -> float:
        """Draw the average over some rounds of one arm that are each answered by a new person."""

    def observe_each(self, plan: Plan, rng: np.random.Generator) -> Array:
        """Draw the averages over rounds that are each answered by a new person, of shape (arms,)."""
        pairs = zip(plan.arms.tolist(), plan.pulls.tolist(), strict=True)
        return np.array([self.observe_one(arm, rounds, rng) for arm, rounds in pairs])


@dataclass(frozen=True)
class DrawnPeople(Answering):
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
        return self._asked(people, plan.arms, plan.pulls, rng)

    def observe_one(self, arm: int, rounds: int, rng: np.random.Generator) -> float:
        return float(self._asked(rounds, np.array([arm]), np.ones(1, dtype=np.intp), rng).mean())

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


@dataclass(frozen=True, eq=False)
class GPPeople(Answering):
    """People around the reward `f` (n,), with the problem's kernel, bias and noise.

    A person's averages are drawn exactly: deviation at the played arms plus noise averaged over the rounds is one
    Gaussian vector with covariance v^2 K + sigma^2 W^-1.
    """

    problem: Problem
    f: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "f", require_array("f", self.f))

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        mean, root = self.law(plan)
        return np.asarray(mean + rng.standard_normal((people, len(plan.arms))) @ root.T)

    def stay(self, people: int, rng: np.random.Generator) -> TablePeople:
        """Draw people who can be asked again."""
        every = np.arange(self.problem.size)
        root = square_root(self.problem.bias_std**2 * self.problem.covariance(every, every))
        rewards = self.f + rng.standard_normal((people, len(every))) @ root.T
        return TablePeople(rewards, self.problem.noise_std)

    def law(self, plan: Plan) -> tuple[Array, Array]:
        """Return the mean of a person's averages, and a root of their covariance."""
        return self.f[plan.arms], square_root(self.problem.answer_noise(plan.arms, plan.pulls))

    def observe_one(self, arm: int, rounds: int, rng: np.random.Generator) -> float:
        return self.f.item(arm) + rng.standard_normal() * self._deviation.item(arm) / math.sqrt(rounds)

    @cached_property
    def _deviation(self) -> Array:
        """The standard deviation of a new person's answer about each action in one round."""
        problem = self.problem
        return np.sqrt(problem.bias_std**2 * problem.prior_variance + problem.noise_std**2)


def square_root(covariance: Array) -> Array:
    """Compute a matrix R with R R' = covariance, for any positive semi-definite covariance."""
    try:
        return np.asarray(np.linalg.cholesky(covariance), dtype=float)
    except np.linalg.LinAlgError:  # nearly singular
        values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


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

    def stay(self, people: int, rng: np.random.Generator) -> TablePeople:
        """Draw some of these people, to be asked in every wave."""
        require_integer("people who answer in every wave", people, least=1, most=len(self))
        return self._only(np.sort(rng.permutation(len(self))[:people]))

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

    def averages(self, rows: Indices, arms: Indices | int, pulls: Indices | int, rng: np.random.Generator) -> Array:
        """Draw averages over `pulls` rounds of people in these rows at these arms, all broadcast to one shape."""
        rewards = self.rewards[rows, arms]
        if self.stakes is None:
            return np.asarray(rewards + self.noise_std / np.sqrt(pulls) * rng.standard_normal(rewards.shape))
        stakes = self.stakes[rows, arms]
        chances = np.divide(rewards, stakes, out=np.zeros_like(rewards), where=stakes != 0)
        return np.asarray(stakes * rng.binomial(pulls, np.clip(chances, 0.0, 1.0)) / pulls)


class Line(Answering):
    """People in random order, asked one after the other; once all were asked, they line up again in a new order."""

    def __init__(self, people: TablePeople, rng: np.random.Generator) -> None:
        self._people = people
        self._rng = rng
        self._order = rng.permutation(len(people))
        self._next = 0

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        return self._people.averages(self._take(people)[:, None], plan.arms, plan.pulls, rng)

    def observe_one(self, arm: int, rounds: int, rng: np.random.Generator) -> float:
        return float(self._people.averages(self._take(rounds), arm, 1, rng).mean())

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


@dataclass(frozen=True, eq=False)
class _Pattern:
    """People of the pilot who tried the same, given what they answered."""

    tried: Array  # (a, d) points
    counts: Array  # (a,) rounds
    answers: Array  # (people, a)
    means: Array  # (people, n) what to expect of each
    reach: Array  # (n, a) v^2 k(., X) A^(1/2): what their answers took away from the covariance
    spread: Array  # (n,) the standard deviation of one round


@dataclass(frozen=True, eq=False)
class ResampledPeople(Answering):
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
            own = np.maximum(problem.bias_std**2 * problem.prior_variance - (reach**2).sum(axis=1), 0.0)
            spread = np.sqrt(own + problem.noise_std**2)
            found.append(_Pattern(tried, counts, answers, means, reach, spread))
        return found

    @property
    def mean(self) -> Array:
        """The truth: the mean reward of this population for each action."""
        return np.asarray(self._means.mean(axis=0))

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        return self._drawn(plan.arms, self.problem.answer_noise(plan.arms, plan.pulls), people, rng)

    def stay(self, people: int, rng: np.random.Generator) -> TablePeople:
        """Draw people who can be asked again."""
        every = np.arange(self.problem.size)
        own = self.problem.bias_std**2 * self.problem.covariance(every, every)
        return TablePeople(self._drawn(every, own, people, rng), self.problem.noise_std)

    def _drawn(self, arms: Indices, covariance: Array, people: int, rng: np.random.Generator) -> Array:
        """Draw people's averages, of which the pilot's answers took something away from the covariance."""
        who = rng.integers(len(self._means), size=people)
        answers = self._means[np.ix_(who, arms)]
        for kind, pattern in enumerate(self._patterns):
            places = np.flatnonzero(self._kinds[who] == kind)
            spread = covariance - pattern.reach[arms] @ pattern.reach[arms].T
            answers[places] += rng.standard_normal((len(places), len(arms))) @ square_root(spread).T
        return answers

    def observe_one(self, arm: int, rounds: int, rng: np.random.Generator) -> float:
        who = rng.integers(len(self._means), size=rounds)
        spread = np.array([pattern.spread[arm] for pattern in self._patterns])[self._kinds[who]]
        return float((self._means[who, arm] + spread * rng.standard_normal(rounds)).mean())

    @cached_property
    def _means(self) -> Array:
        """What to expect of each person of the pilot, (people, n)."""
        return np.concatenate([pattern.means for pattern in self._patterns])

    @cached_property
    def _kinds(self) -> Indices:
        """The number of each person's pattern."""
        return np.repeat(np.arange(len(self._patterns)), [len(pattern.means) for pattern in self._patterns])

    def pilot_again(self, rng: np.random.Generator) -> tuple[Evidence, ...]:
        """Draw the pilot's people again, with replacement, and return what this other pilot found."""
        found = []
        for each in self._patterns:
            count = len(each.answers)
            again = each.answers[rng.integers(count, size=count)]
            found.append(Evidence(each.tried, each.counts, count, again.mean(axis=0)))
        return tuple(found)


@dataclass(frozen=True)
class Segment:
    """A kind of customer: log-normal reservation prices around a median."""

    share: float
    median: float
    spread: float  # standard deviation of the logarithm


SEGMENTS = (Segment(0.35, 3.4, 0.25), Segment(0.45, 5.6, 0.25), Segment(0.20, 9.0, 0.35))


@dataclass(frozen=True, eq=False)
class Customers(Answering):
    """The customers of a shop, not Gaussian at all; an action is a price, its reward the profit on one occasion.

    A customer belongs to a segment and carries a personal reservation price, which varies a little from one occasion to
    the next. At price p a customer buys if today's reservation price is at least p; the seller earns p - unit_cost.
    """

    prices: Array  # (n,)
    unit_cost: float = 1.5
    mood: float = 0.12  # standard deviation of the logarithm from one occasion to the next
    segments: tuple[Segment, ...] = SEGMENTS

    @cached_property
    def demand(self) -> Array:
        """The chance that a random customer buys at each price, in closed form."""
        buys = [
            segment.share * ndtr(np.log(segment.median / self.prices) / np.hypot(segment.spread, self.mood))
            for segment in self.segments
        ]
        return np.asarray(np.sum(buys, axis=0))

    @property
    def profit(self) -> Array:
        """The truth: the population's mean profit at each price."""
        return np.asarray((self.prices - self.unit_cost) * self.demand)

    mean = profit  # as other populations call it

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        prices = self.prices[plan.arms]
        bought = rng.binomial(plan.pulls, self._chances(prices, people, rng))
        return np.asarray((prices - self.unit_cost) * bought / plan.pulls)

    def stay(self, people: int, rng: np.random.Generator) -> TablePeople:
        """Draw customers who can be asked again."""
        stakes = self.prices - self.unit_cost
        return TablePeople(stakes * self._chances(self.prices, people, rng), stakes=stakes)

    def _chances(self, prices: Array, people: int, rng: np.random.Generator) -> Array:
        """Draw customers; return the chance that each buys at each price, (people, prices)."""
        kinds = rng.choice(len(self.segments), size=people, p=[segment.share for segment in self.segments])
        medians = np.array([segment.median for segment in self.segments])[kinds]
        spreads = np.array([segment.spread for segment in self.segments])[kinds]
        personal = np.log(medians) + spreads * rng.standard_normal(people)  # log of the reservation price
        return np.asarray(ndtr((personal[:, None] - np.log(prices)) / self.mood))

    def observe_one(self, arm: int, rounds: int, rng: np.random.Generator) -> float:
        bought = rng.binomial(rounds, self.demand.item(arm))
        return (self.prices.item(arm) - self.unit_cost) * bought / rounds


@dataclass(frozen=True, eq=False)
class SeveralMetrics(Answering):
    """People who answer about several metrics; a report has the numbers of one metric after those of another.

    Each metric has its problem and its truth, and `correlation` says how a person's answers about two of them vary
    together, (metrics, metrics).
    """

    metrics: tuple[GPPeople, ...]
    correlation: Array

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        laws = [metric.law(plan) for metric in self.metrics]
        alike = square_root(self.correlation) @ rng.standard_normal((people, len(laws), len(plan.arms)))
        drawn = [mean + alike[:, place] @ root.T for place, (mean, root) in enumerate(laws)]
        return np.concatenate(drawn, axis=1)

    def observe_one(self, arm: int, rounds: int, rng: np.random.Generator) -> float:
        raise InputError("people with several metrics are not asked one by one; use waves")


def people_of(problem: Problem, truths: Sequence[Array]) -> GPPeople | SeveralMetrics:
    """Return people as the model describes them, around a truth for each metric."""
    each = tuple(map(GPPeople, problem.metrics, truths))
    return SeveralMetrics(each, problem.correlation) if problem.guardrails else each[0]
