"""The bound on the information gain: above every gain that was found, and close to it."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reproduction import theory
from tests.helpers import everything
from tests.reproduction.helpers_theory import (
    APART,
    LINE,
    ROUNDING,
    RULES,
    best_gain,
    first_gain,
    gain_of,
    problems,
    synthetic,
)
from voxpop.errors import Array
from voxpop.gp.selection import BatchRule, select
from voxpop.model.kernels import Kernel, Linear, Matern, SquaredExponential
from voxpop.model.problem import Problem


@given(problem=problems(most=4), rounds=st.integers(1, 6))
def test_the_information_gain_is_an_upper_bound_on_every_choice_of_actions(problem: Problem, rounds: int) -> None:
    bound = theory.information_gain_bound(problem, rounds)
    assert best_gain(problem, rounds) <= bound * ROUNDING
    assert bound <= rounds * first_gain(problem) * ROUNDING


@given(problem=problems(most=15), rounds=st.integers(1, 3000), seed=st.integers(0, 1000), rule=st.sampled_from(RULES))
def test_the_information_gain_is_an_upper_bound_on_what_was_found(
    problem: Problem, rounds: int, seed: int, rule: BatchRule
) -> None:
    assume(rule != "single" or rounds <= 300)
    bound = theory.information_gain_bound(problem, rounds)
    rng = np.random.default_rng(seed)
    for concentration in (0.05, 1.0, 20.0):
        shares = rng.dirichlet(np.full(problem.size, concentration))
        assert gain_of(problem, rng.multinomial(rounds, shares)) <= bound * ROUNDING
    greedy = select(problem, everything(problem), rounds, 1.3, rule)
    pulls = np.zeros(problem.size, dtype=np.intp)
    pulls[greedy.arms] = greedy.pulls
    assert gain_of(problem, pulls) <= bound * ROUNDING
    assert bound <= rounds * first_gain(problem) * ROUNDING


def clustered(kernel: Kernel) -> Problem:
    """Put most actions close together, so that equal shares are far from the best."""
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(0.5, 0.01, size=(90, 2)), rng.uniform(size=(10, 2))])
    return Problem(points, kernel, 0.01, 0.1, norm_bound=1.0, horizon=40_000)


CROWDS: dict[str, Callable[[], Problem]] = {
    "synthetic": lambda: synthetic().problem,
    "cluster": lambda: clustered(SquaredExponential(0.2)),
    "rough cluster": lambda: clustered(Matern(0.2, nu=1.5)),
    "three dimensions": lambda: clustered(Linear(offset=0.3)),
}


@pytest.mark.parametrize("rounds", [1000, 40_000])
@pytest.mark.parametrize("name", CROWDS)
def test_the_information_gain_is_within_two_percent_of_an_allocation(name: str, rounds: int) -> None:
    problem = CROWDS[name]()
    pulls = np.zeros(problem.size, dtype=np.intp)
    chosen = select(problem, everything(problem), rounds, 1.05)
    pulls[chosen.arms] = chosen.pulls
    found = gain_of(problem, pulls)
    assert found <= theory.information_gain_bound(problem, rounds) * ROUNDING
    assert theory.information_gain_bound(problem, rounds) <= 1.02 * found


ALIKE: dict[str, Array] = {  # kernel matrices of rank one, and of largest variance one
    "one action": np.ones((1, 1)),
    "the same action eight times": np.ones((8, 8)),
    "a line through zero": np.outer(LINE, LINE),
}


def alike(name: str, ridge: float) -> Problem:
    return Problem.of_matrix(ALIKE[name], 0.1, 0.1, norm_bound=1.0, horizon=10**15, ridge=ridge)


@pytest.mark.parametrize("ridge", [1e-3, 0.3, 10.0])
@pytest.mark.parametrize("rounds", [1, 7, 10**6])
@pytest.mark.parametrize("name", ALIKE)
def test_the_information_gain_of_a_kernel_of_rank_one_is_known(name: str, rounds: int, ridge: float) -> None:
    problem = alike(name, ridge)
    exact = math.log1p(rounds / ridge) / 2
    found = theory.information_gain_bound(problem, rounds)
    assert exact <= found * ROUNDING
    assert found <= 1.02 * exact
    if problem.size == 1:
        assert found == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("rounds", [1, 8, 800])
def test_without_correlation_the_information_gain_is_known(rounds: int) -> None:
    exact = rounds * math.log1p(1 / 0.3) / 2 if rounds < 8 else 8 * math.log1p(rounds / 8 / 0.3) / 2
    assert theory.information_gain_bound(APART, rounds) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("rounds", [10**9, 10**12, 10**15])
@pytest.mark.parametrize("ridge", [1e-6, 0.01])
@pytest.mark.parametrize("name", ALIKE)
def test_the_longest_horizons_of_a_singular_kernel_have_an_information_gain(
    name: str, ridge: float, rounds: int
) -> None:
    exact = math.log1p(rounds / ridge) / 2
    assert exact <= theory.information_gain_bound(alike(name, ridge), rounds) * (1 + 1e-6)
