"""Selection among many actions, without touching every action at every batch, and with the same arms.

The posterior variance of an action only falls, so a stale value is an upper bound (Minoux, 1978). A frontier, the few
actions of largest variance, is kept up to date batch by batch like a small problem. As long as its largest variance
exceeds every stale one outside, it is the largest of all; when it does not, all actions catch up with the batches they
missed, by matrix products (`factor.py`), and a new frontier is drawn. Outside the frontier a bound is enough, so V may
be in single precision there; the frontier itself, which decides, is in double precision.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from voxpop.errors import Array
from voxpop.factor import PANEL, Factor
from voxpop.posterior import TIE, Batches, Posterior
from voxpop.problem import Indices, Problem
from voxpop.rounding import Slack

FRONTIER, LEAST_FRONTIER = 64, 256  # one in so many actions, and at least so many
WORTH_NARROWING, WORTH_WIDENING = 0.25, 0.5  # the slack as a share of the gap between the frontier and the rest

EXACTLY = 512  # positions that are conditioned together


class LazyPosterior(Batches):
    """The posterior variance of many candidate actions, as far as it must be known."""

    def __init__(self, problem: Problem, candidates: Indices) -> None:
        super().__init__(problem)
        self.candidates, self.prior = candidates, problem.prior_variance[candidates]
        self._factor = Factor(problem, candidates)
        self._slack, self._next_try = self._new_slack(), float(PANEL)  # columns at which to try single precision
        self._root = np.zeros((PANEL, PANEL))  # L; its row for a batch is the arm's row of V and a root of a variance
        self._arms: list[int] = []  # the position of every row of L
        self._limit = PANEL  # rows of L at which merging repeated arms is considered
        self._draw_frontier()

    def most_uncertain(self) -> int:
        """The first position of largest variance; rounding, which differs between machines, does not decide."""
        if len(self._arms) >= self._limit:
            self._merge()
        while not self._decided():
            if self._factor.columns < len(self._arms):
                self._catch_up()
            elif self._factor.single:
                self._widen()
            else:
                return self._pick
        return int(self._frontier[self._front.most_uncertain()])

    def variance_of(self, position: int) -> float:
        """The variance of the candidate that was just found most uncertain."""
        return self._front.variance_of(self._place(position))

    def observe(self, position: int, rounds: int) -> None:
        """Condition on a batch of rounds of the candidate that was just found most uncertain."""
        used, place = len(self._arms), self._place(position)
        if used == len(self._root):
            self._root = np.pad(self._root, (0, used))
        variance = self._front.variance_of(place)
        self._root[used, :used] = self._front.factor[:, place]
        self._root[used, used] = math.sqrt(variance + self.problem.ridge / rounds)
        self._arms.append(position)
        self._front.observe(place, rounds)
        self.record(position, rounds, variance)

    def _new_slack(self) -> Slack:
        return Slack(float(self.prior.max()), PANEL)

    def _decided(self) -> bool:
        """Whether the frontier has the largest variance of all, and no tie with the rest."""
        return (1 - TIE) * self._largest() > self._outside

    def _largest(self) -> float:
        return float(self._front.variance.max())

    def _place(self, position: int) -> int:
        """Where a position is in the frontier."""
        return int(np.searchsorted(self._frontier, position))

    def _seen(self) -> Array:
        """L of the batches that all actions are conditioned on."""
        return self._root[: self._factor.columns, : self._factor.columns]

    def _catch_up(self) -> None:
        """Bring every action up to date, draw a new frontier, and choose the precision to go on with."""
        self._factor.extend(self._root, self._arms)
        self._draw_frontier()
        gap = self._largest() - self._outside
        if self._factor.single:
            slack = self._slack.of(self._seen())
            self._outside += slack
            if slack > WORTH_WIDENING * gap:
                self._widen()
        elif self._worth_narrowing(WORTH_NARROWING * gap):
            self._factor.narrow()

    def _worth_narrowing(self, most: float) -> bool:
        """Whether the slack of single precision would be less than this; seldom asked, as finding out takes time."""
        size = len(self._arms)
        if size < self._next_try or self._slack.at_least(size) >= most:
            return False
        self._next_try = size + size // 4
        return self._slack.of(self._seen()) < most

    def _widen(self) -> None:
        """Begin again, in double precision for good."""
        self._next_try = math.inf
        self._factor.clear()
        self._catch_up()

    def _draw_frontier(self) -> None:
        """The actions of largest variance, and the largest one that is left out."""
        variance = self._factor.variance
        self._pick = int((variance >= (1 - TIE) * variance.max()).argmax())
        size = min(max(len(variance) // FRONTIER, LEAST_FRONTIER), len(variance) - 1)
        parted = np.argpartition(-variance, size)
        self._outside = float(variance[parted[size]])
        self._frontier = np.union1d(parted[:size], [self._pick])  # in the order of the candidates, as ties are decided
        self._front = Posterior(self.problem, self.candidates[self._frontier])
        self._front.resume(*self._exactly(self._frontier))

    def _exactly(self, positions: Indices) -> tuple[Array, Array]:
        """The variances of some positions, and their columns of V', in double precision."""
        if not self._factor.single:
            return self._factor.variance[positions], self._factor.of(positions)
        root, arms = self._seen(), self.candidates[self._arms[: self._factor.columns]]
        factor = np.empty((len(arms), len(positions)))
        for start in range(0, len(positions), EXACTLY):
            block = self.candidates[positions[start : start + EXACTLY]]
            solved = solve_triangular(root, self.problem.covariance(arms, block), lower=True, check_finite=False)
            factor[:, start : start + EXACTLY] = solved
        variance = self.prior[positions] - np.einsum("ij,ij->j", factor, factor)
        return np.maximum(variance, 0.0), factor

    def _merge(self) -> None:
        """Begin again with the factor of the merged arms, if that is at most half as wide."""
        self._limit *= 2
        distinct = len(self.pulls)
        if 2 * distinct > len(self._arms):
            return
        positions = np.fromiter(self.pulls, dtype=np.intp)
        pulls = np.fromiter(self.pulls.values(), dtype=float)
        try:
            root = cholesky(self.problem.regularised(self.candidates[positions], pulls), lower=True)
        except LinAlgError:  # too close to singular for a factorisation from scratch: keep the sequential one
            return
        self._root[:distinct, :distinct] = root
        self._arms, self._limit, self._slack = positions.tolist(), max(PANEL, 2 * distinct), self._new_slack()
        self._factor.clear()
        self._catch_up()
