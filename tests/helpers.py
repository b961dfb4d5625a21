"""Small random problems, and slow but obvious formulas to compare with."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from voxpop.errors import Array
from voxpop.gp import factor
from voxpop.gp import selection as lazy
from voxpop.journal.question import Question
from voxpop.model.kernels import Kernel, SquaredExponential
from voxpop.model.problem import Evidence, Indices, Problem
from voxpop.model.state import State
from voxpop.model.waves import Feedback, Info, Plan
from voxpop.policies import POLICIES, Policy
from voxpop.policies.botorch import installed

RUNNABLE = [name for name in POLICIES if name != "botorch" or installed()]


def own(state: State) -> Any:
    """Return a state as its own policy knows it."""
    return state


def random_problem(seed: int, n: int = 12, d: int = 2, kernel: Kernel | None = None, **changes: Any) -> Problem:
    points = np.random.default_rng(seed).uniform(size=(n, d))
    known: dict[str, Any] = {"noise_std": 0.1, "bias_std": 0.3, "norm_bound": 1.0, "horizon": 100}
    known = {**known, "shock_std": 0.0, **changes}
    return Problem(points, kernel or SquaredExponential(0.3), **known)


def evidence(points: ArrayLike, rounds: ArrayLike, people: int, mean: ArrayLike) -> Evidence:
    return Evidence(np.array(points, float), np.array(rounds, float), people, np.array(mean, float))


def everything(problem: Problem) -> Indices:
    return np.arange(problem.size)


def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make even small problems use several tiles, several panels, a small frontier, and a frontier of that frontier."""
    monkeypatch.setattr(lazy, "FRONTIER", 16)
    monkeypatch.setattr(lazy, "LEAST_FRONTIER", 3)
    monkeypatch.setattr(lazy, "NESTED", 8)
    monkeypatch.setattr(lazy, "PANEL", 8)
    monkeypatch.setattr(factor, "PANEL", 8)
    monkeypatch.setattr(factor, "TILE", 37)
    monkeypatch.setattr(factor, "CACHED", 100)


def gram(problem: Problem) -> Array:
    points = problem.decisions.points
    return problem.kernel(points, points)


def standard_posterior(problem: Problem, played: Indices, y: Array) -> tuple[Array, Array]:
    """eq:standard_mu_update and eq:standard_sigma_update at every action, one row for each round played."""
    K = gram(problem)
    cross = K[played]  # (rounds, n)
    weights = np.linalg.solve(K[np.ix_(played, played)] + problem.ridge * np.eye(len(played)), cross)
    return weights.T @ y, K.diagonal() - np.sum(cross * weights, axis=0)


def function_of_norm(problem: Problem, norm: float, rng: np.random.Generator) -> Array:
    """Return the values at the actions of a random function of exactly this RKHS norm."""
    K, weights = gram(problem), rng.standard_normal(problem.size)
    return np.asarray(norm * K @ weights / np.sqrt(weights @ K @ weights))


def worst_function(problem: Problem, arms: Indices, weights: Array, x: int) -> Array:
    """Return the function of norm B whose value at x is farthest from the weighted sum of its values at the arms."""
    K = gram(problem)
    direction = np.zeros(problem.size)
    direction[x] += 1.0
    direction[arms] -= weights
    return np.asarray(problem.norm_bound * K @ direction / np.sqrt(direction @ K @ direction))


def drive(
    policy: Policy, problem: Problem, answer: Callable[[Plan], Feedback]
) -> Iterator[tuple[State, Plan, Feedback, State, Info]]:
    """Run a policy on given feedback; yield (before, plan, feedback, after, info) for each wave."""
    state = policy.init(problem)
    while isinstance(plan := policy.plan(problem, state), Plan):
        feedback = answer(plan)
        after, info = policy.advance(problem, state, plan, feedback)
        yield state, plan, feedback, after, info
        state = after


def unordered(question: Question | None) -> Question | None:
    """Return a question without its order of play, which is random."""
    return None if question is None else replace(question, order=())
