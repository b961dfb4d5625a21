"""Coordinates in which the noise of some averages is white and their kernel matrix diagonal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dtrtri
from scipy.special import ndtri

from voxpop.errors import Array
from voxpop.model.problem import Indices, Problem


def shared_coordinates(gram: Array, noise: Array) -> tuple[Array, Array]:
    """Return theta, rising, and a matrix Z with Z K Z' = diag theta and Z N Z' = I; K may be singular.

    >>> theta, basis = shared_coordinates(np.array([[4.0, 0.0], [0.0, 0.0]]), np.diag([2.0, 0.5]))
    >>> theta.round(6).tolist(), np.abs(basis).round(3).tolist()
    ([0.0, 2.0], [[0.0, 1.414], [0.707, 0.0]])
    """
    # A little more noise than there is makes the factorisation possible; the widths use the noise as it is.
    covariance = noise.copy()
    covariance.flat[:: len(noise) + 1] *= 1 + 4 * len(noise) * EPS
    scale = np.sqrt(covariance.diagonal())  # factorised as a correlation matrix: arms differ widely in noise
    root = np.linalg.cholesky(covariance / np.outer(scale, scale))
    whiten = dtrtri(root, lower=1)[0] / scale
    inner = whiten @ gram @ whiten.T
    theta, vectors = np.linalg.eigh((inner + inner.T) / 2)
    return np.maximum(theta, 0.0), np.asarray(vectors.T @ whiten)


# Compiled code is kept on disk with these values in it: after changing one, change `compiled_search.py` too.
SPAN = 35.0  # log c is sought within the log of the largest eigenvalue +- this
CLOSE = 1e-7  # the relative precision of a width; it is valid for any c
STEPS = 60  # at most; a handful is usual
EPS, TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)


class Path:
    """The path a_c of one estimator for many functions, and the place on it where the width is least."""

    def __init__(self, theta: Array, g2: Array, square: Array) -> None:
        self.theta, self.g2, self.square = theta, g2, square
        self.rounding = 4 * len(theta) * EPS * square

    def at(self, c: Array) -> tuple[Array, Array, Array, Array]:
        """Compute s = sqrt(a'N a) and b = sqrt(bias^2), and two slopes in log c.

        They are those of log(c s / b), which is at least 0, and of -s^2 / 2.
        """
        inverse = 1 / (self.theta + c[:, None])  # (functions, arms)
        share = self.g2 * inverse
        share *= inverse
        s2 = share.sum(axis=1)
        b2 = np.maximum(self.square - share @ self.theta - 2 * c * s2, 0.0) + self.rounding
        fall = c * np.einsum("ij,ij->i", share, inverse)
        slope = 1 - fall / np.maximum(s2, TINY) - c * fall / np.maximum(b2, TINY)
        return np.sqrt(s2), np.sqrt(b2), slope, fall

    def minimise(self, weight: float) -> Array:
        """Find the c that minimises s + weight b, where weight c s(c) = b(c).

        Newton's method runs on the logarithms, inside a shrinking bracket, until neither the last step nor the next
        changes a width: a function that the arms determine has its minimum at c = 0 and is followed there only as far
        as matters. (The last step alone can be misleading, from one side of the minimum to the other.)
        """
        top = math.log(max(float(self.theta[-1]), TINY))
        low = np.full(len(self.square), top - SPAN)
        high = np.full(len(self.square), top + SPAN)
        log_c = best = np.full(len(self.square), top - 2.0)
        least = np.full(len(self.square), np.inf)
        for _ in range(STEPS):
            s, b, slope, fall = self.at(np.exp(log_c))
            width = s + weight * b
            best, change = np.where(width < least, log_c, best), np.abs(width - least)
            least = np.minimum(width, least)
            excess = log_c + np.log(np.maximum(weight * s, TINY)) - np.log(np.maximum(b, TINY))
            low, high = np.where(excess < 0, log_c, low), np.where(excess < 0, high, log_c)
            step = log_c - excess / np.maximum(slope, 1e-3)
            step = np.where((step >= low) & (step <= high), step, (low + high) / 2)
            if (change <= CLOSE * width).all():
                gain = fall / np.maximum(s, TINY) * np.abs(np.expm1(np.minimum(excess, 300.0)) * (step - log_c))
                if (gain <= CLOSE * width).all():
                    break
            log_c = step
        return np.asarray(np.exp(best))


def minimise(theta: Array, g: Array, square: Array, weight: float) -> Array:
    """Find the c that minimises s + weight b for functions of coordinates g, (functions, arms), and |h|^2."""
    return Path(theta, g * g, square).minimise(weight)


def evaluate(theta: Array, g: Array, c: Array, y: Array) -> tuple[Array, Array, Array, Array]:
    """Compute u'y, u'g, |u|^2 and sum theta u^2 of every function, for u = g / (theta + c)."""
    u = g / (theta + c[:, None])
    u2 = u * u
    return u @ y, np.einsum("ij,ij->i", u, g), u2.sum(axis=1), u2 @ theta


@dataclass(frozen=True)
class Search:
    """The code that minimises widths and evaluates what they are made of."""

    minimise: Callable[[Array, Array, Array, float], Array]
    evaluate: Callable[[Array, Array, Array, Array], tuple[Array, Array, Array, Array]]


PLAIN_SEARCH = Search(minimise, evaluate)


def root_form(weights: Array, matrix: Array) -> Array:
    """Compute sqrt(a'M a) for weights a, (functions, arms), and add what rounding can have hidden."""
    size = np.abs(weights).sum(axis=1)
    rounding = (len(matrix) + 4) * EPS * float(matrix.diagonal().max()) * size * size
    return np.asarray(np.sqrt(np.maximum(np.einsum("ij,ij->i", weights @ matrix, weights), 0.0) + rounding))


@dataclass(frozen=True, eq=False)
class Affine:
    """Affine estimates of some linear functions of f, and their widths."""

    width: Array  # (functions,)
    weights: Array  # (functions, arms)

    def estimate(self, y: Array) -> Array:
        """Compute a'y for every function, for averages y less their prior mean."""
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

    def __init__(
        self,
        problem: Problem,
        arms: Indices,
        noise: Array,
        clipping: Array | None = None,
        z: float | None = None,
        biases: Sequence[Array] = (),
    ) -> None:
        self.problem, self.arms = problem, arms
        self.z = -float(ndtri(problem.beta / 2)) if z is None else z
        gram = problem.covariance(arms, arms)
        self.gram, self.noise = gram, noise
        self.biases = [*biases, *(() if clipping is None else (clipping,))]  # each at most sqrt(a'C a)
        # Weights may be any: they are chosen as if most of these biases were noise.
        searched = noise if not biases else noise + np.sum(biases, axis=0) / self.z**2
        self.theta, self.basis = shared_coordinates(gram, searched)  # (arms,), and (arms, arms) into the eigenbasis

    def values(self, at: Indices, norm_bound: float) -> Affine:
        """Estimate f(x)."""
        cross = self.problem.covariance(at, self.arms)
        return self.fit(cross, self.problem.prior_variance[at], norm_bound)

    def values_and_gaps(self, at: Indices, reference: int, norm_bound: float) -> tuple[Affine, Affine]:
        """Estimate f(x) and f(x) - f(reference), in which biases common to both cancel."""
        problem, other = self.problem, np.array([reference])
        cross, prior = problem.covariance(at, self.arms), problem.prior_variance[at]
        gap_cross = cross - problem.covariance(other, self.arms)
        gap_square = prior + problem.prior_variance[reference] - 2 * problem.covariance(at, other)[:, 0]
        functions, squares = np.vstack([cross, gap_cross]), np.concatenate([prior, np.maximum(gap_square, 0.0)])
        both = self.fit(functions, squares, norm_bound)  # in one go: for small problems most time goes into calls
        n = len(at)
        return Affine(both.width[:n], both.weights[:n]), Affine(both.width[n:], both.weights[n:])

    def fit(self, cross: Array, square: Array, norm_bound: float) -> Affine:
        """Find the minimiser for functions h given as h(A), (functions, arms), and |h|^2."""
        g = cross @ self.basis.T  # (functions, arms)
        path = Path(self.theta, g * g, square)
        weights = (g / (self.theta + path.minimise(norm_bound / self.z)[:, None])) @ self.basis
        width = self.width_of(weights, cross, square, norm_bound)
        # Without data, a = 0, the width is the prior's.
        prior = norm_bound * np.sqrt(square)
        useful = width < prior
        return Affine(np.where(useful, width, prior), np.where(useful[:, None], weights, 0.0))

    def width_of(self, weights: Array, cross: Array, square: Array, norm_bound: float) -> Array:
        """Compute the width of given weights, never too small: what rounding can have hidden in its sums is added."""
        inner = np.einsum("ij,ij->i", weights @ self.gram, weights)  # a'K a
        size = 2 + np.abs(weights).sum(axis=1)  # of the terms that are added and cancel, in units of sqrt(k(x, x))
        rounding = (len(self.arms) + 4) * EPS * size * size * float(self.problem.prior_variance.max())
        bias = square - 2 * np.einsum("ij,ij->i", weights, cross) + inner
        width = self.z * root_form(weights, self.noise) + norm_bound * np.sqrt(np.maximum(bias, 0.0) + rounding)
        for bias in self.biases:
            width = width + root_form(weights, bias)
        return np.asarray(width)
