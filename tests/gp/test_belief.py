"""The pooled posterior against a dense computation with every person's answer, and the scale and power it finds."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.stats import multivariate_normal, truncnorm

from tests.helpers import everything, evidence, random_problem
from voxpop.errors import Array
from voxpop.gp.belief import (
    POWERS,
    Belief,
    Rows,
    all_rows,
    belief_of,
    believe,
    pilot_rows,
    pooled_best,
    prior_means,
    rows_of,
    with_shocks,
)
from voxpop.model.kernels import Matern, SquaredExponential
from voxpop.model.noise import Shocks
from voxpop.model.problem import Evidence, Problem
from voxpop.model.waves import Answered, Feedback, Plan

RNG = np.random.default_rng(0)
TRIED = RNG.uniform(size=(6, 2))
GROUPS = [  # they share actions, and some of these are in both groups
    evidence(TRIED[:4], [20, 10, 10, 5], 7, [0.4, 0.1, -0.2, 0.3]),
    evidence(TRIED[2:], [8, 8, 2, 2], 5, [-0.3, 0.2, 0.5, 0.0]),
    evidence(TRIED[[5, 0]], [1, 30], 9, [0.1, 0.5]),
]
HISTORY = [
    Answered(Plan(1, np.array([3, 8]), np.array([4, 2]), 11), Feedback(np.array([0.2, -0.1]), 11)),
    Answered(
        Plan(2, np.array([0, 3, 5]), np.array([6, 1, 9]), 4),
        Feedback(np.array([0.1, 0.3, 0.4]), 4, 0.02 * np.eye(3)),
    ),
]


def problem_of(**changes: Any) -> Problem:
    return random_problem(3, **{"prior_mean": 0.1, "bias_std": 0.2, "pilot": GROUPS, **changes})


def averages(problem: Problem) -> tuple[Array, Array, Array]:
    """Return points, values less the mean, and the covariance of the noise of all averages, one block per group."""
    pilot = [(group.points, group.rounds, group.people, group.mean, 0.0) for group in problem.pilot]
    waves = [
        (problem.decisions.points[plan.arms], plan.pulls, told.count, told.mean, told.noise) for plan, told in HISTORY
    ]
    blocks = [
        (problem.bias_std**2 * problem.kernel(x, x) + problem.noise_std**2 * np.diag(1 / w)) / people
        + (0.0 if noise is None else noise)
        for x, w, people, _, noise in [*pilot, *waves]
    ]
    points = np.concatenate([x for x, *_ in [*pilot, *waves]])
    values = np.concatenate([mean for *_, mean, _ in [*pilot, *waves]]) - 0.1
    return points, values, block_diag(*blocks)


def dense(problem: Problem, tau: float, power: int) -> tuple[Array, Array]:
    """Condition a Gaussian process with kernel tau^2 k^q, where k(x, x) = 1, on all averages at once."""
    points, values, noise = averages(problem)
    x = problem.decisions.points
    cross = tau**2 * problem.kernel(x, points) ** power
    among = tau**2 * problem.kernel(points, points) ** power + noise
    solved = np.linalg.solve(among, np.column_stack([values, cross.T]))
    return 0.1 + cross @ solved[:, 0], tau**2 * problem.kernel(x, x) ** power - cross @ solved[:, 1:]


@pytest.mark.parametrize("power", [1, 2, 4])
def test_mean_deviation_and_covariance_are_those_of_the_dense_formula(power: int) -> None:
    problem = problem_of()
    belief = Belief(problem, all_rows(problem, HISTORY, pilot_rows(problem)), 0.7, power)
    mean, covariance = dense(problem, 0.7, power)
    np.testing.assert_allclose(belief.mean, mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(belief.deviation, np.sqrt(covariance.diagonal()), rtol=1e-6)
    np.testing.assert_allclose(belief.covariance(everything(problem)), covariance, rtol=1e-6, atol=1e-8)
    some = np.array([7, 2])
    np.testing.assert_allclose(belief.covariance(some), covariance[np.ix_(some, some)], rtol=1e-6, atol=1e-8)


def test_a_kernel_that_is_not_one_on_the_diagonal_keeps_its_variance_whatever_the_power() -> None:
    problem = problem_of(kernel=3.0 * Matern(0.4, nu=1.5))
    for power in (1, 2, 4):
        prior = Belief(problem, Rows.joined([], 2), 0.5, power)
        assert prior.covariance(everything(problem)).diagonal() == pytest.approx(np.full(12, 0.25 * 3.0))
        np.testing.assert_allclose(prior.deviation, math.sqrt(0.75), rtol=1e-9)
        correlation = Matern(0.4, nu=1.5)(problem.decisions.points, problem.decisions.points)
        np.testing.assert_allclose(prior.covariance(everything(problem)), 0.75 * correlation**power, rtol=1e-9)


def test_the_pilot_s_groups_in_one_row_per_action_say_the_same() -> None:
    problem = problem_of()
    rows = pilot_rows(problem)
    assert len(rows) == len(TRIED)  # although ten averages were given
    apart = Rows.joined(
        [Rows(g.points, g.mean - 0.1, block) for g, block in zip(GROUPS, blocks_of(problem), strict=True)], 2
    )
    together, separate = Belief(problem, rows, 0.6, 1), Belief(problem, apart, 0.6, 1)
    np.testing.assert_allclose(together.mean, separate.mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        together.covariance(everything(problem)), separate.covariance(everything(problem)), rtol=1e-6, atol=1e-8
    )


def blocks_of(problem: Problem) -> list[Array]:
    """Return the covariance of the averages of each group of the pilot."""
    _, _, noise = averages(problem)
    ends = np.cumsum([len(group.mean) for group in GROUPS])
    return [noise[end - len(g.mean) : end, end - len(g.mean) : end] for g, end in zip(GROUPS, ends, strict=True)]


def test_a_wave_s_noise_includes_people_rounds_and_privacy() -> None:
    problem = problem_of(pilot=[])
    plain, private = (rows_of(problem, *wave) for wave in HISTORY)
    np.testing.assert_allclose(plain.noise, averages(problem)[2][:2, :2], rtol=1e-9)
    np.testing.assert_allclose(private.noise, averages(problem)[2][2:, 2:], rtol=1e-9)
    assert plain.residual == pytest.approx([0.1, -0.2])


def test_without_any_answer_only_the_prior_is_known() -> None:
    belief = believe(problem_of(pilot=[], prior_mean=np.arange(12.0)))
    assert (len(belief.rows), belief.tau, belief.power) == (0, 0.5, 1)
    assert belief.mean.tolist() == list(range(12))
    np.testing.assert_allclose(belief.deviation, 0.5, rtol=1e-9)


def test_prior_means_of_points_are_those_of_the_nearest_decision() -> None:
    problem = problem_of(pilot=[], prior_mean=np.arange(12.0))
    nearby = problem.decisions.points[[4, 9]] + 1e-3
    assert prior_means(problem, nearby).tolist() == [4.0, 9.0]
    assert prior_means(problem_of(), TRIED[:3]).tolist() == [0.1] * 3


def drawn(seed: int, tau: float, power: int) -> Problem:
    """Return a problem whose pilot tried 60 actions under f ~ GP(0, tau^2 k^power), with little noise."""
    rng = np.random.default_rng(seed)
    kernel, points = SquaredExponential(0.3), rng.uniform(size=(60, 2))
    root = np.linalg.cholesky(kernel(points, points) ** power + 1e-9 * np.eye(60))
    f = tau * root @ rng.standard_normal(60)
    pilot = Evidence(points, np.full(60, 100), 100, f + 1e-3 * rng.standard_normal(60))
    return Problem(points, kernel, 0.1, 0.001, norm_bound=2.0, horizon=100, shock_std=0.0, pilot=[pilot])


def score(problem: Problem, tau: float, power: int) -> float:
    """Compute the log-likelihood of all averages, and the log of the prior: tau is B/2 give or take a factor e."""
    points, values, noise = averages(problem)
    covariance = tau**2 * problem.kernel(points, points) ** power + noise
    prior = -0.5 * math.log(tau / (problem.norm_bound / 2)) ** 2 - math.log2(power)
    return float(multivariate_normal(cov=covariance).logpdf(values)) + prior


@pytest.mark.parametrize("noise_std", [0.1, 2.0])
def test_scale_and_power_are_the_roughest_that_are_likely(noise_std: float) -> None:
    problem = problem_of(noise_std=noise_std)
    found = believe(problem, HISTORY)
    scales = np.geomspace(0.02, 8.0, 200) * problem.norm_bound / 2
    best = {q: max(score(problem, tau, q) for tau in scales) for q in POWERS}
    likely = [q for q in POWERS if best[q] >= max(best.values()) - 2]
    assert found.power == max(likely)
    assert score(problem, found.tau, found.power) == pytest.approx(best[found.power], abs=0.02)


@pytest.mark.parametrize("tau", [0.3, 1.0, 2.5])
def test_the_scale_of_f_is_recovered(tau: float) -> None:
    found = [believe(drawn(seed, tau, 1)).tau for seed in range(4)]
    # The logarithm of a scale estimated from about 30 free coefficients is off by 1/sqrt(60) or so.
    assert math.exp(np.mean(np.log(found))) == pytest.approx(tau, rel=0.25)


@pytest.mark.parametrize("power", [1, 2, 4])
def test_the_power_of_the_kernel_is_recovered(power: int) -> None:
    assert [believe(drawn(seed, 1.0, power)).power for seed in range(3)] == [power] * 3


def test_the_best_action_by_all_answers_is_that_of_the_largest_mean() -> None:
    problem = problem_of()
    believed = believe(problem, HISTORY)
    mean, _ = dense(problem, believed.tau, believed.power)
    assert pooled_best(problem, HISTORY) == int(np.argmax(mean))
    assert pooled_best(problem) == int(np.argmax(believe(problem).mean))


SHOCKED = Problem(
    np.linspace(0, 1, 12), SquaredExponential(0.3), 0.1, 0.1, norm_bound=2.0, horizon=1000, shock_std=0.001
)


def of_waves(shock: float, seed: int, problem: Problem = SHOCKED) -> Rows:
    """Three waves about all actions, a round each, which move all answers alike by `shock`."""
    rng, every, ones = np.random.default_rng(seed), everything(problem), np.ones(problem.size, int)
    noise = np.linalg.cholesky(problem.answer_noise(every, ones, 20) + 1e-12 * np.eye(problem.size))
    f = np.sin(3 * problem.decisions.points[:, 0])
    means = [f + (noise + shock * np.eye(len(f))) @ rng.standard_normal(len(f)) for _ in range(3)]
    waves = [Answered(Plan(number, every, ones, 20), Feedback(mean, 20)) for number, mean in enumerate(means, 1)]
    return all_rows(problem, waves, None)


@pytest.mark.parametrize("seed", range(4))
def test_waves_that_disagree_by_more_than_their_people_show_how_much_rounds_do(seed: int) -> None:
    found = with_shocks(SHOCKED, of_waves(0.5, seed))
    assert 0.3 < math.sqrt(found.problem.shocks.variance) < 0.8
    assert found.rows.noise.diagonal() == pytest.approx(of_waves(0.5, seed, found.problem).noise.diagonal(), rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_calm_waves_leave_small_shocks_small(seed: int) -> None:
    found = with_shocks(SHOCKED, of_waves(0.0, seed))
    assert found.problem.shocks.variance <= 4 * SHOCKED.shocks.variance


@pytest.mark.parametrize("seed", range(2))
def test_shocks_that_are_known_beyond_doubt_stay_as_they_are(seed: int) -> None:
    known = SHOCKED.showing([], Shocks(0.001**2, freedom=1e6))
    assert with_shocks(known, of_waves(0.5, seed, known)).problem.shocks.variance == pytest.approx(0.001**2)


def test_of_averages_whose_rounds_are_not_known_or_of_very_many_shocks_are_not_fitted() -> None:
    rows = of_waves(0.5, 0)
    for given in (replace(rows, rounds=None), Rows.joined([rows] * 12, 1)):
        assert with_shocks(SHOCKED, given).mean == pytest.approx(belief_of(SHOCKED, given).mean)


@pytest.mark.parametrize(("variance", "people", "freedom"), [(0.0, 0.1, 8.0), (0.02, 0.1, 16.0), (3.0, 0.1, 50.0)])
def test_the_shocks_to_expect_are_the_mean_of_a_gaussian_that_is_not_negative(
    variance: float, people: float, freedom: float
) -> None:
    error = (variance + people) * math.sqrt(2 / freedom)
    wanted = truncnorm.mean(-variance / error, np.inf, loc=variance, scale=error)
    found = Shocks(variance, people, freedom).expected
    assert found.variance == pytest.approx(wanted)
    assert (found.people, found.freedom) == (people, freedom)
    assert Shocks(variance, freedom=freedom).expected == Shocks(variance, freedom=freedom)
