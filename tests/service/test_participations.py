"""How often a person may take part follows from what all releases may cost them, the earlier ones included."""

import pytest

from voxpop.privacy import Budget, Entry, Ledger
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.ledger import compose
from voxpop.service.study.definition import most_participations

DELTA = 1e-6


def gaussian(epsilon: float) -> Entry:
    return Entry("central", 10, epsilon, DELTA, noise_multiplier(epsilon, DELTA))


@pytest.mark.parametrize(("earlier", "largest"), [([], 1.0), ([1.0], 1.0), ([2.0, 1.0], 2.0), ([0.5, 4.0], 4.0)])
@pytest.mark.parametrize("times", [1, 2, 4])
def test_earlier_releases_count(earlier: list[float], largest: float, times: int) -> None:
    """Somebody may have taken part in the largest release each time, so a budget for it pays for that many."""
    budget = Budget(compose([gaussian(largest)] * times, DELTA), DELTA, 10)
    ledger = Ledger(budget, [gaussian(epsilon) for epsilon in earlier])
    assert most_participations(ledger, gaussian(1.0), 10) == times
    assert most_participations(ledger, gaussian(1.0), 1) == 1
