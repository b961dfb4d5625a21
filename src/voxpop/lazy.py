"""Selection among many actions, without touching every action at every batch, and with the same arms.

The posterior variance of an action only falls, so a stale value is an upper bound (Minoux, 1978). A frontier, the few
actions of largest variance, is kept up to date batch by batch like a small problem. As long as its largest variance
exceeds every stale one outside, it is the largest of all; when it does not, all actions catch up with the batches they
missed, by matrix products, and a new frontier is drawn. With L the factor of the arms' regularised kernel matrix, whose
row for a batch is the arm's own row of V and the root of its total variance, the batches d..h are caught up with by

    V[:, d:h] = (K(all, arms d..h) - V[:, :d] L[d:h, :d]') L[d:h, d:h]'^-1.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import numpy as np
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.blas import dtrsm

from voxpop.errors import Array
from voxpop.memory import require_room
from voxpop.posterior import TIE, Batches, Posterior
from voxpop.problem import Indices, Problem
from voxpop.threads import load_compiled, pool

FRONTIER, LEAST_FRONTIER = 64, 256  # one in so many actions, and at least so many
CACHED = 2**16  # numbers that stay in a core's cache while a kernel is evaluated
TILE = 4096  # actions that are brought up to date together
PANEL = 64  # columns of the factor that are allocated together


class LazyPosterior(Batches):
    """The posterior variance of many candidate actions, as far as it must be known."""

    def __init__(self, problem: Problem, candidates: Indices) -> None:
        super().__init__(problem)
        compiled = load_compiled()  # for the kernel, too
        self._condition = condition if compiled is None else compiled.condition
        self.candidates, self.prior = candidates, problem.prior_variance[candidates]
        self._tile = min(TILE, len(candidates))
        self._tiles = -(-len(candidates) // self._tile)
        # The last tile is filled up with its last action, so that all tiles are whole.
        filled = np.minimum(np.arange(self._tiles * self._tile), len(candidates) - 1)
        points = problem.decisions.points[candidates[filled]].reshape(self._tiles, self._tile, -1)
        self._points = np.ascontiguousarray(points.transpose(0, 2, 1))  # (tiles, dimensions, actions of a tile)
        self._filled = self.prior[filled]
        self._panels: list[Array] = []  # V', (tiles, PANEL, actions of a tile) each
        self._root = np.zeros((PANEL, PANEL))  # L
        self._arms: list[int] = []  # the position of every row of L
        self._limit = PANEL  # rows of L at which merging repeated arms is considered
        self._begin()

    def most_uncertain(self) -> int:
        """The first position of largest variance; rounding, which differs between machines, does not decide."""
        if self._seen < len(self._arms):
            largest = float(self._front.variance.max())
            if len(self._arms) < self._limit and (1 - TIE) * largest > self._outside:
                return int(self._frontier[self._front.most_uncertain()])
            self._catch_up()
        return self._pick

    def variance_of(self, position: int) -> float:
        """The variance of the candidate that was just found most uncertain."""
        return self._front.variance_of(self._place(position))

    def observe(self, position: int, rounds: int) -> None:
        """Condition on a batch of rounds of the candidate that was just found most uncertain."""
        used, place = len(self._arms), self._place(position)
        if used == len(self._root):
            self._root = np.pad(self._root, (0, used))
        variance = self._front.variance_of(place)
        self._root[used, :used] = self._front.factor[place]
        self._root[used, used] = math.sqrt(variance + self.problem.ridge / rounds)
        self._arms.append(position)
        self._front.observe(place, rounds)
        self.record(position, rounds, variance)

    def _place(self, position: int) -> int:
        """Where a position is in the frontier."""
        return int(np.searchsorted(self._frontier, position))

    def _begin(self) -> None:
        """Nothing is conditioned on yet, or everything is to be conditioned on again."""
        self._seen = 0  # columns of V
        self._panels.clear()
        self.bytes = 0
        self._variance = self._filled.copy()
        self._draw_frontier()

    def _catch_up(self) -> None:
        """Bring every action up to date, and draw a new frontier."""
        if len(self._arms) >= self._limit:
            self._merge()
        while self._seen < len(self._arms):
            low, start = self._seen, self._seen % PANEL
            if start == 0:
                self._panels.append(self._panel())
            high = min(low - start + PANEL, len(self._arms))
            arms = self._points_of(self._arms[low:high])
            with pool() as workers:
                workers.map(partial(self._advance, arms, low, high), range(self._tiles))
            self._seen = high
        self._draw_frontier()

    def _advance(self, arms: Array, low: int, high: int, tile: int) -> None:
        """Condition one tile on some batches, whose columns are in the last panel."""
        start, variance = low % PANEL, self._variance[tile * self._tile : (tile + 1) * self._tile]
        new = self._panels[-1][tile, start : start + high - low]  # (batches, actions)
        step = max(1, CACHED // self._tile)
        for top in range(0, len(arms), step):
            self.problem.kernel.fill(new[top : top + step], arms[top : top + step], self._points[tile].T)
        for first, panel in zip(range(0, low, PANEL), self._panels, strict=False):
            last = min(first + PANEL, low)
            new -= self._root[low:high, first:last] @ panel[tile, : last - first]
        self._condition(self._root[low:high, low:high], new, variance)

    def _points_of(self, positions: list[int]) -> Array:
        """The points at some positions, (positions, dimensions)."""
        tiles, inside = np.divmod(positions, self._tile)
        return np.asarray(self._points[tiles, :, inside])

    def _panel(self) -> Array:
        self.bytes += self._tiles * self._tile * PANEL * 8
        require_room(self.bytes, len(self.candidates), f"{len(self._panels) * PANEL + PANEL} batches a phase")
        return np.empty((self._tiles, PANEL, self._tile))

    def _draw_frontier(self) -> None:
        """The actions of largest variance, now that all variances are exact, and the largest one that is left out."""
        variance = self._variance[: len(self.candidates)]
        self._pick = int((variance >= (1 - TIE) * variance.max()).argmax())
        size = min(max(len(variance) // FRONTIER, LEAST_FRONTIER), len(variance) - 1)
        parted = np.argpartition(-variance, size)
        self._outside = float(variance[parted[size]])
        self._frontier = np.union1d(parted[:size], [self._pick])  # in the order of the candidates, as ties are decided
        self._front = Posterior(self.problem, self.candidates[self._frontier])
        self._front.resume(variance[self._frontier], self._factor_of(self._frontier))

    def _factor_of(self, positions: Indices) -> Array:
        """The rows of V of some positions, (positions, columns)."""
        factor = np.empty((len(positions), self._seen))
        edges = np.searchsorted(positions, self._tile * np.arange(self._tiles + 1))
        for number, (low, high) in enumerate(pairwise(edges)):
            inside = positions[low:high] - number * self._tile
            for start, panel in zip(range(0, self._seen, PANEL), self._panels, strict=False):
                stop = min(start + PANEL, self._seen)
                factor[low:high, start:stop] = panel[number, : stop - start, inside]
        return factor

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
        self._arms, self._limit = positions.tolist(), max(PANEL, 2 * distinct)
        self._begin()


def condition(root: Array, columns: Array, variance: Array) -> None:
    """Solve root V' = columns in place, (batches, actions), and take the squares of V from the variances."""
    # In place: BLAS counts by columns, so to it these are the transposes.
    dtrsm(1.0, root, columns.T, side=1, lower=1, trans_a=1, overwrite_b=1)
    variance -= np.einsum("ij,ij->j", columns, columns)
    np.maximum(variance, 0.0, out=variance)
