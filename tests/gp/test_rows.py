"""Rows of the pooled regression: their noise, and what is made of people who differ more than the model says."""

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.stats import chi2

from tests.helpers import evidence, random_problem
from tests.helpers_waves import everyone, truth
from voxpop.errors import Array
from voxpop.gp.belief import DOUBT, NOTABLE, all_rows, excess_scatter, pilot_rows, rows_of, total_noise
from voxpop.model.problem import Problem
from voxpop.model.waves import Answered, Feedback, Plan

PLAN = Plan(1, np.array([0, 3, 7]), np.array([1, 2, 5]), 40)
COUNT = 40


def model(problem: Problem) -> Array:
    return problem.answer_noise(PLAN.arms, PLAN.pulls)


def feedback(problem: Problem, *times: float, count: int = COUNT, noise: Array | None = None) -> Feedback:
    """Feedback of people whose averages have so many times the model's variance."""
    return Feedback(np.zeros(3), count, noise=noise, scatter=np.array(times) * model(problem).diagonal())


@pytest.mark.parametrize("times", [(1.0, 1.0, 1.0), (0.0, 0.0, 0.0), (0.2, 1.1, 1.25), (1.29, 1.29, 1.29)])
def test_people_who_differ_as_the_model_says_or_less_count_as_it_says(times: tuple[float, ...]) -> None:
    problem = random_problem(0)
    answers = feedback(problem, *times, count=10**6)
    assert excess_scatter(problem, PLAN, answers).tolist() == [1.0, 1.0, 1.0]
    assert total_noise(problem, PLAN, answers) == pytest.approx(model(problem) / 10**6)


def test_people_who_differ_much_more_count_as_seen() -> None:
    problem = random_problem(0)
    answers = feedback(problem, 9.0, 0.5, 4.0)
    assert excess_scatter(problem, PLAN, answers) == pytest.approx([9.0, 1.0, 4.0])
    expected = model(problem) / COUNT * np.outer([3.0, 1.0, 2.0], [3.0, 1.0, 2.0])
    assert total_noise(problem, PLAN, answers) == pytest.approx(expected)
    assert np.linalg.eigvalsh(total_noise(problem, PLAN, answers)).min() > 0


def test_the_line_is_drawn_where_chance_becomes_unlikely() -> None:
    problem = random_problem(0)
    limit = chi2(COUNT - 1).isf(DOUBT / 3) / (COUNT - 1)
    assert limit > NOTABLE
    assert excess_scatter(problem, PLAN, feedback(problem, 0.99 * limit, 1.0, 1.0)).max() == 1.0
    assert excess_scatter(problem, PLAN, feedback(problem, 1.01 * limit, 1.0, 1.0)).max() > 1.0


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_people_prove_little(count: int) -> None:
    problem = random_problem(0)
    assert excess_scatter(problem, PLAN, feedback(problem, 5.0, 5.0, 5.0, count=count)).max() == 1.0


def test_people_who_were_not_seen_one_by_one_count_as_the_model_says() -> None:
    problem, hidden = random_problem(0), 0.3 * np.eye(3)
    unseen = Feedback(np.zeros(3), COUNT, noise=hidden)
    assert excess_scatter(problem, PLAN, unseen).tolist() == [1.0, 1.0, 1.0]
    assert total_noise(problem, PLAN, unseen) == pytest.approx(model(problem) / COUNT + hidden)


def test_noise_of_privacy_is_not_scaled_by_what_people_differ() -> None:
    problem, hidden = random_problem(0), 0.3 * np.eye(3)
    with_it = total_noise(problem, PLAN, feedback(problem, 9.0, 9.0, 9.0, noise=hidden))
    without = total_noise(problem, PLAN, feedback(problem, 9.0, 9.0, 9.0))
    assert with_it == pytest.approx(without + hidden)
    assert without == pytest.approx(9 * model(problem) / COUNT)


def test_people_who_follow_the_model_are_hardly_ever_found_to_differ_too_much() -> None:
    problem = random_problem(0)
    ask = everyone(problem, truth(problem, 0), 0)
    found = [excess_scatter(problem, PLAN, ask(PLAN)).max() > 1 for _ in range(1000)]
    assert sum(found) <= 8  # exceeded with probability 1e-6 at a level of 0.001


def test_people_who_differ_twice_as_much_are_found_and_measured() -> None:
    problem = random_problem(0, noise_std=0.1, bias_std=0.3)
    wild = random_problem(0, noise_std=0.2, bias_std=0.6)
    plan = Plan(1, PLAN.arms, PLAN.pulls, 2000)
    found = excess_scatter(problem, plan, everyone(wild, truth(problem, 0), 0)(plan))
    assert found == pytest.approx([4.0, 4.0, 4.0], rel=0.2)


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
    history = [Answered(PLAN, feedback(problem, 1.0, 1.0, 1.0)), Answered(PLAN, feedback(problem, 9.0, 9.0, 9.0))]
    rows = all_rows(problem, history, pilot_rows(problem))
    assert len(rows) == 8
    of_pilot = bare.answer_noise(np.array([1, 2]), np.array([3, 3]), 20)
    order = np.lexsort(bare.decisions.points[[1, 2]].T[::-1])
    expected = block_diag(of_pilot[np.ix_(order, order)], model(problem) / COUNT, 9 * model(problem) / COUNT)
    assert rows.noise == pytest.approx(expected)
