"""Rehearsals: a study file is simulated with its own people, by its own policy or another."""

import pickle
from pathlib import Path

import pytest

from tests.helpers_cli import STUDY, study_file
from voxpop.errors import InputError
from voxpop.policies.dpbe import DPBE
from voxpop.privacy import NoPrivacy, Private
from voxpop.simulation.rehearsals import Rehearsal
from voxpop.simulation.runs import simulate


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return study_file(tmp_path / "tea.toml")


def test_a_rehearsal_is_what_the_file_describes(path: Path) -> None:
    rehearsal = Rehearsal(str(path))
    scenario = rehearsal.scenario()
    policy = rehearsal.make_policy(scenario)
    run = pickle.loads(pickle.dumps(Rehearsal(str(path), "dpbe", seed=3))).run()  # as a worker gets it
    assert run.policy == policy == DPBE(alpha=0.6)
    assert run.metrics.regret == pytest.approx(simulate(scenario, policy, 3).metrics.regret)
    assert run.seed == 3


def test_another_policy_has_its_own_settings(path: Path) -> None:
    rehearsal = Rehearsal(str(path), "dpbe-paper")
    assert rehearsal.make_policy(rehearsal.scenario()).settings()["alpha"] == 0.7


def test_another_horizon_comes_with_its_beta(path: Path) -> None:
    problem = Rehearsal(str(path), "dpbe", horizon=80).scenario().problem
    assert problem.horizon == 80
    assert problem.beta == pytest.approx(1 / (5 * 80))
    study_file(path, STUDY.replace("prior_mean = 0.5", "prior_mean = 0.5\nbeta = 0.01"))
    problem = Rehearsal(str(path), "dpbe", horizon=80).scenario().problem
    assert (problem.horizon, problem.beta) == (80, 0.01)


def test_the_file_s_promise_counts_unless_another_is_made(path: Path) -> None:
    assert Rehearsal(str(path), "dpbe").make_privacy() == NoPrivacy()
    study_file(path, STUDY.replace("[rehearsal]", '[privacy]\nmodel = "central"\nepsilon = 5.0\n\n[rehearsal]'))
    assert Rehearsal(str(path), "dpbe").make_privacy() == Private("central", 5.0)
    assert Rehearsal(str(path), "dpbe", privacy="none").make_privacy() == NoPrivacy()
    assert Rehearsal(str(path), "dpbe", privacy="local", epsilon=9.0).make_privacy() == Private("local", 9.0)
    assert Rehearsal(str(path), "equal-split").run().privacy == Private("central", 5.0)
    with pytest.raises(InputError, match="add --epsilon"):
        Rehearsal(str(path), "dpbe", privacy="central").make_privacy()
