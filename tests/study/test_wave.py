"""Releasing a wave: the ledger is asked before any noise is drawn, about the people who answered."""

from typing import Any

import numpy as np
import pytest

from tests.helpers_privacy import DELTA, MODELS, Silent, first_wave, simulated
from voxpop.errors import Array, InputError
from voxpop.journal.wave import Wave, release_wave
from voxpop.privacy import Entry, Ledger, Private
from voxpop.privacy.ledger import Budget
from voxpop.privacy.sources import Integers

CASE = first_wave()


class Untouched:
    """A source from which nothing may be drawn."""

    def gaussian(self, rows: int, columns: int, std: float) -> Integers:
        raise AssertionError("noise is drawn for a release that is refused")

    def binomial(self, rows: int, columns: int, trials: int, chance: float) -> Integers:
        raise AssertionError("noise is drawn for a release that is refused")

    def bernoulli(self, chances: Array) -> Integers:
        raise AssertionError("noise is drawn for a release that is refused")

    def bytes(self, count: int) -> bytes:
        raise AssertionError("shares are drawn for a release that is refused")


def wave_of(model: str, people: int = 40) -> tuple[Wave, Any]:
    """Return a wave and the tally of this many people's reports."""
    release = CASE.release(Private(model, 5.0))
    reports = np.asarray(release.randomize(CASE.answers(people), simulated()), dtype=float)
    return Wave(CASE.plan, release), release.tally(reports)


@pytest.mark.parametrize("model", MODELS)
def test_a_release_beyond_the_budget_is_refused_before_noise_is_drawn(model: str) -> None:
    wave, tally = wave_of(model)
    with pytest.raises(InputError, match="beyond the budget of 4"):
        release_wave(wave, [tally], Ledger(Budget(4.0, DELTA)), Untouched())


@pytest.mark.parametrize("model", MODELS)
def test_people_who_took_part_before_are_refused_before_noise_is_drawn(model: str) -> None:
    wave, tally = wave_of(model)
    names = tuple(f"p{number}" for number in range(40))
    ledger = Ledger(Budget(5.0, DELTA))
    _, entry = release_wave(wave, [tally], ledger, Silent(), names)
    assert (entry.names, entry.wave) == (names, CASE.plan.wave)
    ledger.record(entry)
    with pytest.raises(InputError, match="'p0' has taken part 1 times"):
        release_wave(wave, [tally], ledger, Untouched(), names)


@pytest.mark.parametrize("model", ["central", "local"])
def test_the_people_who_answered_are_charged(model: str) -> None:
    wave, tally = wave_of(model, people=7)
    feedback, entry = release_wave(wave, [tally], Ledger(Budget(5.0, DELTA)), Silent())
    assert (feedback.count, entry.people, CASE.plan.people) == (7, 7, 40)


def test_a_batch_that_is_not_whole_is_not_released() -> None:
    wave, tally = wave_of("shuffle", people=39)
    with pytest.raises(InputError, match="only 39 of the 40 people"):
        release_wave(wave, [tally], Ledger(Budget(5.0, DELTA)), Untouched())


def test_the_caller_records_the_entry() -> None:
    wave, tally = wave_of("central")
    ledger = Ledger(Budget(5.0, DELTA), [Entry("central", 3, 1.0, DELTA)])
    release_wave(wave, [tally], ledger, Silent())
    assert len(ledger.entries) == 1
