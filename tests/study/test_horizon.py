"""A study whose owner changes the number of rounds: only what is planned from then on depends on it."""

from pathlib import Path

import numpy as np
import pytest

from voxpop.errors import InputError
from voxpop.journal.file import JournalFile
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.privacy import Privacy, make_privacy
from voxpop.study.study import Study

PROBLEM = Problem(np.linspace(0, 1, 9)[:, None], SquaredExponential(0.3), 0.3, 0.4, norm_bound=2.0, horizon=2000)


def begun(path: Path, policy: str = "waves", privacy: Privacy | None = None) -> Study:
    """Conduct the first wave."""
    study = Study(PROBLEM, policy, path, privacy)
    question = study.ask()
    assert question is not None
    truth = np.array([1 - (decision[0] - 0.6) ** 2 for decision in question.decisions])
    people = np.random.default_rng(1).normal(0, 0.2, size=(question.people, len(truth)))
    records = [
        {"person": f"u{person}", "decision": decision, "average": float(value)}
        for person, row in enumerate(truth + people)
        for decision, value in zip(question.decisions, row, strict=True)
    ]
    study.tell(question.wave, records)
    return study


@pytest.mark.parametrize("horizon", [400, 500_000])
@pytest.mark.parametrize("policy", ["waves", "dpbe"])
@pytest.mark.parametrize("private", [False, True])
def test_what_is_known_does_not_depend_on_the_horizon(tmp_path: Path, policy: str, private: bool, horizon: int) -> None:
    study = begun(tmp_path / "study.json", policy, make_privacy("central", 5.0, 1e-6) if private else None)
    known = study.best
    study.change_horizon(horizon)
    read = Study.load(tmp_path / "study.json")  # which replays the log over the new horizon
    assert (study.problem.horizon, read.problem.horizon) == (horizon, horizon)
    assert study.problem.beta == read.problem.beta == PROBLEM.beta
    assert study.best == read.best == known
    for bound in ("upper", "lower", "active"):
        np.testing.assert_array_equal(getattr(study.state, bound), getattr(read.state, bound))


def test_what_is_planned_does(tmp_path: Path) -> None:
    forecasts = []
    for horizon in (2000, 2_000_000):
        study = begun(tmp_path / f"{horizon}.json")
        study.change_horizon(horizon)
        question = study.ask()
        forecasts.append(0.0 if question is None or question.forecast is None else question.forecast.gain)
    assert forecasts[1] > 10 * forecasts[0]


def test_an_open_question_stays_open(tmp_path: Path) -> None:
    study = Study(PROBLEM, path=tmp_path / "study.json")
    question = study.ask()
    study.change_horizon(300_000)
    assert study.ask() == Study.load(tmp_path / "study.json").ask() == question


def test_rounds_that_were_played_cannot_be_taken_back(tmp_path: Path) -> None:
    study = begun(tmp_path / "study.json")
    with pytest.raises(InputError, match=f"take {study.state.rounds} rounds, .* give at least {study.state.rounds}"):
        study.change_horizon(study.state.rounds - 1)


def test_what_cannot_be_saved_is_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise InputError("cannot write: no space left on the device")

    study = begun(tmp_path / "study.json")
    monkeypatch.setattr(JournalFile, "append", full)
    with pytest.raises(InputError, match="no space left"):
        study.change_horizon(9000)
    assert study.problem is PROBLEM
