"""The noise of both devices has the distribution of its name: the same tests for both, on what they draw."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, chisquare, norm

from tests.clients_js.oracle import Oracle
from voxpop.errors import Array
from voxpop.io.schema import encode, for_devices
from voxpop.privacy import Private, Secure, Source
from voxpop.privacy.audit import attack, specimen
from voxpop.privacy.local import Local
from voxpop.privacy.sources import Integers

NEVER = 1e-9  # the chance that a test fails although nothing is wrong
Draws = dict[str, Callable[..., Integers]]


@pytest.fixture(params=["python", "node"])
def drawn(request: pytest.FixtureRequest, other: Oracle) -> Draws:
    """Return the functions with which an implementation draws noise, each as a vector."""
    if request.param == "node":
        return {
            name: lambda *of, name=name: np.array(other.ask(**{name: of}))
            for name in ("gaussian", "binomial", "bernoulli")
        }
    source = Secure()
    return {
        "gaussian": lambda std, count: source.gaussian(1, count, std)[0],
        "binomial": lambda trials, chance, count: source.binomial(count, 1, trials, chance)[:, 0],
        "bernoulli": lambda chance, count: source.bernoulli(np.full(count, chance)),
    }


def fits(counts: Array, chances: Array) -> None:
    """Check counts of values against their chances; values that are expected less than ten times are one.

    If all those together still are, the next rarest joins them: one value that is expected 0.8 times is drawn often
    enough in one of 150,000 tests to fail it.
    """
    order = np.argsort(chances)
    counts, expected = counts[order], chances[order] * counts.sum()
    rare = max(int(np.sum(expected < 10)), int(np.searchsorted(np.cumsum(expected), 10)) + 1)
    counts, expected = (np.append(each[:rare].sum(), each[rare:]) for each in (counts, expected))
    assert chisquare(counts, expected, sum_check=False).pvalue > NEVER


@pytest.mark.parametrize("std", [0.3, 0.9, 1.0, 2.5, 7.25])
def test_small_gaussian_noise_is_the_discrete_gaussian(drawn: Draws, std: float) -> None:
    values, count = np.arange(-80, 81), 6000
    weights = np.exp(-(values**2) / (2 * std**2))
    draws = drawn["gaussian"](std, count)
    fits(np.bincount(draws + 80, minlength=161).astype(float), weights / weights.sum())


@pytest.mark.parametrize("std", [1234.5678, 2.0**31 + 0.1, 2.0**43])
def test_large_gaussian_noise_is_gaussian_down_to_its_last_bits(drawn: Draws, std: float) -> None:
    draws = drawn["gaussian"](std, 3000)
    cuts = norm.ppf(np.linspace(0, 1, 31)[1:-1])
    fits(np.bincount(np.searchsorted(cuts, draws / std), minlength=30).astype(float), np.full(30, 1 / 30))
    fits(np.bincount(draws % 16, minlength=16).astype(float), np.full(16, 1 / 16))


@pytest.mark.parametrize(("trials", "chance"), [(1, 0.5), (7, 0.5), (64, 0.5), (1001, 0.5), (60, 0.3), (300, 0.4375)])
def test_binomial_noise_is_binomial(drawn: Draws, trials: int, chance: float) -> None:
    draws = drawn["binomial"](trials, chance, 3000)
    fits(np.bincount(draws, minlength=trials + 1).astype(float), binom.pmf(np.arange(trials + 1), trials, chance))


@pytest.mark.parametrize("chance", [0.0, 0.01, 0.5, 0.77, 1.0])
def test_coins_fall_as_often_as_they_should(drawn: Draws, chance: float) -> None:
    ones = int(drawn["bernoulli"](chance, 20_000).sum())
    assert binom.cdf(ones, 20_000, chance) > NEVER
    assert binom.sf(ones - 1, 20_000, chance) > NEVER


class Foreign(Local):
    """A release whose reports are made by the other implementation."""

    other: Oracle

    def randomize(self, y: Array, source: Source) -> Array:
        told = json.loads(json.dumps(for_devices({**encode(self), "model": "local"})))
        return np.array(self.other.ask(reports={"release": told, "answers": y.tolist()}), dtype=float)


@pytest.mark.parametrize(("share", "caught"), [(1.0, False), (0.25, True)])
def test_the_auditor_cannot_tell_who_answered(other: Oracle, share: float, caught: bool) -> None:
    """And it would if there were less noise."""
    people = 2
    made = Private("local", 5.0).calibrate(*specimen(people))
    assert isinstance(made, Local)
    made = replace(made, std=share * made.std)
    foreign = Foreign(made.ball, made.beta, made.cost, made.step, made.std)
    object.__setattr__(foreign, "other", other)
    assert attack(foreign, Secure(), people, 400 if caught else 200, confidence=1 - 1e-9).violated is caught
