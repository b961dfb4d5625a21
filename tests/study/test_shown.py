"""A study shows itself: in one line, in a notebook, as tables, pictures and a page."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.helpers_cli import refusal
from tests.study.test_minimize import ask, pair, rewards
from voxpop import Study
from voxpop.errors import InputError
from voxpop.journal.tables import answer_rows, decision_rows, wave_rows
from voxpop.report.figures import pictures
from voxpop.report.view import View


def told() -> Study:
    study = pair()[0]
    study.tell(1, rewards(ask(study)))
    study.name = "tea <b>"
    return study


def test_a_study_is_one_line_at_every_stage() -> None:
    study = pair()[0]
    assert repr(study) == "<Study 'study': 9 decisions, 3,000 rounds; nobody asked yet>"
    people = ask(study).people
    assert repr(study).endswith("nobody asked yet; wave 1 is open>")
    study.tell(1, rewards(ask(study)))
    said = f"price = 2, nothing is better by more than {study.best.regret:.3g}; {people:,} people asked in 1 wave"
    assert said in repr(study)
    while (question := study.ask()) is not None:
        study.tell(question.wave, rewards(question))
    assert repr(study).endswith(f"over: {study.ended}>")


def test_a_notebook_shows_what_to_do_how_sure_that_is_and_the_waves() -> None:
    study = told()
    shown = study._repr_html_()
    assert shown.count("<table>") == 2
    assert "<td>price = 2</td>" in shown
    assert "no other price is better by more than" in shown
    assert "tea &lt;b&gt;" in shown
    assert "<b>" not in shown
    assert pair()[0]._repr_html_().count("<table>") == 1  # no wave yet


def test_questions_and_answers_can_be_read() -> None:
    study = told()
    question = ask(pair()[0])
    assert str(question).startswith("wave 1: play price = ")
    assert str(question).endswith(f", then ask {question.people:,} people")
    assert question._repr_html_().count("<tr>") == len(question.decisions) + 1
    assert str(study.best) == (
        f"price = 2: expect {study.best.estimate:.3g}, certified {study.best.low:.3g} to {study.best.high:.3g}; "
        f"expected loss {study.best.expected_loss:.3g} per round; nothing is better by more than "
        f"{study.best.regret:.3g}, with 95 % confidence"
    )
    assert "price = 2" in study.best._repr_html_()


def test_tables_are_the_rows_as_data_frames() -> None:
    study = told()
    assert study.decisions.to_dict("records") == decision_rows(study.course)
    assert study.answers.to_dict("records") == answer_rows(study.course)
    assert list(study.waves.columns) == list(wave_rows(study.course)[0])
    assert len(pair()[0].answers) == len(pair()[0].waves) == 0


def test_every_picture_of_the_report_is_a_figure() -> None:
    study = told()
    names = pictures(View(study.course))
    assert "decision" in names
    for name in names:
        made = study.plot(name)
        assert isinstance(made, Figure)
        shown: Any = made
        assert shown._repr_png_().startswith(b"\x89PNG")  # as notebooks ask for it


def test_a_picture_that_does_not_exist_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match="unknown picture 'pie'; known: ") as caught:
        told().plot("pie")
    refusal(caught)


def test_the_report_is_one_page(tmp_path: Path) -> None:
    told().report(tmp_path / "tea.html")
    page = (tmp_path / "tea.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "price = 2" in page
    assert "Simulated" not in page


def test_looking_at_a_study_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    study = pair(path)[1]
    study.tell(1, -rewards(ask(study)))
    before = path.read_bytes(), np.array(study.state.lower)
    for show in (repr, str, Study._repr_html_, lambda s: s.decisions, lambda s: s.best, lambda s: s.plot()):
        show(study)
    assert path.read_bytes() == before[0]
    assert study.course.wave is None
