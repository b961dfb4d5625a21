"""Random problems, and slow but obvious formulas, for the tests of the theorems."""

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations_with_replacement

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import bisect

from reproduction.theory import largest_loss
from reproduction.wave_theory import arms_of_wave, quantile, reach_of, wave_bounds, waves_to
from tests.helpers import gram, random_problem, standard_posterior
from voxpop.errors import require_number
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


# Theorems that only tests need

CLOSE = 1e-3  # relative precision of the best accuracy; the bound is true for any


def best_accuracy(problem: Problem, cost: float, delta: float) -> float:
    """Find the accuracy that pays best if a number costs c: eps^3 = 43 c H (z v kappa)^2 / T.

    It minimises 2 eps T + 43 c H (z v kappa / eps)^2, the part of regret and cost that grows with the horizon, but for
    the slow growth of H and z, which are taken where they are needed. It is the largest loss if nothing pays.
    """
    cost = require_number("cost", cost, above=0)
    worst, scale = largest_loss(problem), _scale(problem, cost)

    def excess(log_accuracy: float) -> float:
        accuracy = math.exp(log_accuracy)
        arms = arms_of_wave(problem, accuracy / (4 * problem.norm_bound))
        return 3 * log_accuracy - math.log(scale * arms * quantile(problem, waves_to(worst, accuracy), delta) ** 2)

    least = math.cbrt(scale * quantile(problem, 1, delta) ** 2)  # as if one arm were enough
    if least >= worst or excess(math.log(worst)) <= 0:
        return worst
    return math.exp(float(bisect(excess, math.log(least) - CLOSE, math.log(worst), xtol=CLOSE)))


def total_bound(problem: Problem, cost: float, delta: float) -> float:
    """Bound regret plus c times the numbers, with probability 1 - delta, for waves that end with the best accuracy."""
    accuracy = best_accuracy(problem, cost, delta)
    without = largest_loss(problem) * problem.horizon
    if accuracy >= largest_loss(problem):
        return without
    found = wave_bounds(problem, accuracy, delta)
    return min(without, found.regret + cost * found.numbers)


def least_total(problem: Problem, cost: float) -> float:
    """Bound from below the regret plus c times the expected numbers, on some f, of anyone.

    It is 3/8 (2 c (v |h| T)^2)^(1/3) = 0.47 (c (v |h| T)^2)^(1/3), unless the norm bound allows no gap that large.
    """
    cost = require_number("cost", cost, above=0)
    reach, horizon = reach_of(problem), problem.horizon
    scale = cost * (problem.bias_std * reach) ** 2 / horizon
    gap = min(math.cbrt(2 * scale), problem.norm_bound * reach)
    return horizon * gap / 2 * (1 - gap**3 / (8 * scale))


def _scale(problem: Problem, cost: float) -> float:
    return 43 * cost * problem.bias_std**2 * problem.largest_variance / problem.horizon
