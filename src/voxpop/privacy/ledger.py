"""The privacy ledger: what was released about whom, and what that adds up to.

Each release is an entry, and every exposure is computed from the entries. A person who takes part once is exposed to
that one release only, whatever the study releases about others (ass:one-time); a person who takes part more often is
exposed to the composition of their releases (`composition`). If an entry names its people, taking part too often is
refused. If it does not, its people are assumed to be new; the caller who draws them must make sure that they are.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from voxpop.core.errors import InputError, require_integer
from voxpop.privacy.composition import compose
from voxpop.privacy.entries import Entry
from voxpop.privacy.gaussian import require_delta, require_epsilon


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

    def charge(self, entry: Entry) -> None:
        """Check a release and record it; if it is refused, nothing is changed."""
        self.check(entry)
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

    def spent_by(self, person: str, delta: float) -> float:
        """Compute the eps that a person has been exposed to, at this delta."""
        return compose(self.releases_about(person), delta)

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

    def to_json(self) -> str:
        """Return the ledger as a JSON document; the eps of a release that was not private is null."""
        rows = [entry.as_dict() for entry in self.entries]
        return json.dumps({"budget": self.budget and asdict(self.budget), "entries": rows})

    def record(self, entry: Entry) -> None:
        """Add a release that was checked before it was made."""
        self.entries.append(entry)
        about = replace(entry, names=())  # comparing the names of all people for each of them would take long
        for person in entry.names:
            self._about.setdefault(person, []).append(about)
