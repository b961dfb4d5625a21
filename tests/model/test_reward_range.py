"""Limits that rewards are known to keep: read, turned, stored, and never left by what is certified or drawn."""

import math

import numpy as np
import pytest

from tests.helpers import evidence, random_problem
from tests.helpers_waves import everyone, played
from voxpop.errors import InputError
from voxpop.io.schema import decode, encode
from voxpop.model.direction import Direction
from voxpop.model.problem import Problem, reward_range_of
from voxpop.policies.waves import Waves
from voxpop.policies.waves.sealing import Evidence, Model


@pytest.mark.parametrize("text", ["", "1", "1:0", "0:0", "a:b", "0:1:2", "nan:1"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="reward_range must be two rising numbers such as 0:1 or 0:, got"):
        reward_range_of(text)


def test_a_pilot_outside_of_its_range_is_refused() -> None:
    points = random_problem(0).decisions.points[[0, 1]]
    with pytest.raises(InputError, match=r"the pilot's mean is -0.1, outside of the reward_range 0:1"):
        random_problem(0, reward_range="0:1", pilot=[evidence(points, [1, 1], 9, [0.4, -0.1])])
    with pytest.raises(InputError, match=r"prior_mean is 0, outside of the reward_range 0\.5:1"):
        random_problem(0, reward_range="0.5:1")


def test_a_range_is_stored_and_turned_with_the_direction() -> None:
    problem = random_problem(0, reward_range="0:")
    assert decode(Problem, encode(problem)).reward_range == "0:"
    assert "reward_range" not in encode(random_problem(0))
    turned = Direction.MINIMIZE.problem(problem)
    assert reward_range_of(turned.reward_range) == (-math.inf, 0.0)
    assert reward_range_of(Direction.MINIMIZE.problem(turned).reward_range) == (0.0, math.inf)


def test_nothing_is_certified_or_drawn_outside_of_the_range() -> None:
    problem = random_problem(3, n=8, horizon=2000, prior_mean=0.5, norm_bound=3.0, reward_range="0:1")
    f = np.linspace(0.1, 0.9, 8)
    study = played(Waves(), problem, everyone(problem, f, 1))
    for state in (Waves().init(problem), study.state):
        assert state.lower.min() >= 0
        assert state.upper.max() <= 1
    assert study.state.certificate < 1
    assert Evidence(problem, (), Model(3.0)).assumed(0) == 1.0
