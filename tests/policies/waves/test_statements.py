"""What a wave proves: each level by simulation, at the worst function of its norm; and chains of statements."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from tests.helpers import everything, evidence, function_of_norm, own, random_problem, worst_function
from tests.helpers_waves import truth
from voxpop.errors import Array
from voxpop.model.problem import Indices, Problem
from voxpop.model.waves import Feedback, Plan
from voxpop.policies.waves.policy import Waves
from voxpop.policies.waves.statements import (
    UPPER_SHARE,
    Contrasts,
    Statement,
    bonferroni,
    certified_gaps,
    factor_of_maximum,
    next_level,
    one_sided,
    pilot_statement,
    share_of_raise,
)

DRAWS = 20_000


def few_enough(failures: int, level: float, draws: int = DRAWS) -> bool:
    """Return False if the level is exceeded by more than chance allows once in a million tests."""
    return failures <= float(binom.isf(1e-6, draws, level))


# Levels


@given(delta=st.floats(1e-6, 0.999), last=st.integers(0, 49))
def test_levels_add_up_to_at_most_delta(delta: float, last: int) -> None:
    spent = 0.0
    for number in range(last + 1):
        level = next_level(delta, spent, number == last)
        assert 0 < level <= delta
        spent += level
    assert spent == pytest.approx(delta, rel=1e-9)
    assert next_level(delta, 0.0, last=False) == pytest.approx(delta / 2)


@pytest.mark.parametrize("level", [0.4, 0.05, 1e-6, 1e-30])
def test_one_sided_factors_are_gaussian_quantiles(level: float) -> None:
    assert norm.sf(one_sided(level)) == pytest.approx(level, rel=1e-6)
    assert norm.sf(bonferroni(7, level)) == pytest.approx(level / 7, rel=1e-6)
    assert norm.sf(bonferroni(7, level, both=True)) == pytest.approx(level / 14, rel=1e-6)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("level", [0.3, 0.05])
def test_the_factor_of_a_maximum_has_its_level(level: float, both: bool) -> None:
    """Over the draws behind it the factor is exceeded with probability level, so the average over seeds shows it."""
    deviations = np.random.default_rng(0).normal(size=(40, 5)) * np.geomspace(1e-3, 1e3, 40)[:, None]
    units = deviations / np.linalg.norm(deviations, axis=1, keepdims=True)
    drawn = units @ np.random.default_rng(1).standard_normal((5, 50_000))
    largest = (np.abs(drawn) if both else drawn).max(axis=0)
    found = np.mean([(largest > factor_of_maximum(deviations, level, seed, both)).mean() for seed in range(10)])
    spread = math.sqrt(level * (1 - level) * (1 / 40_000 + 1 / 50_000))
    assert found == pytest.approx(level, abs=5 * spread)


def test_the_factor_of_independent_coordinates_is_that_of_sidak() -> None:
    exact = float(norm.isf(1 - 0.9 ** (1 / 30)))
    assert factor_of_maximum(np.diag(np.arange(1.0, 31.0)), 0.1, 0) == pytest.approx(exact, abs=0.08)
    assert factor_of_maximum(np.ones((30, 1)), 0.1, 0) == pytest.approx(one_sided(0.1), abs=0.12)


def test_a_level_too_small_to_simulate_falls_back_on_bonferroni() -> None:
    assert factor_of_maximum(np.eye(4), 1e-5, 0) == bonferroni(4, 1e-5)
    assert factor_of_maximum(np.eye(4), 1e-5, 0, both=True) == bonferroni(4, 1e-5, both=True)


def test_coordinates_that_do_not_vary_do_not_count() -> None:
    some = np.random.default_rng(0).normal(size=(6, 3))
    assert factor_of_maximum(np.concatenate([some, np.zeros((9, 3))]), 0.1, 5) == factor_of_maximum(some, 0.1, 5)


# Bounds of one wave

ARMS = np.array([0, 3, 7])
LEVEL = 0.1


def wave_of(problem: Problem, population: int | None = None) -> Contrasts:
    noise = problem.answer_noise(ARMS, np.full(3, 2), 30)
    return Contrasts(problem, ARMS, noise, None, problem.norm_bound, population)


def averages(wave: Contrasts, f: Array, draws: int = DRAWS) -> Array:
    """Draw the averages of many repetitions of a wave, (draws, arms)."""
    root = np.linalg.cholesky(wave.noise)
    return np.asarray(f[wave.arms] + np.random.default_rng(5).standard_normal((draws, len(wave.arms))) @ root.T)


def weights_of_gaps(wave: Contrasts, at: Indices, reference: int, z: float) -> Array:
    """Find the weights of the estimates, which are linear in the averages."""
    return np.stack([wave.gaps(at, reference, unit, z).estimate for unit in np.eye(len(wave.arms))], axis=1)


@pytest.mark.parametrize("x", [1, 3, 5, 11])
def test_a_gap_is_exceeded_at_its_level_by_the_worst_function_of_the_norm(x: int) -> None:
    problem, reference, z = random_problem(2), 7, one_sided(LEVEL)
    wave = wave_of(problem)
    weights = weights_of_gaps(wave, np.array([x]), reference, z)[0]
    K = problem.covariance(everything(problem), everything(problem))
    direction = np.zeros(12)
    direction[x] += 1
    direction[reference] -= 1
    direction[ARMS] -= weights
    f = problem.norm_bound * K @ direction / math.sqrt(direction @ K @ direction)
    width = wave.gaps(np.array([x]), reference, np.zeros(3), z).width[0]
    failures = int((f[x] - f[reference] > averages(wave, f) @ weights + width).sum())
    assert few_enough(failures, LEVEL)
    assert failures >= binom.ppf(1e-6, DRAWS, LEVEL)  # and nothing is given away


@pytest.mark.parametrize("seed", range(3))
def test_lower_bounds_of_all_gaps_hold_together(seed: int) -> None:
    problem = random_problem(seed)
    wave, at = wave_of(problem), everything(problem)
    f = function_of_norm(problem, problem.norm_bound, np.random.default_rng(seed))
    bounds = [wave.all_gaps(at, 3, y, LEVEL, seed=9) for y in np.vstack([np.eye(3), np.zeros(3)])]
    weights, width = np.stack([bound.estimate for bound in bounds[:3]], axis=1), bounds[3].width
    estimates = averages(wave, f) @ weights.T  # (draws, n)
    failures = int((f - f[3] < estimates - width - 1e-9).any(axis=1).sum())
    assert few_enough(failures, LEVEL)
    assert width[3] == pytest.approx(0.0, abs=1e-5)
    simple = wave.gaps(at, 3, np.zeros(3), bonferroni(12, LEVEL)).width
    assert (width <= simple + 1e-9).all()  # the maximum of correlated estimates is smaller
    assert width.max() < simple.max()


def test_values_of_all_actions_hold_together_without_bias_at_their_level() -> None:
    """With a norm so small that it biases nothing, and as many actions as arms, the level is met exactly."""
    problem = random_problem(1, n=8, norm_bound=1e-6)
    arms = everything(problem)
    wave = Contrasts(problem, arms, problem.answer_noise(arms, np.ones(8, int), 5), None, 50.0, None)
    bounds = [wave.all_values(arms, y, 0.2, seed=3) for y in np.vstack([np.eye(8), np.zeros(8)])]
    weights, width = np.stack([bound.estimate for bound in bounds[:8]], axis=1), bounds[8].width
    errors = averages(wave, np.zeros(8)) @ weights.T
    failures = int((np.abs(errors) > width).any(axis=1).sum())
    assert few_enough(failures, 0.2)
    assert failures > 0
    for x in range(8):
        f = worst_function(problem, arms, weights[x], x) * 50.0 / problem.norm_bound
        failures = int((np.abs(averages(wave, f) @ weights.T - f) > width).any(axis=1).sum())
        assert few_enough(failures, 0.2)


def test_large_decision_sets_get_the_bounds_of_bonferroni() -> None:
    problem = random_problem(0, n=2100)
    wave, at = wave_of(problem), everything(problem)
    found = wave.all_gaps(at, 3, np.ones(3), LEVEL, seed=0)
    simple = wave.gaps(at, 3, np.ones(3), bonferroni(2100, LEVEL))
    assert found.width == pytest.approx(simple.width, rel=1e-5)
    assert np.isfinite(wave.all_values(at, np.ones(3), LEVEL, seed=0).width).all()


def test_a_small_population_has_a_mean_of_its_own() -> None:
    """It differs from f by people's deviations over the root of their number."""
    problem, z = random_problem(2), 2.0
    at = everything(problem)
    endless, small, large = (wave_of(problem, size).gaps(at, 3, np.zeros(3), z) for size in (None, 50, 5000))
    K = problem.covariance(at, at)
    own = problem.bias_std * np.sqrt((K.diagonal() + K[3, 3] - 2 * K[3]) / 50)
    assert small.width - endless.width == pytest.approx(z * own, abs=1e-6)
    assert (large.width <= small.width + 1e-12).all()


@pytest.mark.parametrize("delta", [0.05, 0.4])
def test_a_study_states_what_its_wave_proves_at_half_of_delta(delta: float) -> None:
    problem = random_problem(2, prior_mean=np.linspace(0, 1, 12), norm_bound=1.0)
    policy = Waves(delta=delta)
    state = policy.init(problem)
    plan = Plan(1, ARMS, np.full(3, 2), 30, state.best)
    mean = problem.means[ARMS] + 0.1 * truth(problem, 4)[ARMS]
    after, info = policy.advance(problem, state, plan, Feedback(mean, 30))
    assert not info.refuted
    assert own(after).spent == pytest.approx(delta / 2)
    (stated,) = own(after).statements
    level = UPPER_SHARE * share_of_raise(1.0, 1.0) * delta / 2
    bound = wave_of(problem).gaps(everything(problem), state.best, mean - problem.means[ARMS], one_sided(level))
    ahead = problem.means - problem.means[state.best] + bound.estimate
    assert stated.upper == pytest.approx(ahead + bound.width, abs=1e-6)
    assert stated.upper[state.best] == stated.lower[state.best] == 0.0
    assert (stated.lower <= stated.upper).all()
    assert after.active.tolist() == np.flatnonzero(stated.upper >= 0).tolist()


def test_the_best_action_is_kept_and_the_certificate_holds_in_almost_every_study() -> None:
    """One wave, and the level of delta = 0.4 that is spent on it."""
    problem = random_problem(4, n=8, horizon=1000)
    policy, rng, failures = Waves(delta=0.4), np.random.default_rng(0), 0
    state = policy.init(problem)
    plan = Plan(1, np.arange(0, 8, 2), np.ones(4, int), 15, 0)
    root = np.linalg.cholesky(problem.answer_noise(plan.arms, plan.pulls, 15))
    for _ in range(100):
        f = function_of_norm(problem, problem.norm_bound, rng)
        after, _ = policy.advance(problem, state, plan, Feedback(f[plan.arms] + root @ rng.standard_normal(4), 15))
        kept = np.argmax(f) in after.active
        failures += not kept or f.max() - f[after.best] > after.certificate
    assert few_enough(failures, 0.2, 100)


# The pilot


def test_what_the_pilot_proves_holds_for_all_weights_together() -> None:
    bare = random_problem(2, n=10)
    f = function_of_norm(bare, bare.norm_bound, np.random.default_rng(0))
    arms, rng, failures = np.array([0, 4, 9]), np.random.default_rng(1), 0
    root = np.linalg.cholesky(bare.answer_noise(arms, np.full(3, 5), 25))
    for _ in range(150):
        mean = f[arms] + root @ rng.standard_normal(3)
        pilot = [evidence(bare.decisions.points[arms], [5, 5, 5], 25, mean)]
        stated = pilot_statement(random_problem(2, n=10, pilot=pilot), 1.0, int(arms[np.argmax(mean)]), 0.3, None)
        gaps = f - f[stated.reference]
        failures += bool((gaps > stated.upper + 1e-9).any() or (gaps < stated.lower - 1e-9).any())
    assert few_enough(failures, 0.3, 150)


def test_the_pilots_factor_is_that_of_scheffe() -> None:
    """The half-width is the width of a wave with the root of a chi-squared quantile as its factor."""
    bare = random_problem(2)
    pilot = [evidence(bare.decisions.points[ARMS], [2, 2, 2], 30, [0.1, 0.5, -0.2])]
    stated = pilot_statement(random_problem(2, pilot=pilot), 1.0, 3, 0.05, None)
    z = math.sqrt(7.814727903251179)  # chi-squared of 3, 95 %
    bounds = wave_of(bare).gaps(everything(bare), 3, np.array([0.1, 0.5, -0.2]), z)
    others = everything(bare) != 3
    assert ((stated.upper - stated.lower) / 2)[others] == pytest.approx(bounds.width[others], abs=1e-6)
    assert ((stated.upper + stated.lower) / 2)[others] == pytest.approx(bounds.estimate[others], abs=1e-6)
    assert stated.upper[3] == stated.lower[3] == 0.0


def test_a_pilot_beside_the_decisions_proves_something_about_them() -> None:
    bare = random_problem(2)
    near = bare.decisions.points[ARMS] + 1e-7
    on, beside = (
        pilot_statement(random_problem(2, pilot=[evidence(at, [2, 2, 2], 30, [0.1, 0.5, -0.2])]), 1.0, 3, 0.05, None)
        for at in (bare.decisions.points[ARMS], near)
    )
    assert beside.upper == pytest.approx(on.upper, abs=1e-4)
    assert beside.lower == pytest.approx(on.lower, abs=1e-4)


# Chains


def statement(reference: int, upper: list[float], lower: list[float]) -> Statement:
    return Statement(reference, np.array(upper), np.array(lower))


FIRST = statement(0, [0.0, 0.5, 0.3], [0.0, -0.4, 0.1])


def test_the_certificate_of_the_reference_is_its_own_statement() -> None:
    assert certified_gaps([FIRST], np.arange(3), 0).tolist() == [0.0, 0.5, 0.3]


def test_another_choice_gains_by_its_lower_bound() -> None:
    assert certified_gaps([FIRST], np.arange(3), 2) == pytest.approx([-0.1, 0.4, 0.0])
    assert certified_gaps([FIRST], np.arange(3), 1) == pytest.approx([0.4, 0.0, 0.7])


def test_lower_bounds_of_several_waves_are_chained() -> None:
    """2 beats 0 by 0.1 (first wave), 0 beats 1 by 0.2 (second), so 2 beats 1 by 0.3."""
    second = statement(1, [0.6, 0.0, np.inf], [0.2, 0.0, -np.inf])
    for order in ([FIRST, second], [second, FIRST]):
        assert certified_gaps(order, np.array([0, 1]), 2) == pytest.approx([min(0.0 - 0.1, 0.6 - 0.3), 0.0 - 0.3])


def test_without_statements_nothing_is_certified() -> None:
    assert certified_gaps([], np.arange(3), 1).tolist() == [np.inf] * 3


def test_only_active_actions_are_bounded() -> None:
    assert certified_gaps([FIRST], np.array([0, 2]), 0).tolist() == [0.0, 0.3]


@given(seed=st.integers(0, 10**6))
def test_chains_of_true_statements_are_true_and_the_best_there_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, count = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    f = rng.normal(size=n)
    statements = []
    for reference in rng.integers(0, n, size=count).tolist():
        upper, lower = (f - f[reference] + sign * rng.exponential(size=n) for sign in (1, -1))
        upper[reference] = lower[reference] = 0.0
        statements.append(Statement(reference, upper, lower))
    choice = int(rng.integers(n))
    found = certified_gaps(statements, np.arange(n), choice)
    assert (f - f[choice] <= found + 1e-9).all()
    # The longest way over lower bounds, from the choice to every reference.
    ahead = np.full(n, -np.inf)
    ahead[choice] = 0.0
    for _ in range(n):
        for stated in statements:
            ahead[stated.reference] = max(ahead[stated.reference], float((ahead + stated.lower).max()))
    best = np.min([stated.upper - ahead[stated.reference] for stated in statements], axis=0)
    best[choice] = 0.0
    assert found == pytest.approx(best)
