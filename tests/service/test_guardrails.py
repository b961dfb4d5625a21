"""A study of the service with guardrails: what devices are told and may send, and what the service says of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.service.test_blocks import over_http
from tests.service.world import STUDY, World, definition, guarded, world
from tests.study.test_guardrails import pilot
from voxpop import Study
from voxpop.cli.demo import _tastes
from voxpop.errors import InputError
from voxpop.io.studyfile import parse_study
from voxpop.model.direction import Direction
from voxpop.model.waves import Plan
from voxpop.policies import Policy, make_policy
from voxpop.privacy import NoPrivacy
from voxpop.service.demo.crowd import disagreements, model_tastes
from voxpop.service.refusals import Refusal
from voxpop.service.study.definition import Definition, Rules, alike, definition_of, study_text
from voxpop.service.study.overview import look
from voxpop.simulation.rehearsals import rehearse

RULES: dict[str, Any] = {"guardrails": ["retention >= -5%", "complaints <= 0.5"], "today": {"price": 4.0}}


def waves(**said: Any) -> Policy:
    return make_policy("waves", **{"most_people": 40, "most_waves": 2, **said})


def of_pilot(direction: Direction = Direction.MAXIMIZE) -> Definition:
    """Define a study as its pilot says, with two guardrails."""
    problem = direction.problem(Study.from_pilot(pilot(), horizon=50_000, step=0.25, **RULES).problem)
    return Definition(problem, waves(), NoPrivacy(), direction=direction, rules=Rules(most_invited=1))


def collecting(it: World) -> list[tuple[str, dict[str, Any]]]:
    """Play the first wave, and return those who are invited."""
    it.settle()
    it.play_all()
    it.settle()
    return list(it.invited())


@pytest.mark.parametrize("direction", Direction)
def test_a_study_file_makes_the_study_again(direction: Direction) -> None:
    made = of_pilot(direction)
    assert Definition.decode(json.loads(json.dumps(made.encode()))).encode() == made.encode()
    text = study_text("tea", made)
    path = Path("tea.toml")
    again = definition_of(path, parse_study(path, text))[1]
    assert alike(again.encode(), made.encode())
    assert [one.rule for one in again.problem.guardrails] == [one.rule for one in made.problem.guardrails]
    assert again.problem.today == made.problem.today


def test_devices_over_http_report_every_metric_and_the_simulator_agrees(tmp_path: Path) -> None:
    coordinator, crowd = over_http(tmp_path, of_pilot(), 100)
    closed = coordinator.snapshots.current(STUDY).closed
    assert closed
    assert {len(report) for reports in crowd.reports.values() for report in reports} == {
        wave.plan.coordinates for wave in closed
    }
    assert disagreements(coordinator.log(STUDY), crowd.reports, blocks=crowd.blocks) == []
    coordinator.database.close()


def test_devices_are_told_the_metrics_and_a_report_of_another_length_is_refused(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), definition(None, 500, waves(trials="any"), rails=True), people=150) as it:
        (_, first), (_, second), *_ = collecting(it)
        told = first["wave"]
        assert told["metrics"] == [{"name": "complaints", "direction": "minimize"}]
        release = it.coordinator.snapshots.current(STUDY).open_wave.release
        assert release.arms == 2 * len(told["arms"])
        for length in (len(told["arms"]), release.arms + 1):
            refused = it.coordinate(first, np.zeros((1, length)))
            assert isinstance(refused, Refusal)
            assert refused.status == 422
        assert it.coordinate(first, np.zeros((1, release.arms))) is True
        assert it.coordinate(second, np.zeros((1, release.arms))) is True


def test_the_limits_of_each_metric_hold_for_its_own_answers(tmp_path: Path) -> None:
    whole = guarded(500)
    (rail,) = whole.guardrails
    rail = replace(rail, problem=replace(rail.problem, reward_range="-1:0"))  # inside, more is better
    made = Definition(replace(whole, guardrails=(rail,)), waves(trials="any"), NoPrivacy(), rules=Rules(most_invited=1))
    with world(str(tmp_path / "c.db"), made, people=150) as it:
        (_, invitation), *_ = collecting(it)
        arms = len(invitation["wave"]["arms"])
        refused = it.coordinate(invitation, np.concatenate([np.full(arms, 5.0), np.full(arms, -1.5)])[None])
        assert isinstance(refused, Refusal)
        assert "the complaints answer about arm 0 is 1.5, outside of the reward_range 0:1" in refused.sentence
        assert it.coordinate(invitation, np.concatenate([np.full(arms, 5.0), np.full(arms, -0.5)])[None]) is True


def test_status_and_overview_say_what_is_known_of_each_guardrail(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), of_pilot(), people=100) as it:
        crowd = model_tastes(of_pilot().problem)
        invited = collecting(it)
        assert invited
        for person, (key, invitation) in enumerate(invited):
            told = invitation["wave"]
            plan = Plan(told["wave"], np.array(told["arms"]), np.array(told["rounds"]), 1)
            averages = crowd.averages(person, plan)[None] * np.repeat([1.0, 1.0, -1.0], len(plan.arms))
            assert it.answer(key, invitation, averages) is True
        it.settle()
        status, (glance,) = it.status, look(it.coordinator.context)
        answer = it.coordinator.snapshots.current(STUDY).answer
    assert status.best.guardrails == list(answer.guardrails)
    assert [one.split()[1] for one in status.best.guardrails] == ["retention", "complaints"]
    assert [text.startswith("Guardrail: price = ") for text in status.says].count(True) == 2
    certified = next(text for text in status.says if "ertified" in text and not text.startswith("Guardrail"))
    assert certified == "Not certified yet." or "no decision that keeps the guardrails is better" in certified
    assert glance.summary is not None
    assert list(glance.summary.guardrails) == status.best.guardrails


def test_a_rehearsal_asks_about_every_metric() -> None:
    made = of_pilot()
    found = rehearse(made.problem, made.policy, made.privacy, 0)
    assert found.waves
    assert found.numbers % 3 == 0
    assert found == rehearse(made.problem, made.policy, made.privacy, 0)


def test_people_of_a_formula_answer_about_the_reward_alone(tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text("taste\n4\n", encoding="utf-8")
    with pytest.raises(InputError, match="has the guardrail retention at most 5 % below today's, and a formula says"):
        _tastes(of_pilot(), people, "price - taste", 0.0, 0)
