"""Strata: the weighted average is unbiased, its noise is what it says, and what cannot be weighed is refused."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import refusal
from voxpop.errors import Array, InputError
from voxpop.gp.belief import own_noise, total_noise
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.strata import Strata
from voxpop.model.waves import Feedback, Plan, Tally

STEP = 2.0**-40
HALVES = Strata({"young": 0.5, "old": 0.5})
THREE = Strata({"a": 0.5, "b": 0.3, "c": 0.2})
PROBLEM = Problem(np.linspace(0, 1, 4), SquaredExponential(0.3), 0.2, 0.5, norm_bound=2.0, horizon=100, shock_std=0.0)
PLAN = Plan(1, np.array([0, 2, 3]), np.array([1, 2, 4]), 100)


def averaged(strata: Strata, parts: dict[str, Array]) -> Feedback:
    return strata.average({name: Tally.of(rows, STEP).feedback() for name, rows in parts.items()})


def people(rng: np.random.Generator, count: int, mean: float = 0.0, scale: float = 1.0) -> Array:
    """Answers of people around a mean whose covariance is scale^2 times the model's."""
    covariance = PROBLEM.answer_noise(PLAN.arms, PLAN.pulls)
    return mean + scale * rng.multivariate_normal(np.zeros(3), covariance, size=count)


def test_people_drawn_in_proportion_count_as_they_are() -> None:
    rng = np.random.default_rng(0)
    parts = {name: people(rng, size) for name, size in THREE.allocate(50).items()}
    feedback = averaged(THREE, parts)
    everyone = np.concatenate(list(parts.values()))
    assert feedback.count == 50
    assert feedback.effective == pytest.approx(50)
    np.testing.assert_allclose(feedback.mean, everyone.mean(axis=0))
    np.testing.assert_allclose(total_noise(PROBLEM, PLAN, feedback), PROBLEM.answer_noise(PLAN.arms, PLAN.pulls, 50))


def test_uneven_people_are_worth_fewer_and_never_more() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        shares, sizes = rng.dirichlet(np.ones(4)) * 0.96 + 0.01, rng.integers(1, 40, size=4)
        strata = Strata(dict(zip("abcd", shares.tolist(), strict=True)))
        sample = strata.sample([name for name, size in zip("abcd", sizes, strict=True) for _ in range(size)])
        assert sample.weights.sum() == pytest.approx(1)
        assert sample.effective == pytest.approx(1 / np.square(sample.weights).sum())
        assert 1 <= sample.equivalent <= sample.effective * (1 + 1e-9) <= sizes.sum() * (1 + 2e-9)
        assert sample.factors.max() <= 1
        np.testing.assert_allclose(sample.factors / sample.equivalent, sample.weights)


def test_the_weighted_average_is_unbiased_and_as_noisy_as_it_says() -> None:
    """Strata a distance of 3 apart, 32 and 8 people of shares 1/2: the plain average is off by 0.9."""
    rng, errors, plain = np.random.default_rng(2), [], []
    for _ in range(1000):
        parts = {"young": people(rng, 32, 1.5), "old": people(rng, 8, -1.5)}
        feedback = averaged(HALVES, parts)
        assert feedback.effective == pytest.approx(25.6)
        errors.append(feedback.mean)
        plain.append(np.concatenate(list(parts.values())).mean(axis=0))
    noise = PROBLEM.answer_noise(PLAN.arms, PLAN.pulls, 25.6)
    np.testing.assert_allclose(np.mean(plain, axis=0), 0.9, atol=0.01)
    np.testing.assert_allclose(np.mean(errors, axis=0), 0.0, atol=0.01)
    np.testing.assert_allclose(np.cov(np.array(errors).T), noise, rtol=0.15, atol=1e-3)


def test_the_order_of_people_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    strata, answers = ["a"] * 9 + ["b"] * 3 + ["c"] * 5, people(rng, 17)
    order = rng.permutation(17).tolist()

    def feedback(rows: list[int]) -> Feedback:
        sample = THREE.sample([strata[row] for row in rows])
        return averaged(THREE, {name: answers[rows][at] for name, at in sample.members.items()})

    first, second = feedback(list(range(17))), feedback(order)
    np.testing.assert_array_equal(first.mean, second.mean)
    assert first.scatter is not None
    assert second.scatter is not None
    np.testing.assert_array_equal(first.scatter, second.scatter)


def test_the_scatter_is_the_estimated_variance_of_the_average_times_the_people_it_is_worth() -> None:
    rng = np.random.default_rng(4)
    parts = {"a": people(rng, 12, 5.0), "b": people(rng, 4, scale=2.0), "c": people(rng, 7, -5.0)}
    feedback = averaged(THREE, parts)
    variance = sum(THREE.shares[name] ** 2 * rows.var(axis=0, ddof=1) / len(rows) for name, rows in parts.items())
    assert feedback.scatter is not None
    np.testing.assert_allclose(feedback.scatter.diagonal(), feedback.effective * variance, rtol=1e-9)


def test_the_scatter_of_the_model_s_people_has_lighter_tails_than_its_degrees_of_freedom_say() -> None:
    rng, ratios = np.random.default_rng(5), []
    model = float(PROBLEM.answer_noise(PLAN.arms, PLAN.pulls)[0, 0])
    for _ in range(1000):
        feedback = averaged(HALVES, {"young": people(rng, 20), "old": people(rng, 5)})
        assert feedback.scatter is not None
        assert feedback.freedom == pytest.approx(5)  # Satterthwaite's are 6.2; 5 have the fatter tail
        ratios.append(float(feedback.scatter[0, 0]) / model)
    assert np.mean(ratios) == pytest.approx(1, abs=0.05)
    assert np.mean(np.array(ratios) > 15.09 / 5) < 0.01  # the 99 % point of chi-squared with 5 degrees of freedom


def test_halves_of_equal_size_have_all_degrees_of_freedom_but_two() -> None:
    rng = np.random.default_rng(6)
    assert averaged(HALVES, {"young": people(rng, 11), "old": people(rng, 11)}).freedom == pytest.approx(20)


def test_a_stratum_in_which_people_differ_more_raises_the_noise() -> None:
    """Few people of a stratum with three times the deviations decide how noisy the average is."""
    rng = np.random.default_rng(7)
    feedback = averaged(HALVES, {"young": people(rng, 180), "old": people(rng, 20, scale=3.0)})
    model = PROBLEM.answer_noise(PLAN.arms, PLAN.pulls, feedback.effective).diagonal()
    assert (own_noise(PROBLEM, PLAN, feedback)[0].diagonal() / model).max() > 3
    plain = Tally.of(np.concatenate([people(rng, 180), people(rng, 20, scale=3.0)]), STEP).feedback()
    model = PROBLEM.answer_noise(PLAN.arms, PLAN.pulls, 200).diagonal()
    assert (own_noise(PROBLEM, PLAN, plain)[0].diagonal() / model).max() < 2.5


def test_a_single_person_of_a_stratum_shows_no_scatter() -> None:
    rng = np.random.default_rng(8)
    alone = averaged(HALVES, {"young": people(rng, 12), "old": people(rng, 1)})
    assert alone.effective == pytest.approx(1 / (0.25 / 12 + 0.25))
    assert alone.freedom == pytest.approx(11)
    both = averaged(HALVES, {"young": people(rng, 1), "old": people(rng, 1)})
    assert both.scatter is None
    np.testing.assert_array_equal(own_noise(PROBLEM, PLAN, both)[0], total_noise(PROBLEM, PLAN, both))


def test_noise_and_clipping_of_the_strata_add_up() -> None:
    noise, clipping, rng = np.diag([1.0, 2.0, 3.0]), np.diag([0.1, 0.2, 0.3]), np.random.default_rng(9)
    parts = {"young": Feedback(np.ones(3), 4, noise, clipping), "old": Feedback(np.ones(3), 9)}
    found = HALVES.average(parts)
    assert found.noise is not None
    assert found.clipping is not None
    np.testing.assert_allclose(found.noise, noise / 4)
    weights = rng.normal(size=3)
    bias = 0.5 * np.sqrt(weights @ clipping @ weights)
    assert bias <= np.sqrt(weights @ found.clipping @ weights)
    assert HALVES.average({**parts, "young": Feedback(np.ones(3), 4)}).noise is None


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10, 99, 100, 1001])
def test_an_allocation_is_whole_near_the_shares_and_leaves_nobody_out(count: int) -> None:
    for strata in (THREE, HALVES, Strata({"most": 0.97, "few": 0.02, "fewest": 0.01})):
        found = strata.allocate(count)
        assert sum(found.values()) == max(count, len(strata.shares))
        assert min(found.values()) >= 1
        for name, people_there in found.items():
            assert people_there == 1 or abs(people_there - strata.shares[name] * sum(found.values())) < 2


def test_shares_are_rounded_by_people_and_read_again_as_they_were_saved() -> None:
    rounded = Strata({"young": 0.317, "old": 0.682})
    assert math.fsum(rounded.shares.values()) == pytest.approx(1, abs=1e-15)
    assert Strata(rounded.shares) == rounded


REFUSED: dict[str, tuple[Any, str]] = {
    "one": ({"all": 1.0}, "at least two parts"),
    "none": ({}, "at least two parts"),
    "a list": ([0.5, 0.5], "at least two parts"),
    "too much": ({"a": 0.5, "b": 0.6}, r"add up to 1, got 1\.1"),
    "counts": ({"a": 500, "b": 500}, "the share of stratum 'a' must be a number above 0 and below 1"),
    "negative": ({"a": -0.5, "b": 1.5}, "the share of stratum 'a'"),
    "a word": ({"a": "half", "b": 0.5}, "the share of stratum 'a'"),
    "the same": ({1: 0.5, "1": 0.5}, "every stratum once"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_are_no_shares_is_refused(case: str) -> None:
    shares, said = REFUSED[case]
    with pytest.raises(InputError, match=said) as caught:
        Strata(shares)
    refusal(caught)


def test_an_empty_stratum_is_refused_with_the_remedy() -> None:
    with pytest.raises(InputError, match=r"nobody of stratum 'c' answered, which is 0\.2 of the.*ask someone.*merged"):
        THREE.sample(["a", "b"])
    with pytest.raises(InputError, match=r"unknown stratum 'yung'; did you mean 'young'\?"):
        HALVES.sample(["yung", "old"])


@pytest.mark.parametrize("people", range(1, 13))
def test_quotas_add_up_and_are_the_shares_on_average(people: int) -> None:
    """Exact: the ends of the strata are multiples of 1/20, so twenty offsets stand for all."""
    strata = Strata({"a": 0.15, "b": 0.35, "c": 0.5})
    found = [strata.quotas(np.full(people, (step + 0.5) / 20)) for step in range(20)]
    assert {sum(quotas.values()) for quotas in found} == {people}
    for name, share in strata.shares.items():
        assert np.mean([quotas[name] for quotas in found]) == pytest.approx(people * share, abs=1e-12)


def test_quotas_are_within_two_people_of_the_shares() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        shares = rng.dirichlet(np.ones(rng.integers(2, 30)))
        strata = Strata({str(place): float(share) for place, share in enumerate(shares)})
        people = int(rng.integers(1, 100))
        quotas = strata.quotas(rng.random(people))
        assert sum(quotas.values()) == people
        assert all(abs(quotas[name] - people * share) < 2 for name, share in strata.shares.items())


def test_quotas_add_no_more_noise_than_drawing_people_from_the_whole_population() -> None:
    """Two people of four strata with means 1, -1, 1, -1: one offset for all units would double the variance."""
    strata = Strata(dict.fromkeys("abcd", 0.25))
    sums = []
    for offsets in product((0.25, 0.75), repeat=2):
        quotas = strata.quotas(np.array(offsets))
        sums.append(quotas["a"] - quotas["b"] + quotas["c"] - quotas["d"])
    assert (float(np.mean(sums)), float(np.var(sums))) == (0.0, 2.0)
