"""Residual horizon optimisation: the value of an allocation, its derivative, and the best one where it is known."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from tests.helpers import drive, random_problem
from voxpop.errors import Array, InputError
from voxpop.model.waves import End, Feedback, Plan
from voxpop.policies import make_policy
from voxpop.policies.rho import RHO, Experiment


def experiment(mean: Array, covariance: Array, draws: int = 4000) -> Experiment:
    return Experiment(mean, covariance, 2.0, np.random.default_rng(0).standard_normal((2, draws, len(mean))))


def correlated(arms: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    root = rng.standard_normal((arms, arms))
    return 0.3 * rng.standard_normal(arms), root @ root.T / arms


def test_the_derivative_is_that_of_the_gain() -> None:
    made, share = experiment(*correlated(5)), np.array([0.1, 0.3, 0.2, 0.25, 0.15])
    _, slope = made.gain(share, 50.0)
    for arm in range(5):
        step = 1e-4 * np.eye(5)[arm]
        up, down = (made.gain(share * np.exp(sign * step), 50.0)[0] for sign in (1, -1))
        assert slope[arm] == pytest.approx((up - down) / 2e-4, abs=3e-4)


def test_no_numbers_gain_nothing_and_endless_numbers_what_knowing_f_would() -> None:
    mean, covariance = correlated(5)
    made, equal = experiment(mean, covariance, 100_000), np.full(5, 0.2)
    assert made.gain(equal, 0.0)[0] == 0
    truths = mean + made.truths
    assert made.gain(equal, 1e12)[0] == pytest.approx(float(truths.max(axis=1).mean() - mean.max()), abs=0.01)
    np.testing.assert_allclose(np.cov(made.truths.T), covariance, atol=0.02)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_the_gain_with_two_arms_is_the_known_one(share: float) -> None:
    """The difference of the means moves by N(0, r^2), and E max(0, N(-d, r^2)) has a closed form."""
    made = experiment(np.array([0.3, 0.0]), np.diag([1.0, 2.0]), 200_000)
    shares = np.array([share, 1 - share])
    after = 1 / (1 / np.array([1.0, 2.0]) + 40 * shares / 4)
    r = math.sqrt(3.0 - after.sum())
    known = r * math.exp(-((0.3 / r) ** 2) / 2) / math.sqrt(2 * math.pi) - 0.3 * ndtr(-0.3 / r)
    assert made.gain(shares, 40.0)[0] == pytest.approx(known, abs=0.01)


def test_the_best_allocation_of_two_arms_is_found() -> None:
    made = experiment(np.array([0.1, 0.0]), np.diag([0.3, 2.0]))
    choices = [np.array([share, 1 - share]) for share in np.linspace(0.01, 0.99, 99)]
    gains = [made.gain(choice, 4.0)[0] for choice in choices]
    assert made.gain(made.best(4.0), 4.0)[0] == pytest.approx(max(gains), rel=0.002)
    assert gains[49] < 0.95 * max(gains)


def test_what_is_known_gets_nothing() -> None:
    share = experiment(np.zeros(4), np.diag([1.0, 1e-9, 1.0, 1e-9])).best(100.0)
    assert share[[1, 3]].sum() < 0.01
    assert share[0] == pytest.approx(share[2], abs=0.1)


def test_every_batch_plays_its_share_of_the_numbers() -> None:
    problem, rng = random_problem(3, n=30, horizon=5000), np.random.default_rng(0)
    policy = RHO(batches=3, numbers=3000)
    steps = list(drive(policy, problem, lambda plan: Feedback(rng.normal(0, 0.01, len(plan.arms)), plan.people)))
    assert len(steps) == 3
    for _, plan, *_ in steps:
        assert plan.numbers == pytest.approx(1000, abs=len(plan.arms))
    assert policy.plan(problem, steps[-1][3]) == End("every batch is played")


def test_nothing_is_asked_when_no_answer_is_expected_to_change_the_decision() -> None:
    problem = random_problem(3, n=30, horizon=5000)
    f = np.where(np.arange(30) == 4, 1.0, 0.0)
    policy = RHO()
    steps = list(drive(policy, problem, lambda plan: Feedback(f[plan.arms], 10**9)))
    assert len(steps) < policy.batches
    assert policy.plan(problem, steps[-1][3]) == End("no answers are expected to change the decision")


def test_one_action_needs_no_batch() -> None:
    problem, policy = random_problem(1, n=1), make_policy("rho")
    assert policy.plan(problem, policy.init(problem)) == End("no answers are expected to change the decision")


def test_draws_have_a_seed_of_their_own() -> None:
    problem = random_problem(3, n=30, horizon=5000)

    def arms(seed: int) -> set[int]:
        plan = RHO(seed=seed).plan(problem, RHO().init(problem))
        assert isinstance(plan, Plan)
        return set(plan.arms.tolist())

    assert arms(0) == arms(0) != arms(1)


@pytest.mark.parametrize(("setting", "value"), [("batches", 0), ("batches", 11), ("numbers", 0)])
def test_a_bad_setting_is_refused(setting: str, value: int) -> None:
    with pytest.raises(InputError, match=f"^{setting} must be .*, got {value}$"):
        make_policy("rho", **{setting: value})
