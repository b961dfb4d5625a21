"""`voxpop ask` and `voxpop tell` with people who were sampled unevenly."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers_cli import STUDY, Outcome, main_of, study_file
from voxpop.service.study.definition import read_definition
from voxpop.study.study import Study

Main = Callable[..., Outcome]
STRATA = STUDY + "\n[strata]\nyoung = 0.25\nold = 0.75\n"


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    monkeypatch.chdir(tmp_path)
    study_file(tmp_path / "tea.toml", STRATA)
    return main_of(monkeypatch)


def answers(question: dict[str, Any], column: str = "Stratum") -> str:
    """Half of the people who answer are young."""
    rows = [
        f"u{person},{('young', 'old')[person % 2]},{decision['price']},{0.5 + person % 2}"
        for person in range(question["people"])
        for decision in question["decisions"]
    ]
    Path("answers.csv").write_text(f"person,{column},price,reward\n" + "\n".join(rows) + "\n")
    return "answers.csv"


def test_the_question_names_the_strata_and_their_answers_are_weighed(main: Main) -> None:
    question = json.loads(main("ask", "tea.toml", "--json").out)
    assert sum(question["strata"].values()) == question["people"]
    said = " ".join(main("ask", "tea.toml").out.split())
    assert f"({question['strata']['young']} of young, {question['strata']['old']} of old)" in said
    assert "the columns person, stratum, price, reward" in said
    done = main("tell", "tea.toml", answers(question))
    assert (done.code, done.err) == (0, "")
    feedback = Study.load("tea.json").log[0].feedback
    assert feedback.mean == pytest.approx([0.25 * 0.5 + 0.75 * 1.5] * len(question["decisions"]))


def test_answers_without_strata_are_refused(main: Main) -> None:
    question = json.loads(main("ask", "tea.toml", "--json").out)
    done = main("tell", "tea.toml", answers(question, column="age"))
    assert done.code == 2
    assert "answers.csv has no column stratum; it has person, age, price, reward" in done.err


def test_shares_may_not_change_during_a_study(main: Main) -> None:
    main("ask", "tea.toml")
    study_file(Path("tea.toml"), STRATA.replace("0.25", "0.35").replace("0.75", "0.65"))
    done = main("ask", "tea.toml")
    assert done.code == 2
    assert "was changed after its study began" in done.err


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("young = 0.5", "at least two parts of the population"),
        ("young = 0.5\nold = 0.6", "must add up to 1, got 1.1"),
        ("", "the table [strata] is missing"),
    ],
)
def test_shares_that_are_none_are_refused_with_their_file(main: Main, table: str, said: str) -> None:
    study_file(Path("tea.toml"), f"{STUDY}\n[strata]\n{table}\n")
    done = main("ask", "tea.toml")
    assert done.code == 2
    assert "tea.toml: " in done.err
    assert said in done.err
    assert not Path("tea.json").exists()


def test_a_parameter_may_not_be_called_stratum(main: Main) -> None:
    study_file(Path("tea.toml"), STRATA.replace("[parameters.price]", "[parameters.stratum]"))
    assert "rename the parameter" in main("ask", "tea.toml").err


def test_a_service_reads_the_strata_of_the_same_file(main: Main) -> None:
    _, definition = read_definition(Path("tea.toml"))
    strata = definition.strata
    assert strata is not None
    assert strata.shares == {"young": 0.25, "old": 0.75}
