"""A study of costs is that of their negatives: the same questions, and what people read has the other sign."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.study.test_opening import TABLE
from voxpop import Study, calibrate, make_privacy
from voxpop.errors import Array, InputError
from voxpop.journal.journal import Definition
from voxpop.journal.question import Question
from voxpop.model.decisions import Float, Space
from voxpop.model.direction import Direction
from voxpop.model.kernels import Matern
from voxpop.model.problem import Problem
from voxpop.model.waves import Feedback
from voxpop.report.page import render
from voxpop.report.summary import summarise


def problem(sign: float) -> Problem:
    decisions = Space(price=Float(1, 3)).grid(9)
    return Problem(decisions, Matern(0.4, nu=1.5), 0.2, 0.1, 2.0, 3000, prior_mean=sign * 5.0)


def rewards(question: Question) -> Array:
    prices = np.array([decision["price"] for decision in question.decisions])
    noise = np.random.default_rng(question.wave).normal(0, 0.1, size=(question.people, len(prices)))
    return -5.0 - (prices - 2.2) ** 2 + noise


def ask(study: Study) -> Question:
    question = study.ask()
    assert question is not None
    return question


def pair(path: Path | None = None) -> tuple[Study, Study]:
    """A study of rewards, and one of the costs that they are the negatives of."""
    return Study(problem(-1)), Study(problem(1), path=path, direction="minimize")


def assert_mirrored(more: Study, less: Study) -> None:
    a, b = more.best, less.best
    assert (b.index, b.regret, b.expected_loss, b.certain) == (a.index, a.regret, a.expected_loss, a.certain)
    assert (b.estimate, b.low, b.high) == tuple(it and -it for it in (a.estimate, a.high, a.low))
    assert b.estimate is None or b.estimate > 0
    for name in ("active", "lower", "upper", "centre"):
        np.testing.assert_array_equal(getattr(less.state, name), getattr(more.state, name))
    first, second = more.decisions, less.decisions
    np.testing.assert_array_equal(second["estimate"], -first["estimate"])
    np.testing.assert_array_equal(second["low"].astype(float), -first["high"].astype(float))
    np.testing.assert_array_equal(second["high"].astype(float), -first["low"].astype(float))
    np.testing.assert_array_equal(second["open"], first["open"])
    if more.closed:
        np.testing.assert_array_equal(less.answers["average"], -more.answers["average"])
        np.testing.assert_array_equal(less.answers["error"], more.answers["error"])


def test_costs_are_asked_about_and_learned_from_as_their_negatives_are(tmp_path: Path) -> None:
    more, less = pair(tmp_path / "study.json")
    assert_mirrored(more, less)
    while (question := more.ask()) is not None:
        same = ask(less)
        assert (same.decisions, same.people, same.forecast) == (question.decisions, question.people, question.forecast)
        assert (question.measure, same.measure) == ("reward", "cost")
        more.tell(question.wave, rewards(question))
        less.tell(question.wave, -rewards(question))
        assert_mirrored(more, less)
        less = Study.load(tmp_path / "study.json")
        assert less.direction is Direction.MINIMIZE
        assert_mirrored(more, less)
    assert (less.ended, len(less.log)) == (more.ended, len(more.log))
    assert less.best.decision == {"price": 2.25}


def test_every_form_of_answers_is_turned_once() -> None:
    question = ask(pair()[1])
    matrix = np.round(-rewards(question) * 8) / 8
    table = question.table()
    table["cost"] = matrix.ravel()
    mean = matrix.mean(axis=0)
    forms: list[object] = [matrix, table, {"mean": mean, "count": len(matrix)}, Feedback(mean, len(matrix))]
    found = []
    for form in forms:
        less = pair()[1]
        less.tell(ask(less).wave, form)
        found.append(less.best)
    assert (found[1], found[3]) == (found[0], found[2])  # an average alone does not say how much people differ
    assert found[0].index == found[2].index
    assert found[0].low is not None
    assert found[0].high is not None
    assert 4 < found[0].low < found[0].high < 6


def test_taking_back_opens_the_same_question() -> None:
    less = pair()[1]
    question = ask(less)
    less.tell(1, -rewards(question))
    told = less.best
    less.take_back()
    assert ask(less) == question
    less.tell(1, -rewards(question))
    assert (less.best.index, less.best.expected_loss) == (told.index, told.expected_loss)
    assert less.best.regret is None or told.regret is None or less.best.regret > told.regret  # for the second look


def test_a_private_study_of_costs_clips_around_costs(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    less = Study(problem(1), path=path, direction="minimize", privacy=make_privacy("central", 50.0))
    question = ask(less)
    table = question.table(wide=True)
    costs = -rewards(question)
    for column, label in enumerate(question.labels):
        table[label] = costs[:, column]
    table.iloc[0, 1:] = np.nan
    less.tell(question.wave, table)
    np.testing.assert_allclose(less.answers["average"], costs.mean(axis=0), atol=0.3)
    assert Study.load(path).best == less.best


def test_a_pilot_of_costs_begins_a_study_that_minimises() -> None:
    costs = TABLE.assign(cost=-TABLE["reward"]).drop(columns="reward")
    more, less = calibrate(TABLE), calibrate(costs, direction="minimize")
    assert less.prior_mean.value == -more.prior_mean.value
    assert (less.bias_std, less.norm_bound) == (more.bias_std, more.norm_bound)
    first, second = Study.from_calibration(more), Study.from_calibration(less)
    assert second.direction is Direction.MINIMIZE
    assert_mirrored_levels(first, second)


def assert_mirrored_levels(more: Study, less: Study) -> None:
    np.testing.assert_array_equal(less.problem.pilot[0].mean, more.problem.pilot[0].mean)
    assert less.problem.prior_mean == more.problem.prior_mean
    assert more.best.estimate is not None
    assert (less.best.estimate, less.best.low, less.best.high) == (-more.best.estimate, None, None)
    question, same = ask(more), ask(less)
    assert question.decisions == same.decisions


def test_reports_speak_of_costs() -> None:
    less = pair()[1]
    less.tell(1, -rewards(ask(less)))
    lines = {line.name: line for line in summarise(less.course)}
    assert less.best.estimate is not None
    assert lines["Expect"].value == f"{less.best.estimate:.3g}"
    ends = [float(word) for word in lines["Expect"].note.split("; ")[1].removeprefix("likely ").split(" to ")]
    assert 4 < ends[0] < less.best.estimate < ends[1] < 6
    assert f"certified {less.best.low:.3g} to {less.best.high:.3g}" in lines["Expect"].note
    page = render(less.course)
    assert "before any answer</td><td>5</td>" in page.replace("\n", "").replace("> <", "><")
    written = less.plot("decision").axes[0].yaxis.get_major_formatter()
    assert (written(-6.5, 0), written(-5.0, 0)) == ("6.5", "5")  # drawn as rewards: better is up
    assert Study(problem(1), direction="minimize", reward="delay").course.reward == "delay"


def test_a_table_of_rewards_is_welcome_and_one_of_costs_is_refused_where_more_is_better() -> None:
    more, less = pair()
    table = pd.DataFrame(ask(more).table())
    table["reward"] = 1.0
    less.tell(ask(less).wave, table.assign(reward=5.0))
    with pytest.raises(InputError, match='begin it with direction="minimize"'):
        more.tell(1, table.rename(columns={"reward": "cost"}))


def test_a_direction_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match="unknown direction 'down'"):
        Study(problem(1), direction="down")


def test_earlier_answers_are_costs_too() -> None:
    more, less = pair()
    rows = pd.DataFrame({"person": [1, 1, 2, 2], "price": [1.0, 3.0] * 2, "reward": [-7.0, -6.0, -6.5, -6.0]})
    more.attach(rows.assign(rounds=5))
    less.attach(rows.assign(cost=-rows["reward"], rounds=5).drop(columns="reward"))
    assert more.problem.pilot[0].rounds.tolist() == [5.0, 5.0]
    np.testing.assert_array_equal(more.problem.pilot[0].mean, [-6.75, -6.0])
    assert_mirrored(more, less)


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("form", ["long", "wide", "without names", "parts", "by hand"])
def test_strata_are_told_in_tables_as_in_records(form: str, direction: Direction) -> None:
    shares = {"young": 0.25, "old": 0.75}
    study = Study(problem(1), strata=shares, direction=direction)
    question = ask(study)
    assert question.strata == {"young": question.people // 4, "old": question.people - question.people // 4}
    table = question.table(wide=True)
    assert table["stratum"].value_counts().to_dict() == question.strata
    for label in question.labels:
        table[label] = np.where(table["stratum"] == "young", 4.0, 6.0) + label
    long = table.melt(["person", "stratum"], var_name="price", value_name=question.measure)
    matrices = {name: part[list(question.labels)].to_numpy() for name, part in table.groupby("stratum")}
    forms: dict[str, object] = {
        "long": long,
        "wide": table,
        "without names": table.drop(columns="person"),
        "parts": {name: part.drop(columns="stratum") for name, part in table.groupby("stratum")},
        "by hand": matrices,
    }
    study.tell(question.wave, forms[form])
    expected = 0.25 * 4.0 + 0.75 * 6.0 + np.array(question.labels, dtype=float)
    np.testing.assert_allclose(study.answers["average"], expected)


def test_a_column_of_strata_does_not_matter_in_a_study_without_any() -> None:
    more = pair()[0]
    table = ask(more).table().assign(stratum="young", reward=-5.0)
    more.tell(1, table)
    assert len(more.log) == 1


def test_a_study_of_rewards_is_not_the_same_study_of_costs() -> None:
    """Even where nothing else tells them apart: no pilot, and a prior mean of 0."""
    neutral = problem(0)
    study = Study(neutral, direction="minimize")
    given = Definition(neutral, study.policy, study.privacy, direction=Direction.MINIMIZE)
    assert study.differs_from(given) is None
    assert study.differs_from(replace(given, direction=Direction.MAXIMIZE)) == "direction"
