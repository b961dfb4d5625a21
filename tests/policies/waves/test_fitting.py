"""Whether the answers fit the model: what is noticed, what is assumed from then on, and false alarms."""

import math
from itertools import pairwise

import numpy as np
import pytest

from tests.helpers import evidence, function_of_norm, random_problem
from tests.helpers_waves import everyone, truth
from voxpop.errors import Array
from voxpop.model.problem import Problem
from voxpop.model.waves import Answered, Feedback, Plan
from voxpop.policies.waves.statements import model_check, share_of_raise

ARMS = np.array([0, 2, 5, 8, 11])


def wave(wave: int = 1, people: int = 200) -> Plan:
    return Plan(wave, ARMS, np.ones(5, int), people)


def answered(problem: Problem, f: Array, seed: int, waves: int = 1) -> tuple[Answered, ...]:
    ask = everyone(problem, f, seed)
    return tuple(Answered(wave(number + 1), ask(wave(number + 1))) for number in range(waves))


@pytest.mark.parametrize("most", [1, 5, 60])
def test_shares_of_all_raises_add_up_to_at_most_one(most: int) -> None:
    shares = [share_of_raise(0.7, 0.7 * 2**raises) for raises in range(most)]
    assert sum(shares) <= 1 + 1e-12
    assert all(one > other > 0 for one, other in pairwise(shares))
    assert share_of_raise(3.0, 3.0) == shares[0]


def test_people_who_follow_the_model_raise_few_alarms() -> None:
    """The warning is false with probability 0.01 at most, and the scatter's with 0.001."""
    warned = raised = 0
    for seed in range(150):
        bound = 1.0 if seed % 2 else 1e-3  # so small that f cannot follow the noise
        problem = random_problem(seed, norm_bound=bound)
        f = function_of_norm(problem, bound, np.random.default_rng(seed))
        fit = model_check(problem, problem, answered(problem, f, seed, waves=2), bound, True)
        warned += bool(fit.warning)
        raised += fit.norm_bound > bound
        assert fit.pilot
    assert warned <= 9  # exceeded with probability 1e-5 if each were false with probability 0.011
    assert raised <= 15


@pytest.mark.parametrize("times", [20.0, 1e4, 1e6])
@pytest.mark.parametrize("seed", range(3))
def test_a_norm_bound_that_is_far_too_small_is_raised_by_doubling(seed: int, times: float) -> None:
    problem = random_problem(seed)
    f = function_of_norm(problem, times, np.random.default_rng(seed))
    fit = model_check(problem, problem, answered(problem, f, seed), 1.0, True)
    assert fit.norm_bound > 1.0
    assert math.log2(fit.norm_bound).is_integer()
    assert fit.norm_bound <= 8 * times
    assert f"no function of norm 1 fits the answers: the norm bound was raised to {fit.norm_bound:.3g}" in fit.warning
    again = model_check(problem, problem, answered(problem, f, seed), fit.norm_bound, True)
    assert again.norm_bound == fit.norm_bound
    assert "norm" not in again.warning


def test_waves_that_no_function_reconciles_are_said_to_contradict_each_other() -> None:
    problem = random_problem(0)
    first, second = (Answered(wave(number), Feedback(np.full(5, mean), 200)) for number, mean in ((1, 0.5), (2, -0.5)))
    fit = model_check(problem, problem, (first, second), 1.0, True)
    assert "the waves contradict each other" in fit.warning
    assert fit.norm_bound == 1.0


def test_people_who_differ_more_than_the_model_says_are_noticed() -> None:
    model, people = random_problem(0, bias_std=0.1), random_problem(0, bias_std=0.4)
    fit = model_check(model, model, answered(people, truth(model, 0), 0), 1.0, True)
    seen = math.sqrt((0.4**2 + 0.1**2) / (0.1**2 + 0.1**2))
    assert "people differ" in fit.warning
    told = float(fit.warning.split("people differ ")[1].split(" times")[0])
    assert told == pytest.approx(seen, rel=0.25)


def piloted(mean: Array) -> tuple[Problem, Problem]:
    bare = random_problem(0)
    pilot = [evidence(bare.decisions.points[ARMS], np.full(5, 3), 100, mean)]
    return random_problem(0, pilot=pilot), bare


def test_a_pilot_that_contradicts_the_waves_is_set_aside_and_one_that_agrees_is_not() -> None:
    f = truth(random_problem(0), 0)
    for mean, agrees in ((f[ARMS], True), (f[ARMS] + 0.5, False)):
        problem, bare = piloted(mean)
        fit = model_check(problem, bare, answered(problem, f, 0), 1.0, True)
        assert fit.pilot is agrees
        assert ("the pilot contradicts the waves" in fit.warning) is not agrees


def test_a_pilot_that_was_set_aside_does_not_come_back() -> None:
    f = truth(random_problem(0), 0)
    problem, bare = piloted(f[ARMS])
    fit = model_check(problem, bare, answered(problem, f, 0), 1.0, False)
    assert not fit.pilot
    assert "the pilot contradicts the waves" in fit.warning


def test_a_pilot_does_not_raise_the_norm_bound_of_the_waves() -> None:
    bare = random_problem(0)
    problem = random_problem(0, pilot=[evidence(bare.decisions.points[[1, 4]], [3, 3], 100, [40.0, -40.0])])
    fit = model_check(problem, bare, answered(problem, truth(bare, 0), 0), 1.0, True)
    assert fit.norm_bound == 1.0
    assert not fit.pilot


def test_waves_that_disagree_a_little_about_a_flat_function_raise_nothing() -> None:
    """No function fits as well as usual, and the prior mean fits well enough: nothing is to be raised."""
    problem = random_problem(0)
    plan = Plan(1, np.array([0, 1]), np.array([1, 1]), 100)
    deviation = math.sqrt(problem.answer_noise(plan.arms, plan.pulls, 100)[0, 0])
    history = tuple(Answered(plan, Feedback(np.array([sign * 2.5 * deviation, 0.0]), 100)) for sign in (1, -1))
    assert model_check(problem, problem, history, 1.0, True).norm_bound == 1.0
