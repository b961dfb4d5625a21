"""A private study: enough people are asked, noise is drawn once, and nobody takes part twice."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers_randomness import opendp
from voxpop.errors import InputError
from voxpop.journal.question import Question
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.privacy import Private
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.study.study import Study


def problem() -> Problem:
    return Problem(np.linspace(0, 1, 5), SquaredExponential(0.3), 0.05, 0.1, norm_bound=1.0, horizon=200)


def private(**named: Any) -> Study:
    return Study(problem(), "dpbe", privacy=Private("central", 5.0), **named)


def asked(study: Study) -> Question:
    question = study.ask()
    assert question is not None
    return question


def records(question: Question, prefix: str) -> list[dict[str, Any]]:
    return [
        {"person": f"{prefix}{person}", "decision": decision, "average": 0.3}
        for person in range(question.people)
        for decision in question.decisions
    ]


def test_more_people_are_asked_than_without_privacy() -> None:
    assert asked(private()).people > 10 * asked(Study(problem(), "dpbe")).people


def test_the_noise_is_from_the_operating_system_and_kept(tmp_path: Path) -> None:
    studies = [private(path=tmp_path / f"{name}.json") for name in "ab"]
    for study in studies:
        question = asked(study)
        study.tell(question.wave, np.full((question.people, 1), 0.3))
    first, second = (study.log[0][1].mean for study in studies)
    assert not np.array_equal(first, second)
    again = Study.load(tmp_path / "a.json")
    np.testing.assert_array_equal(again.log[0][1].mean, first)
    np.testing.assert_array_equal(again.state.upper, studies[0].state.upper)
    assert again.ledger.totals(1e-6) == studies[0].ledger.totals(1e-6)
    assert again.ledger.totals(1e-6)["epsilon"] == pytest.approx(5.0)


def test_the_noise_is_opendp_s_and_nothing_else() -> None:
    """If OpenDP gives zeros, the release is the average without noise."""
    study = private()
    question = asked(study)
    with opendp(itertools.repeat(0)) as scales:
        study.tell(question.wave, np.full((question.people, 1), 0.3))
    assert len(scales) == 1
    np.testing.assert_allclose(study.log[0][1].mean, 0.3, rtol=1e-6)


def test_nobody_takes_part_twice_also_after_loading(tmp_path: Path) -> None:
    study = private(path=tmp_path / "study.json")
    question = asked(study)
    study.tell(question.wave, records(question, "p"))
    study = Study.load(tmp_path / "study.json")
    question = asked(study)
    before = (tmp_path / "study.json").read_bytes()
    with pytest.raises(InputError, match="'p0' has taken part 1 times"):
        study.tell(question.wave, records(question, "p"))
    assert len(study.ledger.entries) == len(study.log) == 1
    assert (tmp_path / "study.json").read_bytes() == before
    study.tell(question.wave, records(question, "q"))
    assert len(study.ledger.entries) == 2


def test_an_aggregate_cannot_be_made_private() -> None:
    study = private()
    with pytest.raises(InputError, match="one by one"):
        study.tell(asked(study).wave, {"mean": [0.3], "count": 100})
    assert study.ledger.entries == []


@pytest.mark.parametrize("model", ["local", "shuffle"])
def test_models_that_need_devices_are_refused(model: str) -> None:
    with pytest.raises(InputError, match="devices randomise"):
        Study(problem(), privacy=Private(model, 5.0))


def test_one_wild_answer_moves_the_release_no_more_than_the_ball_allows() -> None:
    means, noise = [], 0.0
    for wild in (0.3, 1e300):
        study = private()
        question = asked(study)
        answers = np.full((question.people, 1), 0.3)
        answers[0] = wild
        study.tell(question.wave, answers)
        feedback = study.log[0].feedback
        assert feedback.noise is not None
        means.append(float(feedback.mean[0]))
        noise = float(np.sqrt(feedback.noise[0, 0]))
    # One person moves the mean by 1 / multiplier of the noise; the rest is noise, twice, which is real and has no seed.
    assert abs(means[0] - means[1]) < noise / noise_multiplier(5.0, 1e-6) + 9 * np.sqrt(2) * noise
