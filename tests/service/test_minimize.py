"""A study of costs is the study of rewards with the other sign: the same plans and the same decision."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.service.world import STUDY, World, definition, world
from voxpop.cli import study
from voxpop.cli.operators import LOCAL
from voxpop.errors import Array
from voxpop.model.direction import Direction
from voxpop.service.study.status import Watch, watched


class Customers(World):
    """People who know what each decision brings them, or what it costs them."""

    def answer(self, key: str, invitation: dict[str, Any], averages: Array | None = None) -> Any:
        gained = 1.0 - (np.array([invitation["wave"]["arms"]]) / 5 - 0.4) ** 2
        direction = self.coordinator.snapshots.current(STUDY).direction
        return super().answer(key, invitation, direction.turn(gained))


def conducted(path: Path, direction: Direction) -> tuple[Watch, list[dict[str, Any]]]:
    """Conduct a study to its end; return what can be seen of it, and the bodies of its log."""
    made = replace(definition(), direction=direction)
    with world(str(path), made, 80) as it:
        it.__class__ = Customers
        it.run()
        invited = it.coordinator.log(STUDY)
        return watched(it.coordinator.context, STUDY), [record.body for record in invited]


def test_costs_lead_to_the_same_plans_and_are_shown_as_costs(tmp_path: Path) -> None:
    gained, rewards = conducted(tmp_path / "a.db", Direction.MAXIMIZE)
    spent, costs = conducted(tmp_path / "b.db", Direction.MINIMIZE)
    assert costs[0] == {**rewards[0], "direction": "minimize"}
    for event in (*costs, *rewards):
        event.get("plan", {}).pop("orders", None)  # which are drawn for each
    assert costs[1:] == rewards[1:]
    assert spent.status.best == gained.status.best
    np.testing.assert_array_equal(spent.estimates, 0.0 - np.array(gained.estimates))
    np.testing.assert_array_equal(spent.lower, 0.0 - np.array(gained.upper))
    np.testing.assert_array_equal(spent.upper, 0.0 - np.array(gained.lower))


def test_devices_are_told_whether_they_record_costs(tmp_path: Path) -> None:
    for direction in Direction:
        with world(str(tmp_path / f"{direction}.db"), replace(definition(), direction=direction), 20) as it:
            it.settle()
            it.play_all()
            it.settle()
            _, invitation = next(it.invited())
            assert invitation["wave"].get("direction") == ("minimize" if direction is Direction.MINIMIZE else None)


def test_the_command_line_asks_a_study_of_costs_for_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOXPOP_KEY", "sesame")
    with world(str(tmp_path / "a.db"), replace(definition(), direction=Direction.MINIMIZE), 20) as it:
        it.settle()
        replies = {"log": {"events": [asdict(record) for record in it.coordinator.log(STUDY)]}}
        monkeypatch.setattr(study, "request", lambda *asked: replies.get(asked[3].rpartition("/")[2], {}))
        seen = study.look(STUDY, LOCAL, None)
    assert seen.course.question is not None
    assert seen.course.question.measure == "cost"
