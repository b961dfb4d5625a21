"""Studies of people who answer in every wave: who may answer, about what, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voxpop.errors import InputError
from voxpop.io.schema import Definition
from voxpop.journal.question import Question
from voxpop.model.decisions import Float, Space
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.policies import make_policy
from voxpop.privacy import make_privacy
from voxpop.service.study.definition import Definition as ServiceDefinition
from voxpop.study.study import Study

pd = pytest.importorskip("pandas")
PEOPLE = 12
OWN = np.random.default_rng(3).normal(0, 0.3, size=(PEOPLE, 21))  # how each differs


def problem() -> Problem:
    prices = Space(price=Float(0, 1)).grid(21)
    return Problem(prices, SquaredExponential(0.2), 0.05, 0.3, norm_bound=2.0, horizon=5000, shock_std=0.1)


def begun(who: str = "everybody", path: Path | None = None) -> Study:
    return Study(problem(), path=path, who=who, population=PEOPLE, answer_cost=0.0)


def answered(study: Study, question: Question, people: int = PEOPLE, seed: int = 0) -> Any:
    """Fill in the table of a question: each person is the same in every wave, and each block has its own weather."""
    table, rng = question.table(), np.random.default_rng([seed, question.wave])
    at = [study.problem.decisions.find({"price": price}) for price in table["price"]]
    who = [int(name[1:]) - 1 for name in table["person"]]
    table["reward"] = np.sin(3 * table["price"]) + OWN[who, at] + 0.05 * rng.normal(size=len(table))
    return table[[place < people for place in who]]


def in_blocks(study: Study) -> Question:
    """Conduct waves until one is in blocks."""
    for _ in range(5):
        question = study.ask()
        assert question is not None
        if question.blocks > 1:
            return question
        study.tell(question.wave, answered(study, question))
    raise AssertionError("no wave was in blocks")


@pytest.mark.parametrize("who", ["panel", "everybody"])
def test_the_same_people_answer_in_every_wave_and_about_every_block(who: str, tmp_path: Path) -> None:
    study = begun(who, tmp_path / "stores.json")
    question = in_blocks(study)
    assert question.wave > 1
    assert question.people == question.same == PEOPLE
    assert f"the 12 people who answer in every wave, about each of {question.blocks} blocks" in str(question)
    assert len(question.table()) == PEOPLE * len(question.decisions) * question.blocks
    assert set(question.table()["person"]) == {f"p{number:02}" for number in range(1, 13)}
    table = answered(study, question)
    study.tell(question.wave, table.sample(frac=1, random_state=0))  # in any order
    closed = study.closed[-1]
    assert closed.feedback.count == closed.people == study.course.people == PEOPLE
    assert closed.numbers == len(table)
    assert closed.feedback.by_block is not None
    means = table.groupby(["block", "price"])["reward"].mean().unstack()
    np.testing.assert_allclose(closed.feedback.by_block, means.to_numpy(), atol=1e-9)
    assert study.ledger.entries[-1].people == PEOPLE
    again = Study.load(tmp_path / "stores.json")
    assert again.best == study.best
    assert again.closed[-1].plan.same == PEOPLE


def test_all_forms_of_answers_say_the_same() -> None:
    found = []
    for form in ("table", "wide", "matrix", "records"):
        study = begun()
        question = in_blocks(study)
        table = answered(study, question)
        matrix = table["reward"].to_numpy().reshape(-1, len(question.decisions))
        wide = question.table(wide=True)
        wide[list(question.labels)] = matrix
        records = [
            {"person": row.person, "decision": {"price": row.price}, "average": row.reward, "block": row.block}
            for row in table.itertuples()
        ]
        study.tell(question.wave, {"table": table, "wide": wide, "matrix": matrix, "records": records}[form])
        found.append(study.closed[-1].feedback)
    for other in found[1:]:
        assert other.by_block is not None
        assert found[0].by_block is not None
        np.testing.assert_allclose(other.by_block, found[0].by_block)
        assert (other.count, other.effective) == (found[0].count, found[0].effective)
    study = begun()
    question = in_blocks(study)
    study.tell(question.wave, {"mean": found[0].mean, "count": PEOPLE})
    assert study.closed[-1].feedback.effective == found[0].effective == PEOPLE * question.blocks


def test_a_person_who_left_a_block_out_is_named() -> None:
    study = begun()
    question = in_blocks(study)
    table = answered(study, question)
    lacking = table[(table["person"] != "p07") | (table["block"] != 2)]
    with pytest.raises(InputError, match=r"person 'p07' has no answer about block 2; leave out or complete"):
        study.tell(question.wave, lacking)
    matrix = table["reward"].to_numpy().reshape(-1, len(question.decisions))
    with pytest.raises(InputError, match=rf"asked 12 people about {question.blocks} blocks, and nothing says"):
        study.tell(question.wave, matrix[1:])


def test_a_panel_that_loses_people_goes_on_and_says_so() -> None:
    study = begun("panel")
    first = study.ask()
    assert first is not None
    study.tell(first.wave, answered(study, first))
    question = study.ask()
    assert question is not None
    table = answered(study, question, people=9)
    with pytest.raises(
        InputError, match=r"12 people and 9 answered.*those who are missing may differ; wait.*--partial"
    ):
        study.tell(question.wave, table)
    study.tell(question.wave, table, partial=True)
    assert "3 of the 12 people who answer in every wave did not answer in wave 2" in study.warning
    following = study.ask()
    assert following is not None
    assert (following.people, following.same) == (9, 12)
    study.tell(following.wave, answered(study, following))
    assert "3 of the 12 people" in study.warning


def test_all_of_a_panel_answer_about_the_blocks_that_were_played() -> None:
    study = begun("panel")
    lost = [row["round"] for row in in_blocks(study).schedule() if row["block"] == 1]
    plan = study.course.pending
    study.played(dict.fromkeys(lost))
    question = study.ask()
    assert plan is not None
    assert question is not None
    assert (question.blocks, question.people, len(question.table())) == (1, PEOPLE, PEOPLE * len(question.decisions))
    assert question.forecast is not None
    assert plan.forecast is not None
    assert question.forecast.answers == pytest.approx(plan.forecast.answers / plan.blocks)
    study.tell(question.wave, answered(study, question))
    assert "did not answer" not in study.warning


def test_others_than_the_same_people_are_refused() -> None:
    study = begun("panel")
    question = study.ask()
    assert question is not None
    table = answered(study, question)
    study.tell(question.wave, table)
    question = study.ask()
    assert question is not None
    table = answered(study, question).replace({"person": {"p03": "zoe"}})
    with pytest.raises(
        InputError, match=r"with 'zoe' 13 people have answered, and only 12 people answer in this study"
    ):
        study.tell(question.wave, table)
    more = {"mean": [0.0] * len(question.decisions), "count": 13}
    with pytest.raises(InputError, match="13 people have answered, and only 12"):
        study.tell(question.wave, more)


def test_fresh_people_who_answered_before_are_refused_with_the_choice() -> None:
    study = Study(problem(), answer_cost=0.0)
    for wave in (1, 2):
        question = study.ask()
        assert question is not None
        table = question.table(wide=True)
        table[list(question.labels)] = np.sin(3 * np.array(question.labels, dtype=float))
        if wave == 2:
            table.loc[4, "person"] = "w1-05"
            with pytest.raises(InputError, match=r"'w1-05' answered in wave 1 already.*who = 'panel' or 'everybody'"):
                study.tell(wave, table)
            table.loc[4, "person"] = "w2-05"
        study.tell(wave, table)
        if wave == 1:  # what is taken back may be told again
            study.take_back()
            study.tell(wave, table)


def test_who_answers_is_a_promise_that_privacy_strata_and_the_service_do_not_keep() -> None:
    policy = make_policy("waves", who="panel", population=60)
    with pytest.raises(InputError, match="who = 'panel' asks the same people in every wave, and the central model"):
        Definition(problem(), policy, make_privacy("central", 5.0))
    with pytest.raises(InputError, match="leave out the strata"):
        Study(problem(), who="everybody", population=60, strata={"young": 0.5, "old": 0.5})
    with pytest.raises(InputError, match="who = 'panel' asks the same people in every wave, and a service invites"):
        ServiceDefinition(problem(), policy)


def test_a_question_to_fresh_people_is_as_before() -> None:
    question = Question(1, ({"price": 4.5},), (2,), people=5, blocks=2)
    assert "5 people, 2 about block 1 and 3 about block 2" in str(question)
    assert Plan(1, np.array([0]), np.array([2]), 5, blocks=2).numbers == 5
