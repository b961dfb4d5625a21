"""Rounds of rest in the service: people are invited before them, and the incumbent is in force meanwhile."""

from pathlib import Path

import pytest

from tests.service.world import STUDY, World, definition, private, world
from voxpop.model.waves import Plan
from voxpop.service.study.coordinator import RoundsCounted
from voxpop.service.study.definition import Definition
from voxpop.study.study import Study


def plan_with_rest(it: World) -> Plan:
    """Conduct the study up to a wave that has rounds of rest."""
    for _ in range(20):
        it.settle()
        wave = it.coordinator.snapshots.current(STUDY).wave
        assert wave is not None
        if wave.plan.rest:
            return wave.plan
        if it.coordinator.snapshots.current(STUDY).definition.rules.rounds_per_second is None:
            it.play_all()
        it.clock.now += wave.plan.length
        it.settle()
        it.answer_all()
    raise AssertionError("no wave has rounds of rest")


def test_people_are_invited_when_the_rounds_that_are_asked_about_are_played(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), definition(), people=80) as it:
        plan = plan_with_rest(it)
        assert plan.asked < plan.length
        assert it.status.rounds == plan.asked
        assert it.coordinator.play(STUDY, plan.wave, "most", plan.asked - 1).counted == plan.asked - 1
        it.settle()
        assert it.status.stage == "playing"
        assert list(it.invited()) == []
        assert it.coordinator.decision(STUDY).index == plan.arms[-1]
        assert it.coordinator.play(STUDY, plan.wave, "rest", 1 + plan.rest) == RoundsCounted(1, plan.asked)
        it.settle()
        assert it.status.stage == "collecting"
        assert len(list(it.invited())) == plan.people


def test_while_people_answer_the_incumbent_is_the_decision_in_force(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), definition(), people=80) as it:
        plan = plan_with_rest(it)
        it.play_all()
        it.settle()
        now = it.coordinator.decision(STUDY)
        assert (now.stage, now.index, now.rounds) == ("collecting", plan.reference, 0)
        before = it.coordinator.snapshots.current(STUDY)
        assert before.best == plan.reference
        it.answer_all()
        it.settle()
        after = it.coordinator.snapshots.current(STUDY)
        assert after.state.rounds - before.state.rounds == plan.length  # rest counts towards the horizon


def test_a_clock_invites_people_after_the_rounds_that_are_asked_about(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), definition(rounds_per_second=2.0), people=80) as it:
        plan = plan_with_rest(it)
        it.clock.now += plan.asked / 2 - 0.1
        it.settle()
        assert it.status.stage == "playing"
        it.clock.now += 0.2
        it.settle()
        assert it.status.stage == "collecting"


@pytest.mark.parametrize("model", ["none", "central"])
def test_the_log_says_what_rests_and_why_the_study_finished(tmp_path: Path, model: str) -> None:
    made = definition(None if model == "none" else private(model))
    with world(str(tmp_path / "c.db"), made, people=80) as it:
        it.run()
        events = it.coordinator.log(STUDY)
        snapshot = it.coordinator.snapshots.current(STUDY)
    rests = [event.body["plan"]["rest"] for event in events if event.kind == "opened"]
    assert rests == [wave.plan.rest for wave in snapshot.closed]
    assert any(rests)
    assert (events[-1].kind, events[-1].body["reason"]) == ("finished", snapshot.ended)
    assert snapshot.ended in ("every round of the horizon is played", "nothing else can be best")


def test_the_service_ends_for_the_reason_that_a_study_gives(tmp_path: Path) -> None:
    made: Definition = definition()
    with world(str(tmp_path / "c.db"), made, people=80) as it:
        it.run()
        snapshot = it.coordinator.snapshots.current(STUDY)
    study = Study(made.problem, made.policy)
    for wave in snapshot.closed:
        question = study.ask()
        assert question is not None
        study.tell(question.wave, wave.feedback)
    assert study.ask() is None
    assert study.ended == snapshot.ended
