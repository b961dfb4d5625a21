"""What an elimination policy holds to be true of f: bounds on every action, and which can still be best."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from voxpop.errors import Array
from voxpop.problem import Indices, Problem


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Bounds on f; the methods take new values for the active actions and return new beliefs."""

    active: Indices
    lower: Array  # (n,)
    upper: Array  # (n,)
    centre: Array  # (n,) the estimate whose interval was the narrowest
    lead: Array  # (n,) the latest estimate of how much better an action is than the plan's reference

    @classmethod
    def prior(cls, problem: Problem, norm_bound: float) -> Beliefs:
        """|f(x) - m(x)| <= B sqrt(k(x, x))."""
        reach, mean = norm_bound * np.sqrt(problem.prior_variance), problem.means
        return cls(np.arange(problem.size), mean - reach, mean + reach, mean.copy(), mean.copy())

    def intersect(self, centre: Array, width: Array) -> Beliefs:
        """What also satisfies another interval for every active action."""
        lower, upper = self.lower[self.active], self.upper[self.active]
        sharper = width < (upper - lower) / 2
        return replace(
            self,
            lower=self._put(self.lower, np.maximum(lower, centre - width)),
            upper=self._put(self.upper, np.minimum(upper, centre + width)),
            centre=self._put(self.centre, np.where(sharper, centre, self.centre[self.active])),
        )

    def replace(self, centre: Array, width: Array) -> Beliefs:
        """Another interval instead for every active action."""
        return replace(
            self,
            lower=self._put(self.lower, centre - width),
            upper=self._put(self.upper, centre + width),
            centre=self._put(self.centre, centre),
        )

    def leading(self, lead: Array) -> Beliefs:
        """Another estimate of how far ahead every active action is."""
        return replace(self, lead=self._put(self.lead, lead))

    def eliminate(self, beaten: NDArray[np.bool_]) -> Beliefs:
        """Drop the active actions that are beaten or whose upper bound is below some lower bound."""
        lower, upper = self.lower[self.active], self.upper[self.active]
        return replace(self, active=self.active[~beaten & (upper >= lower.max())])

    def contradict(self) -> bool:
        """Whether no action is left, or some interval is empty by more than rounding."""
        slack = 1e-9 * np.maximum(np.abs(self.lower), np.abs(self.upper))
        return len(self.active) == 0 or bool(np.any(self.lower > self.upper + slack))

    def _put(self, values: Array, new: Array) -> Array:
        values = values.copy()
        values[self.active] = new
        return values
