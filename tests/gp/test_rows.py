"""Rows of the pooled regression: their noise, and what is made of people who differ more than the model says."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import block_diag

from tests.helpers import evidence, random_problem
from voxpop.errors import Array
from voxpop.gp.belief import all_rows, own_noise, pilot_rows, rows_of, shown_in, total_noise
from voxpop.model.kernels import SquaredExponential
from voxpop.model.noise import TRUST, Manner
from voxpop.model.problem import Problem
from voxpop.model.waves import Answered, Feedback, Plan, changed

PLAN = Plan(1, np.array([0, 3, 7]), np.array([1, 2, 5]), 40)
COUNT = 40


def model(problem: Problem) -> Array:
    return problem.answer_noise(PLAN.arms, PLAN.pulls)


def feedback(problem: Problem, *times: float, count: int = COUNT, noise: Array | None = None) -> Feedback:
    """Feedback of people whose averages have so many times the model's deviation, and its correlations."""
    return Feedback(np.zeros(3), count, noise=noise, scatter=np.outer(times, times) * model(problem))


@pytest.mark.parametrize("times", [(1.0, 1.0, 1.0), (0.1, 0.5, 0.2), (3.0, 0.5, 2.0)])
def test_people_count_as_they_are_seen_and_the_model_as_twenty_of_them(times: tuple[float, ...]) -> None:
    problem = random_problem(0)
    answers = feedback(problem, *times)
    found, freedom = own_noise(problem, PLAN, answers)
    scatter = np.outer(times, times) * model(problem)
    assert freedom == TRUST + COUNT - 1
    averaged = (TRUST * model(problem) + (COUNT - 1) * scatter) / freedom
    more = np.sqrt(np.maximum(scatter.diagonal() / averaged.diagonal(), 1.0))  # who vary more count as they are seen
    assert found == pytest.approx(averaged * np.outer(more, more) / COUNT)
    assert (found.diagonal() * COUNT * (1 + 1e-9) >= scatter.diagonal()).all()
    assert np.linalg.eigvalsh(found).min() > 0
    assert total_noise(problem, PLAN, answers) == pytest.approx(model(problem) / COUNT)  # what was expected stays


def test_a_million_people_need_no_model() -> None:
    problem = random_problem(0)
    found, _ = own_noise(problem, PLAN, feedback(problem, 0.2, 1.1, 3.0, count=10**6))
    assert found * 10**6 == pytest.approx(np.outer([0.2, 1.1, 3.0], [0.2, 1.1, 3.0]) * model(problem), rel=1e-3)


def test_correlations_are_those_of_people_and_not_of_the_model() -> None:
    problem, apart = random_problem(0), np.diag(model(random_problem(0)).diagonal())
    found, _ = own_noise(problem, PLAN, Feedback(np.zeros(3), 10**6, scatter=apart))
    assert found * 10**6 == pytest.approx(apart, abs=1e-4)
    assert np.abs(model(problem) - apart).max() > 0.01


def test_journals_that_keep_variances_alone_count_with_the_correlations_of_the_model() -> None:
    problem = random_problem(0)
    whole = feedback(problem, 3.0, 0.5, 2.0)
    alone = changed(whole, scatter=whole.variances)
    assert own_noise(problem, PLAN, alone)[0] == pytest.approx(own_noise(problem, PLAN, whole)[0])


@pytest.mark.parametrize("hidden", [None, 0.3 * np.eye(3)])
def test_people_who_were_not_seen_one_by_one_count_as_expected(hidden: Array | None) -> None:
    problem = random_problem(0)
    unseen = Feedback(np.zeros(3), COUNT, noise=hidden)
    found, freedom = own_noise(problem, PLAN, unseen)
    assert freedom == np.inf
    assert found == pytest.approx(model(problem) / COUNT + (0 if hidden is None else hidden))
    one = feedback(problem, 5.0, 5.0, 5.0, count=1)
    assert own_noise(problem, PLAN, one)[0] == pytest.approx(model(problem))


def test_noise_of_privacy_is_not_scaled_by_what_people_differ() -> None:
    problem, hidden = random_problem(0), 0.3 * np.eye(3)
    with_it, _ = own_noise(problem, PLAN, feedback(problem, 3.0, 3.0, 3.0, noise=hidden))
    without, _ = own_noise(problem, PLAN, feedback(problem, 3.0, 3.0, 3.0))
    assert with_it == pytest.approx(without + hidden)


def test_what_a_wave_shows_counts_nearby_and_hardly_far_away() -> None:
    line = Problem(
        np.linspace(0, 1, 101), SquaredExponential(0.1), 0.1, 0.5, norm_bound=1.0, horizon=100, shock_std=0.0
    )
    plan = Plan(1, np.array([20]), np.array([5]), 400)
    base = line.answer_noise(plan.arms, plan.pulls)
    shown = shown_in(line, [Answered(plan, Feedback(np.zeros(1), 400, scatter=9 * base))])
    assert line.spread is None
    assert shown.spread is not None
    assert shown.spread[20] == pytest.approx(np.sqrt((TRUST + 9 * 399) / (TRUST + 399)))
    assert shown.spread[90] == pytest.approx(1.0)
    assert 1.5 < shown.spread[25] < 3.0
    assert shown.answer_noise(plan.arms, plan.pulls) == pytest.approx(base * shown.spread[20] ** 2)
    private = shown_in(line, [Answered(plan, Feedback(np.zeros(1), 400, noise=np.eye(1)))])
    assert private.spread is None
    assert private.shocks == line.shocks


def test_a_pilot_shows_where_people_vary() -> None:
    def variances(*ratios: float) -> Array:
        return np.array(ratios) * (0.5**2 + 0.1**2 / 5)

    pilot = replace(evidence([[0.0], [1.0]], [5, 5], 40, [0.0, 0.0]), variances=variances(4.0, 0.25))
    problem = Problem(np.linspace(0, 1, 11), SquaredExponential(0.1), 0.1, 0.5, 1.0, 9, shock_std=0.0, pilot=[pilot])
    assert problem.spread is not None
    ends = np.sqrt((TRUST + np.array([4.0, 0.25]) * 39) / (TRUST + 39))
    assert problem.spread[[0, -1]] == pytest.approx(ends)
    assert problem.spread[5] == pytest.approx(1.0)
    seen = np.maximum(ends**2, [4.0, 0.25])  # those who vary more count as they are seen
    assert pilot_rows(problem).noise.diagonal() == pytest.approx(variances(1.0, 1.0) / 40 * seen)


def test_rows_of_a_wave_are_what_people_said_beyond_the_prior_mean() -> None:
    problem = random_problem(0, prior_mean=np.arange(12.0))
    answers = Feedback(np.array([1.0, 2.0, 3.0]), 10)
    rows = rows_of(problem, PLAN, answers)
    assert rows.residual.tolist() == [1.0, -1.0, -4.0]
    assert rows.points.tolist() == problem.decisions.points[PLAN.arms].tolist()
    assert rows.noise == pytest.approx(model(problem) / 10)


def test_groups_of_people_are_independent_of_each_other() -> None:
    bare = random_problem(0)
    pilot = [evidence(bare.decisions.points[[1, 2]], [3, 3], 20, [0.5, 0.6])]
    problem = random_problem(0, pilot=pilot)
    history = [Answered(PLAN, feedback(problem, 1.0, 1.0, 1.0)), Answered(PLAN, feedback(problem, 3.0, 3.0, 3.0))]
    rows = all_rows(problem, history, pilot_rows(problem), own=True)
    assert len(rows) == 8
    of_pilot = bare.answer_noise(np.array([1, 2]), np.array([3, 3]), 20)
    order = np.lexsort(bare.decisions.points[[1, 2]].T[::-1])
    expected = block_diag(of_pilot[np.ix_(order, order)], model(problem) / COUNT, 9 * model(problem) / COUNT)
    assert rows.noise == pytest.approx(expected)


# In which manner people vary


@pytest.mark.parametrize("manner", [Manner(), Manner(4.0, 0.5), Manner(0.25, 1.0), Manner(1.0, 8.0), Manner(0.5, 2.0)])
def test_people_are_found_to_vary_as_they_do(manner: Manner) -> None:
    problem = random_problem(0)
    scatter = problem.varying(PLAN.arms, PLAN.pulls, manner)
    assert scatter.diagonal() == pytest.approx(model(problem).diagonal())  # as much as v and sigma say
    assert np.linalg.eigvalsh(scatter).min() > 0
    found = shown_in(problem, [Answered(PLAN, Feedback(np.zeros(3), 100_000, scatter=scatter))])
    assert found.manner == manner
    assert total_noise(found, PLAN, Feedback(np.zeros(3), 50)) == pytest.approx(scatter / 50)
    few = shown_in(problem, [Answered(PLAN, Feedback(np.zeros(3), 3, scatter=scatter))])
    assert few.manner == Manner()  # they do not show it


def test_rougher_people_differ_more_between_close_actions_and_smoother_ones_less() -> None:
    problem = Problem(np.array([0.0, 0.1]), SquaredExponential(0.5), 0.1, 1.0, norm_bound=1.0, horizon=100)
    contrast, both = np.array([1.0, -1.0]), np.arange(2)
    apart = [
        float(contrast @ problem.varying(both, np.ones(2), Manner(rough)) @ contrast) for rough in (0.5, 1.0, 2.0, 4.0)
    ]
    people = np.array(apart) - 2 * problem.noise_std**2
    assert people / people[1] == pytest.approx([0.5, 1.0, 2.0, 4.0], rel=0.1)
