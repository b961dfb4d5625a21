import inspect
import math

import numpy as np
import pytest
from scipy.stats import chisquare, norm

from tests.helpers_privacy import simulated
from voxpop.privacy import Secure, Simulated, Source

SOURCES: list[Source] = [simulated(5), Secure()]
IDS = ["simulated", "secure"]


def test_the_secure_source_takes_no_seed() -> None:
    with pytest.raises(TypeError):
        Secure(0)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Secure(seed=0)  # type: ignore[call-arg]
    for method in (Secure.gaussian, Secure.binomial, Secure.bernoulli):
        names = set(inspect.signature(method).parameters) - {"self"}
        assert names <= {"rows", "columns", "std", "trials", "chance", "chances"}


def secure_draws() -> tuple[list[int], list[int], list[int]]:
    source = Secure()
    return (
        source.gaussian(2, 5, 1e6).ravel().tolist(),
        source.binomial(2, 20, 400, 0.4).ravel().tolist(),
        source.bernoulli(np.full((2, 100), 0.5)).ravel().tolist(),
    )


def test_secure_draws_differ_even_with_numpy_s_seed_set() -> None:
    np.random.seed(1)  # noqa: NPY002
    first = secure_draws()
    np.random.seed(1)  # noqa: NPY002
    second = secure_draws()
    assert all(one != other for one, other in zip(first, second, strict=True))


def test_simulated_draws_repeat_with_their_generator() -> None:
    one, other = (Simulated(np.random.default_rng(4)).gaussian(3, 3, 1e5) for _ in range(2))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
@pytest.mark.parametrize("std", [3.0, 2.0**31])
def test_gaussian_noise_has_the_distribution_of_its_name(source: Source, std: float) -> None:
    draws = source.gaussian(1000, 4, std) / std
    assert draws.shape == (1000, 4)
    assert abs(draws.mean()) < 6 / math.sqrt(4000)
    assert draws.var() == pytest.approx(1.0, abs=6 * math.sqrt(2 / 4000))
    # Cut where no whole multiple of 1 / 3 lies, so that the grid of the small noise does not matter.
    cuts = (np.array([-5, -2, 0, 1, 4]) + 0.5) / 3
    bins = np.searchsorted(cuts, draws.ravel())
    expected = np.diff(np.concatenate([[0.0], norm.cdf(cuts), [1.0]])) * draws.size
    assert chisquare(np.bincount(bins, minlength=6), expected).pvalue > 1e-7


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_binomial_noise_has_the_moments_of_its_name(source: Source) -> None:
    draws = source.binomial(500, 4, 60, 0.3)
    assert draws.shape == (500, 4)
    assert draws.min() >= 0
    assert draws.max() <= 60
    assert draws.mean() == pytest.approx(18, abs=6 * math.sqrt(12.6 / 2000))
    assert draws.var() == pytest.approx(12.6, rel=6 * math.sqrt(2 / 2000))


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_bernoulli_draws_follow_their_own_chances(source: Source) -> None:
    chances = np.tile([0.0, 0.1, 0.5, 1.0], (4000, 1))
    shares = source.bernoulli(chances).mean(axis=0)
    assert (shares[0], shares[3]) == (0.0, 1.0)
    assert shares[1] == pytest.approx(0.1, abs=6 * 0.3 / math.sqrt(4000))
    assert shares[2] == pytest.approx(0.5, abs=6 * 0.5 / math.sqrt(4000))


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_noise_is_whole_numbers(source: Source) -> None:
    for draws in (source.gaussian(1, 3, 10.5), source.binomial(1, 3, 9, 0.5), source.bernoulli(np.full((1, 3), 0.5))):
        assert draws.dtype == np.int64
