"""The noise that a trust model is expected to add, before a wave is planned."""

from itertools import pairwise

import numpy as np
import pytest

from tests.helpers_privacy import DELTA, MODELS, Case, first_wave, later_wave
from voxpop.errors import InputError
from voxpop.model.state import OPEN, Prospect
from voxpop.privacy import NoPrivacy, Private
from voxpop.privacy.ball import Ball, candidates
from voxpop.privacy.models import ANCHORS, RELEASES

EPSILON = 3.0


def prospect(case: Case, model: str, epsilon: float = EPSILON) -> Prospect:
    found = Private(model, epsilon).prospect(case.problem, case.state, case.plan)
    assert found is not None
    return found


def ball_of(case: Case, found: Prospect) -> Ball:
    (ball,) = [ball for ball in candidates(case.problem, case.plan, case.state) if np.allclose(ball.shape, found.shape)]
    return ball


def calibrated(model: str, ball: Ball, people: int, epsilon: float = EPSILON) -> float:
    return RELEASES[model].make(ball, epsilon, DELTA, people, 0.05).variance(people)


def test_without_privacy_there_is_no_noise_to_expect() -> None:
    case = first_wave()
    assert NoPrivacy().prospect(case.problem, case.state, case.plan) is None
    assert OPEN.prospect(case.problem, case.state, case.plan) is None
    assert (NoPrivacy().least, OPEN.least) == (0, 0)
    assert OPEN.enlist(case.problem, case.state, case.plan) is case.plan


@pytest.mark.parametrize("model", MODELS)
def test_at_powers_of_the_anchor_the_variance_is_that_of_the_calibrated_release(model: str) -> None:
    case = first_wave()
    found = prospect(case, model)
    ball = ball_of(case, found)
    people = np.array([float(ANCHORS**power) for power in (3, 4, 5)])
    expected = [calibrated(model, ball, int(count)) for count in people]
    assert found.variance(people) == pytest.approx(expected, rel=1e-6)
    for count, variance in zip(people, expected, strict=True):
        assert found.variance(np.array([count]))[0] == pytest.approx(variance, rel=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_between_them_the_variance_falls_from_one_to_the_next(model: str) -> None:
    found = prospect(first_wave(), model)
    people = np.unique(np.geomspace(256, 4096, 30).round())
    variances = found.variance(people)
    assert all(one > other for one, other in pairwise(variances.tolist()))
    assert variances[0] == pytest.approx(found.variance(np.array([256.0]))[0], rel=1e-6)
    assert variances[-1] == pytest.approx(found.variance(np.array([4096.0]))[0], rel=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_between_them_the_variance_is_close_to_that_of_a_release(model: str) -> None:
    case = first_wave()
    found = prospect(case, model)
    for people in (300, 700):
        exact = calibrated(model, ball_of(case, found), people)
        assert found.variance(np.array([float(people)]))[0] == pytest.approx(exact, rel=0.15)


@pytest.mark.parametrize("model", ["central", "local"])
def test_gaussian_noise_falls_with_people_as_it_must(model: str) -> None:
    """Noise is added once to a sum, or by everyone: the average's variance falls with U^2 or U."""
    found = prospect(first_wave(), model)
    few, many = found.variance(np.array([50.0, 500.0]))
    assert few / many == pytest.approx(100 if model == "central" else 10, rel=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_a_stronger_promise_takes_more_noise(model: str) -> None:
    case, people = first_wave(), np.array([1000.0])
    weak, strong = (prospect(case, model, epsilon).variance(people)[0] for epsilon in (4.0, 1.0))
    assert strong > 2 * weak


def test_too_few_people_to_hide_in_are_predicted_as_infinite_noise() -> None:
    case = first_wave()
    found = prospect(case, "shuffle", 0.03)
    variances = found.variance(np.array([1.0, 3.0, 16.0]))
    assert np.isinf(variances[:2]).all()
    assert np.isfinite(variances[2])
    with pytest.raises(InputError):
        calibrated("shuffle", ball_of(case, found), 1, 0.03)
    assert np.isinf(found.variance(np.array([1.0]))).all()


@pytest.mark.parametrize("model", MODELS)
def test_the_noise_of_a_later_wave_uses_what_was_released(model: str) -> None:
    """The ball is the smallest of the candidates."""
    case = later_wave(0)
    found = prospect(case, model)
    variance = float(found.variance(np.array([256.0]))[0])
    total = variance * float(np.trace(found.shape))
    others = [
        calibrated(model, ball, 256) * float(np.trace(ball.shape))
        for ball in candidates(case.problem, case.plan, case.state)
    ]
    assert total == pytest.approx(min(others), rel=1e-2)


@pytest.mark.parametrize(("floor", "least"), [(None, 0), (0, 0), (70, 70)])
def test_the_least_number_of_people_is_the_floor_that_was_chosen(floor: int | None, least: int) -> None:
    assert Private("central", EPSILON, floor=floor).least == least
