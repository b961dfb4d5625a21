import math
from collections.abc import Sequence

import pytest

from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.privacy import Budget, Entry, Ledger
from voxpop.privacy.gaussian import epsilon_of, noise_multiplier
from voxpop.privacy.ledger import compose

DELTA = 1e-6


def gaussian(epsilon: float, names: Sequence[str] = (), people: int = 10) -> Entry:
    count = len(names) or people
    return Entry("central", count, epsilon, DELTA, noise_multiplier(epsilon, DELTA), names=tuple(names))


@pytest.mark.parametrize(("epsilon", "times"), [(0.5, 1), (0.5, 20), (5.0, 2), (5.0, 4)])
def test_k_gaussian_releases_are_one_with_noise_smaller_by_sqrt_k(epsilon: float, times: int) -> None:
    together = compose([gaussian(epsilon)] * times, DELTA)
    assert together == pytest.approx(epsilon_of(noise_multiplier(epsilon, DELTA) / math.sqrt(times), DELTA), rel=2e-3)


def test_unequal_gaussian_releases_add_their_inverse_variances() -> None:
    both = 1 / math.sqrt(noise_multiplier(1.0, DELTA) ** -2 + noise_multiplier(4.0, DELTA) ** -2)
    assert compose([gaussian(1.0), gaussian(4.0)], DELTA) == pytest.approx(epsilon_of(both, DELTA), rel=2e-3)


def test_a_single_release_at_a_smaller_delta_costs_more() -> None:
    smaller = compose([gaussian(2.0)], 1e-9)
    assert smaller == pytest.approx(epsilon_of(noise_multiplier(2.0, DELTA), 1e-9), rel=2e-3)
    assert smaller > 2.0


def test_releases_known_by_epsilon_and_delta_only_add_up_to_no_more_than_their_sum() -> None:
    half = Entry("shuffle", 10, 2.0, DELTA / 2)
    assert 3.5 < compose([half, half], DELTA) <= 4.0 + 1e-6


def test_deltas_that_add_up_beyond_the_budget_s_give_no_promise() -> None:
    assert math.isinf(compose([Entry("shuffle", 10, 2.0, DELTA)] * 2, DELTA))


def test_nothing_released_is_nothing_spent() -> None:
    assert compose([], DELTA) == 0.0
    assert Ledger().totals(DELTA) == {"releases": 0, "people": 0, "epsilon": 0.0, "delta": DELTA, "guaranteed": True}


def charge(ledger: Ledger, entry: Entry) -> None:
    """Check a release and record it, as every driver does."""
    ledger.check(entry)
    ledger.record(entry)


def spent_by(ledger: Ledger, person: str) -> float:
    return compose(ledger.releases_about(person), DELTA)


def test_everyone_takes_part_once_unless_a_study_allows_more() -> None:
    ledger = Ledger(Budget(100.0, DELTA))
    charge(ledger, gaussian(1.0, ["ada", "ben"]))
    with pytest.raises(InputError) as error:
        charge(ledger, gaussian(1.0, ["cem", "ben"]))
    assert "'ben'" in refusal(error)
    assert len(ledger.entries) == 1
    assert ledger.releases_about("cem") == []
    charge(ledger, gaussian(1.0, ["cem"]))


def test_a_study_may_allow_more_until_the_budget_is_spent() -> None:
    two = epsilon_of(noise_multiplier(1.0, DELTA) / math.sqrt(2), DELTA)
    ledger = Ledger(Budget(1.05 * two, DELTA, participations=10))
    charge(ledger, gaussian(1.0, ["ada", "ben"]))
    charge(ledger, gaussian(1.0, ["ada"]))
    before = list(ledger.entries)
    with pytest.raises(InputError) as error:
        charge(ledger, gaussian(1.0, ["ben", "ada"]))
    assert f"the budget of {1.05 * two:g}" in refusal(error)
    assert ledger.entries == before
    assert spent_by(ledger, "ada") == pytest.approx(two, rel=2e-3)
    assert spent_by(ledger, "ben") == 1.0
    charge(ledger, gaussian(1.0, ["ben"]))


def test_a_single_release_beyond_the_budget_is_refused_for_the_unnamed_too() -> None:
    ledger = Ledger(Budget(2.0, DELTA))
    charge(ledger, gaussian(2.0))
    with pytest.raises(InputError, match="beyond the budget of 2"):
        charge(ledger, gaussian(2.1))
    with pytest.raises(InputError):
        charge(ledger, Entry("none", 5))
    assert len(ledger.entries) == 1


def test_a_release_at_a_larger_delta_than_the_budget_s_is_weighed_at_the_budget_s() -> None:
    ledger = Ledger(Budget(2.0, 1e-9))
    with pytest.raises(InputError):
        charge(ledger, gaussian(2.0))


def test_nobody_is_counted_twice_in_one_release() -> None:
    ledger = Ledger()
    with pytest.raises(InputError, match="'ada' is named twice"):
        charge(ledger, gaussian(1.0, ["ada", "ben", "ada"]))
    assert ledger.entries == []


def test_releases_about_different_people_do_not_add_up() -> None:
    ledger = Ledger(Budget(3.0, DELTA))
    for wave in range(30):
        charge(ledger, gaussian(3.0, [f"u{wave}"]))
        charge(ledger, gaussian(3.0, people=7))
    totals = ledger.totals(DELTA)
    assert totals["epsilon"] == 3.0
    assert (totals["releases"], totals["people"]) == (60, 30 * 1 + 30 * 7)


def test_the_total_is_that_of_the_most_exposed_person() -> None:
    ledger = Ledger()
    for people in (["ada", "ben"], ["ben"], ["cem"]):
        charge(ledger, gaussian(1.0, people))
    assert ledger.totals(DELTA)["epsilon"] == spent_by(ledger, "ben") > spent_by(ledger, "cem")


def test_a_release_that_was_not_private_leaves_no_promise() -> None:
    ledger = Ledger()
    charge(ledger, gaussian(1.0))
    assert ledger.totals(DELTA)["epsilon"] == 1.0
    charge(ledger, Entry("none", 1, names=("ada",)))
    assert ledger.totals(DELTA)["epsilon"] is None
    assert math.isinf(spent_by(ledger, "ada"))


def test_a_calibration_that_does_not_keep_its_promise_is_not_called_guaranteed() -> None:
    ledger = Ledger()
    charge(ledger, gaussian(1.0))
    assert ledger.totals(DELTA)["guaranteed"] is True
    charge(ledger, Entry("central", 5, 1.0, DELTA, guaranteed=False))
    assert ledger.totals(DELTA)["guaranteed"] is False


def test_people_are_named_all_or_none() -> None:
    with pytest.raises(InputError, match="is about 3 people and names 1"):
        charge(Ledger(), Entry("central", 3, 1.0, DELTA, names=("ada",)))


def test_a_calibration_that_does_not_keep_its_promise_does_not_pass_a_budget() -> None:
    with pytest.raises(InputError, match="beyond the budget"):
        charge(Ledger(Budget(5.0, DELTA)), Entry("central", 5, 1.0, DELTA, guaranteed=False))


def test_a_budget_allows_at_least_one_participation() -> None:
    with pytest.raises(InputError, match="participations must be a whole number, at least 1, got 0"):
        Budget(1.0, DELTA, participations=0)
