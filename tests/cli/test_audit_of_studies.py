"""`voxpop audit STUDY ...`: what several studies of the same people add up to."""

import math
from pathlib import Path

import pytest

from tests.cli.test_private_commands import Main
from tests.helpers_cli import main_of
from tests.study.test_study_private import asked, problem
from voxpop.privacy import Private
from voxpop.privacy.gaussian import epsilon_of, noise_multiplier
from voxpop.study.study import Study


def conducted(path: Path, epsilon: float, names: str = "person") -> str:
    """Conduct the first wave of a study."""
    study = Study(problem(), "dpbe", privacy=Private("central", epsilon, floor=4), path=path)
    question = asked(study)
    people = [f"{names} {number}" for number in range(question.people)]
    study.tell(
        question.wave,
        [{"person": who, "decision": one, "average": 0.3} for who in people for one in question.decisions],
    )
    return str(path)


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> Main:
    return main_of(monkeypatch)


def test_studies_of_the_same_people_add_up(main: Main, tmp_path: Path) -> None:
    one, other = conducted(tmp_path / "a.json", 5.0), conducted(tmp_path / "b.json", 5.0, "PERSON ")
    third = conducted(tmp_path / "c.json", 5.0, "somebody else")
    done = main("audit", one, other, third)
    assert done.code == 0
    assert "counting whoever has the same name as one person: epsilon 7.46 at delta 1e-06" in done.out
    pair = epsilon_of(noise_multiplier(5.0, 1e-6) / 2 / math.sqrt(2), 1e-6)
    assert f"a household of 2: epsilon {pair:.2f}" in done.out
    assert main("audit", one, third, "--budget", 5).code == 0
    beyond = main("audit", one, other, "--budget", 7.4)
    assert beyond.code == 1
    assert "BEYOND the budget of 7.4" in beyond.out


def test_a_budget_is_for_studies(main: Main) -> None:
    done = main("audit", "--budget", 5)
    assert (done.code, done.err.strip()) == (2, "error: budget 5 is for what studies add up to; name the studies")
    assert main("audit", "nowhere.toml").code == 2
