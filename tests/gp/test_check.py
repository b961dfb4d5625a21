"""The model check: J against an optimiser, false alarms, and what is noticed."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import block_diag
from scipy.optimize import NonlinearConstraint, minimize
from scipy.stats import chi2

from tests.helpers import function_of_norm, gram, random_problem
from voxpop.errors import Array, InputError
from voxpop.gp.check import clipping_misfit, misfit, misfit_limit, smallest_norm
from voxpop.model.kernels import Linear, SquaredExponential
from voxpop.model.problem import Indices, Problem

Rows = tuple[Array, Array, Array]  # gram, residual, noise


def stacked(problem: Problem, waves: Sequence[tuple[Indices, int, Array]]) -> Rows:
    """Stack waves of (arms, people, averages) of two rounds each."""
    rows = np.concatenate([arms for arms, _, _ in waves])
    noise = block_diag(*[problem.answer_noise(arms, np.full(len(arms), 2), people) for arms, people, _ in waves])
    return problem.covariance(rows, rows), np.concatenate([y for _, _, y in waves]), noise


def random_rows(seed: int, linear: bool) -> Rows:
    """Two or three waves of a random problem, in which actions occur several times."""
    rng = np.random.default_rng(seed)
    problem = random_problem(seed, n=5, kernel=Linear() if linear else None)
    sizes = rng.integers(1, 4, size=rng.integers(2, 4))
    waves = [(rng.choice(5, size, replace=False), int(rng.integers(1, 60)), rng.normal(size=size)) for size in sizes]
    return stacked(problem, waves)


def searched_misfit(rows: Rows, norm_bound: float) -> float:
    """Minimise over f = root h with |h| <= B, by an optimiser that knows nothing of eigenvalues of (K, N)."""
    K, r, N = rows
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    inverse = np.linalg.inv(N)

    scale = float(r @ inverse @ r)

    def share(h: Array) -> float:
        return float((r - root @ h) @ inverse @ (r - root @ h)) / scale

    def slope(h: Array) -> Array:
        return np.asarray(-2 * root.T @ inverse @ (r - root @ h) / scale)

    ball = NonlinearConstraint(lambda h: h @ h, 0, norm_bound**2, jac=lambda h: 2 * h)
    found = minimize(share, np.zeros(len(r)), jac=slope, constraints=ball, method="SLSQP", tol=1e-14)
    return float(found.fun) * scale


@pytest.mark.parametrize("norm_bound", [0.05, 0.7, 2.0])
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_misfit_is_what_an_optimiser_finds(seed: int, linear: bool, norm_bound: float) -> None:
    rows = random_rows(seed, linear)
    assert misfit(*rows, norm_bound) == pytest.approx(searched_misfit(rows, norm_bound), rel=1e-5)


@given(seed=st.integers(0, 10**6), linear=st.booleans(), share=st.floats(0.001, 0.999))
def test_the_smallest_norm_reaches_the_limit_exactly(seed: int, linear: bool, share: float) -> None:
    rows = random_rows(seed, linear)
    nearest, farthest = misfit(*rows, 1e9), misfit(*rows, 0.0)
    limit = nearest + share * (farthest - nearest)
    norm = smallest_norm(*rows, limit)
    assert misfit(*rows, norm) == pytest.approx(limit, rel=1e-6)
    assert smallest_norm(*rows, farthest * (1 + 1e-9)) == 0.0
    assert misfit(*rows, norm / 2) > limit


def test_no_norm_explains_two_averages_of_one_action_that_differ_too_much() -> None:
    problem = random_problem(0)
    arm, pulls = np.array([3]), np.array([2])
    apart = 10 * math.sqrt(2 * problem.answer_noise(arm, pulls, 25).item())  # ten standard deviations of the difference
    rows = stacked(problem, [(arm, 25, np.array([1.0])), (arm, 25, np.array([1.0 + apart]))])
    assert misfit(*rows, 1e9) == pytest.approx(100, rel=1e-6)
    assert smallest_norm(*rows, 99.0) == math.inf
    assert smallest_norm(*rows, 101.0) < math.inf


@pytest.mark.parametrize("seed", range(5))
def test_rounding_does_not_turn_what_nothing_explains_into_a_huge_norm(seed: int) -> None:
    problem, rng, arms = random_problem(seed), np.random.default_rng(seed), np.arange(10)
    rows = stacked(problem, [(arms, 10, rng.normal(size=10)) for _ in range(4)])
    within = misfit(*rows, 1e9)  # of the 40 averages around the 10 means
    assert smallest_norm(*rows, 0.99 * within) == math.inf
    assert smallest_norm(*rows, 1.01 * within) < 1e4


def test_without_a_function_to_choose_the_misfit_is_the_plain_sum_of_squares() -> None:
    K, r, N = random_rows(7, linear=False)
    assert misfit(K, r, N, 0.0) == pytest.approx(float(r @ np.linalg.solve(N, r)), rel=1e-6)
    assert misfit(0 * K, r, N, 5.0) == pytest.approx(misfit(K, r, N, 0.0), rel=1e-6)


def test_the_limit_follows_from_the_martingale() -> None:
    """E exp(S / 4) = 2^(M / 2) for S chi-squared of M, so that exp(S / 4) 2^(-M / 2) has mean one."""
    for numbers, delta in ((1, 0.3), (30, 0.01), (400, 1e-4)):
        limit = misfit_limit(numbers, delta)
        assert math.exp(limit / 4) * 2 ** (-numbers / 2) == pytest.approx(1 / delta, rel=1e-9)
        assert chi2(numbers).sf(misfit_limit(numbers, delta, fixed=True)) == pytest.approx(delta, rel=1e-6)
        assert misfit_limit(numbers, delta) > misfit_limit(numbers, delta, fixed=True)


@pytest.mark.parametrize("seed", range(5))
def test_no_bias_that_clipping_allows_adds_more_than_its_misfit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, y, N = random_rows(seed, linear=False)
    root = rng.normal(size=N.shape)
    C = root @ root.T  # every b = root u with |u| = 1 satisfies |a'b| <= sqrt(a'C a)
    most = clipping_misfit(N, C)
    units = rng.normal(size=(1000, len(y)))
    biases = units / np.linalg.norm(units, axis=1, keepdims=True) @ root.T
    found = np.einsum("ij,jk,ik->i", biases, np.linalg.inv(N), biases)
    assert found.max() <= most * (1 + 1e-9)
    largest = root @ np.linalg.eigh(root.T @ np.linalg.inv(N) @ root)[1][:, -1]
    assert float(largest @ np.linalg.solve(N, largest)) == pytest.approx(most, rel=1e-6)
    limit = misfit_limit(len(y), 0.05)
    assert math.sqrt(misfit_limit(len(y), 0.05, clipping=most)) == pytest.approx(math.sqrt(limit) + math.sqrt(most))


def alarms(
    truth: Problem,
    f: Callable[[np.random.Generator], Array],
    model: Problem,
    runs: int,
    limit: Callable[[int], float],
    people: Sequence[int] = (50, 100, 200, 400),
) -> float:
    """Return the share of runs in which some look raises an alarm; each wave asks around the best average so far."""
    rng, alarmed = np.random.default_rng(0), 0
    for _ in range(runs):
        values, arms, waves = f(rng), np.linspace(0, truth.size - 1, 8).astype(int), []
        for count in people:
            covariance = truth.answer_noise(arms, np.full(len(arms), 2), count)
            y = rng.multivariate_normal(values[arms], covariance, method="cholesky")
            waves.append((arms, count, y))
            rows = stacked(model, waves)
            if misfit(*rows, model.norm_bound) > limit(len(rows[1])):
                alarmed += 1
                break
            near = arms[np.argmax(y)] + np.arange(-6, 7, 3)
            arms = np.unique(np.clip(np.concatenate([near, rng.choice(truth.size, 3)]), 0, truth.size - 1))
    return alarmed / runs


def line(scale: float, norm_bound: float, v: float = 0.3) -> Problem:
    return Problem(np.linspace(0, 1, 40), SquaredExponential(scale), 0.1, v, norm_bound=norm_bound, horizon=100)


@pytest.mark.parametrize("norm_bound", [1e-3, 0.3])
def test_looking_after_every_wave_of_an_adaptive_design_raises_few_false_alarms(norm_bound: float) -> None:
    problem = line(0.2, norm_bound)
    share = alarms(
        problem,
        lambda rng: function_of_norm(problem, norm_bound, rng),
        problem,
        300,
        lambda numbers: misfit_limit(numbers, 0.1),
    )
    assert share <= 0.1


def test_a_fixed_design_has_the_promised_share_of_false_alarms() -> None:
    """With a norm so small that f cannot follow the noise, J is chi-squared."""
    problem = line(0.2, 1e-3)
    share = alarms(
        problem,
        lambda rng: function_of_norm(problem, 1e-3, rng),
        problem,
        1000,
        lambda numbers: misfit_limit(numbers, 0.2, fixed=True),
        people=(80,),
    )
    assert share == pytest.approx(0.2, abs=4 * math.sqrt(0.2 * 0.8 / 1000))


def test_a_norm_bound_of_a_third_of_the_truth_is_noticed() -> None:
    truth = line(0.2, 1.0)
    share = alarms(
        truth, lambda rng: function_of_norm(truth, 1.0, rng), line(0.2, 1 / 3), 50, lambda m: misfit_limit(m, 0.05)
    )
    assert share >= 0.95


def test_half_of_the_true_deviation_is_noticed_if_the_function_cannot_hide_it() -> None:
    truth = line(0.2, 0.01)
    share = alarms(
        truth,
        lambda rng: function_of_norm(truth, 0.01, rng),
        line(0.2, 0.01, 0.15),
        100,
        lambda m: misfit_limit(m, 0.05),
    )
    assert 0.5 <= share < 1


def test_a_length_scale_twice_too_long_is_noticed_on_a_spike() -> None:
    truth = line(0.1, 1.0)
    share = alarms(
        truth, lambda rng: gram(truth)[rng.integers(truth.size)], line(0.2, 1.0), 50, lambda m: misfit_limit(m, 0.05)
    )
    assert share >= 0.95


@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
def test_a_delta_that_is_no_probability_is_refused(delta: float) -> None:
    with pytest.raises(InputError, match="delta must be a number"):
        misfit_limit(10, delta)
