"""The pooled posterior: f ~ GP(m, tau^2 k_q) given every answer so far, pilot included.

It plans and recommends, and proves nothing. k_q is the kernel with its correlations raised to the power q, which makes
length-scales shorter by a factor sqrt(q) or q; the scale tau and the power q maximise the likelihood of all averages,
with a log-normal prior on tau around B/2 and a penalty on q. Without any answer tau = B/2 and q = 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from voxpop.belief.rows import Rows, all_rows
from voxpop.core.errors import Array
from voxpop.core.phases import Answered
from voxpop.core.problem import GRAM_LIMIT, Indices, Problem
from voxpop.widths.coordinates import shared_coordinates

POWERS = (1, 2, 4, 8)
SPREAD = 1.0  # standard deviation of ln tau
PENALTY = 1.0  # what a doubled power must gain in log-likelihood
CLOSE = 2.0  # the roughest power whose log-likelihood is within this of the largest is taken
SCALES = np.geomspace(0.02, 8.0, 61)  # tau in units of B/2


@dataclass(frozen=True, eq=False)
class Belief:
    """A Gaussian process that has seen all answers."""

    problem: Problem
    rows: Rows
    tau: float
    power: int

    def prior(self, x: Array, y: Array) -> Array:
        """Compute the prior covariance of f at points x and y, (x, y)."""
        kernel = self.problem.kernel
        covariance = self.tau**2 * kernel(x, y)
        if self.power > 1:
            deviations = np.sqrt(np.outer(kernel.diagonal(x), kernel.diagonal(y)))
            correlation = kernel(x, y) / np.maximum(deviations, np.finfo(float).tiny)
            covariance *= correlation ** (self.power - 1)
        return np.asarray(covariance)

    @cached_property
    def _root(self) -> Array:
        covariance = self.prior(self.rows.points, self.rows.points) + self.rows.noise
        covariance.flat[:: len(covariance) + 1] *= 1 + 1e-12
        return np.asarray(np.linalg.cholesky(covariance), dtype=float)

    @cached_property
    def _weights(self) -> Array:
        half = solve_triangular(self._root, self.rows.residual, lower=True)
        return np.asarray(solve_triangular(self._root, half, lower=True, trans="T"))

    @cached_property
    def mean(self) -> Array:
        """The posterior mean of every action, (n,)."""
        if not len(self.rows):
            return self.problem.means.copy()
        points = self.problem.decisions.points
        parts = [
            self.prior(points[start : start + GRAM_LIMIT], self.rows.points) @ self._weights
            for start in range(0, len(points), GRAM_LIMIT)
        ]
        return np.asarray(self.problem.means + np.concatenate(parts))

    def explained(self, at: Indices) -> Array:
        """Return the part of the prior that the answers explain, as a root (rows, at)."""
        if not len(self.rows):
            return np.empty((0, len(at)))
        cross = self.prior(self.rows.points, self.problem.decisions.points[at])
        return np.asarray(solve_triangular(self._root, cross, lower=True))

    def covariance(self, at: Indices) -> Array:
        """Compute the posterior covariance of some actions, (at, at)."""
        points, explained = self.problem.decisions.points[at], self.explained(at)
        covariance = self.prior(points, points) - explained.T @ explained
        return np.asarray((covariance + covariance.T) / 2)

    @cached_property
    def deviation(self) -> Array:
        """The posterior standard deviation of every action, (n,)."""
        everything = np.arange(self.problem.size)
        blocks = [everything[start : start + GRAM_LIMIT] for start in range(0, len(everything), GRAM_LIMIT)]
        known = np.concatenate([np.square(self.explained(block)).sum(axis=0) for block in blocks])
        return np.asarray(np.sqrt(np.maximum(self.tau**2 * self.problem.prior_variance - known, 0.0)))


def believe(problem: Problem, history: Iterable[Answered] = ()) -> Belief:
    """Pool the pilot and all phases."""
    rows = all_rows(problem, history)
    usual = problem.norm_bound / 2
    if not len(rows):
        return Belief(problem, rows, usual, 1)
    fits = [_fit(Belief(problem, rows, 1.0, power), usual) for power in POWERS]
    _, tau, power = max((fit for fit in fits if fit[0] >= max(fits)[0] - CLOSE), key=lambda fit: fit[2])
    return Belief(problem, rows, tau, power)


def _fit(unit: Belief, usual: float) -> tuple[float, float, int]:
    """Return the largest log posterior of tau for one power, up to a constant, with its tau and the power."""
    rows = unit.rows
    theta, basis = shared_coordinates(unit.prior(rows.points, rows.points), rows.noise)
    square = np.square(basis @ rows.residual)
    taus = usual * SCALES
    variance = 1 + np.square(taus)[:, None] * theta
    score = -0.5 * (np.log(variance) + square / variance).sum(axis=1)
    score -= 0.5 * np.square(np.log(SCALES) / SPREAD) + PENALTY * math.log2(unit.power)
    best = int(np.argmax(score))
    return float(score[best]), float(taus[best]), unit.power


def pooled_best(problem: Problem, history: Iterable[Answered] = ()) -> int:
    """Return the action of largest pooled mean."""
    return int(np.argmax(believe(problem, history).mean))
