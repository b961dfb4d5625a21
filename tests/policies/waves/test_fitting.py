"""Whether the answers fit the model: what is noticed, what is assumed from then on, and false alarms."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import evidence, function_of_norm, random_problem
from tests.helpers_waves import everyone, truth
from voxpop.errors import Array
from voxpop.gp.belief import pilot_rows
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.waves import Answered, Feedback, Plan
from voxpop.policies.waves.fitting import Fit, model_check, people_check
from voxpop.policies.waves.sealing import Model

ARMS = np.array([0, 2, 5, 8, 11])


def wave(wave: int = 1, people: int = 200) -> Plan:
    return Plan(wave, ARMS, np.ones(5, int), people)


def answered(problem: Problem, f: Array, seed: int, waves: int = 1) -> tuple[Answered, ...]:
    ask = everyone(problem, f, seed)
    return tuple(Answered(wave(number + 1), ask(wave(number + 1))) for number in range(waves))


def checked(problem: Problem, history: tuple[Answered, ...], bound: float = 1.0, pilot: bool = True) -> Fit:
    rows = pilot_rows(problem) if pilot else None
    return model_check(problem, rows, history, Model(bound), lambda model: model.norm_bound)


def test_people_who_follow_the_model_raise_few_alarms() -> None:
    """The warning is false with probability 0.01 at most, and the scatter's with 0.001."""
    warned = raised = 0
    for seed in range(150):
        bound = 1.0 if seed % 2 else 1e-3  # so small that f cannot follow the noise
        problem = random_problem(seed, norm_bound=bound)
        f = function_of_norm(problem, bound, np.random.default_rng(seed))
        fit = checked(problem, answered(problem, f, seed, waves=2), bound)
        warned += bool(fit.warning)
        raised += fit.model.norm_bound > bound
        assert fit.pilot
    assert warned <= 9  # exceeded with probability 1e-5 if each were false with probability 0.011
    assert raised <= 15


@pytest.mark.parametrize("times", [20.0, 1e4, 1e6])
@pytest.mark.parametrize("seed", range(3))
def test_a_norm_bound_that_is_far_too_small_is_raised_by_what_is_needed(seed: int, times: float) -> None:
    problem = random_problem(seed)
    f = function_of_norm(problem, times, np.random.default_rng(seed))
    fit = checked(problem, answered(problem, f, seed))
    bound = fit.model.norm_bound
    assert 1.0 < bound <= 3 * times
    assert f"no function of norm 1 fits the answers: the norm bound was raised to {bound:.3g}" in fit.warning
    again = model_check(problem, None, answered(problem, f, seed), fit.model, lambda model: model.norm_bound)
    assert again.model == fit.model
    assert "norm" not in again.warning


def test_a_rough_function_is_taken_for_one_of_a_shorter_length_scale() -> None:
    """It has a norm of 4 under a shorter length-scale, where the longer one would need a hundred times as much."""
    smooth = Problem(np.linspace(0, 1, 41), SquaredExponential(0.4), 0.01, 0.05, norm_bound=1.0, horizon=1000)
    rough = replace(smooth, kernel=SquaredExponential(0.4 / math.sqrt(8)), norm_bound=4.0)
    f = function_of_norm(rough, 4.0, np.random.default_rng(0))
    plan = Plan(1, np.arange(0, 41, 4), np.ones(11, int), 500)
    fit = checked(smooth, (Answered(plan, everyone(smooth, f, 0)(plan)),))
    alone = model_check(
        smooth, None, (Answered(plan, everyone(smooth, f, 0)(plan)),), Model(1.0), lambda model: model.power
    )
    assert fit.model.power > 1
    assert f"every similarity is taken to the power of {fit.model.power}" in fit.warning
    assert alone.model.power == 1
    assert fit.model.norm_bound < alone.model.norm_bound / 10


def test_a_shorter_length_scale_counts_with_the_norm_that_smooth_functions_have_there() -> None:
    """|f| in k^q is at most q^(d/4) |f| in k: models further down the list hold all that is held before."""
    kernel, points = SquaredExponential(0.3), np.linspace(0, 1, 25)[:, None]
    rng = np.random.default_rng(0)
    for power in (2, 4, 8):
        K = kernel(points, points)
        centres = rng.uniform(size=(3, 1))
        weights = rng.standard_normal(3)
        norm = math.sqrt(weights @ kernel(centres, centres) @ weights)
        f = kernel(points, centres) @ weights
        other = math.sqrt(f @ np.linalg.lstsq(K**power, f, rcond=1e-12)[0])
        assert other <= norm * power ** (1 / 4) * (1 + 1e-6)


def test_waves_that_no_function_reconciles_are_said_to_contradict_each_other() -> None:
    problem = random_problem(0)
    first, second = (Answered(wave(number), Feedback(np.full(5, mean), 200)) for number, mean in ((1, 0.5), (2, -0.5)))
    fit = checked(problem, (first, second))
    assert "the waves contradict each other" in fit.warning
    assert fit.model == Model(1.0)
    assert not fit.consistent


def test_rounds_that_nobody_measured_are_named_as_a_cause() -> None:
    problem = random_problem(0)
    history = answered(problem, function_of_norm(problem, 20.0, np.random.default_rng(0)), 0)
    measured = replace(problem, shock_freedom=50.0)
    assert "rounds that move everybody's rewards would look the same" in checked(problem, history).warning
    assert "was raised" in (known := checked(measured, history).warning)
    assert "rounds" not in known


def test_people_who_differ_more_than_the_model_says_are_noticed() -> None:
    model, people = random_problem(0, bias_std=0.1), random_problem(0, bias_std=0.4)
    warning = people_check(model, *answered(people, truth(model, 0), 0)[0])
    seen = math.sqrt((0.4**2 + 0.1**2) / (0.1**2 + 0.1**2))
    assert "people differ" in warning
    told = float(warning.split("people differ ")[1].split(" times")[0])
    assert told == pytest.approx(seen, rel=0.25)


def piloted(mean: Array) -> Problem:
    bare = random_problem(0)
    return random_problem(0, pilot=[evidence(bare.decisions.points[ARMS], np.full(5, 3), 100, mean)])


def test_a_pilot_that_contradicts_the_waves_is_set_aside_and_one_that_agrees_is_not() -> None:
    f = truth(random_problem(0), 0)
    for mean, agrees in ((f[ARMS], True), (f[ARMS] + 0.5, False)):
        problem = piloted(mean)
        fit = checked(problem, answered(problem, f, 0))
        assert fit.pilot is agrees
        assert ("the pilot contradicts the waves" in fit.warning) is not agrees


def test_a_pilot_that_was_set_aside_does_not_come_back() -> None:
    f = truth(random_problem(0), 0)
    problem = piloted(f[ARMS])
    fit = checked(problem, answered(problem, f, 0), pilot=False)
    assert not fit.pilot
    assert "the pilot contradicts the waves" in fit.warning


def test_a_pilot_does_not_raise_the_norm_bound_of_the_waves() -> None:
    bare = random_problem(0)
    problem = random_problem(0, pilot=[evidence(bare.decisions.points[[1, 4]], [3, 3], 100, [40.0, -40.0])])
    fit = checked(problem, answered(problem, truth(bare, 0), 0))
    assert fit.model == Model(1.0)
    assert not fit.pilot


def test_waves_that_disagree_a_little_about_a_flat_function_raise_nothing() -> None:
    """No function fits as well as usual, and the prior mean fits well enough: nothing is to be raised."""
    problem = random_problem(0)
    plan = Plan(1, np.array([0, 1]), np.array([1, 1]), 100)
    deviation = math.sqrt(problem.answer_noise(plan.arms, plan.pulls, 100)[0, 0])
    history = tuple(Answered(plan, Feedback(np.array([sign * 2.5 * deviation, 0.0]), 100)) for sign in (1, -1))
    assert checked(problem, history).model == Model(1.0)
