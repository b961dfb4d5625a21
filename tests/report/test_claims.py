"""Nothing empty is claimed: not before anybody has answered, nor where answers prove no more than was assumed."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import random_problem
from tests.report.studies import conducted
from voxpop import Float, Problem, Space, SquaredExponential, Study
from voxpop.journal.journal import Course, Definition
from voxpop.journal.tables import decision_rows, headline
from voxpop.model.state import State
from voxpop.model.waves import changed
from voxpop.policies import make_policy
from voxpop.report.figures import draw, pictures
from voxpop.report.page import render
from voxpop.report.summary import summarise
from voxpop.report.view import View
from voxpop.service.console.findings import findings_of


def claimed(course: Course) -> list[str]:
    """List the places that show a bound or a certificate."""
    view, answer, found = View(course), course.answer, findings_of(course, [])
    drawn = {
        name: [part for ax in draw(view, name)[0].axes for part in ax.collections if part.get_label() == "certified"]
        for name in pictures(view)
    }
    shown = {
        "answer": (answer.low, answer.high, answer.regret) != (None, None, None) and not answer.certain,
        "answer in words": "better by" in str(answer) or "certified " in str(answer).replace("not certified yet", ""),
        "table": any(row["low"] is not None or row["high"] is not None for row in decision_rows(course)),
        "headline": headline(course)["certified"] is not None and not answer.certain,
        "summary": any("better by" in line.value for line in summarise(course)),
        "page": re.search(r"better by more than \d", render(course)) is not None,
        "bars": any(bar.certified_at for bar in found.bars),
        "charts": any(series.role == "certified" for chart in found.charts for series in chart.series),
        "waves": found.waves_chart is not None,
        **{f"picture {name}": bool(parts) for name, parts in drawn.items()},
    }
    return [place for place, claims in shown.items() if claims]


@pytest.mark.parametrize("name", ["nothing", "only the pilot", "choice, nothing"])
def test_before_anybody_has_answered_no_bound_is_shown(courses: dict[str, Course], name: str) -> None:
    assert claimed(courses[name]) == []


def test_other_policies_claim_nothing_before_the_first_wave() -> None:
    problem = random_problem(1)
    for policy in ("dpbe", "bpe", "waves"):
        assert claimed(Course.begin(Definition(problem, make_policy(policy)))) == []


@pytest.fixture(scope="module")
def answered() -> Course:
    return conducted(Space(price=Float(2, 12)).grid(21), told=3)


def test_what_is_proved_is_claimed_everywhere(answered: Course) -> None:
    places = {"answer", "answer in words", "table", "headline", "summary", "page", "bars", "charts", "waves"}
    assert places | {"picture decision", "picture progress"} <= set(claimed(answered))


def test_bounds_no_better_than_before_are_not_certified_yet(answered: Course) -> None:
    course = answered
    prior = State.prior(course.problem, course.state.norm_bound)
    best = course.answer.index
    for certificate in (np.inf, prior.most_lost(best), 2 * prior.most_lost(best)):
        state = changed(course.state, lower=prior.lower, upper=prior.upper, certified=certificate)
        empty = replace(course, state=state, known=course.known[:1] * len(course.known))
        assert [place for place in claimed(empty) if not place.startswith("picture progress")] == []
        assert empty.answer.regret is None
        said = {line.name: line for line in summarise(empty)}["Certified"]
        assert said.value == "not certified yet"
        assert "tolerance = 0." in said.note
        assert "voxpop run --tolerance 0." in said.note
    barely = changed(course.state, certified=0.99 * prior.most_lost(best))
    assert replace(course, state=barely).answer.regret == pytest.approx(0.99 * prior.most_lost(best))


def test_waves_that_contradict_each_other_certify_nothing() -> None:
    problem = Problem([0.0, 0.5, 1.0], SquaredExponential(0.3), 0.02, 0.05, norm_bound=1.0, horizon=20_000)
    study = Study(problem, tolerance=0.001)
    for sign in (1, -1):
        question = study.ask()
        assert question is not None
        study.tell(question.wave, {"mean": np.full(len(question.decisions), sign * 0.5), "count": question.people})
    assert "contradict each other" in study.warning
    assert (study.best.low, study.best.high, study.best.regret) == (None, None, None)
    assert {"answer", "table", "summary", "page", "bars"}.isdisjoint(claimed(study.course))
    said = {line.name: line for line in summarise(study.course)}["Certified"]
    assert (said.value, said.note) == ("not certified yet", "the answers do not fit the model: see the model check")
