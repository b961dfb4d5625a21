"""The baselines: each against an independent formula or a slow reference, and all of them to the end of a study."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from tests.helpers import RUNNABLE, own, random_problem
from voxpop.errors import InputError
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.waves import Feedback, Plan
from voxpop.policies import POLICIES, Policy, make_policy
from voxpop.policies.bpe import BPE, batch_lengths
from voxpop.policies.dpbe import DPBE, matching_people
from voxpop.policies.gp_ucb import GPUCB, TOGETHER, MiniGPOpt, noise_variance
from voxpop.privacy import Private
from voxpop.simulation.people import Customers, GPPeople
from voxpop.simulation.runs import simulate
from voxpop.simulation.scenarios import Options, make_scenario
from voxpop.simulation.simulator import simulate_waves
from voxpop.study.study import Study

EXTRA: dict[str, dict[str, Any]] = {"dpbe-fixed": {"people": 7}}


def every_policy() -> list[Policy]:
    return [make_policy(name, **EXTRA.get(name, {})) for name in POLICIES]


@pytest.mark.parametrize("policy", every_policy(), ids=list(POLICIES))
def test_settings_make_the_same_policy_again(policy: Policy) -> None:
    assert make_policy(**policy.settings()) == policy
    assert policy.name in POLICIES


@pytest.mark.parametrize("name", sorted(set(RUNNABLE) - {"pilot-only"}))  # which finds nothing without a pilot
def test_every_policy_plays_every_round_and_finds_a_good_action(name: str) -> None:
    policy = make_policy(name, **EXTRA.get(name, {}))
    scenario = make_scenario("sphere", Options(seed=2, size=30, horizon=3000))
    run = simulate(scenario, policy, seed=2)
    assert sum(plan.length for plan in run.plans) <= 3000
    assert scenario.f[run.best] >= np.sort(scenario.f)[-3]
    blind = 3000 * float(np.mean(scenario.f.max() - scenario.f))
    assert run.metrics.regret < 0.5 * blind


def ucb_problem() -> Problem:
    points = np.random.default_rng(0).uniform(size=(8, 2))
    return Problem(points, SquaredExponential(0.4), 0.3, 0.4, norm_bound=1.5, horizon=60, prior_mean=0.7)


@pytest.mark.parametrize("name", ["gp-ucb", "mini-gp-opt"])
def test_the_posterior_is_that_of_scikit_learn_round_by_round(name: str) -> None:
    problem, rng = ucb_problem(), np.random.default_rng(1)
    policy = make_policy(name)
    state, xs, ys = policy.init(problem), [], []
    points = problem.decisions.points
    while isinstance(plan := policy.plan(problem, state), Plan):
        assert plan.arms[0] == np.argmax(state.upper)
        y = float(rng.normal(0.7, 1))
        xs += [points[plan.arms[0]]] * plan.length
        ys += [y - 0.7] * plan.length  # the average stands for each of its rounds
        state, _ = policy.advance(problem, state, plan, Feedback(np.array([y]), 1))
    oracle = GaussianProcessRegressor(RBF(0.4), alpha=noise_variance(problem), optimizer=None).fit(xs, ys)
    mean, deviation = oracle.predict(points, return_std=True)
    np.testing.assert_allclose(state.centre - 0.7, mean, atol=1e-8)
    np.testing.assert_allclose(np.sqrt(np.diag(own(state).belief.covariance)), deviation, atol=1e-7)
    K = problem.kernel(np.array(xs), np.array(xs))
    gain = 0.5 * np.linalg.slogdet(np.eye(len(xs)) + K / noise_variance(problem))[1]
    assert own(state).belief.gain == pytest.approx(gain, rel=1e-8)
    bonus = 1.5 + math.sqrt(2 * (gain + 1 + math.log(10)))
    np.testing.assert_allclose(state.upper - state.centre, bonus * deviation, atol=1e-6)


def test_gp_ucb_leaves_the_old_state_alone_whatever_follows_from_it() -> None:
    problem, policy = ucb_problem(), GPUCB()
    state = policy.init(problem)
    plan = Plan(1, np.array([2]), np.array([1]), 1, 2, "one")
    for number in range(TOGETHER + 3):  # the updates are subtracted in between
        covariance, mean = own(state).belief.covariance, own(state).belief.mean.copy()
        one, other = (policy.advance(problem, state, plan, Feedback(np.array([y]), 1))[0] for y in (0.1, 5.0))
        np.testing.assert_array_equal(own(state).belief.covariance, covariance)
        np.testing.assert_array_equal(own(state).belief.mean, mean)
        np.testing.assert_array_equal(own(one).belief.covariance, own(other).belief.covariance)
        assert own(other).belief.mean[plan.arms[0]] > own(one).belief.mean[plan.arms[0]]
        np.testing.assert_allclose(own(one).belief.variance, own(one).belief.covariance.diagonal(), rtol=1e-9)
        state, plan = one, replace(plan, wave=number + 2, arms=np.array([number % problem.size]))


def test_gp_ucb_asks_a_new_person_every_round() -> None:
    scenario = make_scenario("synthetic", Options(seed=0, size=20, horizon=200))
    run = simulate(scenario, make_policy("gp-ucb"), 0)
    assert run.metrics.numbers == run.metrics.people == len(run.closed) == 200


def test_mini_gp_opt_repeats_an_action_until_its_variance_fell_by_the_ratio() -> None:
    problem = ucb_problem()
    policy = MiniGPOpt(ratio=3.0)
    state = policy.init(problem)
    plan = policy.plan(problem, state)
    assert isinstance(plan, Plan)
    assert plan.length == int(8 * noise_variance(problem))
    assert plan.numbers == plan.people == plan.length


def test_bpe_s_batches_fill_the_horizon_in_log_log_steps() -> None:
    for horizon in (1, 2, 17, 1000, 40_000, 10**9):
        lengths = batch_lengths(horizon)
        assert sum(lengths) == horizon
        assert lengths[0] == min(math.ceil(math.sqrt(horizon)), horizon)
        assert len(lengths) <= 3 + math.log2(1 + math.log2(1 + horizon))


def test_bpe_eliminates_by_the_posterior_of_every_round() -> None:
    problem = random_problem(3, n=9, horizon=100, beta=0.01)
    policy = BPE()
    state = policy.init(problem)
    plan = policy.plan(problem, state)
    assert isinstance(plan, Plan)
    y = np.linspace(-3, 3, len(plan.arms))
    after, _ = policy.advance(problem, state, plan, Feedback(y, 1))
    R2 = noise_variance(problem)
    K = problem.covariance(np.arange(9), np.arange(9))
    rows = np.repeat(plan.arms, plan.pulls)
    M = K[np.ix_(rows, rows)] + R2 * np.eye(len(rows))
    mean = K[:, rows] @ np.linalg.solve(M, np.repeat(y, plan.pulls))
    variance = np.diag(K) - np.einsum("ij,ji->i", K[:, rows], np.linalg.solve(M, K[rows]))
    width = (problem.norm_bound + math.sqrt(2 * math.log(100))) * np.sqrt(variance)
    np.testing.assert_allclose(after.upper, mean + width, rtol=1e-6)
    np.testing.assert_array_equal(after.active, np.flatnonzero(mean + width >= (mean - width).max()))


def test_bbkb_with_everything_in_its_dictionary_is_the_exact_posterior() -> None:
    problem, rng = ucb_problem(), np.random.default_rng(3)
    policy = make_policy("bbkb", oversampling=1e9)
    state, xs, ys = policy.init(problem), [], []
    points = problem.decisions.points
    while isinstance(plan := policy.plan(problem, state), Plan):
        y = rng.normal(0.7, 1, len(plan.arms))
        xs += [points[arm] for arm in np.repeat(plan.arms, plan.pulls)]
        ys += list(np.repeat(y - 0.7, plan.pulls))
        state, _ = policy.advance(problem, state, plan, Feedback(y, 1))
    oracle = GaussianProcessRegressor(RBF(0.4), alpha=noise_variance(problem), optimizer=None).fit(xs, ys)
    mean, deviation = oracle.predict(points, return_std=True)
    belief = own(state).belief
    np.testing.assert_allclose(belief.mean, mean, atol=1e-7)
    np.testing.assert_allclose(np.sqrt(belief.missing + np.diag(belief.covariance)), deviation, atol=1e-6)


def test_bbkb_ends_a_batch_when_the_variances_of_its_beginning_add_up_to_the_switch() -> None:
    problem = ucb_problem()
    policy = make_policy("bbkb", switch=3.0)
    state = policy.init(problem)
    for _ in range(4):
        plan = policy.plan(problem, state)
        assert isinstance(plan, Plan)
        variance = own(state).belief.missing + np.diag(own(state).belief.covariance)
        total = 1 + float(variance[plan.arms] @ plan.pulls) / noise_variance(problem)
        assert 3.0 < total <= 3.0 + variance.max() / noise_variance(problem)
        state, _ = policy.advance(problem, state, plan, Feedback(np.zeros(len(plan.arms)), 1))


@pytest.mark.parametrize("oversampling", [0.3, 1.0])
def test_bbkb_keeps_an_action_with_the_published_probability(oversampling: float) -> None:
    """Batch-bkb: min(1, q t s^2 / lambda) for an action played t times, by the variances at the start of the batch."""
    problem, rng, certain, drawn_by_chance = ucb_problem(), np.random.default_rng(5), 0, 0
    policy = make_policy("bbkb", oversampling=oversampling, seed=9)
    state = policy.init(problem)
    while isinstance(plan := policy.plan(problem, state), Plan):
        variance = own(state).belief.missing + np.maximum(np.diag(own(state).belief.covariance), 0.0)
        state, _ = policy.advance(problem, state, plan, Feedback(rng.normal(size=len(plan.arms)), 1))
        chance = np.minimum(1.0, oversampling * own(state).belief.rounds * variance / noise_variance(problem))
        dice = np.random.default_rng(np.random.SeedSequence(9, spawn_key=(plan.wave,))).random(problem.size)
        expected = np.flatnonzero((dice < chance) | (np.arange(problem.size) == plan.arms[0]))
        np.testing.assert_array_equal(own(state).belief.dictionary, expected)
        certain += int(np.count_nonzero(chance == 1.0))
        drawn_by_chance += int(np.count_nonzero((chance > 0) & (chance < 1)))
    assert drawn_by_chance > 0
    assert certain > 0


def test_bbkb_s_bonus_is_the_safe_one_or_the_published_one() -> None:
    problem = ucb_problem()
    wide, narrow = (make_policy("bbkb", switch=3.0, delta=0.2, **how) for how in ({}, {"bonus": "published"}))
    for policy in (wide, narrow):
        state = policy.init(problem)
        for gain in (0.0, None):  # before the first batch, and after it
            belief = own(state).belief
            gain = belief.gain if gain is None else gain
            deviation = np.sqrt(belief.missing + np.maximum(np.diag(belief.covariance), 0.0))
            safe = math.sqrt(3) * (1.5 + math.sqrt(2 * (gain + 1 + math.log(5))))
            published = 1.5 + math.sqrt(3 * (1 + 2 * gain) + math.log(5))
            assert published < safe
            bonus = safe if policy is wide else published
            np.testing.assert_allclose(state.upper - state.centre, bonus * deviation, rtol=1e-12)
            plan = policy.plan(problem, state)
            assert isinstance(plan, Plan)
            assert plan.arms[0] == np.argmax(state.centre + bonus * deviation)
            state, _ = policy.advance(problem, state, plan, Feedback(np.ones(len(plan.arms)), 1))
        assert own(state).belief.gain > 0


def test_bbkb_plays_in_batches_also_with_a_small_dictionary() -> None:
    scenario = make_scenario("synthetic", Options(size=50, horizon=3000))
    runs = [
        simulate(scenario, make_policy("bbkb", oversampling=1.0, delta=0.5, bonus=b), 0) for b in ("safe", "published")
    ]
    assert all(len(run.closed) < 1500 for run in runs)


def test_bbkb_needs_few_actions_in_its_dictionary_where_f_is_smooth() -> None:
    problem = Problem(np.linspace(0, 1, 80), SquaredExponential(0.4), 0.3, 0.4, norm_bound=1.0, horizon=3000)
    people = GPPeople(problem, 0.2 * np.cos(problem.decisions.points[:, 0]))
    policy = make_policy("bbkb", oversampling=2.0)
    state = [state for _, state in simulate_waves(problem, policy, people, 0)][-1]
    assert 1 <= len(own(state).belief.dictionary) < np.count_nonzero(own(state).belief.rounds)
    assert own(state).belief.missing.max() < 0.05  # and they see nearly everything


def test_dpbe_fixed_asks_the_same_number_every_wave_at_the_cost_of_dpbe() -> None:
    scenario = make_scenario("synthetic", Options(seed=1, horizon=5000))
    reference = simulate(scenario, make_policy("dpbe-paper"), 1)
    people = matching_people(reference.plans)
    run = simulate(scenario, make_policy("dpbe-fixed", people=people), 1)
    assert {plan.people for plan in run.plans} == {people}
    weights = [len(plan.arms) for plan in reference.plans]
    asked = [plan.people for plan in reference.plans]
    assert people == int(np.average(asked, weights=weights))


def test_dpbe_nobatching_plays_a_new_action_every_round_and_sends_every_observation() -> None:
    problem = random_problem(1, n=6, horizon=64)
    policy = make_policy("dpbe-nobatching")
    for (step,), _ in simulate_waves(problem, policy, GPPeople(problem, np.linspace(0, 0.1, 6)), 0):
        K = problem.covariance(np.arange(6), np.arange(6))
        counts = np.zeros(6)
        for _ in range(step.plan.length):
            rows = np.flatnonzero(counts)
            M = K[np.ix_(rows, rows)] + np.diag(problem.ridge / counts[rows])
            variance = np.diag(K) - np.einsum("ij,ji->i", K[:, rows], np.linalg.solve(M, K[rows]))
            counts[int(np.argmax(variance >= (1 - 1e-9) * variance.max()))] += 1
        played = np.zeros(6)
        played[step.plan.arms] = step.plan.pulls
        np.testing.assert_array_equal(played, counts)
        assert step.plan.numbers == step.plan.people * step.plan.length


@pytest.mark.parametrize("name", ["gp-ucb", "mini-gp-opt", "bpe", "bbkb"])
def test_policies_that_ask_one_person_a_round_cannot_be_private(name: str) -> None:
    scenario = make_scenario("sphere", Options(size=10, horizon=50))
    with pytest.raises(InputError, match=f"policy '{name}' asks one person per round"):
        simulate(scenario, make_policy(name), 0, Private("central", 5.0))


@pytest.mark.parametrize("name", ["gp-ucb", "mini-gp-opt", "bpe", "bbkb"])
def test_policies_that_ask_one_person_a_round_have_no_study(name: str) -> None:
    with pytest.raises(InputError, match=f"policy '{name}' asks one person per round"):
        Study(ucb_problem(), name)


def test_rounds_with_a_new_person_each_carry_a_new_bias_each() -> None:
    problem = random_problem(2, n=4, bias_std=0.5, noise_std=0.2)
    f = np.array([0.0, 1.0, 2.0, 3.0])
    plan = Plan(1, np.array([3, 1]), np.array([4, 25]), 29, reports="one")
    rng = np.random.default_rng(0)
    draws = np.array([GPPeople(problem, f).observe_each(plan, rng) for _ in range(20_000)])
    np.testing.assert_allclose(draws.mean(axis=0), [3.0, 1.0], atol=0.01)
    np.testing.assert_allclose(np.cov(draws.T), np.diag([0.29 / 4, 0.29 / 25]), atol=0.002)


def test_a_new_customer_every_round_buys_as_often_as_the_crowd() -> None:
    customers = Customers(np.array([3.0, 6.0, 9.0]))
    plan = Plan(1, np.arange(3), np.array([1_000_000, 1_000_000, 1_000_000]), 3_000_000, reports="one")
    average = customers.observe_each(plan, np.random.default_rng(0))
    np.testing.assert_allclose(average, customers.profit, rtol=0.01)


def test_unknown_settings_are_named() -> None:
    with pytest.raises(InputError, match=r"'gp-ucb' does not take alpha; leave it out, or choose the policy dpbe,"):
        make_policy("gp-ucb", alpha=0.5)
    with pytest.raises(InputError, match=r"policy 'waves' does not take patience; it takes answer_cost, tolerance,"):
        make_policy("waves", patience=3)
    assert isinstance(make_policy("dpbe-fixed", people=3), DPBE)
    with pytest.raises(InputError, match="policy 'dpbe-fixed' takes people"):
        make_policy("dpbe-fixed")
