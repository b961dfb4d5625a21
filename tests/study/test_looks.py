"""All who look at a study see one statement, whoever looks first; waves that contradict each other certify nothing."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from voxpop.errors import InputError
from voxpop.journal.journal import Course, Known
from voxpop.journal.question import Question
from voxpop.model.decisions import Decisions
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.report.tables import exported
from voxpop.service.study.definition import Definition
from voxpop.service.study.log import Snapshot
from voxpop.service.study.overview import Summary
from voxpop.service.study.status import best_decision
from voxpop.study.study import Study

PROBLEM = Problem(np.linspace(0, 1, 9)[:, None], SquaredExponential(0.3), 0.1, 0.1, norm_bound=2.0, horizon=20_000)


def asked(study: Study) -> Question:
    question = study.ask()
    assert question is not None
    return question


def tell(study: Study, seed: int, shift: float = 0.0) -> None:
    question, rng = asked(study), np.random.default_rng(seed)
    x = np.array([decision[0] for decision in question.decisions])
    f = 1 - (x - 0.6) ** 2 + shift * rng.standard_normal(len(x))
    study.tell(question.wave, f + 0.1 * rng.standard_normal((question.people, len(x))))


def test_two_programs_that_look_and_tell_at_once_spend_one_level_and_see_one_statement(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    tell(Study(PROBLEM, path=path, most_waves=2), 0)
    one, other = Study.load(path), Study.load(path)
    assert one.best == one.best == other.best
    assert one.state.spent == other.state.spent > 0
    for study in (one, other):
        assert study.course.answer == study.best  # what a status or a report shows
    tell(one, 1)
    with pytest.raises(InputError, match="was changed by another program"):
        tell(other, 2)
    assert other.state.spent < one.state.spent  # it has seen nothing of the second wave
    seen = one.best
    again = Study.load(path)
    assert (again.best, again.course.state.spent) == (seen, one.course.state.spent)
    assert again.course.state.spent <= 0.05


def test_a_look_at_the_end_before_another_program_goes_on_is_paid_for(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    tell(Study(PROBLEM, path=path, most_waves=1), 0)
    looks, goes_on = Study.load(path), Study.load(path)
    end = looks.best
    goes_on.change_horizon(PROBLEM.horizon + 1)
    assert goes_on.best == end
    assert goes_on.state.spent >= looks.course.state.spent > 0.9 * 0.05


def test_waves_that_contradict_each_other_certify_nothing_wherever_one_looks() -> None:
    few = Decisions(np.linspace(0, 1, 5)[:, None])  # so that both waves ask about some of them
    study = Study(replace(PROBLEM, decisions=few), answer_cost=1e-4)
    tell(study, 0)
    assert study.best.regret is not None
    tell(study, 1, shift=30.0)
    assert "the waves contradict each other" in study.warning
    course = study.course
    served = {name: getattr(course, name) for name in Course.__dataclass_fields__}
    snapshot = Snapshot(**served | {"definition": Definition(study.problem, study.policy, study.privacy)})
    assert not study.best.certain
    assert vars(study.best)["regret"] is None
    assert best_decision(snapshot).certified is None
    assert Summary.of(snapshot, 0.0).certified is None
    assert Known.of(course.definition, course.state).certified == math.inf  # which is drawn as nothing
    assert json.loads(exported(course, ".json", "decisions"))["summary"]["certified"] is None
    assert "not certified yet" in repr(study)
    assert len(course.state.active) == len(few)
