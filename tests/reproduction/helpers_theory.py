"""Random problems, and slow but obvious formulas, for the tests of the theorems."""

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations_with_replacement

import numpy as np
from hypothesis import strategies as st

from tests.helpers import gram, random_problem, standard_posterior
from voxpop.gp.selection import BatchRule, Selection
from voxpop.model.kernels import Linear, Matern, SquaredExponential
from voxpop.model.problem import Indices, Problem
from voxpop.simulation.runs import Scenario
from voxpop.simulation.scenarios import Options, make_scenario

RULES: list[BatchRule] = ["corrected", "printed", "single"]
BATCHED: list[BatchRule] = ["corrected", "printed"]
RULE_OF: dict[str, BatchRule] = {"dpbe": "corrected", "dpbe-paper": "printed", "dpbe-nobatching": "single"}
ROUNDING = 1 + 1e-7

kernels = st.one_of(
    st.floats(0.05, 2).map(SquaredExponential),
    st.floats(0.05, 2).map(lambda scale: 2.5 * Matern(scale, nu=1.5)),
    st.floats(0.1, 2).map(lambda offset: Linear(offset=offset)),
    st.just(Linear()),  # singular for two actions and more on a line
)
ridges = st.floats(-3, 1).map(lambda exponent: 10.0**exponent)


@st.composite
def problems(draw: st.DrawFn, most: int = 8) -> Problem:
    """Random actions, kernels and ridges."""
    size, dimension = draw(st.integers(1, most)), draw(st.integers(1, 3))
    return random_problem(draw(st.integers(0, 10**6)), size, dimension, draw(kernels), ridge=draw(ridges))


def gain_of(problem: Problem, rounds: Sequence[int] | Indices) -> float:
    """1/2 ln det(I + W K / lambda), with the rounds of every action."""
    matrix = np.eye(problem.size) + np.asarray(rounds)[:, None] * gram(problem) / problem.ridge
    return float(np.linalg.slogdet(matrix).logabsdet) / 2


def best_gain(problem: Problem, rounds: int) -> float:
    """Compute gamma_T by trying every multiset of actions."""
    n = problem.size
    choices = combinations_with_replacement(range(n), rounds)
    return max(gain_of(problem, np.bincount(choice, minlength=n)) for choice in choices)


def first_gain(problem: Problem) -> float:
    return math.log1p(float(gram(problem).diagonal().max()) / problem.ridge) / 2


def left_variance(problem: Problem, chosen: Selection, active: Indices) -> float:
    """Compute the largest variance of an active action after the rounds of a selection, played one by one."""
    played = np.repeat(chosen.arms, chosen.pulls)
    return float(standard_posterior(problem, played, np.zeros(len(played)))[1][active].max())


@cache
def synthetic(seed: int = 0, horizon: int = 40_000) -> Scenario:
    return make_scenario("synthetic", Options(seed=seed, horizon=horizon))


LINE = np.linspace(0.1, 1, 8)
APART = Problem(LINE, SquaredExponential(1e-3), math.sqrt(0.3), 1.0, norm_bound=1.0, horizon=100)  # lambda = 0.3
