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
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from voxpop.errors import Array, InputError
from voxpop.gp.factor import PANEL, Factor, Slack
from voxpop.gp.posterior import TIE, Batches, DensePosterior
from voxpop.model.problem import GRAM_LIMIT, Indices, Problem

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


BatchRule = Literal["corrected", "printed", "single"]

MOST_BATCHES = 1_000_000  # per wave, unless every batch is meant to be one round
REMEDY = "use the corrected batch rule, a larger ratio, a smaller ridge or a shorter horizon"
RESOLVED = 1e-14  # a posterior variance below this share of the prior's is rounding error


@dataclass(frozen=True, eq=False)
class Selection:
    """The merged result of one wave's greedy selection."""

    arms: Indices
    pulls: Indices
    batches: int  # H_l before merging (lem:bound_h)
    information_gain: float


def select(problem: Problem, active: Indices, rounds: int, ratio: float, rule: BatchRule = "corrected") -> Selection:
    """Fill a wave with batches of the action of largest posterior variance (eq:decision).

    The printed batch length floor((C^2 - 1) / Sigma^2) lacks the factor lambda of the corrected rule; both are at
    least one round, or the wave would never end. With the rule "single" every batch is one round.

    >>> from voxpop.model.kernels import SquaredExponential
    >>> p = Problem([0.0, 0.5, 1.0], SquaredExponential(0.2), 0.01, 0.1, norm_bound=1.0, horizon=100)
    >>> chosen = select(p, np.arange(3), rounds=10, ratio=1.6)
    >>> chosen.arms.tolist(), chosen.pulls.tolist()
    ([0, 2, 1], [5, 3, 2])
    """
    scale = batch_scale(problem, ratio, rule)
    posterior = LazyPosterior if len(active) > GRAM_LIMIT else DensePosterior
    return fill(posterior(problem, active), active, rounds, scale)


def least_batches(problem: Problem, active: Indices, rounds: int, scale: float) -> float:
    """Bound the number of batches of a wave from below, for any kernel.

    After t rounds the action of largest prior variance k still has at least lambda k / (lambda + t k), since playing
    it alone tells most about it. So no batch at time t is longer than max(1, scale (lambda + t k) / (lambda k)).
    """
    prior, ridge = float(problem.prior_variance[active].max()), problem.ridge
    if scale == 0:
        return rounds
    single = min(max(ridge / scale - ridge / prior, 0.0), rounds)  # batches are one round long until then
    return single + ridge / scale * math.log((ridge + rounds * prior) / (ridge + single * prior)) / (1 + TIE)


def require_end(problem: Problem, rounds: int, ratio: float, rule: BatchRule) -> None:
    """Refuse batches so short that a wave of `rounds` rounds would not end in reasonable time."""
    scale = batch_scale(problem, ratio, rule)
    least = least_batches(problem, np.arange(problem.size), rounds, scale)
    if scale > 0 and least > MOST_BATCHES:
        raise InputError(f"a wave of {rounds:,} rounds takes {least:,.0f} batches by the {rule} rule; {REMEDY}")


def batch_scale(problem: Problem, ratio: float, rule: BatchRule) -> float:
    """Return the length of a batch times the variance of its action."""
    return (ratio**2 - 1) * {"corrected": problem.ridge, "printed": 1.0, "single": 0.0}[rule]


def fill(posterior: DensePosterior | LazyPosterior, active: Indices, rounds: int, scale: float) -> Selection:
    """Play batches of the most uncertain action until the rounds are spent."""
    resolved = RESOLVED * float(posterior.prior.max())
    while rounds > 0:
        position = posterior.most_uncertain()
        variance = posterior.variance_of(position)
        nothing_left = variance <= resolved or scale >= rounds * variance
        batch = rounds if nothing_left else min(rounds, max(1, int(scale / variance * (1 + TIE))))
        posterior.observe(position, batch)
        rounds -= batch
        if posterior.batches >= MOST_BATCHES and scale > 0 and rounds > 0:
            raise InputError(f"{MOST_BATCHES:,} batches left {rounds:,} rounds of a wave to play; {REMEDY}")
    positions = np.fromiter(posterior.pulls, dtype=np.intp)
    pulls = np.fromiter(posterior.pulls.values(), dtype=np.intp)
    return Selection(active[positions], pulls, posterior.batches, posterior.information_gain)


@lru_cache(maxsize=64)
def greedy_information_gain(problem: Problem) -> float:
    """Bound gamma_T from below: greedy selection gains at least 1 - 1/e of the maximum."""
    return select(problem, np.arange(problem.size), problem.horizon, 1.6).information_gain
