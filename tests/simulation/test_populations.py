"""The populations: moments as the model's formulas say, and the known optima."""

import numpy as np
import pytest
from scipy.stats import norm as normal

from voxpop.errors import Array
from voxpop.model.kernels import Matern, SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.simulation.paper import FUNCTIONS, random_rkhs_function, rescale
from voxpop.simulation.people import SEGMENTS, Customers, GPPeople, Segment, square_root
from voxpop.simulation.scenarios import Options, make_scenario


def plan_of(arms: list[int], pulls: list[int], people: int = 1) -> Plan:
    return Plan(1, np.array(arms), np.array(pulls), people)


def covariance_errors(sample: Array, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Compute the errors of a Gaussian sample's mean and covariance, in standard errors."""
    people, spread = len(sample), np.sqrt(covariance.diagonal())
    mean_error = (sample.mean(axis=0) - mean) / (spread / np.sqrt(people))
    error_of_product = np.sqrt((np.outer(spread, spread) ** 2 + covariance**2) / people)
    return mean_error, (np.cov(sample.T, bias=True) - covariance) / error_of_product


@pytest.mark.parametrize("kernel", [SquaredExponential(0.3), Matern(0.2, nu=0.5)])
def test_gp_people_have_the_model_s_mean_and_covariance(kernel: SquaredExponential | Matern) -> None:
    points = np.random.default_rng(3).uniform(size=(9, 2))
    problem = Problem(points, kernel, noise_std=0.8, bias_std=0.5, norm_bound=1.0, horizon=10)
    f = np.sin(np.arange(9.0))
    plan = plan_of([7, 2, 4, 0], [1, 3, 10, 200])
    sample = GPPeople(problem, f).observe(plan, 200_000, np.random.default_rng(0))
    expected = 0.5**2 * kernel(points, points)[np.ix_(plan.arms, plan.arms)] + 0.8**2 * np.diag(1 / plan.pulls)
    mean_error, covariance_error = covariance_errors(sample, f[plan.arms], expected)
    assert sample.shape == (200_000, 4)
    assert np.abs(mean_error).max() < 4
    assert np.abs(covariance_error).max() < 4


def test_a_singular_covariance_has_a_square_root() -> None:
    covariance = np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    root = square_root(covariance)
    np.testing.assert_allclose(root @ root.T, covariance, atol=1e-12)


def test_people_with_almost_no_bias_and_noise_answer_f() -> None:
    problem = Problem([0.0, 1.0], SquaredExponential(), noise_std=1e-9, bias_std=1e-9, norm_bound=1.0, horizon=10)
    answers = GPPeople(problem, np.array([0.25, -0.5])).observe(plan_of([1, 0], [1, 1]), 5, np.random.default_rng(0))
    np.testing.assert_allclose(answers, [[-0.5, 0.25]] * 5, atol=1e-7)


PRICES = np.array([2.0, 3.5, 5.0, 8.0, 11.0])


def test_the_closed_form_profit_is_the_customers_average() -> None:
    """Simulated here from the definition, one reservation price for each purchase."""
    rng, people = np.random.default_rng(0), 400_000
    shares = [segment.share for segment in SEGMENTS]
    kinds = rng.choice(len(SEGMENTS), size=people, p=shares)
    medians, spreads = (np.array([getattr(s, name) for s in SEGMENTS])[kinds] for name in ("median", "spread"))
    today = medians * np.exp(spreads * rng.normal(size=people) + 0.12 * rng.normal(size=people))
    bought = today[:, None] >= PRICES
    expected = (PRICES - 1.5) * bought.mean(axis=0)
    error = (PRICES - 1.5) * bought.std(axis=0) / np.sqrt(people)
    assert (np.abs(Customers(PRICES).profit - expected) < 4 * error).all()


def test_the_customers_answers_average_to_the_closed_form_profit() -> None:
    customers = Customers(PRICES)
    answers = customers.observe(plan_of([0, 1, 2, 3, 4], [1, 2, 5, 20, 100]), 200_000, np.random.default_rng(1))
    error = answers.std(axis=0) / np.sqrt(len(answers))
    assert (np.abs(answers.mean(axis=0) - customers.profit) < 4 * error).all()


def test_an_answer_is_a_number_of_purchases() -> None:
    pulls = np.array([7, 3, 1, 16, 5])
    answers = Customers(PRICES).observe(plan_of([4, 3, 2, 1, 0], pulls.tolist()), 1000, np.random.default_rng(2))
    purchases = answers / (PRICES[::-1] - 1.5) * pulls
    np.testing.assert_allclose(purchases, np.rint(purchases), atol=1e-9)
    assert (purchases > -0.5).all()
    assert (purchases < pulls + 0.5).all()


def test_a_customer_keeps_the_reservation_price_from_price_to_price() -> None:
    customers = Customers(PRICES, mood=1e-6)
    answers = customers.observe(plan_of([0, 1, 2, 3, 4], [10] * 5), 1000, np.random.default_rng(3))
    share = answers / (PRICES - 1.5)
    assert (np.diff(share, axis=1) <= 1e-9).all()  # a customer who buys at a price buys at every lower one
    assert set(np.round(share, 6).ravel()) == {0.0, 1.0}


def test_one_segment_is_a_log_normal_demand() -> None:
    only = Customers(PRICES, unit_cost=1.0, mood=0.3, segments=(Segment(1.0, 5.0, 0.4),))
    demand = normal.sf(np.log(PRICES), loc=np.log(5.0), scale=0.5)  # 0.3^2 + 0.4^2 = 0.5^2
    np.testing.assert_allclose(only.profit, (PRICES - 1.0) * demand, rtol=1e-12)


KNOWN = {
    # the highest point in the function's own units, and its value (Surjanovic and Bingham's library)
    "sphere": ([(5.12, 5.12, 5.12), (-5.12, 5.12, -5.12)], 3 * 5.12**2),
    "camel": ([(3.0, 2.0), (-3.0, -2.0)], 162.9),
    "sphere-minimum": ([(0.0, 0.0, 0.0)], 0.0),
    "camel-minimum": ([(0.0898, -0.7126), (-0.0898, 0.7126)], 1.0316),
    "michalewicz": ([(2.20, 1.57)], 1.8013),
}
BOXES: dict[str, tuple[list[float], list[float]]] = {
    "sphere": ([-5.12] * 3, [5.12] * 3),
    "camel": ([-3, -2], [3, 2]),
    "michalewicz": ([0, 0], [np.pi, np.pi]),
    "sphere-minimum": ([-5.12] * 3, [5.12] * 3),
    "camel-minimum": ([-3, -2], [3, 2]),
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_benchmark_functions_have_their_known_maxima(name: str) -> None:
    low, high = map(np.array, BOXES[name])
    places, value = KNOWN[name]
    unit = (np.array(places) - low) / (high - low)
    np.testing.assert_allclose(FUNCTIONS[name](unit), value, atol=2e-4)
    elsewhere = np.random.default_rng(0).uniform(size=(20_000, len(low)))
    assert FUNCTIONS[name](elsewhere).max() <= value + 1e-4


def test_rescaled_values_reach_from_minus_one_to_one() -> None:
    np.testing.assert_allclose(rescale(np.array([3.0, 5.0, 4.0])), [-1.0, 1.0, 0.0])
    np.testing.assert_array_equal(rescale(np.full(3, 7.0)), np.zeros(3))


@pytest.mark.parametrize("dimension", [1, 3])
def test_the_norm_of_a_random_function_is_exact(dimension: int) -> None:
    """The norm of the interpolant through ever more points, the centres among them, is that of the function."""
    kernel = Matern(0.2, nu=0.5)  # rough, so that the kernel matrix can be inverted
    function, norm = random_rkhs_function(kernel, dimension, np.random.default_rng(5))
    centres = np.random.default_rng(5).uniform(size=(30 * dimension, dimension))  # drawn first
    more = np.random.default_rng(6).uniform(size=(200, dimension))
    for points in (centres, np.vstack([centres, more])):
        values = function(points)
        assert values @ np.linalg.solve(kernel(points, points), values) == pytest.approx(norm**2, rel=1e-6)
    fewer = function(more)
    assert fewer @ np.linalg.solve(kernel(more, more), fewer) <= norm**2


def test_the_synthetic_study_knows_the_exact_norm() -> None:
    scenario = make_scenario("synthetic", Options(seed=2))
    points = scenario.problem.decisions.points
    gram = scenario.problem.kernel(points, points)
    values, vectors = np.linalg.eigh(gram)
    inside = values > 1e-9
    interpolant = np.sqrt(np.sum((vectors.T @ scenario.f)[inside] ** 2 / values[inside]))
    assert 0.5 * scenario.problem.norm_bound < interpolant <= scenario.problem.norm_bound
    assert points.shape == (100, 3)
    assert (points.min() >= 0) & (points.max() <= 1)
