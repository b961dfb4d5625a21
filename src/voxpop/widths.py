"""How far an estimate can be from the truth: the paper's width and the affine width.

Both hold with probability 1 - beta for each action and phase if f has norm at most B, because the arms and pulls of
a phase were chosen before its feedback.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.special import ndtri

from voxpop.errors import Array
from voxpop.phases import Noise
from voxpop.problem import Indices, Problem

STEPS = 32  # halvings of the search interval for log c; the width is flat at its minimum
SPAN = 35.0  # the interval: log of the largest eigenvalue +- this


def printed_width(problem: Problem, variance: Array, at: Indices, count: int, norm_bound: float) -> Array:
    """eq:confidence_width, with the factor v on its first two terms for users f_u ~ GP(f, v^2 k)."""
    spread = problem.bias_std * math.sqrt(2 * math.log(1 / problem.beta) / count)
    deviation = np.sqrt(variance)
    return np.asarray(spread * np.sqrt(problem.prior_variance[at]) + spread * deviation + norm_bound * deviation)


def feedback_noise(problem: Problem, pulls: Indices, count: int) -> Noise:
    """N = (v^2 K + sigma^2 W^-1) / |U|: the error of the average of `count` people's answers."""
    return Noise(problem.bias_std**2 / count, problem.noise_std**2 / (pulls.astype(float) * count))


@dataclass(frozen=True, eq=False)
class AffineEstimator:
    """The best affine estimate a'y of f(x) for each x, and its width.

    For any weights a chosen before y was seen,

        w_a(x) = z sqrt(a'N a) + B sqrt(k(x,x) - 2 a'k + a'K a),     z = Phi^-1(1 - beta/2),

    bounds |f(x) - a'y| with probability 1 - beta: the first term is the noise of y, the second bounds the bias by
    Cauchy-Schwarz in the RKHS. The minimiser lies on a_c = (K + c N)^-1 k, c > 0. In the basis of the generalised
    eigenvectors of (K, N), with eigenvalues theta and coordinates g of k,

        a'N a = sum g^2 / (theta + c)^2,     bias^2 = k(x,x) - sum g^2 (theta + 2c) / (theta + c)^2,

    and the width falls in c while B c s(c) < z b(c), where s and b are the two roots (Donoho 1994).
    """

    width: Array  # (at,)
    coordinates: Array  # (at, arms): g / (theta + c)
    basis: Array  # (arms, arms): takes y into the eigenbasis

    @classmethod
    def fit(cls, problem: Problem, arms: Indices, noise: Noise, at: Indices, norm_bound: float) -> AffineEstimator:
        """The minimiser for each action in `at`; no feedback is needed."""
        gram, cross = problem.covariance(arms, arms), problem.covariance(arms, at)
        covariance = noise.common * gram
        # A little more noise than there is keeps the bounds valid and the factorisation possible.
        own = noise.own + 4 * len(arms) * np.finfo(float).eps * covariance.diagonal()
        covariance.flat[:: len(arms) + 1] += own
        scale = np.sqrt(covariance.diagonal())  # factorised as a correlation matrix: arms differ widely in noise
        root = cholesky(covariance / np.outer(scale, scale), lower=True)

        def whiten(columns: Array) -> Array:
            return np.asarray(solve_triangular(root, columns / scale[:, None], lower=True))

        inner = whiten(whiten(gram).T)
        theta, vectors = eigh((inner + inner.T) / 2)
        theta = np.maximum(theta, 0.0)
        g = (vectors.T @ whiten(cross)).T  # (at, arms)
        prior = problem.prior_variance[at]
        z = -float(ndtri(problem.beta / 2))
        c = _minimise(theta, g * g, prior, norm_bound, z)
        with np.errstate(invalid="ignore"):
            coordinates = np.where(np.isinf(c)[:, None], 0.0, g / (theta + c[:, None]))
        s, b = _roots(theta, g * g, prior, c)
        return cls(z * s + norm_bound * b, coordinates, vectors.T @ whiten(np.eye(len(arms))))

    def estimate(self, y: Array) -> Array:
        """a'y for every action, for averages y less their prior mean."""
        return np.asarray(self.coordinates @ (self.basis @ y))


def _roots(theta: Array, g2: Array, prior: Array, c: Array) -> tuple[Array, Array]:
    """s = sqrt(a'N a) and b = sqrt(bias^2) at c; c = inf means a = 0."""
    finite = np.where(np.isinf(c), 1.0, c)
    share = g2 / np.square(theta + finite[:, None])
    s2 = share.sum(axis=1)
    # Rounding must not make a bound too narrow: allow for it.
    rounding = 4 * len(theta) * np.finfo(float).eps * prior
    b2 = np.maximum(prior - share @ theta - 2 * finite * s2, 0.0) + rounding
    unused = np.isinf(c)
    return np.where(unused, 0.0, np.sqrt(s2)), np.sqrt(np.where(unused, prior, b2))


def _minimise(theta: Array, g2: Array, prior: Array, norm_bound: float, z: float) -> Array:
    """The c of least width for each action, by bisection on the sign of the derivative; inf if y is of no use."""
    top = math.log(max(float(theta[-1]), np.finfo(float).tiny))
    low = np.full(len(prior), top - SPAN)
    high = np.full(len(prior), top + SPAN)
    for _ in range(STEPS):
        middle = (low + high) / 2
        c = np.exp(middle)
        s, b = _roots(theta, g2, prior, c)
        falling = norm_bound * c * s < z * b
        low, high = np.where(falling, middle, low), np.where(falling, high, middle)
    useless = norm_bound * np.sqrt(g2.sum(axis=1)) <= z * np.sqrt(prior)
    return np.where(useless, np.inf, np.exp((low + high) / 2))
