"""The privacy ledger: what was released about whom, and what that adds up to.

Each release is an entry; what it means is computed from the entries. People who take part once are protected by
their one release, whatever else the study released about others (ass:one-time); people who take part more often
by the composition of theirs, which dp-accounting's PLD accountant computes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from voxpop.errors import InputError, require_integer
from voxpop.privacy.gaussian import require_delta, require_epsilon


@dataclass(frozen=True)
class Entry:
    """One release.

    `multiplier` is the noise multiplier of a Gaussian mechanism (standard deviation over replace-one sensitivity);
    a mechanism without one is known by its (eps, delta).
    """

    mechanism: str
    users: int
    epsilon: float = math.inf
    delta: float = 0.0
    multiplier: float | None = None
    phase: int = 0
    people: tuple[str, ...] = ()  # pseudonyms, where they are known
    guaranteed: bool = True  # False: the printed calibration does not give what it claims


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
    """The entries of a study; a release that would pass the budget is refused before it is made."""

    budget: Budget | None = None
    entries: list[Entry] = field(default_factory=list)

    def charge(self, entry: Entry) -> None:
        """Record a release, or refuse it and change nothing."""
        self.check(entry)
        self.entries.append(entry)

    def check(self, entry: Entry) -> None:
        """Refuse a release that would pass the budget or ask someone too often."""
        if len(set(entry.people)) < len(entry.people):
            twice = next(person for person in entry.people if entry.people.count(person) > 1)
            raise InputError(f"{twice!r} is named twice in one release; count every person once")
        if self.budget is None:
            return
        groups = {tuple(self.releases_about(person)) for person in entry.people} or {()}
        for past in groups:
            if len(past) >= self.budget.participations:
                who = next(person for person in entry.people if tuple(self.releases_about(person)) == past)
                raise InputError(
                    f"{who!r} has taken part {len(past)} times and may {self.budget.participations}; ask someone else"
                )
            spent = compose([*past, entry], self.budget.delta)
            if spent > self.budget.epsilon * (1 + 1e-9):
                raise InputError(
                    f"this release would expose a person to epsilon {spent:.3g} at delta {self.budget.delta:g}, beyond "
                    f"the budget of {self.budget.epsilon:g}; spend less a release or raise the budget"
                )

    def releases_about(self, person: str) -> list[Entry]:
        """The releases that a person was part of."""
        return [entry for entry in self.entries if person in entry.people]

    def spent_by(self, person: str, delta: float) -> float:
        """The eps a person has been exposed to, at this delta."""
        return compose(self.releases_about(person), delta)

    def totals(self, delta: float) -> dict[str, Any]:
        """What the study released, and the eps of the most exposed person at this delta."""
        people = {person for entry in self.entries for person in entry.people}
        named = {tuple(self.releases_about(person)) for person in people}
        unnamed = {(entry,) for entry in self.entries if not entry.people}
        worst = max((compose(entries, delta) for entries in named | unnamed), default=0.0)
        return {
            "releases": len(self.entries),
            "users": sum(entry.users for entry in self.entries),
            "epsilon": None if math.isinf(worst) else worst,  # None: no promise
            "delta": delta,
            "guaranteed": all(entry.guaranteed for entry in self.entries),
        }

    def to_json(self) -> str:
        """The ledger as a JSON document; the eps of a release that was not private is null."""
        rows = [{**asdict(e), "epsilon": None if math.isinf(e.epsilon) else e.epsilon} for e in self.entries]
        return json.dumps({"budget": self.budget and asdict(self.budget), "entries": rows})


def compose(entries: Sequence[Entry] | Iterable[Entry], delta: float) -> float:
    """The eps of several releases about one person, at this delta; inf if one of them was not private."""
    entries = list(entries)
    if not entries:
        return 0.0
    if any(math.isinf(entry.epsilon) for entry in entries):
        return math.inf
    if len(entries) == 1 and entries[0].delta <= delta:
        return entries[0].epsilon
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    for entry in entries:
        if entry.multiplier is not None:
            # Relation: the multiplier is already that of replace-one, so the accountant's own doubling is not wanted.
            accountant.compose(dp_accounting.GaussianDpEvent(entry.multiplier))
        else:
            accountant.compose(dp_accounting.dp_event.EpsilonDeltaDpEvent(entry.epsilon, entry.delta))
    return float(accountant.get_epsilon(delta))
