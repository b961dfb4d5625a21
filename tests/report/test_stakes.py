"""What asking costs and what not knowing would cost: measured against a truth, or estimated without one."""

from dataclasses import replace

import numpy as np
import pytest

from voxpop.gp.belief import believe, pooled_best
from voxpop.journal.journal import Course
from voxpop.report.stakes import Stakes, measure, stakes_of
from voxpop.simulation.runs import Run


def known(course: Course, truth: np.ndarray | None = None) -> Stakes:
    found = stakes_of(course, truth)
    assert found is not None
    return found


def test_a_simulation_is_measured_against_its_truth(waves: Run) -> None:
    problem, f = waves.scenario.problem, waves.scenario.f
    found = known(waves.course, f)
    assert found.measured
    regret = measure(waves.plans, waves.best, problem.horizon, f).regret
    assert found.trying + found.ahead == pytest.approx(regret)
    assert found.pilot == pytest.approx((f.max() - f[pooled_best(problem)]) * problem.horizon)
    assert found.guessing == pytest.approx((f.max() - f.mean()) * problem.horizon)
    assert found.total == pytest.approx(found.answers + regret)


def test_a_conducted_study_is_estimated_from_all_answers(waves: Run) -> None:
    course, problem = waves.course, waves.scenario.problem
    mean = waves.state.centre
    best = mean[waves.best]  # what is known to be best, as it is in force
    found = known(course)
    assert not found.measured
    assert found.ahead == 0
    assert found.pilot == pytest.approx((best - mean[pooled_best(problem)]) * problem.horizon)
    tried = sum(float((best - mean[plan.arms]) @ plan.pulls) for plan in waves.plans)
    assert found.trying == pytest.approx(tried)


def test_only_answers_that_came_are_paid_for(waves: Run) -> None:
    course = waves.course
    whole = sum(plan.forecast.answers for plan in course.plans if plan.forecast is not None)
    assert whole > 0
    assert known(course).answers == pytest.approx(whole)
    first, *others = course.closed
    feedback = replace(first.feedback, count=first.plan.people // 2)
    half = known(replace(course, closed=(replace(first, feedback=feedback), *others)))
    assert first.plan.forecast is not None
    share = 1 - (first.plan.people // 2) / first.plan.people
    assert half.answers == pytest.approx(whole - share * first.plan.forecast.answers)


def test_people_simulated_around_the_pilot_do_not_speak_against_asking(waves: Run) -> None:
    around = believe(waves.scenario.problem).mean
    assert "simulated around the pilot" in known(waves.course, around).caveat
    assert known(waves.course, -around).caveat == known(waves.course).caveat == ""


def test_without_a_pilot_there_is_no_choice_of_the_pilot(paper: Run) -> None:
    found = known(paper.course)
    assert (found.pilot, found.pilot_choice, found.answers) == (None, None, 0.0)
    assert found.guessing > 0


def test_nothing_is_estimated_before_anyone_has_answered(courses: dict[str, Course]) -> None:
    assert stakes_of(courses["nothing"]) is None
    found = known(courses["only the pilot"])
    assert found.asking == 0
    assert found.pilot is not None
    assert 0 < found.ahead <= found.pilot  # a part of the pilot is sealed, and does not choose yet
