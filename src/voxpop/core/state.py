"""What a policy carries from phase to phase: bounds on f for every action, and which can still be best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxpop.core.errors import Array
from voxpop.core.frozen import changed
from voxpop.core.phases import Answered, Feedback, Plan
from voxpop.core.problem import Indices, Problem

History = tuple[Answered, ...]


@dataclass(frozen=True, eq=False)
class State:
    """Frozen: the methods take new values for the active actions and return a new state.

    The lead of an action is its estimated advantage over something fixed (the incumbent of the phase, or nothing at
    all); actions are ranked by it. Bounds on f(x) - f(x') follow from two leads and their widths.
    """

    phase: int  # phases completed
    rounds: int  # rounds played
    active: Indices
    lower: Array  # (n,)
    upper: Array  # (n,)
    centre: Array  # (n,) the estimate whose interval was the narrowest
    lead: Array  # (n,)
    lead_width: Array  # (n,)
    norm_bound: float
    history: History = ()  # needed again when the norm bound is refuted
    memory: Any = None  # what a policy remembers besides

    @classmethod
    def prior(cls, problem: Problem, norm_bound: float) -> State:
        """Every action is active, and |f(x) - m(x)| <= B sqrt(k(x, x))."""
        reach, mean = norm_bound * np.sqrt(problem.prior_variance), problem.means
        everything = np.arange(problem.size)
        return cls(0, 0, everything, mean - reach, mean + reach, mean.copy(), mean.copy(), reach, norm_bound)

    def intersect(self, centre: Array, width: Array) -> State:
        """What also satisfies another interval for every active action."""
        lower, upper = self.lower[self.active], self.upper[self.active]
        sharper = width < (upper - lower) / 2
        return changed(
            self,
            lower=self._put(self.lower, np.maximum(lower, centre - width)),
            upper=self._put(self.upper, np.minimum(upper, centre + width)),
            centre=self._put(self.centre, np.where(sharper, centre, self.centre[self.active])),
        )

    def replace(self, centre: Array, width: Array) -> State:
        """Another interval instead for every active action."""
        return changed(
            self,
            lower=self._put(self.lower, centre - width),
            upper=self._put(self.upper, centre + width),
            centre=self._put(self.centre, centre),
        )

    def bounded(self, centre: Array, width: Array) -> State:
        """The same interval for everything: bounds, estimate and lead of every action."""
        lower, upper = centre - width, centre + width
        return changed(self, lower=lower, upper=upper, centre=centre, lead=centre, lead_width=width)

    def rank(self, lead: Array, width: Array) -> State:
        """Another lead for every active action."""
        return changed(self, lead=self._put(self.lead, lead), lead_width=self._put(self.lead_width, width))

    def eliminate(self, beaten: NDArray[np.bool_]) -> State:
        """Drop the active actions that are beaten or whose upper bound is below some lower bound."""
        lower, upper = self.lower[self.active], self.upper[self.active]
        return changed(self, active=self.active[~beaten & (upper >= lower.max())])

    def played(self, plan: Plan, memory: Any = None) -> State:
        """The phase is over."""
        return changed(self, phase=plan.phase, rounds=self.rounds + plan.length, memory=memory)

    def record(self, plan: Plan, feedback: Feedback) -> State:
        """The phase is over, and may be needed again."""
        return changed(self.played(plan), history=(*self.history, Answered(plan, feedback)))

    def contradicts(self) -> bool:
        """Whether no action is left, or some interval is empty by more than rounding."""
        slack = 1e-9 * np.maximum(np.abs(self.lower), np.abs(self.upper))
        return len(self.active) == 0 or bool(np.any(self.lower > self.upper + slack))

    def rounds_left(self, problem: Problem) -> int:
        """Rounds that can still teach something: none once a single action is left."""
        return 0 if len(self.active) == 1 else problem.horizon - self.rounds

    @property
    def best(self) -> int:
        """The active action of largest lead."""
        return int(self.active[np.argmax(self.lead[self.active])])

    @property
    def simple_regret(self) -> float:
        """No action is better than the best one by more than this."""
        best = self.best
        others = self.active[self.active != best]
        if not len(others):
            return 0.0
        by_bounds = float(self.upper[others].max() - self.lower[best])
        by_lead = float((self.lead + self.lead_width)[others].max() - (self.lead - self.lead_width)[best])
        return max(0.0, min(by_bounds, by_lead))

    def _put(self, values: Array, new: Array) -> Array:
        values = values.copy()
        values[self.active] = new
        return values
