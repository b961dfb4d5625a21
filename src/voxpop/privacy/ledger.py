"""The privacy ledger: what was released about whom, and what that adds up to.

Each release is an entry, and every exposure is computed from the entries. A person who takes part once is exposed to
that one release only, whatever the study releases about others (ass:one-time); a person who takes part more often is
exposed to the composition of their releases (`composition`). If an entry names its people, taking part too often is
refused. If it does not, its people are assumed to be new; the caller who draws them must make sure that they are.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from voxpop.errors import Array, InputError, require_integer
from voxpop.privacy.binomial import ORDERS, Binomial
from voxpop.privacy.gaussian import epsilon_of, require_delta, require_epsilon


@dataclass(frozen=True)
class Entry:
    """One release.

    `multiplier` is the noise multiplier of a Gaussian model (standard deviation divided by replace-one sensitivity),
    and `binomial` the noise of the shuffle model. A release with neither is composed by its (eps, delta).
    """

    model: str
    people: int
    epsilon: float = math.inf
    delta: float = 0.0
    multiplier: float | None = None
    wave: int = 0
    names: tuple[str, ...] = ()  # pseudonyms of the people, where they are known
    binomial: Binomial | None = None
    honest: float = 1.0  # the share of the people whose own devices are counted on to add noise
    guaranteed: bool = True  # False: the printed calibration does not give what it claims

    @property
    def private(self) -> bool:
        """True if it promises anything."""
        return self.guaranteed and math.isfinite(self.epsilon)


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
    kinds = {replace(entry, people=0, wave=0, names=()) for entry in entries}
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


@dataclass(frozen=True)
class Budget:
    """What one person may be exposed to in a study."""

    epsilon: float
    delta: float
    participations: int = 1

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_delta(self.delta)
        require_integer("participations", self.participations, least=1)


@dataclass
class Ledger:
    """The entries of a study; a release that would exceed the budget is refused before it is made."""

    budget: Budget | None = None
    entries: list[Entry] = field(default_factory=list)
    _about: dict[str, list[Entry]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        entries, self.entries = self.entries, []
        for entry in entries:
            self.record(entry)

    def check(self, entry: Entry) -> None:
        """Refuse a release that would exceed the budget or in which someone takes part too often."""
        if len(set(entry.names)) < len(entry.names):
            twice = next(person for person in entry.names if entry.names.count(person) > 1)
            raise InputError(f"{twice!r} is named twice in one release; count every person once")
        if len(entry.names) not in (0, entry.people):
            raise InputError(
                f"the release is about {entry.people} people and names {len(entry.names)}; name all or none"
            )
        if self.budget is None:
            return
        pasts = {tuple(self.releases_about(person)): person for person in reversed(entry.names)} or {(): ""}
        for past, person in pasts.items():
            if len(past) >= self.budget.participations:
                raise InputError(
                    f"{person!r} has taken part {len(past)} times, of {self.budget.participations}; ask someone else"
                )
            spent = compose((*past, entry), self.budget.delta)
            if spent > self.budget.epsilon * (1 + 1e-9):
                raise InputError(
                    f"this release would expose a person to epsilon {spent:.3g} at delta {self.budget.delta:g}, beyond "
                    f"the budget of {self.budget.epsilon:g}; spend less per release or raise the budget"
                )

    def releases_about(self, person: str) -> list[Entry]:
        """Return the releases in which a person took part, without the names of the others."""
        return self._about.get(person, [])

    def totals(self, delta: float) -> dict[str, Any]:
        """Summarise the releases; epsilon is that of the most exposed person at this delta, None if unbounded."""
        exposures = {tuple(entries) for entries in self._about.values()}
        exposures |= {(entry,) for entry in self.entries if not entry.names}
        worst = max((compose(entries, delta) for entries in exposures), default=0.0)
        return {
            "releases": len(self.entries),
            "people": sum(entry.people for entry in self.entries),
            "epsilon": None if math.isinf(worst) else worst,
            "delta": delta,
            "guaranteed": all(entry.guaranteed for entry in self.entries),
        }

    def record(self, entry: Entry) -> None:
        """Add a release that was checked before it was made."""
        self.entries.append(entry)
        if entry.names:
            about = replace(entry, names=())  # comparing the names of all people for each of them would take long
            for person in entry.names:
                self._about.setdefault(person, []).append(about)
