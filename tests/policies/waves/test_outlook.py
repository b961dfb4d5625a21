"""The value of a wave: against a closed form, brute force, and itself computed in other ways."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from tests.helpers import everything, function_of_norm, random_problem
from voxpop.errors import Array
from voxpop.gp.belief import Belief, believe
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Indices, Problem
from voxpop.model.waves import Answered, Feedback, Plan
from voxpop.policies.waves.outlook import MOST_ARMS, Outlook


def looked(seed: int, n: int = 12, answered: bool = True, d: int = 2) -> tuple[Problem, Belief, Outlook]:
    """Look at a random problem before or after a first wave."""
    problem = random_problem(seed, n=n, d=d)
    history = []
    if answered:
        rng = np.random.default_rng(seed)
        arms = rng.choice(n, min(3, n), replace=False)
        mean = function_of_norm(problem, 0.8, rng)[arms]
        history = [Answered(Plan(1, arms, np.ones(len(arms), int), 20), Feedback(mean, 20))]
    belief = believe(problem, history)
    best = int(np.argmax(belief.mean))
    return problem, belief, Outlook.of(belief, everything(problem), best, seed=0)


def brute_force(mean: Array, covariance: Array, arms: Indices, noise: Array, draws: int = 400_000) -> float:
    """Draw what the wave's averages may be, and compute the posterior mean of each by Bayes' rule."""
    rng = np.random.default_rng(99)
    inner = covariance[np.ix_(arms, arms)] + noise
    surprise = rng.multivariate_normal(np.zeros(len(arms)), inner, size=draws)
    after = mean + surprise @ np.linalg.solve(inner, covariance[arms])
    return float(after.max(axis=1).mean() - mean.max())


@pytest.mark.parametrize("gap", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("people", [1, 30, 1000])
def test_with_two_actions_the_value_is_that_of_the_larger_of_two_gaussians(gap: float, people: int) -> None:
    """E max(a, b) - a = s phi(gap / s) - gap Phi(-gap / s), if b - a has mean -gap and deviation s after the wave."""
    problem = Problem([[0.0], [0.4]], SquaredExponential(0.3), 0.1, 0.3, norm_bound=2.0, horizon=100)
    prior = believe(problem)
    belief = Belief(
        Problem([[0.0], [0.4]], SquaredExponential(0.3), 0.1, 0.3, 2.0, 100, prior_mean=[gap, 0.0]), prior.rows, 1.0, 1
    )
    outlook = Outlook.of(belief, np.arange(2), 0, seed=0)
    noise = problem.answer_noise(np.arange(2), np.ones(2, int), people)
    S = belief.covariance(np.arange(2))
    moved = S @ np.linalg.solve(S + noise, S)  # the covariance of the posterior means
    s = math.sqrt(moved[0, 0] + moved[1, 1] - 2 * moved[0, 1])
    exact = s * norm.pdf(gap / s) - gap * norm.cdf(-gap / s)
    places = np.flatnonzero(np.isin(outlook.actions, [0, 1]))
    found = outlook.values(places, noise[None], fresh=True)[0]
    assert found == pytest.approx(exact, abs=4 * s / math.sqrt(1024) + 1e-9)
    rough = outlook.values(places, noise[None])[0]
    assert rough == pytest.approx(exact, abs=4 * s / math.sqrt(64) + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_values_agree_with_brute_force(seed: int) -> None:
    problem, belief, outlook = looked(seed)
    places = np.random.default_rng(seed).choice(len(outlook.actions), 1 + seed % 4, replace=False)
    arms = outlook.actions[places]
    noises = np.array([problem.answer_noise(arms, np.ones(len(arms), int), people) for people in (5, 500)])
    contenders = np.arange(outlook.contenders)
    for found, noise in zip(outlook.values(places, noises, fresh=True), noises, strict=True):
        # Actions that are no contenders could only add to the value; here they add next to nothing.
        exact = brute_force(belief.mean, belief.covariance(everything(problem)), arms, noise)
        spread = math.sqrt(belief.covariance(outlook.actions[contenders]).diagonal().max())
        assert found == pytest.approx(exact, abs=4 * spread / math.sqrt(1024))


@given(seed=st.integers(0, 200), fresh=st.booleans(), count=st.integers(1, 5))
def test_values_for_numbers_of_people_are_those_of_their_noise(seed: int, fresh: bool, count: int) -> None:
    problem, _, outlook = looked(seed)
    places = np.random.default_rng(seed).choice(len(outlook.actions), count, replace=False)
    arms = outlook.actions[places]
    single = problem.answer_noise(arms, np.full(count, 2))
    people = np.array([1.0, 20.0, 29.0, 1e4, 1e7])
    shared = 0.1 * float(single.diagonal().mean()) * (np.eye(count) + 0.5)
    direct = outlook.values(places, single / people[:, None, None] + shared, fresh)
    # The draws are rotated, so that only the law is the same; single arms have no rotation but the sign.
    found = outlook.values_of_people(places, single, shared, people, fresh)
    spread = math.sqrt(outlook.covariance.diagonal().max())
    slack = 1e-6 * spread if count == 1 else 6 * spread / math.sqrt(1024 if fresh else 64)
    assert found == pytest.approx(direct, abs=slack)


@pytest.mark.parametrize("seed", range(5))
def test_more_people_are_worth_more_and_never_more_than_knowing_everything(seed: int) -> None:
    problem, _, outlook = looked(seed)
    places = np.arange(min(4, len(outlook.actions)))
    single = problem.answer_noise(outlook.actions[places], np.ones(len(places), int))
    values = outlook.values_of_people(places, single, 0 * single, np.geomspace(1, 1e6, 12), fresh=True)
    assert (np.diff(values) > -1e-9).all()
    assert values[0] >= 0
    assert values[-1] <= outlook.expected_loss + 4 * math.sqrt(outlook.covariance.diagonal().max() / 512)


def test_noise_that_drowns_everything_leaves_no_value() -> None:
    problem, _, outlook = looked(1)
    noise = 1e12 * problem.answer_noise(outlook.actions[:2], np.ones(2, int))
    assert outlook.values(np.arange(2), noise[None], fresh=True)[0] == pytest.approx(0.0, abs=1e-5)


def test_the_expected_loss_is_that_of_the_incumbent_against_the_best() -> None:
    problem, belief, outlook = looked(3)
    rng = np.random.default_rng(0)
    f = rng.multivariate_normal(belief.mean, belief.covariance(everything(problem)), size=200_000, method="eigh")
    exact = (f.max(axis=1) - f[:, int(np.argmax(belief.mean))]).mean()
    spread = math.sqrt(float(belief.covariance(everything(problem)).diagonal().max()))
    assert outlook.expected_loss == pytest.approx(exact, abs=4 * spread / math.sqrt(512))


def test_nothing_is_lost_if_everything_is_known() -> None:
    problem = random_problem(0, n=4)
    arms = np.arange(4)
    feedback = Feedback(np.array([0.1, 0.2, 0.9, 0.3]), 10**12)
    belief = believe(problem, [Answered(Plan(1, arms, np.ones(4, int), 10**12), feedback)])
    outlook = Outlook.of(belief, arms, 2, 0)
    assert outlook.expected_loss == pytest.approx(0.0, abs=1e-6)
    assert outlook.loss(np.flatnonzero(outlook.actions == 2))[0] == 0.0


# Orders of the arms


@pytest.mark.parametrize("seed", range(8))
def test_the_first_arm_by_value_is_the_one_worth_most_alone(seed: int) -> None:
    problem, _, outlook = looked(seed)
    noise = problem.answer_noise(outlook.actions, np.ones(len(outlook.actions), int), 60)
    alone = [outlook.values(np.array([p]), noise[p, p][None, None, None])[0] for p in outlook.pool]
    # Both use the same draws: the first row of them.
    assert outlook.by_value(noise, 3)[0] == outlook.pool[int(np.argmax(alone))]


@pytest.mark.parametrize("seed", range(4))
def test_each_arm_by_value_adds_most_to_those_before_it(seed: int) -> None:
    problem, _, outlook = looked(seed, n=8)
    noise = problem.answer_noise(outlook.actions, np.ones(len(outlook.actions), int), 60)
    order = outlook.by_value(noise, 4)
    for size in range(1, 4):

        def value(arm: int, before: tuple[int, ...] = tuple(order[:size])) -> float:
            places = np.array([*before, arm])
            return float(outlook.values(places, noise[np.ix_(places, places)][None])[0])

        others = [arm for arm in outlook.pool.tolist() if arm not in order[:size]]
        assert value(order[size]) >= max(map(value, others)) - 1e-9


def test_the_first_arm_by_variance_is_the_one_known_least() -> None:
    problem, _, outlook = looked(2)
    noise = problem.answer_noise(outlook.actions, np.ones(len(outlook.actions), int), 60)
    first, second, *_ = outlook.by_variance(noise, 4)
    S, N = outlook.covariance, noise
    assert S[first, first] == pytest.approx(S.diagonal()[outlook.pool].max(), rel=1e-9)
    after = S - np.outer(S[:, first], S[first]) / (S[first, first] + N[first, first])
    assert after[second, second] == pytest.approx(after.diagonal()[outlook.pool].max(), rel=1e-9)


def test_orders_name_every_arm_of_the_pool_once() -> None:
    problem, _, outlook = looked(5, n=9)
    noise = problem.answer_noise(outlook.actions, np.ones(len(outlook.actions), int), 60)
    for order in (outlook.by_value(noise, 50), outlook.by_variance(noise, 50), outlook.by_chance(50)):
        assert sorted(order) == sorted(outlook.pool.tolist())


@pytest.mark.parametrize("seed", range(6))
def test_by_chance_arms_are_ordered_by_how_likely_they_beat_the_incumbent(seed: int) -> None:
    _, _, outlook = looked(seed)
    order = outlook.by_chance(MOST_ARMS)
    best = outlook.incumbent
    S = outlook.covariance

    def chance(place: int) -> float:
        gap = outlook.mean[place] - outlook.mean[best]
        return float(norm.cdf(gap / math.sqrt(max(S[place, place] + S[best, best] - 2 * S[place, best], 1e-300))))

    chances = [chance(place) for place in order if place != best]
    assert chances == sorted(chances, reverse=True)


# What is looked at


def test_contenders_hold_the_incumbent_and_come_first() -> None:
    problem, belief, outlook = looked(0, n=12)
    assert outlook.actions[outlook.incumbent] == np.argmax(belief.mean)
    assert outlook.incumbent < outlook.contenders
    assert len(np.unique(outlook.actions)) == len(outlook.actions)
    assert outlook.mean == pytest.approx(belief.mean[outlook.actions])
    assert outlook.covariance == pytest.approx(belief.covariance(outlook.actions))
    left_out = np.setdiff1d(everything(problem), outlook.actions[: outlook.contenders])
    lead = belief.mean[left_out] + 4 * belief.deviation[left_out]
    assert (lead <= belief.mean.max() + 1e-9).all()


def test_only_active_actions_are_looked_at() -> None:
    _, belief, _ = looked(0, n=12)
    active = np.array([1, 4, 5, 9])
    outlook = Outlook.of(belief, active, 4, seed=0)
    assert set(outlook.actions.tolist()) <= set(active.tolist())


def test_very_many_actions_are_looked_at_in_part() -> None:
    problem = random_problem(0, n=5000)
    outlook = Outlook.of(believe(problem), everything(problem), 4017, seed=0)
    assert len(outlook.actions) < 250
    assert outlook.actions[outlook.incumbent] == 4017
    assert outlook.incumbent < outlook.contenders
    assert len(outlook.pool) >= 20


def test_the_same_seed_gives_the_same_draws_and_another_others() -> None:
    _, belief, outlook = looked(0)
    active = np.arange(12)
    again, other = (Outlook.of(belief, active, int(np.argmax(belief.mean)), seed) for seed in (0, 1))
    assert (again.metrics[0].xi == outlook.metrics[0].xi).all()
    assert (again.metrics[0].fresh_xi == outlook.metrics[0].fresh_xi).all()
    assert not (other.metrics[0].xi == outlook.metrics[0].xi).any()
    assert outlook.metrics[0].xi.mean() == pytest.approx(0.0, abs=1e-12)  # antithetic


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("noise_std", [1e-6, 1e-9, 1e-30])
def test_people_without_noise_of_their_own_can_be_valued(noise_std: float) -> None:
    """Then the noise of one person is a singular matrix, but for rounding."""
    problem = random_problem(3, n=60, d=1, noise_std=noise_std)
    outlook = Outlook.of(believe(problem), everything(problem), 0, seed=0)
    noise = problem.answer_noise(outlook.actions, np.ones(len(outlook.actions), int))
    order = outlook.by_value(noise / 60, MOST_ARMS)
    assert len(set(order)) == len(order) >= 10
    assert len(set(outlook.by_variance(noise / 60, MOST_ARMS))) >= 10
    for places in (np.array(order), np.arange(25)):
        single = noise[np.ix_(places, places)]
        values = outlook.values_of_people(places, single, 0 * single, np.array([20.0, 2000.0]))
        assert 0 < values[0] < values[1] < 10
