"""Answers from before the study count like a pilot's, and a study calls back after each wave."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import refusal
from tests.study.test_study_private import asked
from voxpop.errors import InputError
from voxpop.journal import file
from voxpop.model.decisions import Float, Space
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Evidence, Problem
from voxpop.study.study import Study

PRICES = Space(price=Float(1.0, 3.0)).grid(5)
MEANS = [0.2, 0.9, 0.4]
RECORDS = [
    {"person": person, "decision": {"price": price}, "average": mean + shift, "rounds": 20}
    for person, shift in ((1, -0.1), (2, 0.1))
    for price, mean in zip((1.0, 2.0, 3.0), MEANS, strict=True)
]


def problem(**named: Any) -> Problem:
    return Problem(PRICES, SquaredExponential(0.3), 0.3, 0.2, norm_bound=2.0, horizon=500, **named)


def evidence() -> Evidence:
    return Evidence(PRICES.points[[0, 2, 4]], [20, 20, 20], 2, MEANS)  # type: ignore[arg-type]


AGGREGATE = {"decisions": [{"price": 1.0}, {"price": 2.0}, {"price": 3.0}], "mean": MEANS, "count": 2, "rounds": 20}
FORMS: dict[str, Any] = {
    "records": RECORDS,
    "aggregate": AGGREGATE,
    "rounds each": {**AGGREGATE, "rounds": [20, 20, 20]},
    "evidence": evidence(),
    "groups": [evidence()],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_counts_like_the_pilot_of_a_problem(form: str) -> None:
    attached, given = Study(problem()), Study(problem(pilot=[evidence()]))
    attached.attach(FORMS[form])
    assert attached.best.decision == given.best.decision == {"price": 2.0}
    assert attached.best.regret == pytest.approx(given.best.regret)
    first, second = attached.problem.pilot[0], given.problem.pilot[0]
    np.testing.assert_array_equal(first.points, second.points)
    np.testing.assert_array_equal(first.rounds, second.rounds)
    np.testing.assert_allclose(first.mean, second.mean)
    assert first.people == second.people
    first_question, second_question = asked(attached), asked(given)
    assert first_question.decisions == second_question.decisions
    assert first_question.people == second_question.people


def test_people_who_tried_other_decisions_are_a_group_of_their_own() -> None:
    study = Study(problem(pilot=[evidence()]))
    study.attach([*RECORDS, {"person": "ann", "decision": {"price": 1.5}, "average": 0.4}])
    assert [group.people for group in study.problem.pilot] == [2, 2, 1]
    assert study.problem.pilot[2].rounds.tolist() == [1.0]


def test_earlier_people_of_strata_are_weighed() -> None:
    study = Study(problem(), strata={"young": 0.5, "old": 0.5})
    rows = [{**row, "person": f"{copy}{row['person']}"} for copy in range(4) for row in RECORDS]
    young = [{**row, "stratum": "young"} for row in rows]
    old = [{**row, "person": f"o{row['person']}", "average": 0.0, "stratum": "old"} for row in RECORDS]
    study.attach([*young, *old])
    (group,) = study.problem.pilot
    np.testing.assert_allclose(group.mean, np.array(MEANS) / 2)
    assert group.people == 6  # 8 young and 2 old are worth 6.4
    with pytest.raises(InputError, match="nobody of stratum 'old' answered"):
        study.attach(young)
    with pytest.raises(InputError, match="attach records with the key stratum"):
        study.attach(AGGREGATE)


def test_what_is_attached_is_saved_and_nothing_is_attached_later(tmp_path: Path) -> None:
    path = tmp_path / "tea.json"
    study = Study(problem(), path=path)
    study.attach(RECORDS)
    assert Study.load(path).best == study.best
    asked(study)
    with pytest.raises(InputError, match="before the first question; begin a new study with them") as caught:
        study.attach(RECORDS)
    refusal(caught)
    assert len(study.problem.pilot) == 1


def test_a_study_that_cannot_be_saved_attaches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise InputError("the disk is full")

    study = Study(problem(), path=tmp_path / "tea.json")
    monkeypatch.setattr(file, "append_durably", full)
    with pytest.raises(InputError, match="the disk is full"):
        study.attach(RECORDS)
    assert study.problem.pilot == ()
    assert study.best == Study(problem()).best


REFUSED: dict[str, tuple[Any, str]] = {
    "nothing": ([], "earlier answers are records"),
    "a number": (3, "got int"),
    "a mixture": ([evidence(), RECORDS[0]], "got list"),
    "a matrix": (np.zeros((3, 3)), "got ndarray"),
    "other keys": ({"mean": [0.1], "count": 2}, "got the keys count, mean"),
    "no average": (
        [{"person": 1, "decision": {"price": 1.0}}],
        "record 1 must have the keys .*, and perhaps rounds; got",
    ),
    "not a number": ([{**RECORDS[0], "average": float("nan")}], "record 1's average must be a number"),
    "no rounds": ([{**RECORDS[0], "rounds": 0}], "record 1's rounds must be a whole number, at least 1"),
    "twice": ([RECORDS[0], RECORDS[0]], "person 1 answered twice"),
    "elsewhere": ([{**RECORDS[0], "decision": {"price": 1.7}}], "not in the decision set; leave out .* Evidence"),
    "other dimensions": (Evidence([[0.0, 0.0]], [1], 2, [0.1]), "dimensions"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_earlier_answer_is_refused(case: str) -> None:
    earlier, said = REFUSED[case]
    study = Study(problem())
    with pytest.raises(InputError, match=said) as caught:
        study.attach(earlier)
    refusal(caught)
    assert study.problem.pilot == ()


def answered(study: Study) -> None:
    question = asked(study)
    study.tell(question.wave, np.full((question.people, len(question.decisions)), 0.4))


def test_a_study_calls_back_after_each_wave_with_what_is_saved(tmp_path: Path) -> None:
    path, seen = tmp_path / "tea.json", []
    study = Study(problem(), path=path, on_wave=lambda study: seen.append((len(study.log), len(Study.load(path).log))))
    asked(study)
    assert seen == []
    answered(study)
    assert seen == [(1, 1)]


def test_a_callback_that_fails_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tea.json"
    study = Study(problem(), path=path)

    def fail(study: Study) -> None:
        raise RuntimeError("no network")

    study.on_wave = fail
    with pytest.raises(RuntimeError, match="no network"):
        answered(study)
    assert len(study.log) == len(Study.load(path).log) == 1
    assert study.ask() == Study.load(path).ask()
