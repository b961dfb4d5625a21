"""Where noise comes from and how much of it is drawn: nothing here is left to chance, so nothing fails by chance."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from opendp.mod import Measurement

from tests.helpers_privacy import MODELS, Silent, first_wave
from tests.helpers_randomness import assert_from_the_operating_system, opendp, urandom
from voxpop.errors import Array
from voxpop.model.waves import Tally
from voxpop.privacy import Private, Secure
from voxpop.privacy.aggregate import Aggregated
from voxpop.privacy.central import Central
from voxpop.privacy.local import Local
from voxpop.privacy.shuffle import Shuffled
from voxpop.privacy.sources import Integers, _discrete_gaussian

CASE = first_wave()


def word(number: int) -> Callable[[int], bytes]:
    """Give bytes that repeat a 64-bit word."""
    return lambda count: number.to_bytes(8, "little") * (count // 8)


# The operating system's bits


def test_bernoulli_draws_follow_from_the_operating_system_s_bits() -> None:
    chances = np.full((4, 50), 0.5)
    assert_from_the_operating_system(lambda: Secure().bernoulli(chances).tolist(), bits=200 * 50)


def test_binomial_draws_follow_from_the_operating_system_s_bits() -> None:
    assert_from_the_operating_system(lambda: Secure().binomial(3, 4, 60, 0.3).tolist(), bits=3 * 4 * 60 * 50)


@pytest.mark.parametrize("chance", [0.5, 0.3, 1 / 3, 0.999, 1e-3, 2.0**-20, 3 * 2.0**-40, 1 - 2.0**-30])
def test_a_chance_is_kept_to_fifty_bits(chance: float) -> None:
    """Of all words, the share that gives a one is the chance: it is found by bisection, since small words give ones."""

    def one(number: int) -> bool:
        with urandom(word(number)):
            return bool(Secure().bernoulli(np.array([[chance]]))[0, 0])

    low, high = 0, 2**64 - 1
    assert one(low)
    assert not one(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one(middle) else (low, middle)
    assert abs(high / 2**64 - chance) <= 2.0**-50


@pytest.mark.parametrize(("chance", "ones"), [(0.0, 0), (1.0, 1)])
@pytest.mark.parametrize("number", [0, 2**63, 2**64 - 1])
def test_what_is_certain_is_left_to_no_bit(chance: float, ones: int, number: int) -> None:
    with urandom(word(number)):
        assert Secure().bernoulli(np.full((2, 2), chance)).tolist() == [[ones, ones], [ones, ones]]


def test_every_trial_has_bits_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third word gives a one, also where the trials are drawn a block at a time."""
    monkeypatch.setattr("voxpop.privacy.sources.BLOCK", 72)
    words = itertools.cycle([2**64 - 1, 2**64 - 1, 0])

    def give(count: int) -> bytes:
        return b"".join(next(words).to_bytes(8, "little") for _ in range(count // 8))

    with urandom(give):
        assert Secure().binomial(2, 3, 60, 0.4).tolist() == [[20, 20, 20], [20, 20, 20]]


# OpenDP


def test_gaussian_noise_is_opendp_s_and_nothing_else() -> None:
    with opendp(itertools.count()) as scales:
        assert Secure().gaussian(3, 4, 6.25).tolist() == np.arange(12).reshape(3, 4).tolist()
    assert scales == [6.25]


def test_gaussian_noise_does_not_depend_on_the_environment_or_on_other_generators() -> None:
    with opendp(itertools.cycle([5, -3])), pytest.raises(AssertionError, match="too few random bits"):
        assert_from_the_operating_system(lambda: Secure().gaussian(2, 2, 3.5).tolist(), bits=1)


def test_the_measurement_is_opendp_s_own() -> None:
    made: Any = _discrete_gaussian(2.0**20)
    assert isinstance(_discrete_gaussian(2.0**20), Measurement)
    assert made.map(1.0) == pytest.approx(2.0**-41)


# What a release asks of its source


@dataclass
class Recorded:
    """A source of numbers that are all different, which remembers what it was asked for."""

    asked: list[tuple[object, ...]] = field(default_factory=list)
    chances: list[Array] = field(default_factory=list)

    def gaussian(self, rows: int, columns: int, std: float) -> Integers:
        self.asked.append(("gaussian", rows, columns, std))
        return np.arange(rows * columns).reshape(rows, columns)

    def binomial(self, rows: int, columns: int, trials: int, chance: float) -> Integers:
        self.asked.append(("binomial", rows, columns, trials, chance))
        return np.arange(rows * columns).reshape(rows, columns) % (trials + 1)

    def bernoulli(self, chances: Array) -> Integers:
        self.asked.append(("bernoulli", *chances.shape))
        self.chances.append(chances)
        return (chances > 0.5).astype(np.int64)

    def bytes(self, count: int) -> bytes:
        self.asked.append(("bytes", count))
        return bytes(count)


@pytest.mark.parametrize("model", MODELS)
def test_every_person_and_coordinate_has_noise_of_its_own_of_the_calibrated_size(model: str) -> None:
    release, device, agent = CASE.release(Private(model, 5.0)), Recorded(), Recorded()
    answers = CASE.answers(40)
    reports = np.asarray(release.randomize(answers, device), dtype=float)
    tally = release.tally(reports)
    release.analyze(tally, agent)
    added = reports - np.asarray(release.randomize(answers, Silent()), dtype=float)
    numbers = np.arange(160).reshape(40, 4)
    match release:
        case Central():
            assert (device.asked, agent.asked) == ([], [("gaussian", 1, 4, release.std)])
        case Local():
            assert (device.asked, agent.asked) == ([("gaussian", 40, 4, release.std)], [])
            assert added.tolist() == numbers.tolist()
        case Shuffled() | Aggregated():
            code = release.encoding
            wanted = {("bernoulli", 40, 4), ("binomial", 40, 4, code.trials, code.chance)}
            assert (set(device.asked), len(device.asked), agent.asked) == (wanted, 2, [])
            assert added.tolist() == (numbers % (code.trials + 1)).tolist()


def test_rounding_is_as_likely_up_as_the_rest_is_large() -> None:
    release, source = CASE.release(Private("shuffle", 5.0)), Recorded()
    answers = CASE.answers(40)
    reports = release.randomize(answers, source)
    assert isinstance(release, Shuffled)
    levels = (release.clipped(answers) + release.ball.radius) / release.unit
    (rest,) = source.chances
    np.testing.assert_allclose(rest, levels - np.floor(levels), atol=1e-9)
    noise = np.arange(160).reshape(40, 4) % (release.encoding.trials + 1)
    np.testing.assert_array_equal(reports - noise, np.floor(levels) + (rest > 0.5))


def test_the_agent_adds_noise_to_the_exact_sum() -> None:
    """A sum beyond 2^53 must not be rounded before the noise is added: what is rounded away would tell of it."""
    release = CASE.release(Private("central", 5.0))

    class Less(Silent):
        def gaussian(self, rows: int, columns: int, std: float) -> Integers:
            return np.full((rows, columns), -1)

    odd = Tally(1, (2**53 + 1,) * 4, release.step)  # type: ignore[union-attr]
    even = Tally(1, (2**53,) * 4, release.step)  # type: ignore[union-attr]
    np.testing.assert_array_equal(release.analyze(odd, Less()).mean, release.analyze(even, Silent()).mean)
