"""Devices are told when to come back: in time for an invitation, and so seldom that a million of them cost little."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.service.world import STUDY, World, check_in_as, definition, enrol, private, world
from voxpop.service.study import life, participants
from voxpop.service.study.life import Wanted


def told(it: World, key: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(check_in_as(it.coordinator, STUDY, key))
    return found


def pause(crowd: int, life: str = "running", stage: str = "open", participations: int = 0, **rules: Any) -> float:
    """Return the pause of a device that waits, without the random part."""
    made = definition(**rules)
    snapshot: Any = SimpleNamespace(definition=made, wave=SimpleNamespace(plan=SimpleNamespace(asked=50)))
    row = SimpleNamespace(life=life, stage=stage, opened_at=1000.0)
    return participants.next_check_in(crowd, snapshot, row, participations, 1010.0)


@pytest.fixture(autouse=True)
def _even(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(participants, "SPREAD", 0.0)


@pytest.mark.parametrize(
    ("crowd", "deadline", "seconds"),
    [
        (0, 86_400.0, 1.0),
        (60, 60.0, 2.0),
        (9_000, 86_400.0, 300.0),
        (600_000, 86_400.0, 20_000.0),
        (100_000_000, 86_400.0, 28_800.0),  # a third of the deadline
        (10_000, 60.0, 20.0),
        (10_000, 0.3, 1.0),
        (10**9, 1e9, 86_400.0),
    ],
)
def test_many_devices_come_seldom_but_in_time_for_an_invitation(crowd: int, deadline: float, seconds: float) -> None:
    assert pause(crowd, deadline=deadline) == pytest.approx(seconds)


def test_nobody_comes_before_a_clock_has_played_the_rounds() -> None:
    assert pause(300, stage="playing", rounds_per_second=0.1) == pytest.approx(10 + 490)


def test_however_long_the_rounds_take_devices_come_in_time_for_the_invitation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(participants, "SPREAD", 0.2)
    slow: dict[str, Any] = {
        "rounds_per_second": 0.0005,
        "deadline": 3600.0,
    }  # 50 rounds take 100,000 seconds, and end after 99,990
    waits = [pause(10**9, stage="playing", **slow) - 86_400 for _ in range(200)]
    assert min(waits) >= 0.8 * 1200 - 0.1
    assert max(waits) <= 1.2 * 1200 + 0.1


def test_a_pause_of_the_study_takes_no_time_from_the_invited_and_lets_them_rest(address: str) -> None:
    with world(address, definition(private("central"), deadline=3000.0), people=12) as it:
        it.settle()
        it.play_all()
        it.settle()
        key, _ = next(iter(it.invited()))
        it.clock.now += 1000.0
        life.change(it.coordinator.context, STUDY, Wanted.PAUSED)
        it.clock.now += 100_000.0
        found = told(it, key)
        assert (found["seconds_left"], found["next_check_in"]) == (2000.0, 1000.0)


def test_a_pause_of_the_study_lets_devices_rest() -> None:
    assert pause(50, life="paused", deadline=3000.0) == pytest.approx(1000)


def test_those_who_are_never_asked_again_come_once_a_day() -> None:
    assert pause(50, participations=1) == 86_400


def test_devices_do_not_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(participants, "SPREAD", 0.2)
    pauses = [pause(3000) for _ in range(200)]
    assert 80 <= min(pauses) < 90
    assert 110 < max(pauses) <= 120


def test_every_reply_to_a_check_in_says_when_to_come_back(address: str) -> None:
    with world(address, definition(private("central"), deadline=90.0), people=30) as it:
        it.settle()
        assert told(it, it.keys[0])["next_check_in"] == 1
        life.change(it.coordinator.context, STUDY, Wanted.PAUSED)
        assert told(it, it.keys[0])["next_check_in"] == 30
        life.change(it.coordinator.context, STUDY, Wanted.RUNNING)
        it.play_all()
        it.settle()
        (key, invitation), *_ = it.invited()
        assert 0 < invitation["next_check_in"] <= 30
        it.answer(key, invitation)
        assert told(it, key) == {"invited": False, "status": "answered", "next_check_in": 1}
        it.answer_all()
        it.settle()
        assert told(it, key)["next_check_in"] == 86_400
        life.change(it.coordinator.context, STUDY, Wanted.ENDED)
        assert told(it, key) == {"invited": False, "status": "finished", "next_check_in": None}


def test_all_studies_that_go_on_are_one_crowd(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), definition(), people=30) as it:
        for name in ("over", "other"):
            it.coordinator.create(name, definition())
            for number in range(10):
                enrol(it.coordinator, name, f"{number:040}")
        life.change(it.coordinator.context, "over", Wanted.ENDED)
        told(it, it.keys[0])
        assert it.coordinator.context.crowd[0] == 40
