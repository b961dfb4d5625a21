"""What several releases about one person add up to.

Gaussian releases compose to a Gaussian one: 1/m^2 is the sum of all 1/m_i^2. With binomial noise among them, Rényi
divergences are added (`binomial`). Releases that are known by (eps, delta) alone are composed by dp-accounting's
privacy loss distributions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from voxpop.core.errors import Array
from voxpop.privacy.binomial import ORDERS
from voxpop.privacy.entries import Entry
from voxpop.privacy.gaussian import epsilon_of


def compose(entries: Iterable[Entry], delta: float) -> float:
    """Compute the eps of several releases about one person, at this delta; inf if one of them promises nothing."""
    entries = list(entries)
    if not entries:
        return 0.0
    if not all(entry.private for entry in entries):
        return math.inf
    if len(entries) == 1 and entries[0].delta <= delta:
        return entries[0].epsilon
    if all(entry.multiplier is not None for entry in entries):
        return epsilon_of(_multiplier(entries), delta)
    if all(entry.multiplier is not None or entry.binomial is not None for entry in entries):
        return _epsilon(np.sum([_loss(entry) for entry in entries], axis=0), delta)
    return _by_loss_distributions(entries, delta)


def compose_any(entries: Iterable[Entry], count: int, delta: float) -> float:
    """Bound the eps of any `count` releases about one person, each of them like one of these, at this delta."""
    kinds = {replace(entry, people=0, phase=0, names=()) for entry in entries}
    if count > 1 and len(kinds) > 1 and all(kind.binomial is not None for kind in kinds):
        return _epsilon(count * np.max([_loss(kind) for kind in kinds], axis=0), delta)
    return max((compose([kind] * count, delta) for kind in kinds), default=0.0)


def _multiplier(entries: Sequence[Entry]) -> float:
    """Compute the noise multiplier of all Gaussian releases together; inf if there are none."""
    gaussian = [entry.multiplier for entry in entries if entry.multiplier is not None]
    return 1 / math.sqrt(sum(m**-2 for m in gaussian)) if gaussian else math.inf


def _loss(entry: Entry) -> Array:
    """Return the Rényi divergences of a release, and after them the probability that they leave out."""
    if entry.binomial is None:
        assert entry.multiplier is not None
        return np.append(ORDERS / (2 * entry.multiplier**2), 0.0)
    return np.append(*entry.binomial.divergences())


def _epsilon(loss: Array, delta: float) -> float:
    """Compute the eps of a sum of losses."""
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    *divergences, outside = loss.tolist()
    if outside >= delta or math.isinf(min(divergences)):
        return math.inf
    return float(compute_epsilon(ORDERS.tolist(), divergences, delta - outside)[0])


def _by_loss_distributions(entries: Sequence[Entry], delta: float) -> float:
    from dp_accounting.pld import common, privacy_loss_distribution

    losses = [
        privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(entry.epsilon, entry.delta)
        )
        for entry in entries
        if entry.multiplier is None
    ]
    multiplier = _multiplier(entries)
    if math.isfinite(multiplier):
        # The multiplier is already that of replace-one, so the library need not double the sensitivity.
        losses.append(privacy_loss_distribution.from_gaussian_mechanism(multiplier))
    total = losses[0]
    for loss in losses[1:]:
        total = total.compose(loss)
    return float(total.get_epsilon_for_delta(delta))
