"""Selection among many actions that does not touch every action at every batch, and still finds the same arms.

The posterior variance of an action only falls, so a stale value is an upper bound (Minoux, 1978). A frontier, the few
actions of largest variance, is kept up to date batch by batch like a small problem. As long as its largest variance
exceeds every stale one outside, it is the largest of all; when it does not, all actions catch up with the batches they
missed, by matrix products (`factor.py`), and a new frontier is drawn. A frontier of many actions is itself kept in this
way. Outside the frontier a bound is enough, so V may be in single precision there; the frontier, which decides, is in
double precision.
"""

from __future__ import annotations

import math

import numpy as np

from voxpop.core.errors import Array
from voxpop.core.problem import Indices, Problem
from voxpop.selection.batches import Batches
from voxpop.selection.dense import TIE, DensePosterior
from voxpop.selection.factor import PANEL, Factor
from voxpop.selection.rounding import Slack

FRONTIER, LEAST_FRONTIER = 64, 256  # a frontier is one in FRONTIER actions, and at least LEAST_FRONTIER of them
NESTED = 1024  # actions beyond which a frontier has a frontier of its own
WORTH_NARROWING, WORTH_WIDENING = 0.25, 0.5  # the slack as a share of the gap between the frontier and the rest


class Root:
    """L, the factor of the arms' regularised kernel matrix; an arm that was played twice has two rows."""

    def __init__(self) -> None:
        self.arms: list[int] = []
        self.matrix = np.zeros((PANEL, PANEL))  # with room for more batches

    def append(self, arm: int, row: Array, total: float) -> None:
        """Add a batch: the arm's own row of V, and the variance of the observation."""
        used = len(self.arms)
        if used == len(self.matrix):
            self.matrix = np.pad(self.matrix, (0, used))
        self.matrix[used, :used] = row
        self.matrix[used, used] = math.sqrt(total)
        self.arms.append(arm)

    def replace(self, arms: list[int], matrix: Array) -> None:
        """Replace L by another factor of the same posterior."""
        self.arms = arms
        self.matrix[: len(arms), : len(arms)] = matrix


class Layer:
    """Many candidate actions with a frontier, which is exact; the others have upper bounds."""

    def __init__(self, problem: Problem, candidates: Indices, root: Root, factor: Factor, may_narrow: bool) -> None:
        self.problem, self.candidates, self._root, self._factor = problem, candidates, root, factor
        self._slack = Slack(float(problem.prior_variance[candidates].max()), PANEL)
        self._next_try = PANEL if may_narrow else math.inf  # columns at which to try single precision
        self._draw_frontier()

    def most_uncertain(self) -> int:
        """Find the first position of largest variance; variances within `TIE` tie, so that rounding does not decide."""
        while True:
            place = self._front.most_uncertain()
            decided = (1 - TIE) * self._front.variance_of(place) > self._outside  # and no tie with the rest
            if decided or not self._sharpen():
                return int(self._frontier[place])

    def variance_of(self, position: int) -> float:
        """Return the variance of the candidate that was just found most uncertain."""
        return self._front.variance_of(self._place(position))

    def row_of(self, position: int) -> Array:
        """Return the row of V of the candidate that was just found most uncertain."""
        return self._front.row_of(self._place(position))

    def observe(self, position: int, rounds: int) -> None:
        """Condition on a batch of rounds of the candidate that was just found most uncertain."""
        self._front.observe(self._place(position), rounds)

    def _place(self, position: int) -> int:
        """Find the place of a position in the frontier."""
        return int(np.searchsorted(self._frontier, position))

    def _seen(self) -> Array:
        """Return L of the batches that all actions are conditioned on."""
        return self._root.matrix[: self._factor.columns, : self._factor.columns]

    def _sharpen(self) -> bool:
        """Sharpen the bounds; return False if all are exact, so that the first of the largest is in the frontier."""
        if self._factor.columns < len(self._root.arms):
            self._catch_up()
        elif self._factor.single:
            self._widen()
        else:
            return False
        return True

    def _catch_up(self) -> None:
        """Bring every action up to date, draw a new frontier, and choose the precision to continue with."""
        self._factor.extend(self._root.matrix, self._root.arms)
        self._draw_frontier()
        gap = self._front.variance_of(self._front.most_uncertain()) - self._outside
        if self._factor.single:
            slack = self._slack.of(self._seen())
            self._outside += slack
            if slack > WORTH_WIDENING * gap:
                self._widen()
        elif self._worth_narrowing(WORTH_NARROWING * gap):
            self._factor.narrow()

    def _worth_narrowing(self, most: float) -> bool:
        """Return True if single precision has a slack below `most`; tried only now and then, because it takes time."""
        size = self._factor.columns
        if size < self._next_try or self._slack.at_least(size) >= most:
            return False
        self._next_try = size + size // 4
        return self._slack.of(self._seen()) < most

    def _widen(self) -> None:
        """Start over in double precision, and stay there."""
        self._next_try = math.inf
        self._factor.clear()
        self._catch_up()

    def _draw_frontier(self) -> None:
        """Take the actions of largest variance, and the first of the largest; remember the largest variance outside."""
        variance = self._factor.variance
        first = int((variance >= (1 - TIE) * variance.max()).argmax())
        size = min(max(len(variance) // FRONTIER, LEAST_FRONTIER), len(variance) - 1)
        parted = np.argpartition(-variance, size)
        self._outside = float(variance[parted[size]])
        self._frontier = np.union1d(parted[:size], [first])  # in the order of the candidates, as ties are decided
        self._front = self._exactly(self._frontier)

    def _exactly(self, positions: Indices) -> Layer | DensePosterior:
        """Return the exact posterior of some positions, in double precision."""
        chosen = self.candidates[positions]
        factor = Factor(self.problem, chosen)
        if self._factor.single:
            factor.extend(self._root.matrix, self._root.arms[: self._factor.columns])
        else:
            factor.adopt(self._factor.of(positions), self._factor.variance[positions])
        if len(chosen) > NESTED:
            return Layer(self.problem, chosen, self._root, factor, may_narrow=False)
        return DensePosterior(self.problem, chosen).resume(factor.variance, factor.of(np.arange(len(chosen))))


class LazyPosterior(Batches):
    """The posterior variance of many candidate actions, computed only as far as needed."""

    def __init__(self, problem: Problem, candidates: Indices) -> None:
        super().__init__(problem, candidates)
        self._root, self._limit = Root(), PANEL  # rows of L at which merging repeated arms is considered
        self._layer = self._begin()

    def most_uncertain(self) -> int:
        """Find the first position of largest variance; variances within `TIE` tie, so that rounding does not decide."""
        if len(self._root.arms) >= self._limit:
            self._merge()
        return self._layer.most_uncertain()

    def variance_of(self, position: int) -> float:
        """Return the variance of the candidate that was just found most uncertain."""
        return self._layer.variance_of(position)

    def observe(self, position: int, rounds: int) -> None:
        """Condition on a batch of rounds of the candidate that was just found most uncertain."""
        variance = self._layer.variance_of(position)
        total = variance + self.problem.ridge / rounds
        self._root.append(int(self.candidates[position]), self._layer.row_of(position), total)
        self._layer.observe(position, rounds)
        self.record(position, rounds, variance)

    def _begin(self) -> Layer:
        factor = Factor(self.problem, self.candidates)
        factor.extend(self._root.matrix, self._root.arms)
        return Layer(self.problem, self.candidates, self._root, factor, may_narrow=True)

    def _merge(self) -> None:
        """Start over with the factor of the merged arms, if it has at most half as many rows."""
        self._limit *= 2
        merged = self.merged(len(self._root.arms))
        if merged is None:
            return
        arms, root = merged
        self._root.replace(arms.tolist(), root)
        self._limit = max(PANEL, 2 * len(arms))
        self._layer = self._begin()
