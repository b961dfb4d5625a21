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
class Affine:
    """Affine estimates of some linear functions of f, and their widths."""

    width: Array  # (functions,)
    weights: Array  # (functions, arms)

    def estimate(self, y: Array) -> Array:
        """a'y for every function, for averages y less their prior mean."""
        return np.asarray(self.weights @ y)


class AffineEstimator:
    """The best affine estimate a'y of a linear function of f, and its width, before y is seen.

    A linear function of f is an inner product <f, h> in the RKHS: h = k(x, .) gives the value f(x), and
    h = k(x, .) - k(x', .) the gap f(x) - f(x'). For any weights a chosen before y was seen,

        w_a = z sqrt(a'N a) + B sqrt(|h|^2 - 2 a'h(A) + a'K a),     z = Phi^-1(1 - beta/2),

    bounds |<f, h> - a'y| with probability 1 - beta: the first term is the noise of y, the second bounds the bias by
    Cauchy-Schwarz. The minimiser lies on a_c = (K + c N)^-1 h(A), c > 0. In the basis of the generalised eigenvectors
    of (K, N), with eigenvalues theta and coordinates g of h(A),

        a'N a = sum g^2 / (theta + c)^2,     bias^2 = |h|^2 - sum g^2 (theta + 2c) / (theta + c)^2,

    and the width falls in c while B c s(c) < z b(c), where s and b are the two roots (Donoho 1994).
    """

    def __init__(self, problem: Problem, arms: Indices, noise: Noise) -> None:
        self.problem, self.arms = problem, arms
        gram = problem.covariance(arms, arms)
        covariance = noise.common * gram
        # A little more noise than there is keeps the bounds valid and the factorisation possible.
        own = noise.own + 4 * len(arms) * np.finfo(float).eps * covariance.diagonal()
        covariance.flat[:: len(arms) + 1] += own
        scale = np.sqrt(covariance.diagonal())  # factorised as a correlation matrix: arms differ widely in noise
        root = cholesky(covariance / np.outer(scale, scale), lower=True)
        whiten = solve_triangular(root, np.diag(1 / scale), lower=True)
        inner = whiten @ gram @ whiten.T
        theta, vectors = eigh((inner + inner.T) / 2)
        self._theta = np.maximum(theta, 0.0)
        self._basis = vectors.T @ whiten  # (arms, arms): into the eigenbasis

    def values(self, at: Indices, norm_bound: float) -> Affine:
        """Estimates of f(x)."""
        cross = self.problem.covariance(at, self.arms)
        return self._fit(cross, self.problem.prior_variance[at], norm_bound)

    def gaps(self, at: Indices, reference: int, norm_bound: float) -> Affine:
        """Estimates of f(x) - f(reference): what people have in common cancels."""
        problem, other = self.problem, np.array([reference])
        cross = problem.covariance(at, self.arms) - problem.covariance(other, self.arms)
        both = problem.prior_variance[at] + problem.prior_variance[reference]
        return self._fit(cross, np.maximum(both - 2 * problem.covariance(at, other)[:, 0], 0.0), norm_bound)

    def _fit(self, cross: Array, square: Array, norm_bound: float) -> Affine:
        """The minimiser for functions h given as h(A), (functions, arms), and |h|^2."""
        theta, z = self._theta, -float(ndtri(self.problem.beta / 2))
        g = cross @ self._basis.T  # (functions, arms)
        c = _minimise(theta, g * g, square, norm_bound, z)
        s, b = _roots(theta, g * g, square, c)
        weights = np.where(np.isinf(c)[:, None], 0.0, g / (theta + np.where(np.isinf(c), 1.0, c)[:, None]))
        return Affine(z * s + norm_bound * b, weights @ self._basis)


def _roots(theta: Array, g2: Array, square: Array, c: Array) -> tuple[Array, Array]:
    """s = sqrt(a'N a) and b = sqrt(bias^2) at c; c = inf means a = 0."""
    finite = np.where(np.isinf(c), 1.0, c)
    share = g2 / np.square(theta + finite[:, None])
    s2 = share.sum(axis=1)
    # Rounding must not make a bound too narrow: allow for it.
    rounding = 4 * len(theta) * np.finfo(float).eps * square
    b2 = np.maximum(square - share @ theta - 2 * finite * s2, 0.0) + rounding
    unused = np.isinf(c)
    return np.where(unused, 0.0, np.sqrt(s2)), np.sqrt(np.where(unused, square, b2))


def _minimise(theta: Array, g2: Array, square: Array, norm_bound: float, z: float) -> Array:
    """The c of least width for each function, by bisection on the sign of the derivative; inf if y is of no use."""
    top = math.log(max(float(theta[-1]), np.finfo(float).tiny))
    low = np.full(len(square), top - SPAN)
    high = np.full(len(square), top + SPAN)
    for _ in range(STEPS):
        middle = (low + high) / 2
        c = np.exp(middle)
        s, b = _roots(theta, g2, square, c)
        falling = norm_bound * c * s < z * b
        low, high = np.where(falling, middle, low), np.where(falling, high, middle)
    useless = norm_bound * np.sqrt(g2.sum(axis=1)) <= z * np.sqrt(square)
    return np.where(useless, np.inf, np.exp((low + high) / 2))
