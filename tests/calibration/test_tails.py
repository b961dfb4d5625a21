"""Tails: skewness, the people it takes to outweigh it, and a mean that withstands heavy tails."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import gamma, skew

from tests.helpers_cli import refusal
from voxpop.calibration import Pilot, calibrate, catoni_mean, people_needed
from voxpop.calibration.tails import outlier, signed_skewness, skewness
from voxpop.errors import Array, InputError
from voxpop.model.decisions import Decisions

LINE = np.linspace(0, 1, 5)[:, None]


def test_the_skewness_is_the_largest_of_any_action() -> None:
    answers = np.random.default_rng(0).normal(size=(30, 5))
    answers[:, 2] = -np.random.default_rng(1).exponential(size=30)
    pilot = Pilot.of_matrix(Decisions(LINE), 3 + 2 * answers, 1)
    expected = np.abs(skew(answers, axis=0, bias=False))
    assert skewness(pilot) == pytest.approx(expected.max(), rel=1e-9)
    assert expected.argmax() == 2
    assert calibrate(pilot, kernel="matern-5/2").skewness == skewness(pilot)


def test_an_action_on_which_all_agree_has_no_skewness() -> None:
    answers = np.random.default_rng(0).normal(size=(30, 5))
    answers[:, 4] = 0.1  # its mean is not exactly 0.1
    only = Pilot.of_matrix(Decisions(LINE[:4]), answers[:, :4], 1)
    assert skewness(Pilot.of_matrix(Decisions(LINE), answers, 1)) == pytest.approx(skewness(only), rel=1e-9)
    assert skewness(Pilot.of_matrix(Decisions(LINE), np.tile(np.arange(5.0), (9, 1)), 1)) == 0


def test_a_few_answers_to_each_action_are_taken_together() -> None:
    answers = np.random.default_rng(2).exponential(size=(4, 5)) * np.array([1, 10, 100, 1000, 1])
    standardised = (answers - answers.mean(axis=0)) / answers.std(axis=0)
    pilot = Pilot.of_matrix(Decisions(LINE), answers, 1)
    assert skewness(pilot) == pytest.approx(float(skew(standardised, axis=None, bias=False)), rel=1e-9)


@pytest.mark.parametrize("z", [2.5, 3.5, 4.75])
@pytest.mark.parametrize("shape", [0.5, 2.0])
def test_with_the_people_needed_a_gaussian_tail_is_off_by_a_factor_of_about_two(z: float, shape: float) -> None:
    """The average of U gamma variables is itself a gamma variable; its skewness is 2 / sqrt(shape)."""
    people = people_needed(z, 2 / math.sqrt(shape))
    whole = shape * people
    tail = gamma(whole).sf(whole + z * math.sqrt(whole))
    assert 1.5 < tail / ndtr(-z) < 2.1


def test_people_without_skew_need_no_company() -> None:
    assert people_needed(5.0, 0.0) == 1


def lognormal(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Array, float, float]:
    return np.asarray(np.exp(rng.standard_normal(shape)), dtype=np.float64), math.exp(0.5), (math.e - 1) * math.e


def two_point(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Array, float, float]:
    return (rng.random(shape) < 0.03).astype(np.float64), 0.03, 0.03 * 0.97


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("draw", [lognormal, two_point])
def test_catoni_s_mean_keeps_its_level_where_the_average_does_not(draw: Any, side: int) -> None:
    runs, people, level = 1000, 60, 0.01
    samples, mean, variance = draw(np.random.default_rng(5), (runs, people))
    found = [catoni_mean(sample, variance, level) for sample in samples]
    missed = np.mean([side * (estimate - mean) > width for estimate, width in found])
    assert missed <= level  # its level is an upper bound, and these are far below it
    gaussian = -ndtri(level) * math.sqrt(variance / people)
    if side == 1:
        assert np.mean(samples.mean(axis=1) - mean > gaussian) > 1.2 * level
    assert gaussian < found[0][1] < 1.5 * gaussian


def test_catoni_s_mean_is_the_average_without_tails_and_ignores_one_wild_answer() -> None:
    values = np.random.default_rng(1).normal(size=400)
    plain, width = catoni_mean(values, 1.0, 0.01)
    assert plain == pytest.approx(values.mean(), abs=0.2 * width)
    wild, _ = catoni_mean(np.append(values[1:], 1e4), 1.0, 0.01)
    assert abs(wild - plain) < 2 * width  # the average moves by 25, or 160 widths
    assert catoni_mean(np.full(40, 0.1), 1.0, 0.01)[0] == 0.1


REFUSED: dict[str, tuple[Any, str]] = {
    "few": (lambda: catoni_mean([1.0, 2.0], 1.0, 0.01), "more than 9.21 answers, got 2"),
    "level": (lambda: catoni_mean(np.ones(50), 1.0, 1.0), "level must be a number above 0 and below 1, got 1.0"),
    "variance": (lambda: catoni_mean(np.ones(50), 0.0, 0.1), "variance must be a number above 0, got 0.0"),
    "z": (lambda: people_needed(0, 1.0), "z must be a number above 0, got 0"),
    "skewness": (lambda: people_needed(2.0, -1.0), "skewness must be a number at least 0, got -1.0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused(case: str) -> None:
    make, said = REFUSED[case]
    with pytest.raises(InputError, match=said) as caught:
        make()
    refusal(caught)


def people(seed: int, count: int = 20) -> Array:
    """Gaussian people who differ in all they say, (people, actions): the hardest ones to tell from an outlier."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 1)) + 0.1 * rng.normal(size=(count, 5))


def test_skewness_has_the_sign_of_the_long_tail() -> None:
    answers = np.random.default_rng(0).exponential(size=(30, 5))
    up, down = (Pilot.of_matrix(Decisions(LINE), sign * answers, 1) for sign in (1, -1))
    assert signed_skewness(up) == -signed_skewness(down) == skewness(up) == skewness(down) > 0


def test_one_wild_answer_is_found_with_its_share() -> None:
    answers = people(1)
    answers[7, 3] = 45.0
    found = outlier(Pilot.of_matrix(Decisions(LINE), answers, 1))
    assert found is not None
    assert (found.person, found.record) == (7, 7 * 5 + 3)
    away = answers - answers.mean(axis=0)
    assert found.share == pytest.approx(away[7, 3] ** 2 / (away**2).sum())
    assert found.share > 0.9


def test_a_wild_person_is_found_if_no_single_answer_is() -> None:
    answers = people(2)
    answers[4] += 12.0
    found = outlier(Pilot.of_matrix(Decisions(LINE), answers, 1))
    assert found is not None
    assert (found.person, found.record) == (4, None)
    away = answers - answers.mean(axis=0)
    assert found.share == pytest.approx((away[4] ** 2).sum() / (away**2).sum())


@pytest.mark.parametrize("count", [3, 5, 10, 40])
def test_gaussian_people_are_hardly_ever_suspected(count: int) -> None:
    """At most one pilot in a thousand; six of 500 would be far beyond chance."""
    rng = np.random.default_rng(count)
    suspected = 0
    for _ in range(500):
        own = rng.normal(size=(count, 1)) * np.ones(5)
        suspected += outlier(Pilot.of_matrix(Decisions(LINE), own, 1)) is not None
    assert suspected < 6


def test_people_who_agree_have_no_outlier() -> None:
    assert outlier(Pilot.of_matrix(Decisions(LINE), np.tile(np.arange(5.0), (9, 1)), 1)) is None
