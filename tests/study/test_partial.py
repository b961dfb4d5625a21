"""Fewer answers than were asked for close a wave only on request, and what was told last can be taken back."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import unordered
from tests.helpers_cli import refusal
from tests.study.test_study_private import asked, private, problem, records
from voxpop.errors import InputError
from voxpop.study.study import Study


def plain(path: Path | None = None) -> Study:
    return Study(problem(), path=path)


def told(study: Study, people: int, value: float = 0.3) -> list[list[float]]:
    return [[value + 0.01 * person for _ in asked(study).decisions] for person in range(people)]


FORMS: dict[str, Any] = {
    "matrix": lambda study, people: told(study, people),
    "records": lambda study, people: records(asked(study), "p")[: people * len(asked(study).decisions)],
    "aggregate": lambda study, people: {"mean": told(study, 1)[0], "count": people},
}


@pytest.mark.parametrize("form", FORMS)
def test_fewer_people_than_were_asked_need_a_word(form: str) -> None:
    study = plain()
    people = asked(study).people
    fewer = people // 4
    with pytest.raises(InputError, match=rf"asked {people} people and {fewer} answered.*about 2\.0 times") as caught:
        study.tell(1, FORMS[form](study, fewer))
    assert "--partial (partial=True), and as the answers may have chosen the moment, certificates count" in refusal(
        caught
    )
    assert (study.log, study.ledger.entries) == ([], [])
    study.tell(1, FORMS[form](study, fewer), partial=True)
    assert study.log[0].feedback.count == fewer


def test_more_people_than_were_asked_need_none() -> None:
    study = plain()
    study.tell(1, told(study, asked(study).people + 1))
    assert len(study.log) == 1


def test_the_cost_in_a_private_study_counts_its_noise() -> None:
    """The noise of the average falls as 1 / people, faster than the people's own."""
    study = private()
    people = asked(study).people
    half = records(asked(study), "p")[: people // 2]
    with pytest.raises(InputError) as caught:
        study.tell(1, half)
    ratio = float(str(caught.value).split("about ")[1].split()[0])
    study.tell(1, half, partial=True)
    plan, feedback = study.log[0]
    assert feedback.noise is not None
    own = float(np.trace(study.problem.answer_noise(plan.arms, plan.pulls)))
    noise = float(np.trace(feedback.noise))
    planned = own / people + noise * (feedback.count / people) ** 2
    assert ratio == pytest.approx(np.sqrt((own / feedback.count + noise) / planned), abs=0.1)
    assert ratio > np.sqrt(2)


@pytest.mark.parametrize("loaded", [True, False])
def test_what_was_told_last_is_taken_back_and_told_again(tmp_path: Path, loaded: bool) -> None:
    def again(study: Study) -> Study:
        return Study.load(tmp_path / "study.json") if loaded else study

    study, expected = plain(tmp_path / "study.json"), plain()
    for value in (0.3, 0.5):
        assert unordered(study.ask()) == unordered(expected.ask())
        expected.tell(asked(expected).wave, told(expected, asked(expected).people, value))
        study.tell(asked(study).wave, told(study, asked(study).people, 9.0))
        study = again(study)
        question = study.log[-1].plan
        study.take_back()
        study = again(study)
        assert asked(study).wave == question.wave
        np.testing.assert_array_equal(study.course.pending.sequence, question.sequence)  # type: ignore[union-attr]
        study.tell(question.wave, told(study, asked(study).people, value))
        study = again(study)
    np.testing.assert_array_equal(study.state.centre, expected.state.centre)
    assert (study.best.index, study.ended, len(study.closed)) == (expected.best.index, expected.ended, 2)
    assert expected.state.spent < study.state.spent < 0.05  # for answers that somebody may have seen
    assert (study.state.upper >= expected.state.upper).all()


def test_only_the_last_answers_can_be_taken_back_and_only_until_the_next_question() -> None:
    study = plain()
    for _ in range(2):
        with pytest.raises(InputError, match="nothing can be taken back") as caught:
            study.take_back()
        refusal(caught)
        study.ask()
    study.tell(1, told(study, asked(study).people))
    study.take_back()
    with pytest.raises(InputError, match="nothing can be taken back"):
        study.take_back()
    study.tell(1, told(study, asked(study).people))
    assert study.ask() is not None
    with pytest.raises(InputError, match="until the next question is asked"):
        study.take_back()
    assert len(study.log) == 1


def test_taking_back_does_not_refund_privacy(tmp_path: Path) -> None:
    path = tmp_path / "tea.json"
    study = private(path=path)
    question = asked(study)
    study.tell(1, records(question, "a"))
    shutil.copy(path, tmp_path / "copy.json")
    study.take_back()
    for opened in (study, Study.load(path)):
        assert opened.log == []
        assert [len(entry.names) for entry in opened.ledger.entries] == [question.people]
        assert opened.ask() == question
        with pytest.raises(InputError, match="'a0' has taken part 1 times"):
            opened.tell(1, records(question, "a"))
        with pytest.raises(InputError, match="wave 1 was released before and taken back; tell records with names"):
            opened.tell(1, np.full((question.people, 1), 0.3))
    newest = path.read_bytes()
    shutil.copy(tmp_path / "copy.json", path)  # a copy from before it was taken back
    with pytest.raises(InputError, match=r"holds 2 steps, and .* knows 3 steps of it"):
        Study.load(path)
    path.write_bytes(newest)
    study = Study.load(path)
    study.tell(1, records(question, "b"))
    assert study.ledger.totals(1e-6)["people"] == 2 * question.people
    assert len(Study.load(path).ledger.entries) == 2


def test_a_private_release_without_names_cannot_be_taken_back() -> None:
    """Nobody could see whether the same people are told again."""
    study = private()
    study.tell(1, np.full((asked(study).people, 1), 0.3))
    with pytest.raises(InputError, match="people without names") as caught:
        study.take_back()
    refusal(caught)
    assert len(study.log) == 1
