"""An entry of the ledger: one release, the people in it, and the noise that protects them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from voxpop.privacy.binomial import Binomial


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
    phase: int = 0
    names: tuple[str, ...] = ()  # pseudonyms of the people, where they are known
    binomial: Binomial | None = None
    honest: float = 1.0  # the share of the people whose own devices are counted on to add noise
    guaranteed: bool = True  # False: the printed calibration does not give what it claims

    @property
    def private(self) -> bool:
        """True if it promises anything."""
        return self.guaranteed and math.isfinite(self.epsilon)

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as plain data; its eps is None if it promises nothing."""
        return {**asdict(self), "epsilon": self.epsilon if self.private else None}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Entry:
        """Read what `as_dict` wrote."""
        epsilon = math.inf if row["epsilon"] is None else row["epsilon"]
        noise = row.get("binomial")
        binomial = None if noise is None else Binomial(**noise)
        return cls(**{**row, "epsilon": epsilon, "names": tuple(row["names"]), "binomial": binomial})
