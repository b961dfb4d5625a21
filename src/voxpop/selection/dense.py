"""The posterior variance of some candidate actions while batches are being played, updated after every batch.

A batch of `t` rounds of one action is one Gaussian observation of variance lambda/t, so conditioning on it changes
the posterior covariance by one rank:

    c(x)  = cov(x, a)
    cov  <- cov - c c' / (cov(a, a) + lambda / t)

A factor V with cov = K - V V' gives the column c in O(n h) after h batches. Repeating an action is one more
observation; the result is the posterior of the merged arms (lem:equivalent_representation).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_triangular

from voxpop.core.errors import Array
from voxpop.core.problem import GRAM_LIMIT, Indices, Problem
from voxpop.selection.batches import Batches

TIE = 1e-9  # variances within this share of each other count as equal


class DensePosterior(Batches):
    """The posterior variance of some candidate actions while batches are being played."""

    def __init__(self, problem: Problem, candidates: Indices) -> None:
        super().__init__(problem, candidates)
        small = problem.size <= GRAM_LIMIT
        self._gram = problem.covariance(candidates, candidates) if small else None
        self.variance = self.prior.copy()  # Sigma^2_h
        self._factor = np.empty((32, len(candidates)))  # V', (capacity, candidates)
        self._used = 0
        self._complete = True

    @property
    def factor(self) -> Array:
        """V' with cov = K - V V', (batches or fewer, candidates)."""
        return self._factor[: self._used]

    def row_of(self, position: int) -> Array:
        """Return the row of V of the candidate at this position."""
        return self.factor[:, position]

    def resume(self, variance: Array, factor: Array) -> DensePosterior:
        """Continue from given variances and V'; the batches behind them are not known here and cannot be merged."""
        self.variance, self._used, self._complete = variance, len(factor), False
        self._factor = factor
        return self

    def most_uncertain(self) -> int:
        """Find the first position of largest variance; variances within `TIE` tie, so that rounding does not decide."""
        return int((self.variance >= (1 - TIE) * self.variance.max()).argmax())

    def variance_of(self, position: int) -> float:
        """Return the variance of the candidate at this position."""
        return float(self.variance[position])

    def observe(self, position: int, rounds: int) -> None:
        """Condition on a batch of rounds of the candidate at this position."""
        if self._used == len(self._factor):
            self._make_room()
        variance, noise = self.variance[position], self.problem.ridge / rounds
        past = self.factor
        column = np.subtract(self._column(position), past[:, position] @ past, out=self._factor[self._used])
        column /= math.sqrt(variance + noise)
        self._used += 1
        self.variance -= column * column
        np.maximum(self.variance, 0.0, out=self.variance)
        self.record(position, rounds, float(variance))

    def _column(self, position: int) -> Array:
        """Compute k(x, a) for every candidate x."""
        if self._gram is not None:
            return np.asarray(self._gram[position])
        return self.problem.covariance(self.candidates, self.candidates[position : position + 1])[:, 0]

    def _make_room(self) -> None:
        """Rebuild the factor from the merged arms if that is smaller, else double its capacity."""
        merged = self.merged(self._used) if self._complete else None
        if merged is not None:
            arms, root = merged
            factor = solve_triangular(root, self.problem.covariance(arms, self.candidates), lower=True)
            self._factor[: len(arms)] = factor
            self._used = len(arms)
            self.variance = np.maximum(self.prior - np.einsum("ij,ij->j", factor, factor), 0.0)
            return
        self._factor = np.vstack([self._factor, np.empty((max(32, self._used), len(self.candidates)))])
