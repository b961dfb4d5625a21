"""A source without noise, small problems, and slow but obvious computations, for the tests of privacy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

from tests.helpers import function_of_norm, random_problem
from voxpop.client import Promise
from voxpop.errors import Array
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.waves import Feedback, Plan
from voxpop.policies.dpbe import DPBE
from voxpop.privacy import Private, Simulated
from voxpop.privacy.aggregate import Aggregated
from voxpop.privacy.central import Central
from voxpop.privacy.local import Local
from voxpop.privacy.models import PRINTED
from voxpop.privacy.shuffle import Shuffled
from voxpop.privacy.sources import Integers
from voxpop.simulation.people import GPPeople
from voxpop.simulation.simulator import simulate_waves

MODELS = ("central", "local", "shuffle", "aggregate")
CALIBRATED = [(model, "exact") for model in MODELS] + [
    (model, printed) for model in MODELS if model in PRINTED for printed in ("paper", "paper-v")
]
DELTA = 1e-6
AnyRelease = Central | Local | Shuffled | Aggregated


SECOND = {"shuffle": {"shuffler": "http://shuffler"}, "aggregate": {"helper": "http://helper"}}


def promised(model: str, *given: Any, **more: Any) -> Promise:
    """Make a promise, with the shuffler or helper of the tests if the model needs one and none is given."""
    return Promise(model, *given, **{**SECOND.get(model, {}), **more})


def simulated(seed: int = 0) -> Simulated:
    return Simulated(np.random.default_rng(seed))


@dataclass(frozen=True)
class Silent:
    """A source without noise; rounding is to the nearest."""

    def gaussian(self, rows: int, columns: int, std: float) -> Integers:
        return np.zeros((rows, columns), dtype=np.int64)

    def binomial(self, rows: int, columns: int, trials: int, chance: float) -> Integers:
        return np.zeros((rows, columns), dtype=np.int64)

    def bernoulli(self, chances: Array) -> Integers:
        return (chances > 0.5).astype(np.int64)

    def bytes(self, count: int) -> bytes:
        return bytes(count)


@dataclass(frozen=True, eq=False)
class Case:
    """A wave to release, and the truth behind it."""

    problem: Problem
    state: State
    plan: Plan
    f: Array

    def answers(self, people: int, seed: int = 0) -> Array:
        """Draw the answers of people who follow the model, (people, arms)."""
        return GPPeople(self.problem, self.f).observe(self.plan, people, np.random.default_rng(seed))

    def release(self, privacy: Private) -> AnyRelease:
        made = privacy.calibrate(self.problem, self.state, self.plan)
        assert isinstance(made, AnyRelease)
        return made


def first_wave(people: int = 40, **changes: Any) -> Case:
    """Make a wave before which only the prior is known; f has the norm of its bound."""
    problem = random_problem(4, n=7, beta=0.01, **{"bias_std": 0.2, "prior_mean": 0.5, **changes})
    plan = Plan(3, np.array([1, 4, 0, 6]), np.array([2, 1, 5, 3]), people)
    f = 0.5 + function_of_norm(problem, problem.norm_bound, np.random.default_rng(8))
    return Case(problem, State.prior(problem, problem.norm_bound), plan, f)


def later_wave(seed: int, privacy: Private | None = None, people: int = 40) -> Case:
    """Make a wave with a released wave before it."""
    problem = random_problem(seed, n=7, beta=0.05, horizon=1000)
    f = function_of_norm(problem, problem.norm_bound, np.random.default_rng(seed))
    steps = simulate_waves(problem, DPBE(), GPPeople(problem, f), seed, privacy)
    state = [next(steps) for _ in range(4)][-1][1]
    return Case(problem, state, Plan(5, np.array([0, 3, 5]), np.array([6, 2, 8]), people), f)


def released(release: AnyRelease, answers: Array, source: Any) -> Feedback:
    return release.analyze(release.tally(release.randomize(answers, source)), source)


def hockey_stick(trials: int, chance: float, shift: Sequence[int], epsilon: float) -> float:
    """Sum (P - e^eps Q)+ over the whole support; P and Q are products of binomials, Q moved by `shift`."""
    P = Q = np.ones(())
    for move in shift:
        x = np.arange(-abs(move), trials + abs(move) + 1)
        P = np.multiply.outer(P, binom.pmf(x, trials, chance))
        Q = np.multiply.outer(Q, binom.pmf(x - move, trials, chance))
    return float(np.maximum(P - math.exp(epsilon) * Q, 0.0).sum())
