"""The open model clips answers to a public range, which honest answers never reach."""

import math
from dataclasses import replace

import numpy as np
import pytest

from voxpop import Problem, SquaredExponential
from voxpop.errors import InputError
from voxpop.io.schema import decode_release, encode
from voxpop.model.waves import Plan, Tally
from voxpop.policies import make_policy
from voxpop.privacy.none import NoPrivacy, PlainRelease
from voxpop.simulation.people import GPPeople

PROBLEM = Problem(np.linspace(0, 1, 9), SquaredExponential(0.3), 0.5, 0.4, norm_bound=1.0, horizon=100, prior_mean=50.0)
PLAN = Plan(1, np.arange(9), np.ones(9, dtype=np.intp), 1000)


def release_of(problem: Problem) -> PlainRelease:
    made = NoPrivacy().calibrate(problem, make_policy("dpbe").init(problem), PLAN)
    assert isinstance(made, PlainRelease)
    return made


def answers(seed: int, people: int = 1000) -> np.ndarray:
    f = 50 + np.sin(3 * np.linspace(0, 1, 9))
    return GPPeople(PROBLEM, f).observe(PLAN, people, np.random.default_rng(seed))


def test_honest_answers_are_added_up_as_they_are() -> None:
    release, y = release_of(PROBLEM), answers(0)
    assert release.tally(y) == Tally.of(y, release.step)


def test_a_liar_moves_an_average_by_the_range_and_no_more() -> None:
    release, y = release_of(PROBLEM), answers(1)
    low, high = release.limits
    assert low < 50 - 10 < 50 + 10 < high < 50 + 30
    honest = release.tally(y).feedback().mean
    y[0] = 1e9
    lied = release.tally(y).feedback().mean
    assert np.all(np.abs(lied - honest) <= (high - low) / len(y) + 1e-9)
    assert np.all(lied > honest)


def test_the_range_is_that_of_the_rewards_where_it_is_known() -> None:
    assert release_of(replace(PROBLEM, reward_range="0:60")).limits == (0.0, 60.0)
    low, high = release_of(replace(PROBLEM, reward_range="0:")).limits
    assert (low, high) == (0.0, release_of(PROBLEM).limits[1])


def test_the_range_is_told_and_a_wave_of_an_earlier_version_has_none() -> None:
    release = release_of(PROBLEM)
    assert decode_release(encode(release)) == release
    old = decode_release({"model": "none", "step": 0.5, "arms": 2})
    assert old.limits == (-math.inf, math.inf)
    assert old.tally(np.array([[1e6, 1.0]])).total == (2_000_000, 2)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 1e300])
def test_what_is_no_answer_is_refused_and_not_counted_as_an_extreme(wrong: float) -> None:
    y = answers(2, 3)
    y[1, 4] = wrong
    with pytest.raises(InputError):
        release_of(PROBLEM).tally(y)
