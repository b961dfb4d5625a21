"""Answers in DataFrames and dictionaries say the same as records and matrices do."""

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tests.helpers_cli import refusal
from tests.study.test_study import SPACE
from voxpop.errors import Array, InputError
from voxpop.journal.question import Question
from voxpop.model.decisions import Choice, Float, Space
from voxpop.model.kernels import Matern
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.study.answers import Answers, read

ONE = Problem(Space(price=Float(1, 3)).grid(5), Matern(0.4, nu=1.5), 0.2, 0.1, norm_bound=2.0, horizon=300)
TWO = Problem(SPACE.grid(8), Matern(0.4, nu=1.5), 0.2, 0.1, norm_bound=2.0, horizon=300)
BARE = Problem([[0.0, 0.5], [1.0, 0.25]], Matern(0.4, nu=1.5), 0.2, 0.1, norm_bound=2.0, horizon=300)
WORDS = Problem(Space(tea=Choice(("black", "green"))).grid(), Matern(0.4, nu=1.5), 0.2, 0.1, norm_bound=2.0, horizon=9)
PROBLEMS = {"one parameter": ONE, "two parameters": TWO, "coordinates": BARE, "a choice": WORDS}
ARMS = {"one parameter": [3, 0, 2], "two parameters": [5, 2], "coordinates": [1, 0], "a choice": [1, 0]}
PEOPLE = ("ann", "bob", "cat")


def plan_of(case: str) -> Plan:
    arms = np.array(ARMS[case])
    return Plan(1, arms, np.ones(len(arms), dtype=np.intp), len(PEOPLE))


def matrix_of(case: str) -> Array:
    return np.arange(3.0 * len(ARMS[case])).reshape(3, -1) / 8


def told(case: str, feedback: object, private: bool = False) -> Answers:
    found = read(PROBLEMS[case], plan_of(case), feedback, private)
    assert isinstance(found, Answers)
    return found


def filled(case: str, wide: bool) -> pd.DataFrame:
    """The question's own table, filled in by ann, bob and cat."""
    question, matrix = Question.of(PROBLEMS[case], plan_of(case)), matrix_of(case)
    table = question.table(wide)
    names = dict(zip(table["person"].unique(), PEOPLE, strict=True))
    table["person"] = table["person"].map(names)
    if wide:
        for column, label in enumerate(question.labels):
            table[label] = matrix[:, column]
    else:
        table["reward"] = matrix.ravel()
    return table


def text_headed(table: pd.DataFrame) -> pd.DataFrame:
    """A table as it comes back from a CSV file: every heading is text."""
    return table.rename(columns=str)


FORMS: dict[str, Any] = {
    "long": lambda case: filled(case, wide=False),
    "wide": lambda case: filled(case, wide=True),
    "shuffled": lambda case: filled(case, wide=False).sample(frac=1, random_state=1).sort_values("person"),
    "other columns": lambda case: filled(case, wide=False).assign(age=30, rounds=5),
    "average": lambda case: filled(case, wide=False).rename(columns={"reward": "Average", "person": "User"}),
    "text headings": lambda case: text_headed(filled(case, wide=True)),
    "people in the index": lambda case: filled(case, wide=True).set_index("person"),
    "columns in another order": lambda case: filled(case, wide=True).iloc[:, ::-1],
    "polars long": lambda case: pl.from_pandas(filled(case, wide=False)),
    "polars wide": lambda case: pl.from_pandas(text_headed(filled(case, wide=True))),
    "by person": lambda case: {
        person: dict(zip(Question.of(PROBLEMS[case], plan_of(case)).labels, row, strict=True))
        for person, row in zip(PEOPLE, matrix_of(case).tolist(), strict=True)
    },
    "records": lambda case: [
        {"person": person, "decision": arm, "average": average}
        for person, row in zip(PEOPLE, matrix_of(case).tolist(), strict=True)
        for arm, average in zip(ARMS[case], row, strict=True)
    ],
}


@pytest.mark.parametrize("case", PROBLEMS)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(case: str, form: str) -> None:
    found = told(case, FORMS[form](case))
    assert found.names == PEOPLE
    np.testing.assert_array_equal(found.matrix, matrix_of(case))


@pytest.mark.parametrize("case", PROBLEMS)
def test_without_names_columns_are_told_by_their_decisions_or_by_their_order(case: str) -> None:
    wide = filled(case, wide=True).drop(columns="person")
    columns = {label: wide[label].tolist() for label in wide.columns[::-1]}
    for form in (wide.iloc[:, ::-1], columns, pd.DataFrame(matrix_of(case))):
        found = told(case, form)
        assert found.names == ()
        np.testing.assert_array_equal(found.matrix, matrix_of(case))


def test_a_pivoted_table_with_several_headings_is_wide() -> None:
    table = filled("two parameters", wide=False)
    pivoted = table.pivot(index="person", columns=["price", "tea"], values="reward")
    for form in (pivoted, pivoted.reset_index()):
        found = told("two parameters", form)
        assert found.names == PEOPLE
        np.testing.assert_array_equal(found.matrix, matrix_of("two parameters"))


def test_a_csv_file_of_the_question_s_table_comes_back(tmp_path: Any) -> None:
    for wide in (False, True):
        filled("two parameters", wide).to_csv(tmp_path / "a.csv", index=False)
        found = told("two parameters", pd.read_csv(tmp_path / "a.csv"))
        np.testing.assert_array_equal(found.matrix, matrix_of("two parameters"))


def test_people_whom_a_table_numbers_with_floats_have_whole_numbers() -> None:
    table = filled("one parameter", wide=True)
    table["person"] = [1.0, 2.0, 3.0]
    assert told("one parameter", table).names == ("1", "2", "3")


@pytest.mark.parametrize("missing", [None, math.nan])
@pytest.mark.parametrize("form", ["long", "wide", "by person", "polars long"])
def test_what_is_missing_counts_as_the_centre_of_a_private_study_and_is_refused_otherwise(
    form: str, missing: float | None
) -> None:
    case = "one parameter"
    feedback = FORMS[form](case)
    if form == "by person":
        feedback["bob"][1.0] = missing
    elif form == "polars long":
        is_bob = (pl.col("person") == "bob") & (pl.col("price") == 1.0)
        feedback = feedback.with_columns(pl.when(is_bob).then(missing).otherwise(pl.col("reward")).alias("reward"))
    elif form == "long":
        feedback.loc[(feedback["person"] == "bob") & (feedback["price"] == 1.0), "reward"] = missing
    else:
        feedback.loc[feedback["person"] == "bob", 1.0] = missing
    expected = matrix_of(case)
    expected[1, 1] = math.nan
    np.testing.assert_array_equal(told(case, feedback, private=True).matrix, expected)
    with pytest.raises(InputError, match=r"'bob' has no answer about \{'price': 1.0\}, and 1 of 3") as caught:
        told(case, feedback)
    refusal(caught)


def test_a_column_or_rows_that_are_not_there_are_missing_answers() -> None:
    case = "one parameter"
    wide = filled(case, wide=True).drop(columns=1.0)
    long = filled(case, wide=False).query("price != 1.0")
    for form in (wide, long):
        assert np.isnan(told(case, form, private=True).matrix[:, 1]).all()
        with pytest.raises(InputError, match=r"'ann' has no answer about \{'price': 1.0\}"):
            told(case, form)


LONG = filled("one parameter", wide=False)
WIDE = filled("one parameter", wide=True)
REFUSED: dict[str, tuple[Any, str]] = {
    "no parameter": (LONG.drop(columns="price"), "needs a column price; it has person, reward"),
    "no person": (LONG.drop(columns="person"), "needs a column person; it has price, reward"),
    "somebody without a name": (LONG.assign(person=None), "a person has no name; fill in who"),
    "another decision": (
        WIDE.rename(columns={1.0: 1.25}),
        "1.25 is not a decision of wave 1; .* are 2.5",
    ),
    "a decision that was not asked": (WIDE.rename(columns={1.0: 3.0}), "3.0 is not a decision of wave 1"),
    "one decision twice": (WIDE.assign(**{"1": 0.5}), "1.0, 1 are about the same decision"),
    "a cost": (LONG.rename(columns={"reward": "cost"}), "looks for the largest reward.*minimize"),
    "twice the same": (pd.concat([LONG, LONG]), "'ann' answered twice"),
    "a word": (LONG.assign(reward="good"), "must be a number, got 'good'"),
    "nothing": (pd.DataFrame(), "is empty"),
    "uneven columns": ({1.0: [0.1], 2.0: [0.1, 0.2]}, "columns of one length"),
    "no decision": ({"ann": {"tall": 0.1}}, "'tall' is not a decision"),
    "lacks a decision": (WIDE.drop(columns=["person", 1.0]), "no column about price = 1; add it, or name the people"),
    "neither": ({"ann": 0.3}, "an aggregate has the keys mean and count"),
}


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("case", REFUSED)
def test_a_table_that_does_not_fit_is_refused_with_a_remedy(case: str, private: bool) -> None:
    feedback, said = REFUSED[case]
    if private and case == "neither":
        said = "an aggregate cannot be made private"
    if private and case == "a word":
        said = "none of the answers is a number"
    with pytest.raises(InputError, match=said) as caught:
        told("one parameter", feedback, private)
    refusal(caught)


def test_the_answers_of_a_study_of_costs_are_its_costs() -> None:
    both = LONG.assign(cost=1.0)
    with pytest.raises(InputError, match="the columns cost and reward; keep one of them"):
        read(ONE, plan_of("one parameter"), both, False, measure="cost")
    with pytest.raises(InputError, match=r"the columns 'reward' and 'Reward'; rename or drop one of them"):
        told("one parameter", LONG.assign(Reward=0.5), False)


def test_strata_are_handed_on() -> None:
    from voxpop.study.tabular import untabled

    for table in (LONG, WIDE):
        records = untabled(ONE, plan_of("one parameter"), table.assign(stratum="young"), kept=["stratum"])
        assert isinstance(records, list)
        assert {record["stratum"] for record in records} == {"young"}


def test_a_table_of_a_question_has_other_people_in_every_wave() -> None:
    tables = [Question(wave, ({"price": 1.0},), (1,), people=2).table() for wave in (1, 2)]
    assert len({*tables[0]["person"], *tables[1]["person"]}) == 4
