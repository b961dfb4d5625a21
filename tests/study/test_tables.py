"""The tables of a study: what is asked, answered and known, as plain rows."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import evidence
from voxpop.gp.belief import own_noise
from voxpop.journal.journal import Course
from voxpop.journal.tables import TABLES, answer_rows, best_rows, decision_rows, wave_rows
from voxpop.journal.wave import Wave
from voxpop.model.decisions import Float, Space
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.privacy import make_privacy
from voxpop.simulation.runs import simulate
from voxpop.simulation.trials import Trial
from voxpop.study.study import Study

PILOT = evidence([[0.0], [0.45]], [20, 20], 12, [0.1, 0.6])


def problem(**changes: object) -> Problem:
    known = {"noise_std": 0.1, "bias_std": 0.2, "norm_bound": 1.5, "horizon": 4000, "pilot": [PILOT], **changes}
    return Problem(Space(price=Float(1, 9)).grid(9), SquaredExponential(0.3), **known)  # type: ignore[arg-type]


def told(study: Study, waves: int) -> Course:
    """Return the course of a study after some waves of people who all like a price of 5."""
    for wave in range(waves):
        question = study.ask()
        assert question is not None
        rewards = [0.6 - (decision["price"] - 5) ** 2 / 40 for decision in question.decisions]
        people = np.random.default_rng(wave).normal(0, 0.2, (question.people, 1))
        study.tell(question.wave, rewards + people)
    return study.course


def test_a_decision_has_the_bounds_of_the_state_and_counts_who_was_asked_about_it() -> None:
    course = told(Study(problem(), tolerance=0.01), 2)
    assert len(course.closed) == 2
    rows, state = decision_rows(course), course.state
    for column, values in {"estimate": state.centre, "low": state.lower, "high": state.upper}.items():
        assert [row[column] for row in rows] == values.tolist()
    assert [index for index, row in enumerate(rows) if row["open"]] == state.active.tolist()
    assert [index for index, row in enumerate(rows) if row["best"]] == [course.answer.index]
    for index, row in enumerate(rows):
        asked = [wave for wave in course.closed if index in wave.plan.arms]
        assert (row["waves"], row["people"]) == (len(asked), sum(wave.people for wave in asked))
    assert sum(row["waves"] for row in rows) == sum(len(wave.plan.arms) for wave in course.closed) > 2


def test_the_best_decisions_are_open_ones_with_the_largest_estimate_first() -> None:
    course = told(Study(problem()), 1)
    rows, every = best_rows(course, 3), decision_rows(course)
    still_open = sorted((row["estimate"] for row in every if row["open"]), reverse=True)
    assert [row["estimate"] for row in rows] == still_open[:3]
    assert rows[0]["best"]


def test_waves_are_the_pilot_what_was_answered_and_what_is_open() -> None:
    study = Study(problem(), tolerance=0.01)
    told(study, 1)
    study.ask()
    pilot, first, second = wave_rows(study.course)
    assert (pilot["wave"], pilot["status"], pilot["people"], pilot["numbers"]) == (0, "pilot", 12, 24)
    assert pilot["left"] == study.closed[0].info.active_before
    plan, forecast = study.closed[0].plan, study.closed[0].plan.forecast
    assert forecast is not None
    assert (first["status"], first["people"], first["numbers"]) == ("answered", plan.people, plan.numbers)
    assert (first["expected_gain"], first["trying_cost"]) == (forecast.gain, forecast.exploring)
    assert (second["wave"], second["status"], second["people"], second["left"]) == (2, "open", 0, None)
    assert pilot.keys() == first.keys() == second.keys()


def test_answers_are_averages_with_their_error() -> None:
    course = told(Study(problem(horizon=300)), 1)
    closed = course.closed[0]
    rows = answer_rows(course)
    assert [row["average"] for row in rows] == closed.feedback.mean.tolist()
    assert {(row["wave"], row["people"]) for row in rows} == {(1, closed.people)}
    assert closed.feedback.variances is not None
    errors = np.sqrt(own_noise(course.problem, closed.plan, closed.feedback)[0].diagonal())
    # One answer is expected to vary by v^2 k(x, x) + sigma^2 / rounds; people's averages by that over their number.
    expected = np.array([np.sqrt((0.2**2 + 0.1**2 / row["rounds"]) / closed.people) for row in rows])
    seen = np.sqrt(closed.feedback.variances / closed.people)
    assert ((errors - seen) * (errors - expected) <= 1e-12).all()  # it lies between, or is what was seen
    assert [row["error"] for row in rows] == pytest.approx(errors)


def test_the_error_of_a_private_answer_includes_its_noise() -> None:
    course = told(Study(problem(), privacy=make_privacy("central", 3.0, 1e-6)), 1)
    noise = course.closed[0].feedback.noise
    assert noise is not None
    for row, added in zip(answer_rows(course), noise.diagonal(), strict=True):
        people = (0.2**2 + 0.1**2 / row["rounds"]) / row["people"]
        shocks = course.problem.shock_std**2 * (1 + 1 / row["rounds"])
        assert row["error"] == pytest.approx(np.sqrt(people + shocks + added))


def test_a_study_that_has_asked_nothing_has_tables_as_well() -> None:
    course = Study(problem(pilot=[])).course
    assert len(decision_rows(course)) == 9
    assert wave_rows(course) == answer_rows(course) == []


def test_a_parameter_called_like_a_column_is_not_lost() -> None:
    space = Space(low=Float(0, 1), decision_low=Float(2, 3), people=Float(4, 5))
    course = Study(Problem(space.grid(2), SquaredExponential(0.3), 0.1, 0.2, norm_bound=1.0, horizon=50)).course
    row = decision_rows(course)[0]
    assert (row["decision_low"], row["decision_decision_low"], row["decision_people"]) == (0.0, 2.0, 4.0)
    assert (row["low"], row["people"]) == (None, 0)  # nobody has answered


def test_decisions_without_names_are_coordinates() -> None:
    points = np.array([[0.0, 0.1], [0.5, 0.2]])
    course = Study(Problem(points, SquaredExponential(0.3), 0.1, 0.2, norm_bound=1.0, horizon=50)).course
    assert [(row["x1"], row["x2"]) for row in decision_rows(course)] == [(0.0, 0.1), (0.5, 0.2)]


@pytest.mark.parametrize("policy", ["waves", "dpbe", "dpbe-paper", "gp-ucb", "bpe", "thompson"])
def test_every_policy_has_tables_of_plain_values(policy: str) -> None:
    trial = Trial("synthetic", policy, horizon=60)
    scenario = trial.scenario()
    course = simulate(scenario, trial.make_policy(scenario), 0).course
    for make in TABLES.values():
        rows = make(replace(course, wave=Wave(course.plans[-1], course.closed[-1].release)))
        assert json.loads(json.dumps(rows)) == rows
        assert all(row.keys() == rows[0].keys() for row in rows)
