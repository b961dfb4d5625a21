"""Three ways to begin a study without a constant of one's own: a study file, a pilot and a calibration."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tests.helpers import unordered
from tests.helpers_cli import read_pilot, refusal
from voxpop import Calibration, Pilot, Protection, Study, calibrate
from voxpop.errors import InputError
from voxpop.io.studyfile import write_study
from voxpop.journal.question import Question
from voxpop.model.decisions import Choice, Float, Integer, Space

PRICES = [2.0, 3.0, 4.0, 5.0, 6.0, 8.0]


def pilot_table() -> pd.DataFrame:
    rng, rows = np.random.default_rng(3), []
    for person in range(12):
        taste = rng.normal(4.2, 0.6)
        rows += [
            (f"p{person}", price, 20, 2 - (price - taste) ** 2 / 8 + float(rng.normal(0, 0.1))) for price in PRICES
        ]
    return pd.DataFrame(rows, columns=["person", "price", "rounds", "reward"])


TABLE = pilot_table()


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return calibrate(TABLE)


@pytest.fixture
def study_file(tmp_path: Path, calibration: Calibration) -> Path:
    path = tmp_path / "espresso.toml"
    text = write_study(calibration, calibration.require_space(), 20_000, 51, "espresso", {"name": "waves"})
    path.write_text('reward = "profit"\n' + text)
    return path


def test_a_study_file_is_begun_and_then_gone_on_with(study_file: Path) -> None:
    study = Study.from_file(study_file)
    question = study.ask()
    assert question is not None
    assert (study.name, study.reward, study.path) == ("espresso", "profit", study_file.with_suffix(".json"))
    again = Study.from_file(study_file)
    assert again.ask() == question
    again.tell(1, np.full((question.people, len(question.decisions)), 1.5))
    assert len(Study.from_file(study_file).log) == 1
    assert Study.load(study_file.with_suffix(".json")).reward == "profit"


def test_the_names_of_a_study_file_may_change_and_its_constants_may_not(study_file: Path) -> None:
    Study.from_file(study_file).ask()
    text = study_file.read_text()
    study_file.write_text(text.replace('"profit"', '"gain"').replace('name = "espresso"', 'name = "mocha"'))
    study = Study.from_file(study_file)
    assert (study.name, study.reward) == ("mocha", "gain")
    study_file.write_text(text.replace("horizon = 20000", "horizon = 30000"))
    longer = Study.from_file(study_file)
    assert (longer.horizon_change, longer.problem.horizon) == ((20_000, 30_000), 30_000)
    assert Study.from_file(study_file).horizon_change is None
    study_file.write_text(text.replace("bias_std = ", "bias_std = 1"))
    with pytest.raises(
        InputError, match="was changed after its study began, and only its horizon, reward_range and decisions may be"
    ) as caught:
        Study.from_file(study_file)
    refusal(caught)
    study_file.write_text('direction = "minimize"\n' + text)
    with pytest.raises(InputError, match="was changed after its study began"):
        Study.from_file(study_file)


FORMS: dict[str, Any] = {
    "pandas": lambda folder: TABLE,
    "polars": lambda folder: pl.from_pandas(TABLE),
    "records": lambda folder: TABLE.to_dict("records"),
    "columns": lambda folder: TABLE.to_dict("list"),
    "an index": lambda folder: TABLE.set_index(["person", "price"]),
    "other names": lambda folder: TABLE.rename(columns={"person": "User", "reward": "average"}),
    "a pilot": lambda folder: Pilot.from_table(TABLE),
    "a file": lambda folder: folder / "pilot.csv",
    "the name of a file": lambda folder: str(folder / "pilot.csv"),
}


@pytest.fixture(scope="module")
def begun(calibration: Calibration) -> tuple[Study, Question | None]:
    """A study that is begun with its calibration, and its first question."""
    study = Study.from_calibration(calibration, 20_000, 41, tolerance=0.2)
    return study, study.ask()


@pytest.mark.parametrize("form", FORMS)
def test_a_pilot_in_any_form_begins_the_same_study(
    tmp_path: Path, begun: tuple[Study, Question | None], form: str
) -> None:
    TABLE.to_csv(tmp_path / "pilot.csv", index=False)
    study = Study.from_pilot(FORMS[form](tmp_path), horizon=20_000, points=41, tolerance=0.2, reward="profit")
    expected, question = begun
    assert study.problem.size == 41
    assert study.reward == "profit"
    assert study.policy == expected.policy
    assert unordered(study.ask()) == unordered(question)


def test_a_table_makes_the_same_pilot_as_its_csv_file(tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "pilot.csv", index=False)
    (read, space), made = read_pilot(tmp_path / "pilot.csv"), Pilot.from_table(TABLE)
    for name in ("people", "actions", "averages", "counts"):
        np.testing.assert_array_equal(getattr(read, name), getattr(made, name))
    assert made.space is not None
    assert (made.space.parameters, list(made.decisions)) == (space.parameters, list(read.decisions))


def test_a_space_says_what_a_column_is() -> None:
    table = TABLE.assign(price=TABLE["price"].astype(int), colour="red", age=TABLE["person"].str[1:])
    space = Space(price=Integer(1, 10))
    found = Pilot.from_table(table, space=space)
    assert found.space is space
    assert found.decisions[0] == {"price": 2}
    named = Pilot.from_table(table, ["price"])
    assert named.space is not None
    assert list(named.space.parameters) == ["price"]


def test_words_become_choices() -> None:
    table = TABLE.assign(price=TABLE["price"].map(lambda price: "low" if price < 5 else "high"))
    found = Pilot.from_table(table.drop_duplicates(["person", "price"]))
    assert found.space is not None
    assert found.space.parameters == {"price": Choice(("high", "low"))}


REFUSED: dict[str, tuple[Any, str]] = {
    "no reward": (TABLE.drop(columns="reward"), "needs a column reward; it has person, price, rounds"),
    "no person": (TABLE.drop(columns="person"), "needs a column person; it has"),
    "no parameter": (TABLE.drop(columns="price"), "no column for a parameter; add one"),
    "one price": (TABLE.assign(price=3.0), "price is always 3.0; vary it"),
    "who people are": (
        TABLE.assign(age=TABLE["person"].str[1:]),
        "age is the same in all rows of each",
    ),
    "a gap": (TABLE.assign(price=TABLE["price"].where(TABLE.index != 4)), "row 4 of the pilot has no price"),
    "numbers and words": (TABLE.assign(price=["dear", *TABLE["price"][1:]]), "holds numbers and 'dear'"),
    "an answer that is missing": (
        TABLE.assign(reward=TABLE["reward"].where(TABLE.index != 4)),
        "has no reward of 'p0'; leave the row out",
    ),
    "costs": (TABLE.rename(columns={"reward": "cost"}), "a column cost.*direction=.minimize"),
    "nothing": ([], "the table is empty"),
    "a number": (3, "a table is a DataFrame or a list of records.* got int"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_table_that_is_no_pilot_is_refused_with_a_remedy(case: str) -> None:
    table, said = REFUSED[case]
    with pytest.raises(InputError, match=said) as caught:
        calibrate(table)
    refusal(caught)


def test_a_protected_pilot_refuses_no_value() -> None:
    holes = TABLE.assign(reward=TABLE["reward"].where(TABLE.index != 4))
    found = calibrate(holes, protection=Protection(-10, 5, epsilon=50.0))
    assert found.protection is not None


def test_what_is_released_of_a_file_is_released_once(tmp_path: Path) -> None:
    path, protection = tmp_path / "pilot.csv", Protection(-10, 5, epsilon=50.0)
    TABLE.to_csv(path, index=False)
    first, second = (Study.from_pilot(path, protection=protection) for _ in range(2))
    np.testing.assert_array_equal(first.problem.pilot[0].mean, second.problem.pilot[0].mean)
    with pytest.raises(InputError, match="nobody is protected"):
        Study.from_pilot(path)


def test_nothing_is_released_for_a_study_that_cannot_begin(tmp_path: Path) -> None:
    path, saved = tmp_path / "pilot.csv", tmp_path / "study.json"
    TABLE.to_csv(path, index=False)
    saved.write_text("taken")
    with pytest.raises(InputError, match=r"study\.json exists already"):
        Study.from_pilot(path, path=saved, protection=Protection(-10, 5, epsilon=50.0))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["pilot.csv", "study.json"]


def test_a_calibration_without_parameters_says_what_it_lacks(calibration: Calibration) -> None:
    bare = Pilot.of_matrix(calibration.pilot, np.random.default_rng(0).normal(size=(9, len(PRICES))), 5)
    with pytest.raises(InputError, match="does not know its parameters; calibrate with a space"):
        Study.from_calibration(calibrate(bare))
    assert Study.from_calibration(calibrate(bare, Space(price=Float(2, 8)))).problem.size == len(PRICES)
