"""What `Study.tell` takes: in a private study nothing is refused for its value, and never what is not an answer."""

import math
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import refusal
from tests.study.test_study_private import asked, problem
from voxpop.errors import Array, InputError
from voxpop.journal.question import Question
from voxpop.model.waves import Plan
from voxpop.privacy import Private
from voxpop.study.answers import Answers, read
from voxpop.study.study import Study

PLAN = Plan(1, np.array([0, 2]), np.array([1, 1]), 3)
WILD = [math.nan, math.inf, -math.inf, 1e308, -(10**400), 2**70]


def matrix_of(told: object, private: bool = True) -> Array:
    found = read(problem(), PLAN, told, private)
    assert isinstance(found, Answers)
    return found.matrix


def study_of(value: Any, form: str) -> tuple[Study, Question]:
    """A private study of two decisions that was told a value of its first person."""
    study = Study(problem(), "dpbe", privacy=Private("central", 5.0))
    study.tell(asked(study).wave, np.full((asked(study).people, 1), 0.3))
    question = asked(study)
    rows: list[list[Any]] = [[0.3] * len(question.decisions) for _ in range(question.people)]
    rows[0][0] = value
    records = [
        {"person": person, "decision": decision, "average": average}
        for person, row in enumerate(rows)
        for decision, average in zip(question.decisions, row, strict=True)
    ]
    study.tell(question.wave, rows if form == "matrix" else records)
    return study, question


@pytest.mark.parametrize("form", ["matrix", "records"])
@pytest.mark.parametrize("value", WILD, ids=["nan", "inf", "-inf", "float", "beyond floats", "beyond int64"])
def test_a_private_study_refuses_no_value(value: Any, form: str) -> None:
    study, question = study_of(value, form)
    feedback = study.log[-1].feedback
    assert feedback.count == question.people
    assert np.isfinite(feedback.mean).all()


def test_values_reach_the_release_as_they_are() -> None:
    told = matrix_of([[math.nan, math.inf], [-(10**400), 2**70], [True, 0.5]])
    np.testing.assert_array_equal(told, [[math.nan, math.inf], [-math.inf, 2.0**70], [1.0, 0.5]])


def test_what_a_person_did_not_answer_counts_as_the_centre_of_a_private_study() -> None:
    told = [{"person": "ann", "decision": 2, "average": 0.5}, {"person": "bob", "decision": 0, "average": math.inf}]
    np.testing.assert_array_equal(matrix_of(told), [[math.nan, 0.5], [math.inf, math.nan]])
    with pytest.raises(InputError, match=r"'ann' has no answer about .*; complete them, or hand in what there is"):
        matrix_of(told, private=False)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_without_privacy_a_value_that_is_no_number_is_refused_with_a_remedy(value: float) -> None:
    with pytest.raises(InputError, match=r"row 1 (has no answer )?about \[0\.5\](, and|; correct)") as caught:
        matrix_of([[0.1, 0.2], [0.3, value]], private=False)
    refusal(caught)
    told = [{"person": "ann", "decision": 0, "average": 0.1}, {"person": "ann", "decision": 2, "average": value}]
    with pytest.raises(InputError, match=r"'ann' (has no answer )?about"):
        matrix_of(told, private=False)


NO_ANSWERS: dict[str, Any] = {
    "none": [[0.1, None]],
    "all none": None,
    "a word": [[0.1, "good"]],
    "a number as text": [["0.1", "0.2"]],
    "ragged": [[0.1, 0.2], [0.1]],
    "a list inside": [[0.1, [0.2]]],
    "three columns": [[0.1, 0.2, 0.3]],
    "a vector": [0.1, 0.2],
    "nobody": np.empty((0, 2)),
    "complex": [[0.1, 1j]],
    "a date": np.array([["2026-01-01", "2026-01-02"]], dtype="datetime64[D]"),
    "none in a record": [{"person": 1, "decision": 0, "average": None}],
    "a word in a record": [{"person": 1, "decision": 0, "average": "good"}],
    "twice": [{"person": 1, "decision": 0, "average": 0.1}] * 2,
    "another decision": [{"person": 1, "decision": 1, "average": 0.1}],
    "no person": [{"decision": 1, "average": 0.1}],
}


NO_NUMBERS = ("none", "a word", "complex", "none in a record", "a word in a record")


@pytest.mark.parametrize("case", NO_NUMBERS)
def test_one_answer_that_is_no_number_is_the_centre_in_a_private_study(case: str) -> None:
    assert np.isnan(matrix_of(NO_ANSWERS[case], private=True)).any()


@pytest.mark.parametrize(
    ("case", "private"), [(case, private) for case in NO_ANSWERS for private in (False, case not in NO_NUMBERS)]
)
def test_what_is_no_answer_is_refused(case: str, private: bool) -> None:
    with pytest.raises(InputError) as caught:
        matrix_of(NO_ANSWERS[case], private)
    refusal(caught)


def test_people_may_be_named_by_anything() -> None:
    told = [{"person": name, "decision": arm, "average": 0.1} for name in (7, [1, 2], "None") for arm in (0, 2)]
    found = read(problem(), PLAN, told, private=True)
    assert isinstance(found, Answers)
    assert found.names == ("7", "[1, 2]", "none")
    for nobody in (None, math.nan, "", " \u200b"):
        with pytest.raises(InputError, match="record 1: a person has no name"):
            read(problem(), PLAN, [{"person": nobody, "decision": 0, "average": 0.1}], private=True)


@pytest.mark.parametrize("told", [{"mean": [math.nan, 0.1], "count": 3}, {"mean": [0.1, 0.1], "count": 3}])
def test_an_aggregate_is_refused_in_a_private_study_before_its_values_are_looked_at(told: Any) -> None:
    with pytest.raises(InputError, match="cannot be made private afterwards"):
        read(problem(), PLAN, told, private=True)
