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
from voxpop.model.words import counted, person_of
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
    gaussian = all(kind.multiplier is not None for kind in kinds)
    if count < 2 or len(kinds) < 2 or gaussian or not all(kind.private for kind in kinds):
        return max((compose([kind] * count, delta) for kind in kinds), default=0.0)
    if all(kind.multiplier is not None or kind.binomial is not None for kind in kinds):
        return _epsilon(count * np.max([_loss(kind) for kind in kinds], axis=0), delta)
    worst = Entry("any", 0, max(kind.epsilon for kind in kinds), max(kind.delta for kind in kinds))
    return compose([worst] * count, delta)


def of_group(entry: Entry, size: int) -> Entry:
    """Return a release as it exposes several people of it together, such as a household: they move it so much farther.

    >>> of_group(Entry("central", 9, 1.0, 1e-6, multiplier=4.0), 2).multiplier
    2.0
    """
    if size == 1:
        return entry
    multiplier = None if entry.multiplier is None else entry.multiplier / size
    binomial = None if entry.binomial is None else replace(entry.binomial, shift=size * entry.binomial.shift)
    delta = min(1.0, size * math.exp(min(700.0, (size - 1) * entry.epsilon)) * entry.delta)
    return replace(entry, multiplier=multiplier, binomial=binomial, epsilon=size * entry.epsilon, delta=delta)


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


@dataclass(repr=False)
class Ledger:
    """The entries of a study; a release that would exceed the budget is refused before it is made.

    >>> Ledger(Budget(5.0, 1e-6))
    <Ledger: nothing was released; everyone may be exposed to epsilon 5>
    """

    budget: Budget | None = None
    entries: list[Entry] = field(default_factory=list)
    _about: dict[str, list[Entry]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        entries, self.entries = self.entries, []
        for entry in entries:
            self.record(entry)

    def check(self, entry: Entry) -> None:
        """Refuse a release that would exceed the budget or in which someone takes part too often."""
        people = list(map(person_of, entry.names))
        if len(set(people)) < len(people):
            twice = next(name for name, person in zip(entry.names, people, strict=True) if people.count(person) > 1)
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

    def __str__(self) -> str:
        """Say what was released so far, and what that costs."""
        made = sum(entry.people for entry in self.entries)
        said = f"{counted(len(self.entries), 'release')} about {made:,} people"
        if self.budget is None:
            return f"nobody is promised anything; {said}"
        if not self.entries:
            return f"nothing was released; everyone may be exposed to epsilon {self.budget.epsilon:g}"
        worst = self.totals(self.budget.delta)["epsilon"]
        spent = "without limit" if worst is None else f"to epsilon {worst:.3g}"
        promised = f"of {self.budget.epsilon:g}, at delta {self.budget.delta:g}"
        return f"{said}; the most exposed are exposed {spent}, {promised}"

    def __repr__(self) -> str:
        """Say the same in a console."""
        return f"<Ledger: {self}>"

    def releases_about(self, person: str) -> list[Entry]:
        """Return the releases in which a person took part, without the names of the others."""
        return self._about.get(person_of(person), [])

    def totals(self, delta: float) -> dict[str, Any]:
        """Summarise the releases; epsilon is that of the most exposed person at this delta, None if unbounded."""
        worst = compose(self.worst(delta), delta)
        return {
            "releases": len(self.entries),
            "people": sum(entry.people for entry in self.entries),
            "epsilon": None if math.isinf(worst) else worst,
            "delta": delta,
            "guaranteed": all(entry.guaranteed for entry in self.entries),
        }

    def worst(self, delta: float, named: bool = True) -> tuple[Entry, ...]:
        """Return the releases about the most exposed person; without `named`, of those whom no release names."""
        exposures = {tuple(entries) for entries in self._about.values() if named}
        exposures |= {(entry,) for entry in self.entries if not entry.names}
        return max(exposures, key=lambda entries: compose(entries, delta), default=())

    @property
    def people(self) -> set[str]:
        """The names of the people who took part."""
        return set(self._about)

    def record(self, entry: Entry) -> None:
        """Add a release that was checked before it was made."""
        self.entries.append(entry)
        if entry.names:
            about = replace(entry, names=())  # comparing the names of all people for each of them would take long
            for person in map(person_of, entry.names):  # a journal of before may have several ways of writing one
                self._about.setdefault(person, []).append(about)


def exposure(ledgers: Sequence[Ledger], delta: float, size: int = 1, linked: bool = True) -> float:
    """Compute the eps of the most exposed person in several studies, or of this many who are always asked together.

    Who has a name is the same person in all studies, if names are `linked`. Others may be: then the most exposed person
    of each study counts.
    """
    pasts = {tuple(entry for ledger in ledgers for entry in ledger.worst(delta, named=not linked))}
    for person in set().union(*(ledger.people for ledger in ledgers)) if linked else ():
        about = (ledger.releases_about(person) or ledger.worst(delta, named=False) for ledger in ledgers)
        pasts.add(tuple(entry for entries in about for entry in entries))
    return max(compose([of_group(entry, size) for entry in past], delta) for past in pasts)
