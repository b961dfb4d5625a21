import math
from typing import Any

import mpmath  # type: ignore[import-untyped]
import pytest

from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.privacy import Budget, Private
from voxpop.privacy.gaussian import classical_multiplier, delta_of, epsilon_of, noise_multiplier

PAIRS = [(0.1, 1e-6), (1.0, 1e-6), (1.0, 1e-10), (5.0, 1e-6), (8.0, 0.05), (30.0, 1e-6), (200.0, 1e-9), (1000.0, 1e-6)]


def exact_delta(multiplier: float, epsilon: float) -> mpmath.mpf:
    """The integral of (p - e^eps q)+ for N(0, m^2) and N(1, m^2), with 40 digits."""
    with mpmath.workdps(40):
        m, eps = mpmath.mpf(multiplier), mpmath.mpf(epsilon)
        end = mpmath.mpf(1) / 2 - eps * m**2  # p > e^eps q to the left of it
        grid = [end - m * k for k in (16, 8, 4, 2, 0)]
        return mpmath.quad(lambda x: mpmath.npdf(x, 0, m) - mpmath.exp(eps) * mpmath.npdf(x, 1, m), grid)


@pytest.mark.parametrize(("multiplier", "epsilon"), [(4.0, 1.0), (0.98, 5.0), (0.4, 15.0), (0.2, 30.0), (0.05, 300.0)])
def test_delta_is_the_integral_of_the_excess_density(multiplier: float, epsilon: float) -> None:
    assert delta_of(multiplier, epsilon) == pytest.approx(float(exact_delta(multiplier, epsilon)), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_the_multiplier_gives_exactly_the_promise(epsilon: float, delta: float) -> None:
    assert float(exact_delta(noise_multiplier(epsilon, delta), epsilon)) == pytest.approx(delta, rel=1e-4)


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_epsilon_of_undoes_the_multiplier(epsilon: float, delta: float) -> None:
    assert epsilon_of(noise_multiplier(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-5)


@pytest.mark.parametrize("multiplier", [0.05, 0.3, 1.0, 5.0, 50.0])
def test_the_multiplier_undoes_epsilon_of(multiplier: float) -> None:
    assert noise_multiplier(epsilon_of(multiplier, 1e-6), 1e-6) == pytest.approx(multiplier, rel=1e-4)


@pytest.mark.parametrize(("epsilon", "delta"), [(15.0, 2.1e-5), (30.0, 4.5e-3)])
def test_classical_noise_misses_its_delta_by_as_much_as_documented(epsilon: float, delta: float) -> None:
    actual = float(exact_delta(classical_multiplier(epsilon, 1e-6), epsilon))
    assert actual == pytest.approx(delta, rel=0.03)
    assert delta_of(classical_multiplier(epsilon, 1e-6), epsilon) == pytest.approx(actual, rel=1e-9)


def test_classical_noise_is_enough_up_to_8_point_8() -> None:
    kept = {eps: delta_of(classical_multiplier(eps, 1e-6), eps) <= 1e-6 for eps in (1.0, 5.0, 8.7, 8.9, 12.0)}
    assert kept == {1.0: True, 5.0: True, 8.7: True, 8.9: False, 12.0: False}


def test_less_noise_than_calibrated_breaks_the_promise() -> None:
    assert delta_of(0.99 * noise_multiplier(5.0, 1e-6), 5.0) > 1e-6


def test_for_large_epsilon_the_noise_falls_like_its_root() -> None:
    # mu^2 / 2 is the mean of the privacy loss, so eps -> inf allows mu -> sqrt(2 eps).
    assert noise_multiplier(1000.0, 0.5) == pytest.approx(1 / math.sqrt(2000), rel=1e-2)


BAD = [0, 0.0, -1.0, math.nan, math.inf, -math.inf, "5"]


@pytest.mark.parametrize("value", [*BAD, 1001.0])
def test_an_unusable_epsilon_is_refused_by_name(value: Any) -> None:
    for call in (lambda: noise_multiplier(value, 1e-6), lambda: Private("central", value), lambda: Budget(value, 1e-6)):
        with pytest.raises(InputError) as error:
            call()
        assert refusal(error) in {
            f"epsilon must be a number above 0 and at most 1000, got {value}",
            f"epsilon must be a number above 0 and at most 1000, got {value!r}",
        }


@pytest.mark.parametrize("value", [*BAD, 1.0, 2.0])
def test_an_unusable_delta_is_refused_by_name(value: Any) -> None:
    for call in (
        lambda: noise_multiplier(1.0, value),
        lambda: Private("local", 1.0, value),
        lambda: Budget(1.0, value),
    ):
        with pytest.raises(InputError) as error:
            call()
        assert refusal(error) in {
            f"delta must be a number above 0 and below 1, got {value}",
            f"delta must be a number above 0 and below 1, got {value!r}",
        }
