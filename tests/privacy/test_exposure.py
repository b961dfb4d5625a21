"""What people are exposed to by several studies, and households by one: never less than what the releases say."""

import math

import pytest

from voxpop.privacy import Entry, Ledger, Private
from voxpop.privacy.binomial import Binomial
from voxpop.privacy.gaussian import epsilon_of, noise_multiplier
from voxpop.privacy.ledger import compose, exposure, of_group
from voxpop.privacy.models import doubts

DELTA = 1e-6


def gaussian(epsilon: float, *names: str) -> Entry:
    return Entry("central", len(names) or 9, epsilon, DELTA, noise_multiplier(epsilon, DELTA), names=names)


def ledger(*entries: Entry) -> Ledger:
    return Ledger(None, list(entries))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("epsilon", [0.5, 5.0, 15.0])
def test_a_household_moves_a_release_as_far_as_its_people_together(epsilon: float, size: int) -> None:
    together = exposure([ledger(gaussian(epsilon))], DELTA, size)
    assert together == pytest.approx(epsilon_of(noise_multiplier(epsilon, DELTA) / size, DELTA), rel=1e-6)
    assert together >= size * epsilon * (1 - 1e-9)
    cost = Private("shuffle", epsilon).cost
    assert cost is not None
    assert cost.binomial is not None
    noise = cost.binomial
    exact = Binomial(noise.trials, noise.chance, size * noise.shift).epsilon(DELTA)
    assert exact * (1 - 1e-3) <= exposure([ledger(cost)], DELTA, size) < 1.15 * exact


def test_what_is_known_by_epsilon_and_delta_only_exposes_a_household_by_the_general_bound() -> None:
    pair = of_group(Entry("shuffle", 5, 1.0, 1e-9), 2)
    assert pair.epsilon == 2.0
    assert pair.delta == pytest.approx(2 * math.e * 1e-9)
    assert of_group(Entry("shuffle", 5, 900.0, 1e-9), 3).delta == 1.0
    assert math.isinf(exposure([ledger(Entry("none", 5))], DELTA, 2))


def test_who_has_a_name_is_one_person_in_all_studies() -> None:
    first, second = ledger(gaussian(1.0, "ann", "bob"), gaussian(1.0, "cat")), ledger(gaussian(3.0, "Ann "))
    assert exposure([first, second], DELTA) == pytest.approx(compose([gaussian(1.0), gaussian(3.0)], DELTA))
    assert exposure([first, ledger(gaussian(0.5, "dan"))], DELTA) == 1.0
    assert exposure([first], DELTA) == 1.0
    assert exposure([ledger(), ledger()], DELTA) == 0.0


def test_people_without_names_may_be_the_same_in_all_studies() -> None:
    first, second = ledger(gaussian(1.0), gaussian(2.0)), ledger(gaussian(3.0), gaussian(0.5, "ann"))
    both = compose([gaussian(2.0), gaussian(3.0)], DELTA)
    assert exposure([first, second], DELTA) == pytest.approx(both)
    named = ledger(gaussian(1.0, "1"), gaussian(1.0, "1"), gaussian(1.5, "2"))
    worst = max(compose([gaussian(1.0)] * 2, DELTA), 1.5)
    assert exposure([named], DELTA, linked=False) == pytest.approx(worst)
    assert exposure([named, ledger(gaussian(3.0, "9"))], DELTA, linked=False) > exposure([named], DELTA)


def test_promises_without_sense_are_doubted() -> None:
    assert doubts(20.0, 1e-6, 100_000) == []
    (said,) = doubts(50.0, 1e-6, 100)
    assert "e^50 times" in said
    (said,) = doubts(5.0, 0.01, 101)
    assert "more than one in the 101 people" in said
    assert len(doubts(50.0, 0.5, 100)) == 2
