import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm

from tests.helpers import everything, gram, random_problem, standard_posterior, worst_function
from voxpop.errors import Array
from voxpop.gp.posterior import regress
from voxpop.gp.widths import EPS, Affine, AffineEstimator
from voxpop.model.kernels import Kernel, Linear, Matern, SquaredExponential
from voxpop.model.problem import Indices, Problem
from voxpop.policies.dpbe import printed_width

ARMS, PULLS, COUNT = np.array([4, 1, 9, 6]), np.array([1, 5, 2, 40]), 3


def noise_matrix(problem: Problem, arms: Indices, pulls: Indices, count: int) -> Array:
    """(v^2 K + sigma^2 W^-1) / |U|, the covariance of the average's error."""
    K = gram(problem)[np.ix_(arms, arms)]
    return np.asarray((problem.bias_std**2 * K + problem.noise_std**2 * np.diag(1 / pulls)) / count)


def fit(problem: Problem, arms: Indices = ARMS, pulls: Indices = PULLS, count: int = COUNT) -> Affine:
    estimator = AffineEstimator(problem, arms, problem.answer_noise(arms, pulls, count))
    return estimator.values(everything(problem), problem.norm_bound)


def targets(problem: Problem, reference: int | None) -> Array:
    """One row h for each action, as a combination of k(x_i, .): the values f(x), or the gaps to a reference."""
    rows = np.eye(problem.size)
    if reference is not None:
        rows[:, reference] -= 1.0
    return rows


def fit_targets(problem: Problem, reference: int | None, arms: Indices, noise: Array) -> Affine:
    estimator = AffineEstimator(problem, arms, noise)
    if reference is None:
        return estimator.values(everything(problem), problem.norm_bound)
    return estimator.values_and_gaps(everything(problem), reference, problem.norm_bound)[1]


def widths_of(problem: Problem, reference: int | None, noise: Array, weights: Array) -> tuple[Array, Array]:
    """Compute the exact widths of weights, and the largest values that a width which is never too small may take.

    Differences of sums are known within the rounding of what was summed, and a width may add as much again to be safe;
    where the difference is close to zero, its root makes that large.
    """
    rest, size = targets(problem, reference), np.abs(weights).sum(axis=1)
    rest[:, ARMS] -= weights
    s2 = np.array([max(exact_form(noise, a), 0.0) for a in weights])
    b2 = np.array([max(exact_form(gram(problem), r), 0.0) for r in rest])
    unit = (len(ARMS) + 4) * EPS
    s2_rounding = unit * size**2 * noise.max()
    b2_rounding = unit * (2 + size) ** 2 * problem.prior_variance.max()

    def width(times: int) -> Array:
        noisy, biased = np.sqrt(s2 + times * s2_rounding), np.sqrt(b2 + times * b2_rounding)
        return np.asarray(norm.isf(problem.beta / 2) * noisy + problem.norm_bound * biased)

    return width(0), width(2)


ROUNDING = 5e-7  # the allowance for rounding where kernels are nearly singular, as a share of B

PROBLEMS = {
    "quiet": random_problem(0, noise_std=0.05, bias_std=0.05, beta=0.01),
    "noisy": random_problem(1, noise_std=1.0, bias_std=0.3, beta=0.1),
    "rough, large norm": random_problem(2, kernel=Matern(0.3, nu=0.5), norm_bound=20.0),
    "linear": random_problem(3, kernel=Linear(offset=0.5), norm_bound=3.0),
}


@pytest.mark.parametrize("reference", [None, 2])
@pytest.mark.parametrize("name", PROBLEMS)
def test_no_weights_found_by_an_optimiser_give_a_smaller_width(name: str, reference: int | None) -> None:
    problem = PROBLEMS[name]
    K, N, B = gram(problem), noise_matrix(problem, ARMS, PULLS, COUNT), problem.norm_bound
    z, rng = norm.isf(problem.beta / 2), np.random.default_rng(0)
    noise = problem.answer_noise(ARMS, PULLS, COUNT)
    affine = fit_targets(problem, reference, ARMS, noise)
    exact, most = widths_of(problem, reference, noise, affine.weights)
    for x, h in enumerate(targets(problem, reference)):
        if x == reference:
            continue

        def width_of(a: Array, h: Array = h) -> tuple[float, Array]:
            rest = h.copy()
            rest[ARMS] -= a
            s, b = math.sqrt(a @ N @ a), math.sqrt(max(float(rest @ K @ rest), 1e-30))
            return z * s + B * b, z * N @ a / max(s, 1e-30) - B * (K @ rest)[ARMS] / b

        starts = [1e-3 * rng.standard_normal(len(ARMS)), *rng.standard_normal((3, len(ARMS)))]
        found = [minimize(width_of, a, jac=True, method="BFGS", options={"gtol": 1e-10}).fun for a in starts]
        least = min(*map(float, found), B * math.sqrt(h @ K @ h))
        assert abs(affine.width[x] - least) <= 1e-6 * least + most[x] - exact[x]


@pytest.mark.parametrize("reference", [None, 2])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_function_that_the_data_cannot_tell_from_zero_proves_the_width_minimal(
    name: str, reference: int | None
) -> None:
    # Duality: the least width is the largest <g, h> over |g| <= B and g(A)'N^-1 g(A) <= z^2 (Donoho 1994).
    problem = PROBLEMS[name]
    K, N = gram(problem), noise_matrix(problem, ARMS, PULLS, COUNT)
    z, affine = (
        norm.isf(problem.beta / 2),
        fit_targets(problem, reference, ARMS, problem.answer_noise(ARMS, PULLS, COUNT)),
    )
    for x, h in enumerate(targets(problem, reference)):
        rest = h.copy()
        rest[ARMS] -= affine.weights[x]
        if rest @ K @ rest < 1e-8:
            continue  # no bias, so there is no direction from which to make such a function
        g = problem.norm_bound * K @ rest / math.sqrt(rest @ K @ rest)
        seen = math.sqrt(g[ARMS] @ np.linalg.solve(N, g[ARMS]))
        assert affine.width[x] == pytest.approx(min(1.0, z / seen) * (g @ h), rel=2e-4)


@pytest.mark.parametrize("reference", [None, 2])
@pytest.mark.parametrize("name", PROBLEMS)
def test_width_is_that_of_the_weights_and_estimates_use_them(name: str, reference: int | None) -> None:
    problem, y = PROBLEMS[name], np.array([0.3, -1.0, 2.0, 0.5])
    noise = problem.answer_noise(ARMS, PULLS, COUNT)
    affine = fit_targets(problem, reference, ARMS, noise)
    exact, most = widths_of(problem, reference, noise, affine.weights)
    assert np.all((1 - 1e-12) * exact <= affine.width)
    assert np.all(affine.width <= (1 + 1e-12) * most)
    terms = np.abs(affine.weights) @ np.abs(y)  # they may cancel
    assert np.all(np.abs(affine.estimate(y) - [sum(a * y) for a in affine.weights]) <= len(y) * EPS * terms)


@pytest.mark.parametrize("name", PROBLEMS)
def test_weights_lie_on_the_path_of_regularised_solutions(name: str) -> None:
    problem, affine = PROBLEMS[name], fit(PROBLEMS[name])
    K, N = gram(problem), noise_matrix(problem, ARMS, PULLS, COUNT)
    for x, a in enumerate(affine.weights):
        if np.any(a):
            # (K + c N) a = k  for some c > 0: k - K a is a multiple of N a.
            left, right = K[ARMS, x] - K[np.ix_(ARMS, ARMS)] @ a, N @ a
            c = (left @ right) / (right @ right)
            assert c > 0
            np.testing.assert_allclose(left, c * right, rtol=1e-6, atol=1e-9)


def test_printed_width_is_the_papers_formula_with_the_bias_scale() -> None:
    problem, B, at = PROBLEMS["noisy"], 0.7, np.array([0, 3, 4])
    K = gram(problem)
    _, variance = standard_posterior(problem, np.repeat(ARMS, PULLS), np.zeros(PULLS.sum()))
    for x, width in zip(at, printed_width(problem, variance[at], at, COUNT, B), strict=True):
        first = math.sqrt(2 * K[x, x] * math.log(1 / problem.beta) / COUNT)
        second = math.sqrt(2 * variance[x] * math.log(1 / problem.beta) / COUNT)
        assert width == pytest.approx(problem.bias_std * (first + second) + B * math.sqrt(variance[x]))


@given(
    seed=st.integers(0, 10**6),
    beta=st.floats(1e-9, 0.499),
    noise=st.floats(1e-3, 10),
    bias=st.floats(1e-3, 10),
    bound=st.floats(1e-2, 100),
    count=st.integers(1, 10**6),
    scale=st.floats(0.01, 10),
)
def test_affine_width_exceeds_neither_the_printed_width_nor_the_prior(
    seed: int, beta: float, noise: float, bias: float, bound: float, count: int, scale: float
) -> None:
    problem = random_problem(
        seed, kernel=SquaredExponential(scale), beta=beta, noise_std=noise, bias_std=bias, norm_bound=bound
    )
    at = everything(problem)
    _, variance = regress(problem, ARMS, PULLS, at)
    affine = fit(problem, count=count).width
    assert np.all(affine <= printed_width(problem, variance, at, count, bound) * (1 + 1e-6) + 1e-6 * bound)
    assert np.all(affine <= bound * np.sqrt(problem.prior_variance) * (1 + 1e-12))


@pytest.mark.parametrize("x", [0, 9])
def test_worst_functions_escape_nearly_as_often_as_allowed(x: int) -> None:
    problem, rng = random_problem(4, noise_std=0.2, bias_std=0.2, norm_bound=2.0, beta=0.1), np.random.default_rng(4)
    affine = fit(problem, count=10)
    f = worst_function(problem, ARMS, affine.weights[x], x)
    N = noise_matrix(problem, ARMS, PULLS, 10)
    y = f[ARMS] + rng.multivariate_normal(np.zeros(4), N, size=20_000, method="cholesky")
    miss = np.abs(y @ affine.weights[x] - f[x])
    assert 0.045 < np.mean(miss > affine.width[x]) < 0.1
    assert np.mean(miss > 0.8 * affine.width[x]) > 0.1


@pytest.mark.parametrize("seed", range(4))
def test_random_functions_of_the_allowed_norm_are_covered(seed: int) -> None:
    problem, rng = random_problem(seed, noise_std=0.2, bias_std=0.2, beta=0.1), np.random.default_rng(seed)
    affine, N = fit(problem, count=10), noise_matrix(problem, ARMS, PULLS, 10)
    root = np.linalg.cholesky(gram(problem) + 1e-10 * np.eye(problem.size))
    directions = rng.standard_normal((10_000, problem.size))
    f = directions / np.linalg.norm(directions, axis=1, keepdims=True) @ root.T
    y = f[:, ARMS] + rng.multivariate_normal(np.zeros(4), N, size=10_000, method="cholesky")
    escaped = np.mean(np.abs(y @ affine.weights.T - f) > affine.width, axis=0)
    assert escaped.max() < 0.1 + 4 * math.sqrt(0.1 * 0.9 / 10_000)


def test_more_noise_is_wider_and_more_people_narrower() -> None:
    base, noisier = random_problem(5), random_problem(5, noise_std=0.3)
    assert np.all(fit(noisier).width >= fit(base).width)
    assert np.all(fit(noisier).width[ARMS] > fit(base).width[ARMS])
    assert np.all(fit(base, count=4 * COUNT).width <= fit(base).width)
    assert np.all(fit(base, count=4 * COUNT).width[ARMS] < fit(base).width[ARMS])


def test_with_endless_people_and_rounds_a_played_action_is_known() -> None:
    problem = random_problem(6)
    width = fit(problem, pulls=np.full(4, 10**9), count=10**12).width
    assert np.all(width[ARMS] < 1e-4)
    assert np.all(np.delete(width, ARMS) > 1e-3)


def test_data_of_no_use_leaves_the_prior() -> None:
    problem = random_problem(7, noise_std=100.0, bias_std=100.0)
    affine = fit(problem)
    np.testing.assert_array_equal(affine.weights, 0.0)
    np.testing.assert_allclose(affine.width, problem.norm_bound * np.sqrt(problem.prior_variance), rtol=1e-12)


def test_answer_noise_is_the_covariance_of_the_average() -> None:
    problem = PROBLEMS["noisy"]
    noise = problem.answer_noise(ARMS, PULLS, COUNT)
    matrix = noise
    np.testing.assert_allclose(matrix, noise_matrix(problem, ARMS, PULLS, COUNT), rtol=1e-13)


def exact_form(matrix: Array, left: Array) -> float:
    """left' matrix left in rational arithmetic."""
    v = [Fraction(value) for value in left.tolist()]
    rows = [[Fraction(value) for value in row] for row in matrix.tolist()]
    return float(sum(p * sum(m * q for m, q in zip(row, v, strict=True)) for p, row in zip(v, rows, strict=True)))


HARD: dict[str, tuple[Any, Kernel, float]] = {
    "nearly equal actions": (0.5 + 1e-9 * np.arange(8), SquaredExponential(1.0), 0.1),
    "close actions": (np.linspace(0, 1e-3, 8), SquaredExponential(1.0), 1e-4),
    "long length-scale": (np.linspace(0, 1, 8), SquaredExponential(3.0), 1e-6),
    "rank one": (np.linspace(0.1, 1, 8), Linear(), 1e-3),
    "hardly any noise": (np.linspace(0, 1, 8), SquaredExponential(0.3), 1e-9),
}


@pytest.mark.parametrize("reference", [None, 5])
@pytest.mark.parametrize(("pulls", "count"), [(1, 2), (1000, 200), (10**6, 10**5), (10**9, 10**6)])
@pytest.mark.parametrize("name", HARD)
def test_near_singular_kernels_give_finite_widths_that_the_weights_keep(
    name: str, pulls: int, count: int, reference: int | None
) -> None:
    decisions, kernel, noise_std = HARD[name]
    problem = Problem(decisions, kernel, noise_std, 0.1, norm_bound=2.0, horizon=100, beta=0.01)
    arms, z = np.array([0, 2, 3, 4, 7]), norm.isf(0.005)
    noise = problem.answer_noise(arms, np.full(5, pulls), count)
    affine, K = fit_targets(problem, reference, arms, noise), gram(problem)
    N = noise
    assert np.isfinite(affine.width).all()
    assert np.isfinite(affine.weights).all()
    for x, h in enumerate(targets(problem, reference)):
        rest = h.copy()
        rest[arms] -= affine.weights[x]
        s2, b2 = exact_form(N, affine.weights[x]), exact_form(K, rest)
        true_width = z * math.sqrt(max(s2, 0)) + 2.0 * math.sqrt(max(b2, 0))
        assert true_width <= affine.width[x] * 1.01 + ROUNDING * 2.0
        assert affine.width[x] <= 2.0 * math.sqrt(max(h @ K @ h, 0)) * 1.01 + ROUNDING * 2.0
