import math
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.helpers import gram
from tests.helpers_privacy import (
    CALIBRATED,
    DELTA,
    MODELS,
    AnyRelease,
    Silent,
    first_wave,
    later_wave,
    released,
    simulated,
)
from voxpop.errors import Array
from voxpop.privacy import NoPrivacy, Private
from voxpop.privacy.central import Central
from voxpop.privacy.encoded import Encoded, shift_of
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.local import Local

CALIBRATIONS = ("exact", "paper")
CASE = first_wave()
RELEASES: list[AnyRelease] = [
    case.release(Private(model, 5.0)) for case in (CASE, later_wave(3, Private("central", 5.0))) for model in MODELS
]


def inside(release: AnyRelease, people: int, seed: int = 0) -> Array:
    """Draw answers that no release clips, within half of the radius, (people, arms)."""
    z = np.random.default_rng(seed).standard_normal((people, len(release.ball.centre)))
    reach = min(release.ball.radius, 10.0)
    z *= reach / 2 / np.linalg.norm(z, axis=1, keepdims=True)
    return np.asarray(release.ball.centre + z @ release.ball.root.T)


@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("model", ["central", "local"])
def test_without_noise_a_release_is_the_average_of_people_inside_the_ball(model: str, calibration: str) -> None:
    release = CASE.release(Private(model, 5.0, calibration=calibration))
    answers = inside(release, 40)
    np.testing.assert_allclose(released(release, answers, Silent()).mean, answers.mean(axis=0), atol=1e-8)


@pytest.mark.parametrize("model", MODELS)
def test_a_huge_epsilon_is_as_good_as_no_privacy(model: str) -> None:
    case = first_wave(people=4000)
    release, plain = case.release(Private(model, 1000.0)), NoPrivacy().calibrate(case.problem, case.state, case.plan)
    answers = inside(release, 4000)
    exact = plain.analyze(plain.tally(answers), Silent())
    private = released(release, answers, simulated())
    # Local noise falls like 1 / sqrt(2 eps |U|), the others like 1 / sqrt(2 eps) / |U|; the ball is 2 R wide.
    noise = 2 / math.sqrt(2000) / (math.sqrt(4000) if model == "local" else 4000)
    scale = math.sqrt(float(release.ball.shape.diagonal().max())) * release.ball.radius
    assert np.abs(private.mean - exact.mean).max() < 6 * noise * scale
    assert private.noise is not None
    assert np.sqrt(private.noise.diagonal()).max() < 2 * noise * scale


@pytest.mark.parametrize(("model", "calibration"), CALIBRATED)
def test_the_release_is_unbiased_with_the_covariance_it_reports(model: str, calibration: str) -> None:
    release, source, times = CASE.release(Private(model, 2.0, calibration=calibration)), simulated(7), 2500
    answers = inside(release, 40)
    if isinstance(release, Encoded):  # between two levels, where rounding is as noisy as the release says
        unit = 2 * release.ball.radius / release.encoding.levels
        half = unit * (np.full((40, 4), (release.encoding.levels // 2) + 0.5)) - release.ball.radius
        answers = release.ball.centre + half @ release.ball.root.T
    feedback = released(release, answers, source)
    means = np.array([released(release, answers, source).mean for _ in range(times)])
    assert feedback.noise is not None
    root = np.linalg.cholesky(feedback.noise)
    z = np.linalg.solve(root, (means - answers.mean(axis=0)).T)  # (arms, times), standard if all is as reported
    assert np.abs(z.mean(axis=1)).max() < 4.5 / math.sqrt(times)
    np.testing.assert_allclose(z @ z.T / times, np.eye(4), atol=4.5 * math.sqrt(2 / times))


@pytest.mark.parametrize("model", MODELS)
def test_noise_is_that_of_the_promise_for_the_number_of_people(model: str) -> None:
    for people in (40, 1000):
        case = first_wave(people)
        release = case.release(Private(model, 3.0))
        noise = released(release, inside(release, people), simulated()).noise
        assert noise is not None
        size = (
            2 * release.ball.radius * noise_multiplier(3.0, DELTA) / (math.sqrt(people) if model == "local" else people)
        )
        ratio = np.sqrt(noise / (size**2 * release.ball.shape))
        # Shuffling costs rounding and the tails of the binomial on top of the Gaussian.
        assert np.all(ratio >= 1 - 1e-9)
        assert np.all(ratio < {"shuffle": 1.3, "aggregate": 1.04}.get(model, 1 + 1e-6))


@pytest.mark.parametrize("release", RELEASES, ids=lambda r: f"{r.cost.model}-{r.ball.metric}")
@settings(max_examples=30)
@given(data=st.data())
def test_replacing_one_person_moves_the_sum_by_the_sensitivity_at_most(
    release: AnyRelease, data: st.DataObject
) -> None:
    arms = len(release.ball.centre)
    people = arrays(float, (2, arms), elements=st.floats(-1e3, 1e3) | st.sampled_from([0.0, 1e30, -1e30]))
    one, other = data.draw(people)
    # The same seed rounds and adds alike in both worlds, so that only the person makes a difference.
    here, there = (
        np.array(release.tally(release.randomize(y[None, :], simulated(3))).total, dtype=float) for y in (one, other)
    )
    if isinstance(release, Encoded):
        sensitivity: float = shift_of(release.encoding.levels, arms)
    else:
        sensitivity = release.std / noise_multiplier(5.0, DELTA)
    assert np.linalg.norm(here - there) <= sensitivity


@pytest.mark.parametrize("model", ["central", "local"])
def test_the_sensitivity_is_reached_by_two_people_on_opposite_sides(model: str) -> None:
    release = CASE.release(Private(model, 5.0))
    assert isinstance(release, Central | Local)
    far = 1e3 * release.ball.root @ np.array([1.0, 0.0, 0.0, 0.0])
    up, down = (
        np.array(release.tally(release.randomize(release.ball.centre[None] + s * far, Silent())).total) for s in (1, -1)
    )
    assert np.linalg.norm((up - down).astype(float)) == pytest.approx(release.std / noise_multiplier(5.0, DELTA))


def test_central_noise_on_the_sum_does_not_depend_on_how_many_answered() -> None:
    release = CASE.release(Private("central", 5.0))
    sums = []
    for people in (1, 7, 1000):
        noise = released(release, inside(release, people), simulated()).noise
        assert noise is not None
        sums.append(noise * people**2)
    np.testing.assert_allclose(sums[1:], [sums[0], sums[0]])


@pytest.mark.parametrize("people", [40, 41, 80])
def test_more_people_than_planned_make_the_shuffled_noise_larger_never_smaller(people: int) -> None:
    release = CASE.release(Private("shuffle", 5.0))
    planned, actual = (released(release, inside(release, n), simulated()).noise for n in (40, people))
    assert planned is not None
    assert actual is not None
    np.testing.assert_allclose(actual * people**2 / (planned * 40**2), people / 40)


@pytest.mark.parametrize(("model", "calibration"), CALIBRATED)
def test_neither_order_nor_grouping_changes_the_release(model: str, calibration: str) -> None:
    release = CASE.release(Private(model, 1.0, calibration=calibration))
    rng = np.random.default_rng(2)
    reports = release.randomize(CASE.answers(60), simulated())
    whole = release.analyze(release.tally(reports), simulated(1))
    for size in (1, 7, 59):
        shuffled = rng.permutation(reports)
        tallies = [release.tally(shuffled[start : start + size]) for start in range(0, 60, size)]
        rng.shuffle(tallies)
        again = release.analyze(reduce(add, tallies), simulated(1))
        np.testing.assert_array_equal(again.mean, whole.mean)
        assert again.count == whole.count == 60


@pytest.mark.parametrize(("model", "calibration"), CALIBRATED)
def test_the_sums_of_a_crowd_are_exact(model: str, calibration: str) -> None:
    release = CASE.release(Private(model, 1.0, calibration=calibration))
    reports = release.randomize(CASE.answers(60_000), simulated())
    assert release.tally(reports) == release.tally(reports[:20_000]) + release.tally(reports[20_000:])


@pytest.mark.parametrize(("calibration", "v"), [("paper", 1.0), ("paper-v", CASE.problem.bias_std)])
@pytest.mark.parametrize(("model", "power"), [("central", 1.0), ("local", 0.5)])
def test_printed_noise_is_the_printed_equation(model: str, power: float, calibration: str, v: float) -> None:
    """eq:gaussian_noise and its local form with delta_1 = delta_2 = delta / 2, for v = 1 and for the problem's v."""
    eps, people, H = 4.0, 40, 4
    kappa2, sigma2 = v**2 * float(gram(CASE.problem).diagonal().max()), CASE.problem.noise_std**2
    sigma_n = (
        2 * math.sqrt(2 * (kappa2 + sigma2) * H * math.log(2 * H / (DELTA / 2)) * math.log(1.25 / (DELTA / 2))) / eps
    )
    release = CASE.release(Private(model, eps, calibration=calibration))
    noise = released(release, CASE.answers(people), simulated()).noise
    assert noise is not None
    np.testing.assert_allclose(noise, sigma_n**2 / people ** (2 * power) * np.eye(H), rtol=1e-9)


@pytest.mark.parametrize(("model", "calibration"), CALIBRATED)
def test_only_exact_releases_claim_a_guarantee(model: str, calibration: str) -> None:
    entry = CASE.release(Private(model, 2.0, calibration=calibration)).entry(17)
    assert (entry.people, entry.epsilon, entry.delta) == (17, 2.0, DELTA)
    assert entry.guaranteed == (calibration == "exact")
