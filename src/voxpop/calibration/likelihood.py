"""The marginal likelihood of a pilot, and f given the pilot.

    y_u(x_i) = f(x_i) + b_u(x_i) + e,    f ~ GP(m, tau^2 k),  b_u ~ GP(0, v^2 k),  e ~ N(0, sigma^2 / w_ui)

People who tried the same actions equally often are exchangeable, so their likelihood splits into that of their mean and
that of their scatter around it: with S = v^2 K + sigma^2 W^-1 and U people,

    mean ~ N(m 1, tau^2 K + S / U),     scatter ~ Wishart(S, U - 1),

which costs O(actions^3) for any number of people. People with a pattern of their own form a group of one; the
means of all groups share f and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dtrtrs

from voxpop.calibration.pilot import Group, Moments
from voxpop.core.errors import Array
from voxpop.core.problem import Indices


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The likelihood for given constants; the posterior of f is computed on demand."""

    log_likelihood: float
    prior_mean: float  # m, the likeliest within the range of the averages
    prior_mean_std: float
    gram: Array  # (actions, actions) K
    tau: float
    rows: Indices  # the action of each number in the groups' means
    root: Array  # Cholesky root of the covariance of the means
    residual: Array  # root^-1 (means - m)

    @classmethod
    def at(cls, gram: Array, bias: float, noise: float, tau: float, groups: Sequence[Group]) -> Evaluation:
        """Compute the likelihood for given constants."""
        rows = np.concatenate([group.actions for group in groups])
        y = np.concatenate([group.mean for group in groups])
        covariance = tau**2 * gram[rows[:, None], rows]
        log_likelihood, start = 0.0, 0
        for group in groups:
            own = bias**2 * gram[group.actions[:, None], group.actions]
            own.flat[:: len(own) + 1] += noise**2 / group.counts
            log_likelihood += _scatter_likelihood(own, group)
            stop = start + len(own)
            covariance[start:stop, start:stop] += own / group.people
            covariance[range(start, stop), range(start, stop)] += group.noise_std**2
            start = stop
        root = np.asarray(np.linalg.cholesky(covariance), dtype=float)
        white = _solve(root, np.stack([np.ones(len(y)), y], axis=1))
        ones, values = white[:, 0], white[:, 1]
        weight = float(ones @ ones)
        mean = float(np.clip(ones @ values / weight, y.min(), y.max()))
        residual = values - mean * ones
        log_likelihood -= 0.5 * (float(residual @ residual) + len(y) * math.log(2 * math.pi))
        log_likelihood -= float(np.log(root.diagonal()).sum())
        return cls(log_likelihood, mean, 1 / math.sqrt(weight), gram, tau, rows, root, residual)

    @cached_property
    def _gram_root(self) -> Array:
        """K^1/2."""
        values, vectors = np.linalg.eigh(self.gram)
        return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)

    @cached_property
    def _cross(self) -> Array:
        """root^-1 times the covariance of the means and h, where f = m + K^1/2 h."""
        return _solve(self.root, self.tau**2 * self._gram_root[:, self.rows].T)

    @cached_property
    def norm_mean(self) -> Array:
        """The mean of h; |h| is the RKHS norm of f - m at the pilot's actions."""
        return np.asarray(self._cross.T @ self.residual)

    @cached_property
    def norm_covariance(self) -> Array:
        """The covariance of h."""
        return np.asarray(self.tau**2 * np.eye(len(self.gram)) - self._cross.T @ self._cross)

    @property
    def mean(self) -> Array:
        """The mean of f - m at the pilot's actions."""
        return np.asarray(self._gram_root @ self.norm_mean)

    @property
    def covariance(self) -> Array:
        """The covariance of f at the pilot's actions."""
        return np.asarray(self._gram_root @ self.norm_covariance @ self._gram_root)


def _scatter_likelihood(covariance: Array, group: Group) -> float:
    """Compute the log-likelihood of the deviations of U people from their own mean."""
    if group.people == 1:
        return 0.0
    if group.moments is not None:
        return _moment_likelihood(covariance, group.people, group.moments)
    root = np.asarray(np.linalg.cholesky(covariance), dtype=float)
    size, freedom = len(root), group.people - 1
    inner = _solve(root, _solve(root, group.scatter).T)
    log_det = 2 * float(np.log(root.diagonal()).sum())
    constant = freedom * (size * math.log(2 * math.pi) + log_det) + size * math.log(group.people)
    return -0.5 * (constant + float(np.trace(inner)))


def _moment_likelihood(covariance: Array, people: int, moments: Moments) -> float:
    """Compute the log-likelihood of tr S / a and 1'S1 / a^2, which are nearly Gaussian with noise or many people."""
    size = len(covariance)
    expected = np.array([float(np.trace(covariance)) / size, float(covariance.sum()) / size**2])
    spread = 2 / (people - 1) * np.array([float(np.sum(covariance**2)) / size**2, expected[1] ** 2])
    variance = spread + moments.errors
    return -0.5 * float((np.square(moments.variances - expected) / variance + np.log(2 * math.pi * variance)).sum())


def _solve(root: Array, right: Array) -> Array:
    """Compute root^-1 right, for a lower triangular root."""
    return np.asarray(dtrtrs(root, right, lower=1)[0])
