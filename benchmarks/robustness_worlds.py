"""Problems, functions that are hard to find the best action of, and people of several kinds, for `robustness.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from voxpop.errors import Array
from voxpop.gp.widths import AffineEstimator
from voxpop.model.kernels import Matern, SquaredExponential
from voxpop.model.problem import Indices, Problem
from voxpop.model.waves import Plan
from voxpop.policies.waves import Waves
from voxpop.policies.waves.sealing import factor
from voxpop.simulation.people import DrawnPeople, GPPeople, square_root

HORIZON = 20_000


# Problems and functions of norm B


def line(seed: int) -> Problem:
    """61 to 101 actions on a line."""
    rng = np.random.default_rng(seed)
    kernel = [SquaredExponential(0.15), Matern(0.2, nu=2.5)][seed % 2]
    return Problem(np.linspace(0, 1, int(rng.integers(61, 102))), kernel, 0.3, 0.3, 1.0, HORIZON)


def plane(seed: int) -> Problem:
    """80 random actions on a square."""
    points = np.random.default_rng(seed).uniform(size=(80, 2))
    return Problem(points, SquaredExponential(0.3), 0.3, 0.3, 1.0, HORIZON)


def gram(problem: Problem) -> Array:
    every = np.arange(problem.size)
    return problem.covariance(every, every)


def of_norm(problem: Problem, weights: Array, norm: float) -> Array:
    """Return the function sum w_x k(x, .), scaled to a norm."""
    K = gram(problem)
    return np.asarray(norm * K @ weights / np.sqrt(weights @ K @ weights))


def random(problem: Problem, rng: np.random.Generator) -> Array:
    return of_norm(problem, rng.standard_normal(problem.size), problem.norm_bound)


def first_wave(problem: Problem) -> Plan:
    """Return the first wave, which is known before anyone answers."""
    policy = Waves()
    return cast(Plan, policy.plan(problem, policy.init(problem)))


def unseen(problem: Problem, arms: Indices, x: int) -> Array:
    """Return weights of the function that vanishes on the arms and is largest at x for its norm."""
    K, weights = gram(problem), np.zeros(problem.size)
    weights[x] = 1.0
    weights[arms] -= np.linalg.lstsq(K[np.ix_(arms, arms)], K[arms, x], rcond=1e-10)[0]
    return weights


def farthest(problem: Problem, arms: Indices, rng: np.random.Generator) -> int:
    """Return one of the three actions about which the arms say the least."""
    K = gram(problem)
    left = K.diagonal() - np.sum(K[arms] * np.linalg.lstsq(K[np.ix_(arms, arms)], K[arms], rcond=1e-10)[0], axis=0)
    return int(rng.choice(np.argsort(left)[-3:]))


def hidden(problem: Problem, rng: np.random.Generator) -> Array:
    """Return a function that vanishes on all arms of the first wave."""
    arms = first_wave(problem).arms
    return of_norm(problem, unseen(problem, arms, farthest(problem, arms, rng)), problem.norm_bound)


def plateau(problem: Problem, rng: np.random.Generator) -> Array:
    """Return a plateau on half of the first wave's arms, with a peak that the first wave cannot see."""
    arms, K, B = first_wave(problem).arms, gram(problem), problem.norm_bound
    peak, flat = unseen(problem, arms, farthest(problem, arms, rng)), np.zeros(problem.size)
    height = np.where(problem.decisions.points[arms, 0] < 0.5, 1.0, 0.0)
    flat[arms] = np.linalg.lstsq(K[np.ix_(arms, arms)], height, rcond=1e-10)[0]
    return of_norm(problem, flat, 0.8 * B) + of_norm(problem, peak, 0.6 * B)  # orthogonal: the squares add up


def tight(problem: Problem, rng: np.random.Generator) -> Array:
    """Return the function whose lead at its maximum the first wave underestimates most: by all that B allows."""
    plan, every = first_wave(problem), np.arange(problem.size)
    noise = problem.answer_noise(plan.arms, plan.pulls, plan.people)
    estimator = AffineEstimator(problem, plan.arms, noise, None, factor(0.015))
    found = estimator.values_and_gaps(every, plan.reference, problem.norm_bound)[1]
    for x in np.argsort(-found.width).tolist():
        weights = np.zeros(problem.size)
        weights[x] += 1.0
        weights[plan.reference] -= 1.0
        np.subtract.at(weights, plan.arms, found.weights[x])
        f = of_norm(problem, weights, problem.norm_bound)
        if f.argmax() == x:
            return f
    raise RuntimeError("no action is the maximum of the function that is worst for it")


def spiky(given: Problem, truth: Problem, rng: np.random.Generator) -> Array:
    """Return something smooth, with a spike that is the best of all and vanishes on the arms of the first wave.

    The spike is as narrow as the true kernel allows. The random arms of the first wave may still find it.
    """
    policy = Waves(checks=0)
    arms = cast(Plan, policy.plan(given, policy.init(given))).arms
    smooth = of_norm(replace(truth, kernel=SquaredExponential(0.3)), rng.standard_normal(truth.size), 1.0)
    smooth /= np.ptp(smooth)
    x = farthest(truth, arms, rng)
    spike = gram(truth) @ unseen(truth, arms, x)
    return np.asarray(smooth + (smooth.max() - smooth[x] + 0.15) * spike / spike[x])


# People


def buyers(prices: Array, chance: Array, root: Array) -> DrawnPeople:
    """Make people who buy or do not: at price p, a person with deviation g(p) buys with probability chance + g.

    The covariance of g has the given root.
    """

    def answer(people: int, arms: Indices, rounds: Indices, rng: np.random.Generator) -> Array:
        own = rng.standard_normal((people, len(root))) @ root[arms].T
        return np.asarray(prices[arms] * rng.binomial(rounds, np.clip(chance[arms] + own, 0, 1)) / rounds)

    return DrawnPeople(answer)


def scaled(f: Array, noise_std: float, factor: Callable[[np.random.Generator, int], Array]) -> DrawnPeople:
    """Make people whose rewards are those of the population times a factor of their own, of mean one."""

    def answer(people: int, arms: Indices, rounds: Indices, rng: np.random.Generator) -> Array:
        own = factor(rng, people)[:, None] * f[arms]
        return np.asarray(own + noise_std / np.sqrt(rounds) * rng.standard_normal(own.shape))

    return DrawnPeople(answer)


Draw = Callable[[np.random.Generator, Array], Array]  # one round's rewards from everyone's means, (people, arms)
ODD: dict[str, Draw] = {
    "yes or no": lambda rng, mean: np.where(rng.random(mean.shape) < mean, 1.0, 0.0),
    "rare and large": lambda rng, mean: (
        np.where(rng.random(mean.shape) < 0.05, 20.0, 0.0) * mean * rng.exponential(size=(len(mean), 1))
    ),
    "two clusters": lambda rng, mean: mean * np.where(rng.random((len(mean), 1)) < 0.3, 2.4, 0.4),
    "Student's t, 3": lambda rng, mean: (
        mean + 0.3 * rng.standard_t(3, mean.shape) + 0.2 * rng.standard_t(3, (len(mean), 1))
    ),
    "spread that grows with the mean": lambda rng, mean: (
        mean * (1 + rng.standard_normal((len(mean), 1))) + 0.5 * mean * rng.standard_normal(mean.shape)
    ),
}


def odd_people(kind: str, f: Array) -> tuple[DrawnPeople, Array]:
    """Make people who are not Gaussian, and return what they earn on average: f, scaled to 0.05 to 0.95."""
    f = 0.05 + 0.9 * (f - f.min()) / np.ptp(f)

    def answer(people: int, arms: Indices, rounds: Indices, rng: np.random.Generator) -> Array:
        mean = np.broadcast_to(f[arms], (people, len(arms)))
        return np.asarray(np.mean([ODD[kind](rng, mean) for _ in range(int(rounds.max()))], axis=0), dtype=float)

    return DrawnPeople(answer), f


class InWaves:
    """People who are asked in waves only."""

    def observe_each(self, plan: Plan, rng: np.random.Generator) -> Array:
        raise NotImplementedError


@dataclass(eq=False)
class Unsteady(InWaves):
    """Gaussian people, with a shock to every arm that all of them share in a wave, or f on a random walk."""

    people: GPPeople
    seed: int
    shock: float = 0.0  # in units of v / sqrt(U)
    drift: float = 0.0

    def __post_init__(self) -> None:
        self.now, self.wave = self.people.f.copy(), 0

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        shared = np.random.default_rng([self.seed, plan.wave])
        problem = self.people.problem
        unit = problem.bias_std / np.sqrt(plan.people)
        answers = self.people.observe(plan, people, rng) - self.people.f[plan.arms] + self.now[plan.arms]
        if self.wave < plan.wave:  # from now on; this wave's people answered before
            self.wave = plan.wave
            self.now = self.now + self.drift * unit * square_root(gram(problem)) @ shared.standard_normal(problem.size)
        return np.asarray(answers + self.shock * unit * shared.standard_normal(len(plan.arms)))


@dataclass(eq=False)
class Town(InWaves):
    """A finite population, in random order; nobody is asked twice."""

    rewards: Array  # (people, n)
    noise_std: float

    def __post_init__(self) -> None:
        self.asked = 0

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        own = self.rewards[self.asked : self.asked + people, plan.arms]
        assert len(own) == people, "more people were asked than there are"
        self.asked += people
        return np.asarray(own + self.noise_std / np.sqrt(plan.pulls) * rng.standard_normal(own.shape))
