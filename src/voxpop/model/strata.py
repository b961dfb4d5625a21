"""Strata: parts of the population with known shares, from which a wave's people may come unevenly.

With shares w_s, n_s people of stratum s and their averages y_s, the estimate is the sum of w_s y_s. Its expectation is
that of the whole population however many answered where, and its noise is that of a plain average of

    n_eff = 1 / sum of w_s^2 / n_s      (Kish)

people, which is n if everyone is drawn in proportion to the shares, and less otherwise. docs/mathematics.md proves it,
in "People sampled unevenly".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from voxpop.errors import Array, InputError, require_choice, require_number
from voxpop.model.problem import Indices
from voxpop.model.waves import Feedback, averaged

ROUNDED = 1e-3  # shares may add up to one within this, as people round them


@dataclass(frozen=True)
class Strata:
    """The parts of a population and their shares, which add up to one.

    >>> strata = Strata({"young": 0.3, "old": 0.7})
    >>> strata.allocate(25)
    {'young': 8, 'old': 17}
    >>> strata.sample(["young"] * 10 + ["old"] * 10).effective
    17.24137931034483
    """

    shares: Mapping[str, float]

    def __post_init__(self) -> None:
        given: object = self.shares
        if not isinstance(given, Mapping) or len(given) < 2:
            raise InputError(
                f"strata must name at least two parts of the population with their shares, got {given!r}; "
                "write them like {'young': 0.3, 'old': 0.7}, or leave strata out"
            )
        shares = {
            str(name): require_number(f"the share of stratum {str(name)!r}", share, above=0, below=1)
            for name, share in given.items()
        }
        total = math.fsum(shares.values())
        if len(shares) < len(given) or abs(total - 1) > ROUNDED:
            raise InputError(
                f"the shares of the strata must add up to 1, got {total:g}; give every stratum once, with its share of "
                "the population"
            )
        exact = abs(total - 1) < 1e-12  # so that shares that were saved are read as they were
        whole = shares if exact else {name: share / total for name, share in shares.items()}
        object.__setattr__(self, "shares", whole)

    def find(self, stratum: object) -> str:
        """Return the name of a stratum, or refuse one that is unknown."""
        return require_choice("stratum", str(stratum), self.shares)

    def allocate(self, people: int, least: int = 1) -> dict[str, int]:
        """Say how many people to draw from each stratum: in proportion, by largest remainders, and at least `least`.

        >>> Strata({"a": 0.5, "b": 0.49, "c": 0.01}).allocate(10)
        {'a': 5, 'b': 4, 'c': 1}
        """
        people = max(people, least * len(self.shares))
        quotas = {name: share * people for name, share in self.shares.items()}
        found = {name: max(least, math.floor(quota)) for name, quota in quotas.items()}
        while (left := people - sum(found.values())) != 0:
            able = [name for name in found if left > 0 or found[name] > least]
            most = max(able, key=lambda name: math.copysign(1, left) * (quotas[name] - found[name]))
            found[most] += 1 if left > 0 else -1
        return found

    def quotas(self, offsets: Array) -> dict[str, int]:
        """Say how many of len(offsets) people to draw from each stratum, in proportion and rounded without bias.

        The strata lie side by side on a line as long as there are people, and unit k of it takes the stratum in which
        k + offset lies. For independent uniform offsets each stratum gets its share on average, and less than two
        people more or fewer.

        >>> Strata({"young": 0.3, "old": 0.7}).quotas(np.full(5, 0.2))
        {'young': 2, 'old': 3}
        """
        ends = np.cumsum(list(self.shares.values()))[:-1]
        points = (np.arange(len(offsets)) + offsets) / len(offsets)
        counts = np.bincount(np.searchsorted(ends, points, side="right"), minlength=len(self.shares))
        return dict(zip(self.shares, counts.tolist(), strict=True))

    def sample(self, strata: Sequence[object]) -> Sample:
        """Weigh people of whom each one's stratum is known."""
        named = np.array([self.find(stratum) for stratum in strata])
        return Sample(self, {name: np.flatnonzero(named == name) for name in self._each(set(named.tolist()))})

    def average(self, parts: Mapping[str, Feedback]) -> Feedback:
        """Average the averages of all strata; a stratum without anyone is refused."""
        return averaged([(self.shares[name], parts[name]) for name in self._each(parts)])

    def _each(self, found: Mapping[str, object] | set[str]) -> list[str]:
        """Return the names of all strata, or refuse a sample in which one is missing."""
        for name, share in self.shares.items():
            if name not in found:
                raise InputError(
                    f"nobody of stratum {name!r} answered, which is {share:.2g} of the population, and the others "
                    "cannot stand for it; ask someone there, or begin a study in which it is merged with a stratum "
                    "like it"
                )
        return list(self.shares)


@dataclass(frozen=True, eq=False)
class Sample:
    """The people of a wave by stratum. One of the n_s people of stratum s has the weight p = w_s / n_s."""

    strata: Strata
    members: Mapping[str, Indices]  # the rows of each stratum's people

    @cached_property
    def weights(self) -> Array:
        """The weight of each person, (people,)."""
        weights = np.empty(sum(map(len, self.members.values())))
        for name, rows in self.members.items():
            weights[rows] = self.strata.shares[name] / len(rows)
        return weights

    @property
    def effective(self) -> float:
        """The number of people whose plain average is as noisy: n_eff = 1 / sum of p^2."""
        shares = self.strata.shares
        return 1 / math.fsum(shares[name] ** 2 / len(rows) for name, rows in self.members.items())

    @property
    def equivalent(self) -> int:
        """The number of people in whose plain average anyone weighs at least as much: the floor of 1 / max p."""
        return math.floor((1 + 1e-12) / float(self.weights.max()))  # 30 / 0.3 people are a hundred

    @property
    def factors(self) -> Array:
        """The weights as multiples of one in `equivalent`, (people,); none is above one."""
        return np.minimum(1.0, self.weights * self.equivalent)
