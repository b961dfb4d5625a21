"""What a status says of the best decision, in numbers that JSON can hold and in sentences."""

import json
import re
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.service.world import definition, private
from voxpop.journal.wave import ClosedWave, Wave
from voxpop.model.waves import Feedback, Forecast, Plan, changed
from voxpop.policies import make_policy
from voxpop.service.study.invitations import Funnel
from voxpop.service.study.log import Snapshot
from voxpop.service.study.stages import Life, Stage, State
from voxpop.service.study.status import DecisionInForce, PrivacySummary, Status, best_decision, sentences


def begun(name: str = "waves", **settings: Any) -> Snapshot:
    made = definition(None, 500, make_policy(name, **settings))
    return Snapshot.begin(made)


def status(snapshot: Snapshot, **others: Any) -> Status:
    """Return a status with these parts."""
    best, plan = best_decision(snapshot), snapshot.pending
    numbers = ("rounds", "played", "people", "answered", "invited", "short", "registered", "never_asked", "withdrawn")
    usual: dict[str, Any] = {
        **dict.fromkeys(numbers, 0),
        "study": "tea",
        "stage": Stage.CLOSED,
        "life": Life.RUNNING,
        "state": State.PLANNING,
        "wave": 1,
        "funnel": Funnel(),
        "active": len(snapshot.state.active),
        "in_force": DecisionInForce(best.index, best.decision, 0, 1),
        "best": best,
        "forecast": None if plan is None else plan.forecast,
        "arms": 0 if plan is None else len(plan.arms),
        "reason": snapshot.ended,
        "warning": snapshot.warning,
        "holds": [],
        "closing": None,
        "dates": "",
        "says": [],
    }
    return Status(**{**usual, **others})


def closed(snapshot: Snapshot, warning: str) -> Snapshot:
    """Close the first wave with this warning."""
    wave = snapshot.following
    assert isinstance(wave, Wave)
    feedback = Feedback(np.zeros(len(wave.plan.arms)), wave.plan.people)
    policy, problem = snapshot.definition.policy, snapshot.definition.problem
    state, info = policy.advance(problem, snapshot.state, wave.plan, feedback)
    one = ClosedWave(wave.plan, wave.release, feedback, changed(info, warning=warning), state.active)
    return replace(snapshot, state=state, closed=(one,))


def test_an_infinite_certificate_is_null() -> None:
    snapshot = begun()
    unknown = replace(snapshot, state=changed(snapshot.state, certified=float("inf")))
    assert best_decision(unknown).certified is None
    json.dumps(msgspec.to_builtins(best_decision(unknown)), allow_nan=False)
    assert "Not certified yet." in sentences(status(unknown))


def test_people_who_are_all_taken_for_honest_are_not_mentioned() -> None:
    for share, told in ((1.0, False), (0.5, True)):
        promised = replace(private("shuffle"), honest=share).describe()
        assert ("honest" in msgspec.to_builtins(PrivacySummary(**promised))) is told


def test_without_answers_nothing_is_called_the_best() -> None:
    snapshot, trying = begun(), DecisionInForce(2, [0.4], 2, 1)
    unanswered = snapshot.unanswered
    assert unanswered == "nobody has answered yet, and this rests on the study's assumptions alone"
    said = sentences(status(snapshot), unanswered=unanswered)[0]
    assert re.fullmatch(r"In force: \([\d.]+\); nobody has answered yet, and this .* alone\.", said)
    said = sentences(status(snapshot, in_force=trying), unanswered=unanswered)[0]
    assert re.fullmatch(r"In force: \(0.4\), for 2 more rounds of wave 1, otherwise \(.*\); nobody .*", said)
    answered = closed(snapshot, "")
    assert answered.unanswered == ""
    assert sentences(status(answered), unanswered=answered.unanswered)[0].endswith("it is the best so far.")


def test_the_certificate_and_the_expected_loss_are_named_apart() -> None:
    snapshot = begun(delta=0.1)
    known = replace(snapshot, state=changed(snapshot.state, decision=3, certified=0.25))
    loss = known.state.expected_loss
    assert loss is not None
    assert 0.4 < loss < 0.5
    said = sentences(status(known))
    assert "Certified: no decision is better than (0.6) by more than 0.25, with 90 % confidence." in said
    assert f"Expected loss: {loss:.3g} per round, compared with the best possible decision." in said
    nothing = replace(known, state=changed(known.state, certified=0.0))
    assert "Certified: no decision is better than (0.6), with 90 % confidence." in sentences(status(nothing))


@pytest.mark.parametrize(("beta", "confidence"), [(1e-4, 1 - 2 * 6 * 1e-4), (0.2, None)])
def test_the_confidence_of_dpbe_is_that_of_all_its_bounds(beta: float, confidence: float | None) -> None:
    snapshot = begun("dpbe")
    problem = changed(snapshot.definition.problem, beta=beta)
    snapshot = replace(snapshot, definition=replace(snapshot.definition, problem=problem))
    assert best_decision(snapshot).confidence == (None if confidence is None else pytest.approx(confidence))
    assert sentences(status(snapshot))[1] == "Not certified yet."  # what is assumed is no certificate
    snapshot = replace(snapshot, state=changed(snapshot.state, certified=0.25))
    text = sentences(status(snapshot))[1]
    assert ("by more than 0.25, with 99.88 % confidence" in text) == (confidence is not None)
    assert ("Not certified yet" in text) == (confidence is None)


def test_the_model_check_s_warning_is_passed_on() -> None:
    warned = closed(begun(), "the answers vary more than the model allows")
    assert sentences(status(warned))[-1] == "Warning: the answers vary more than the model allows"
    assert not any(text.startswith("Warning") for text in sentences(status(closed(begun(), ""))))


def test_the_decision_in_force_and_the_best_are_told_apart() -> None:
    snapshot = begun()
    best = best_decision(snapshot)
    index = (best.index + 1) % 6
    trying = DecisionInForce(index, snapshot.definition.problem.decisions[index], 2, 1)
    said = sentences(status(snapshot, stage=Stage.PLAYING, in_force=trying))[0]
    assert said.startswith("In force: (")
    assert ", for 2 more rounds of wave 1; best so far: (" in said


def test_a_certificate_that_is_aimed_at_is_named() -> None:
    snapshot = begun()
    wave = snapshot.following
    assert isinstance(wave, Wave)
    plan: Plan = changed(wave.plan, forecast=Forecast(12.0, 3.0, 0.5, 0.08))
    aimed = replace(snapshot, wave=changed(wave, plan=plan))
    (said,) = (text for text in sentences(status(aimed, people=1)) if text.startswith("Wave 1"))
    assert "asks 1 person about" in said
    assert "nothing is better by more than 0.08" in said
    assert said.endswith("; answers cost 3, trying poorer decisions costs 0.5.")
