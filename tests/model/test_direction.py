"""Costs are rewards with the other sign, and `Direction` is where they are turned."""

import numpy as np
import pytest

from voxpop.errors import InputError
from voxpop.model.direction import Direction
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Evidence, Problem
from voxpop.model.waves import Feedback

LESS = Direction.MINIMIZE


def problem() -> Problem:
    pilot = (Evidence(np.array([[0.0], [1.0]]), np.array([5.0, 5.0]), 8, np.array([3.0, 4.0])),)
    return Problem([[0.0], [1.0]], SquaredExponential(0.3), 0.1, 0.1, 2.0, 50, prior_mean=3.5, pilot=pilot)


def test_turning_twice_changes_nothing() -> None:
    values = np.array([0.0, 1.5, -2.0, np.inf])
    for direction in Direction:
        np.testing.assert_array_equal(direction.turn(direction.turn(values)), values)
        assert direction.bounds(*direction.bounds(1.0, 2.0)) == (1.0, 2.0)


def test_less_is_more_with_the_other_sign_and_ends_change_places() -> None:
    assert LESS.turn(3.0) == -3.0
    assert LESS.bounds(1.0, 2.0) == (-2.0, -1.0)
    assert Direction.MAXIMIZE.turn(3.0) == 3.0
    assert str(LESS.turn(0.0)) == "0.0"  # never -0


def test_nothing_but_the_level_of_a_problem_is_turned() -> None:
    turned, given = LESS.problem(problem()), problem()
    assert turned.prior_mean == -3.5
    np.testing.assert_array_equal(turned.pilot[0].mean, [-3.0, -4.0])
    assert (turned.noise_std, turned.norm_bound, turned.pilot[0].people) == (given.noise_std, given.norm_bound, 8)
    assert Direction.MAXIMIZE.problem(given) is given


def test_of_feedback_the_mean_is_turned_and_the_noise_is_not() -> None:
    turned = LESS.feedback(Feedback(np.array([1.0]), 4, noise=np.array([[0.5]]), scatter=np.array([0.2])))
    assert (turned.mean.tolist(), turned.count, turned.scatter) == ([-1.0], 4, np.array([0.2]))
    np.testing.assert_array_equal(turned.noise, [[0.5]])


def test_an_unknown_direction_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match="unknown direction 'minimise'; did you mean 'minimize'"):
        Direction.of("minimise")
