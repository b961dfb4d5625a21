"""The bounds hold under privacy as often as they say, and are not needlessly wide."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import everything, function_of_norm, random_problem, worst_function
from tests.helpers_privacy import DELTA, MODELS, Case, first_wave, later_wave, released, simulated
from voxpop.errors import Array
from voxpop.gp.selection import select
from voxpop.gp.widths import AffineEstimator
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.policies.dpbe import DPBE
from voxpop.privacy import Private
from voxpop.privacy.ball import Ball, candidates
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.models import SHARE
from voxpop.simulation.people import GPPeople
from voxpop.simulation.simulator import simulate_waves

BETA = 0.05
EPSILON = {"central": 2.0, "local": 15.0, "shuffle": 2.0, "aggregate": 2.0}


def hardest(problem: Problem, privacy: Private, wave: int, x: int) -> Array:
    """Return the function of norm B whose value at x is farthest from its estimate in this wave."""
    chosen = select(problem, everything(problem), 2 ** (wave - 1), DPBE().ratio, "corrected")
    plan = Plan(wave, chosen.arms, chosen.pulls, 20)
    state = DPBE().init(problem)
    release = privacy.calibrate(problem, state, plan)
    noise = release.analyze(release.tally(release.randomize(np.zeros((20, len(plan.arms))), simulated())), simulated())
    assert noise.noise is not None
    estimator = AffineEstimator(problem, plan.arms, problem.answer_noise(plan.arms, plan.pulls, 20) + noise.noise)
    return worst_function(problem, plan.arms, estimator.values(everything(problem), 1.0).weights[x], x)


def misses(privacy: Private, worst: bool) -> tuple[Array, Array]:
    """Collect |truth - centre| / width over active actions, waves and runs, of f and of gaps."""
    problem, policy = random_problem(3, n=8, bias_std=0.2, horizon=63, beta=BETA), DPBE()
    of_values, of_gaps = list[Array](), list[Array]()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x, wave = int(rng.integers(8)), int(rng.integers(2, 7))
        f = hardest(problem, privacy, wave, x) if worst else function_of_norm(problem, 1.0, rng)
        before = policy.init(problem)
        for (step,), after in simulate_waves(problem, policy, GPPeople(problem, f), seed, privacy):
            at, gaps = before.active, replace(policy, intersect=False)
            bare, _ = replace(gaps, compare=False).advance(problem, before, step.plan, step.feedback)
            of_values.append((np.abs(f - bare.centre) / (bare.upper - bare.centre))[at])
            alone, _ = gaps.advance(problem, before, step.plan, step.feedback)
            others = at[at != step.plan.reference]
            gap = np.abs(f - f[step.plan.reference] - alone.lead)
            of_gaps.append(gap[others] / alone.lead_width[others])
            before = after
    return np.concatenate(of_values), np.concatenate(of_gaps)


@pytest.mark.parametrize("worst", [False, True], ids=["random", "worst"])
@pytest.mark.parametrize("model", MODELS)
def test_truth_is_outside_the_private_bounds_less_often_than_beta(model: str, worst: bool) -> None:
    of_values, of_gaps = misses(Private(model, EPSILON[model], DELTA, floor=20), worst)
    assert len(of_values) > 1000
    assert np.mean(of_values > 1) < BETA
    assert np.mean(of_gaps > 1) < BETA
    assert np.mean(of_values > 0.5) > 0.05  # not by being needlessly wide


@pytest.mark.parametrize("model", MODELS)
def test_widths_grow_as_epsilon_falls_and_tend_to_those_without_privacy(model: str) -> None:
    case = later_wave(2, people=200)
    plain = case.problem.answer_noise(case.plan.arms, case.plan.pulls, 200)
    widths = []
    for epsilon in (0.5, 5.0, 50.0, 1000.0):
        feedback = released(case.release(Private(model, epsilon)), case.answers(200), simulated())
        assert feedback.noise is not None
        estimator = AffineEstimator(case.problem, case.plan.arms, plain + feedback.noise, feedback.clipping)
        widths.append(float(estimator.values(everything(case.problem), 1.0).width.mean()))
    without = float(
        AffineEstimator(case.problem, case.plan.arms, plain).values(everything(case.problem), 1.0).width.mean()
    )
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 1.1 * without
    assert without < widths[-1] < 1.05 * without


@pytest.mark.parametrize("model", MODELS)
def test_the_floor_keeps_the_widths_as_if_the_sample_had_halved(model: str) -> None:
    case = first_wave(people=8)
    privacy = Private(model, 5.0)
    plan = privacy.enlist(case.problem, case.state, case.plan)
    assert plan.people > 8
    at = everything(case.problem)
    target = AffineEstimator(
        case.problem, plan.arms, SHARE * case.problem.answer_noise(plan.arms, plan.pulls, 8)
    ).values(at, 1.0)

    def predicted(people: int) -> float:
        larger = replace(case, plan=replace(plan, people=people))
        release = larger.release(privacy)
        feedback = released(release, larger.answers(people), simulated())
        assert feedback.noise is not None
        noise = case.problem.answer_noise(plan.arms, plan.pulls, people) + feedback.noise
        return float(AffineEstimator(case.problem, plan.arms, noise).values(at, 1.0).width.mean())

    assert predicted(plan.people) <= 1.001 * target.width.mean()
    assert predicted(int(0.8 * plan.people)) > target.width.mean()


@pytest.mark.parametrize(("floor", "people"), [(0, 8), (5, 8), (300, 300)])
def test_a_given_floor_is_the_least_number_of_people(floor: int, people: int) -> None:
    case = first_wave(people=8)
    assert Private("central", 5.0, floor=floor).enlist(case.problem, case.state, case.plan).people == people


def test_the_printed_schedule_has_no_floor_of_its_own() -> None:
    case = first_wave(people=8)
    assert Private("central", 5.0, calibration="paper").enlist(case.problem, case.state, case.plan).people == 8


@pytest.mark.parametrize("epsilon", [0.3, 5.0, 30.0])
@pytest.mark.parametrize(("model", "power"), [("central", 2), ("local", 1)])
def test_the_ball_that_predicts_the_smallest_widths_is_taken(model: str, power: int, epsilon: float) -> None:
    for case in (first_wave(), later_wave(2), later_wave(4, people=400)):
        people = case.plan.people

        def width(ball: Ball, case: Case = case, people: int = people) -> float:
            noise = case.problem.answer_noise(case.plan.arms, case.plan.pulls, people)
            noise += (2 * ball.radius * noise_multiplier(epsilon, DELTA)) ** 2 / people**power * ball.shape
            at = case.state.active
            return float(AffineEstimator(case.problem, case.plan.arms, noise).values(at, 1.0).width.mean())

        taken = case.release(Private(model, epsilon)).ball
        smallest = min(width(ball) for ball in candidates(case.problem, case.plan, case.state))
        assert width(taken) == pytest.approx(smallest, rel=1e-6)
