"""What a release refuses: a refusal is one sentence, and nothing is counted."""

import math
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import refusal
from tests.helpers_privacy import CALIBRATED, MODELS, AnyRelease, Silent, first_wave, simulated
from voxpop.errors import Array, InputError
from voxpop.privacy import Private
from voxpop.privacy.encoded import Encoded
from voxpop.privacy.local import Local
from voxpop.privacy.shuffle import Shuffled

CASE = first_wave()


def release_of(model: str, calibration: str = "exact") -> AnyRelease:
    return CASE.release(Private(model, 5.0, calibration=calibration))


def good_reports(release: AnyRelease, people: int) -> Array:
    return release.randomize(CASE.answers(people), simulated())


@pytest.mark.parametrize(("model", "calibration"), CALIBRATED)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda reports: reports[:, :3], "a report has 4 numbers, got shape (3,)"),
        (lambda reports: np.hstack([reports, reports]), "a report has 4 numbers, got shape (8,)"),
        (lambda reports: reports[0], "reports must have the shape (people, 4), got (4,)"),
    ],
)
def test_malformed_reports_are_refused_with_the_good_ones_beside_them(
    model: str, calibration: str, change: Any, said: str
) -> None:
    release = release_of(model, calibration)
    with pytest.raises(InputError) as error:
        release.tally(change(good_reports(release, 40)))
    assert said in refusal(error)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("model", ["local", "shuffle", "aggregate"])
def test_randomised_reports_that_no_device_sends_are_refused(model: str, bad: float) -> None:
    release = release_of(model)
    with pytest.raises(InputError) as error:
        release.tally(np.vstack([good_reports(release, 40), [0, 0, bad, 0]]))
    assert f"a report holds {bad}" in refusal(error)


@pytest.mark.parametrize("model", MODELS)
def test_an_answer_that_is_not_a_number_counts_as_the_centre(model: str) -> None:
    """Refusing it would stop the release, and everyone would notice."""
    release = release_of(model)
    centre = np.tile(release.ball.centre, (40, 1))
    broken = centre.copy()
    broken[3] = math.nan
    first, second = (release.tally(release.randomize(answers, Silent())) for answers in (centre, broken))
    assert first == second


@pytest.mark.parametrize("model", MODELS)
def test_an_infinite_answer_is_clipped_like_any_other(model: str) -> None:
    release = release_of(model)
    answers = np.tile(release.ball.centre, (40, 1))
    answers[0] += math.inf
    tally = release.tally(release.randomize(answers, Silent()))
    mean = release.ball.whiten(release.analyze(tally, Silent()).mean[None])[0]
    noise = release.encoding.trials * release.encoding.chance * release.unit if isinstance(release, Encoded) else 0.0
    assert np.linalg.norm(mean + noise) <= release.ball.radius / 40 * 1.2 + 0.1 * release.ball.radius


@pytest.mark.parametrize("model", ["local", "shuffle", "aggregate"])
def test_a_device_refuses_averages_of_another_length(model: str) -> None:
    with pytest.raises(InputError) as error:
        release_of(model).randomize(np.zeros((1, 3)), Silent())
    refusal(error)


@pytest.mark.parametrize("model", MODELS)
def test_a_tally_of_nobody_is_refused(model: str) -> None:
    with pytest.raises(InputError) as error:
        release_of(model).tally(np.zeros((0, 4)))
    refusal(error)


@pytest.mark.parametrize("bad", [-1.0, 0.5, math.nan])
def test_a_shuffled_report_is_a_number_of_ones_among_its_bits(bad: float) -> None:
    release = release_of("shuffle")
    assert isinstance(release, Shuffled)
    bits = release.encoding.levels + release.encoding.trials
    release.tally(np.array([[0.0, bits, 1.0, 2.0]]))  # the extremes are possible
    for value in (bad, bits + 1.0):
        reports = good_reports(release, 40)
        reports[7, 2] = value
        with pytest.raises(InputError) as error:
            release.tally(reports)
        assert "a report h" in refusal(error)


def test_a_local_report_that_no_device_sends_is_refused() -> None:
    release = release_of("local")
    assert isinstance(release, Local)
    reports = good_reports(release, 40)
    reports[3, 1] = 1e3 * release.std
    with pytest.raises(InputError, match="no device sends") as error:
        release.tally(reports)
    assert f"{reports[3, 1]:g}" in refusal(error)


@pytest.mark.parametrize("calibration", ["exact", "paper"])
@pytest.mark.parametrize("short", [1, 39])
def test_shuffled_noise_made_for_more_people_is_never_released(short: int, calibration: str) -> None:
    release = release_of("shuffle", calibration)
    tally = release.tally(good_reports(release, short))
    with pytest.raises(InputError) as error:
        release.analyze(tally, Silent())
    assert f"only {short} of the 40 people" in refusal(error)
    complete = tally + release.tally(good_reports(release, 40 - short))
    assert release.analyze(complete, Silent()).count == 40


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("answer", [[1e200] * 4, [1.7e308, -1.7e308, 1.7e308, -1.7e308]])
def test_one_enormous_answer_is_clipped_and_does_not_stop_the_wave(model: str, answer: list[float]) -> None:
    """Privacy must hold for every input, so every finite answer is clipped and counted."""
    release = release_of(model)
    answers = CASE.answers(40)
    answers[0] = answer
    tally = release.tally(release.randomize(answers, simulated()))
    assert tally.count == 40
    assert np.isfinite(release.analyze(tally, simulated()).mean).all()


def test_tallies_of_different_releases_are_not_added() -> None:
    shuffled, central = release_of("shuffle"), release_of("central")
    with pytest.raises(InputError):
        _ = shuffled.tally(good_reports(shuffled, 2)) + central.tally(good_reports(central, 2))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("centrall", 5.0), "unknown privacy model 'centrall'; did you mean 'central'?"),
        (("none", 5.0), "unknown privacy model 'none'"),
        (("central", 5.0, 1e-6, "printed"), "unknown calibration 'printed'"),
        (("central", 5.0, 1e-6, "exact", -1), "floor must be a whole number, at least 0, got -1"),
        (("central", 5.0, 1e-6, "exact", 2.5), "floor must be a whole number, at least 0, got 2.5"),
    ],
)
def test_unusable_parameters_are_refused(arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(InputError) as error:
        Private(*arguments)
    assert said in refusal(error)
