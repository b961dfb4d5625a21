"""Limits of the reward in the service: stored with a study, and kept by what devices report."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.service.world import World, definition, private, world
from voxpop.model.direction import Direction
from voxpop.service.refusals import Refusal
from voxpop.service.study.definition import Definition


def limited(made: Definition, direction: Direction = Direction.MAXIMIZE) -> Definition:
    ranged = replace(made.problem, reward_range="-0.5:1")
    return replace(made, problem=direction.problem(ranged), direction=direction)


def first(it: World) -> tuple[str, dict[str, object]]:
    it.settle()
    it.play_all()
    it.settle()
    return next(iter(it.invited()))


def test_limits_are_part_of_what_the_service_stores() -> None:
    made = limited(definition())
    assert made.encode()["problem"]["reward_range"] == "-0.5:1"
    assert Definition.decode(made.encode()).problem.limits == (-0.5, 1.0)


def test_a_report_outside_of_the_limits_is_refused_with_a_sentence(tmp_path: Path) -> None:
    for direction, measure in ((Direction.MAXIMIZE, "reward"), (Direction.MINIMIZE, "cost")):
        with world(str(tmp_path / f"{measure}.db"), limited(definition(), direction), people=40) as it:
            key, invitation = first(it)
            arms = len(invitation["wave"]["arms"])  # type: ignore[index]
            wrong = np.full((1, arms), 0.5)
            wrong[0, 0] = 1.25
            verdict = it.answer(key, invitation, wrong)
            assert isinstance(verdict, Refusal)
            assert verdict.status == 422
            said = "the answer about arm 0 is 1.25, outside of the reward_range -0.5:1; correct it"
            assert str(verdict).startswith(said)
            assert it.answer(key, invitation, np.full((1, arms), 0.5)) is True


def test_a_private_report_is_never_refused_for_its_value(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), limited(definition(private("central"))), people=60) as it:
        key, invitation = first(it)
        arms = len(invitation["wave"]["arms"])  # type: ignore[index]
        assert it.answer(key, invitation, np.full((1, arms), 1e6)) is True
