"""What a pilot leaves open, in plain words: each doubt where it is due, and none where it is not."""

from functools import cache

import numpy as np
import pytest

from voxpop.calibration.doubts import doubts
from voxpop.calibration.fit import calibrate
from voxpop.calibration.pilot import Pilot
from voxpop.errors import Array
from voxpop.model.decisions import Decisions, Float, Space


@cache
def answers(people: int, prices: int) -> Array:
    """Draw people with a taste and a level of their own, (people, prices)."""
    rng = np.random.default_rng(11)
    taste, level = rng.normal(0.5, 0.15, size=(people, 1)), rng.normal(0, 0.4, size=(people, 1))
    return level - 4 * (np.linspace(0, 1, prices) - taste) ** 2 + 0.2 * rng.normal(size=(people, prices))


def said_about(matrix: Array, protected: bool = False) -> str:
    space = Space(price=Float(1, 3))
    pilot = Pilot.of_matrix(space.grid(matrix.shape[1]), matrix, 4)
    found = calibrate(pilot, space, kernel="matern-5/2")
    if protected:
        pilot = Pilot.of_matrix(pilot.decisions, matrix, 4, protected=True)
    return "\n".join(doubts(found, pilot, lambda person: f"p{person}", lambda record: f"line {record + 2}"))


def test_nothing_is_said_of_a_good_pilot() -> None:
    assert said_about(answers(40, 11)) == ""


def test_few_people_and_few_decisions_are_said() -> None:
    said = said_about(answers(3, 3))
    assert "how much people differ is hardly known" in said
    assert "3 people are few; ask a few dozen" in said
    assert "how quickly the reward changes with price is hardly known: it took 3 values" in said


def test_a_typing_error_is_said_with_its_place_and_alone() -> None:
    matrix = answers(40, 11).copy()
    matrix[3, 2] = 450.0
    said = said_about(matrix)
    assert "the answer 450 of p3 (line 37) makes up 9" in said
    assert "correct it and calibrate again" in said
    assert "\n" not in said
    assert said_about(matrix, protected=True).find("450") == -1  # a protected pilot's answers are nobody's business


def test_a_person_who_is_far_off_is_named() -> None:
    matrix = answers(40, 11).copy()
    matrix[3] += 12.0
    assert said_about(matrix).startswith("the answers of p3 make up ")


@pytest.mark.parametrize(("sign", "side"), [(1, "above"), (-1, "below")])
def test_lopsided_answers_are_said(sign: int, side: str) -> None:
    rng = np.random.default_rng(5)
    matrix = sign * np.exp(rng.normal(size=(60, 6)))
    said = said_about(matrix)
    assert f"a few lie far {side}; what a wave of fewer than about " in said
    assert "lopsided" not in said_about(matrix, protected=True)


def test_a_pilot_in_which_nobody_shares_a_decision_is_said() -> None:
    rng = np.random.default_rng(0)
    points = rng.permutation(24) / 23
    pilot = Pilot(Decisions(points), np.arange(24) // 3, np.arange(24), rng.normal(size=24), np.ones(24))
    found = calibrate(pilot, kernel="matern-5/2")
    said = doubts(found, pilot, str, str)
    assert any(sentence.startswith("no two people tried the same decision") for sentence in said)


def test_yes_or_no_is_not_to_be_capped() -> None:
    said = said_about((np.random.default_rng(2).random((60, 11)) < 0.02).astype(float))
    assert "lopsided" in said
    assert "capped" not in said
