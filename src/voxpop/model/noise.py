"""What is known of noise: how people vary, and what happens to everybody alike in a round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from voxpop.errors import Array

ASSUMED = 2.0  # the degrees of freedom of what is only assumed
SHOCK = 0.01  # the deviation of a shock, in units of v sqrt(max k), unless something is known
ALIKE = 5.0  # rounds that follow each other, in which shocks are alike
TRUST = 20  # people whose answers the model's v and sigma count as, where answers are seen
NEARBY = 4  # the power of the similarity with which what people show at one action counts for another


@dataclass(frozen=True, eq=False)
class Shown:
    """How many times the model's variance people's averages were seen to have, and how sure that is."""

    points: Array  # (rows, dimensions)
    ratios: Array  # (rows,)
    freedom: Array  # (rows,) degrees of freedom

    @classmethod
    def joined(cls, parts: Sequence[Shown]) -> Shown:
        """Put what several groups of people showed below each other."""
        columns = zip(*((part.points, part.ratios, part.freedom) for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


@dataclass(frozen=True)
class Shocks:
    """What happens to everybody alike in a round, such as the weather: its variance, and how sure that is."""

    variance: float  # of a round
    people: float = 0.0  # the part of the residuals' variance that people explain, in units of a round
    freedom: float = ASSUMED  # degrees of freedom of both together

    @property
    def known(self) -> bool:
        """True if waves, a history or a dated pilot have shown them."""
        return self.people > 0 or self.freedom > ASSUMED

    def measured(self, freedom: float, people: float) -> Shocks:
        """Return what is known after more residuals, of whose mean square people explain so much, if all is as now."""
        least = max(self.variance, np.finfo(float).tiny ** 0.25)
        here, there = self.freedom / (least + self.people) ** 2, freedom / (least + people) ** 2
        known = (here * self.people + there * people) / (here + there)
        return Shocks(self.variance, known, (here + there) * (least + known) ** 2)

    @property
    def expected(self) -> Shocks:
        """Return the same with the variance to expect, where residuals show little beyond people's part of them.

        The estimate is about Gaussian, with the error of a mean square, and no variance is negative.
        """
        if not self.people:
            return self
        error = (self.variance + self.people) * math.sqrt(2 / self.freedom)
        z = self.variance / error
        more = error * math.exp(-z * z / 2) / (math.sqrt(math.pi / 2) * math.erfc(-z / math.sqrt(2)))
        return replace(self, variance=self.variance + more)

    def at_most(self, inflation: float) -> float:
        """Return the variance to count with where an estimate with so many degrees of freedom is to be `inflation`."""
        return max(inflation * (self.variance + self.people) - self.people, self.variance)


class Manner(NamedTuple):
    """How people vary, where they vary as much as v and sigma say in all."""

    rough: float = 1.0  # times as much as k says between actions that are close
    own: float = 1.0  # times as much as sigma says between rounds, and as much less between people
