"""The weighted posterior of a wave that was played (eq:sigma_update, eq:mu_update), and its information gain."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular

from voxpop.errors import Array
from voxpop.model.problem import GRAM_LIMIT, Indices, Problem


class Batches:
    """The batches played so far, merged by action, and the information they gained."""

    def __init__(self, problem: Problem, candidates: Indices) -> None:
        self.problem, self.candidates = problem, candidates
        self.prior = problem.prior_variance[candidates]
        self.pulls: dict[int, int] = {}  # position among the candidates -> rounds, in order of first play
        self.batches = 0
        self.information_gain = 0.0  # 1/2 log det(I + W^1/2 K W^1/2 / lambda)

    def record(self, position: int, rounds: int, variance: float) -> None:
        """Count a batch of the action at this position; `variance` is its variance before the batch."""
        self.pulls[position] = self.pulls.get(position, 0) + rounds
        self.batches += 1
        self.information_gain += 0.5 * math.log1p(variance * rounds / self.problem.ridge)

    def merged(self, rows: int) -> tuple[Indices, Array] | None:
        """Return the distinct arms and the factor L of their pulls; None if L has more than half of `rows` rows."""
        if 2 * len(self.pulls) > rows:
            return None
        arms = self.candidates[np.fromiter(self.pulls, dtype=np.intp)]
        pulls = np.fromiter(self.pulls.values(), dtype=float)
        try:
            return arms, cholesky(self.problem.regularised(arms, pulls), lower=True)
        except LinAlgError:  # too close to singular for a factorisation from scratch: keep the sequential one
            return None


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


def in_blocks(estimate: Callable[[Indices], tuple[Array, ...]], at: Indices) -> tuple[Array, ...]:
    """Compute estimates for every action, (actions,) each; many actions are taken one block at a time."""
    parts = [estimate(at[start : start + GRAM_LIMIT]) for start in range(0, len(at), GRAM_LIMIT)]
    return parts[0] if len(parts) == 1 else tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def regress(problem: Problem, arms: Indices, pulls: Indices, at: Indices) -> tuple[Array, Array]:
    """Compute the weighted posterior at some actions: weights (at, arms), with mean = weights @ y, and variance.

    The weights take as much memory as the factor of the selection: use `in_blocks` for many actions.
    """
    factor = cho_factor(problem.regularised(arms, pulls), lower=True)
    cross = problem.covariance(arms, at)  # (arms, at)
    weights = cho_solve(factor, cross)
    variance = problem.prior_variance[at] - np.einsum("ij,ij->j", cross, weights)
    return np.asarray(weights.T), np.maximum(variance, 0.0)


def information_gain(problem: Problem, arms: Indices, pulls: Indices) -> float:
    """Compute 1/2 log det(I + W^1/2 K W^1/2 / lambda): what the wave's rounds can tell about f, in nats."""
    roots = np.sqrt(pulls)
    matrix = problem.covariance(arms, arms) * np.outer(roots, roots) / problem.ridge
    matrix.flat[:: len(arms) + 1] += 1
    return 0.5 * float(np.linalg.slogdet(matrix)[1])
