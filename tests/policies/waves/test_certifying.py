"""Waves that aim at a tolerance: they reach it, or the study says why not; delta is never spent twice."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers import evidence, random_problem
from tests.helpers_waves import everyone, played, truth
from voxpop.model.noise import Shocks
from voxpop.model.state import OPEN
from voxpop.model.waves import End, Feedback, Forecast, Plan
from voxpop.policies.waves.certifying import Certifier
from voxpop.policies.waves.planning import Limits
from voxpop.policies.waves.policy import CERTIFYING, Waves
from voxpop.policies.waves.sealing import Evidence, Model, split_pilot


@pytest.mark.parametrize("answer_cost", [None, 1e300])
@pytest.mark.parametrize("tolerance", [0.3, 0.1, 0.02])
@pytest.mark.parametrize("seed", range(3, 6))
def test_a_tolerance_is_reached_even_if_that_does_not_pay(
    seed: int, tolerance: float, answer_cost: float | None
) -> None:
    problem = random_problem(seed, horizon=3000)
    f = truth(problem, seed)
    policy = Waves(tolerance=tolerance, answer_cost=answer_cost)
    study = played(policy, problem, everyone(problem, f, seed))
    assert study.state.certificate <= tolerance or f"tolerance of {tolerance:g}" in study.end
    if tolerance >= 0.1:
        assert study.state.certificate <= tolerance
    assert f.max() - f[study.state.best] <= study.state.certificate + 1e-12


def test_a_wave_that_aims_at_a_certificate_says_what_it_expects() -> None:
    problem = random_problem(0, horizon=3000)
    policy = Waves(tolerance=0.2, answer_cost=1e300)
    plan = policy.plan(problem, policy.init(problem))
    assert isinstance(plan, Plan)
    assert plan.aims_at_certificate
    assert plan.forecast is not None
    assert plan.forecast.certificate is not None
    assert 0 < plan.forecast.certificate <= 0.2
    assert plan.forecast.answers == pytest.approx(1e300 * plan.numbers)


def test_waves_that_pay_come_before_waves_that_only_certify() -> None:
    problem = random_problem(0, horizon=3000)
    plan = Waves(tolerance=0.2).plan(problem, Waves().init(problem))
    assert isinstance(plan, Plan)
    assert not plan.aims_at_certificate


@pytest.mark.parametrize(
    ("horizon", "limits"),
    [(4, {}), (3000, {"most_people": 25}), (3000, {"most_numbers": 60}), (3000, {"population": 5})],
)
def test_a_tolerance_that_cannot_be_reached_ends_with_the_reason(horizon: int, limits: dict[str, Any]) -> None:
    problem = random_problem(1, horizon=horizon)
    policy = Waves(tolerance=1e-6, **limits)
    study = played(policy, problem, everyone(problem, truth(problem, 1), 1))
    assert study.state.certificate > 1e-6
    assert any(word in study.end for word in ("tolerance of 1e-06", "were asked", "too few for a wave", "every round"))


def test_a_tolerance_that_the_prior_meets_needs_nobody() -> None:
    problem = random_problem(0, horizon=3000)
    end = Waves(tolerance=2.5).plan(problem, Waves().init(problem))
    assert end == End("what is assumed leaves nothing beyond the tolerance of 2.5")


@pytest.mark.filterwarnings("error")
def test_what_is_spent_never_exceeds_delta_whatever_happens() -> None:
    """Six waves may aim at a certificate; a study that goes on after its end has a small rest to spend."""
    problem = random_problem(3, n=8, horizon=3000)
    policy = Waves(tolerance=0.01)
    state = policy.init(problem)
    for number in range(CERTIFYING):
        aim = Forecast(0, 0, 0, 0.01)
        aimed = Plan(number + 1, np.array([0]), np.array([1]), 2, state.best, forecast=aim, sealed=0.5)
        state, _ = policy.advance(problem, state, aimed, Feedback(np.zeros(1), 2))
    assert 0.99 * policy.delta < state.spent < policy.delta
    assert policy.plan(problem, state) == End("6 waves did not certify the tolerance of 0.01")
    for _ in range(3):
        spent = state.spent
        state = state.concluded()
        assert state.concluded() is state
        assert spent < state.spent < policy.delta
        again = Plan(state.wave + 1, np.array([0]), np.array([1]), 2, state.best, sealed=0.5)
        state, _ = policy.advance(problem, state, again, Feedback(np.zeros(1), 2))


@pytest.mark.parametrize("horizon", range(10, 19))
@pytest.mark.parametrize("settings", [{"tolerance": 0.2, "answer_cost": 1e300}, {"checks": 4, "answer_cost": 0.0}])
def test_answers_are_in_before_the_horizon(horizon: int, settings: dict[str, Any]) -> None:
    problem = random_problem(3, horizon=horizon)
    policy = Waves(answer_delay=7, **settings)
    study = played(policy, problem, everyone(problem, truth(problem, 3), 3))
    assert study.rounds < horizon
    assert all(plan.rest == 7 for plan in study.plans)
    assert study.plans or "tolerance" in settings


def test_more_answers_never_make_what_is_predicted_worse() -> None:
    """Even after a pilot in bad weather, whose shocks are no bias of the waves to come."""
    problem = random_problem(0, horizon=3000)
    some = problem.decisions.points[::4]
    problem = replace(problem, pilot=(evidence(some, np.ones(len(some)), 40, np.zeros(len(some))),))
    policy, everybody = Waves(tolerance=0.1), np.arange(problem.size)
    state = policy.init(problem)
    pilot = split_pilot(problem, policy.seed)[1]
    assert pilot is not None
    sealed = Evidence(problem, (pilot,), Model(problem.norm_bound), shocks=Shocks(0.1))
    limits = Limits(3000, 10_000, 10**6)
    certifier = Certifier(problem, state, OPEN, state.centre, sealed, 0.01, 0.0, 1.0, limits, 20)
    before = state.centre - state.centre[state.best] + sealed.widths(everybody, state.best, 0.01)
    others = everybody != state.best
    few, many = (certifier._bounds(everybody, 16, people)[others] for people in (20, 10_000))
    assert (few <= before[others] + 1e-9).all()
    assert (many <= few + 1e-9).all()
    assert many.max() < 0.7 * before.max()
