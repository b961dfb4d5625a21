"""The affine width: the best affine estimate of a linear function of f, and how far it can be from the truth.

It holds with probability 1 - beta for each action and phase if f has norm at most B, because the arms and pulls of a
phase were chosen before its feedback.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from voxpop.core.errors import Array
from voxpop.core.problem import Indices, Problem
from voxpop.widths.coordinates import shared_coordinates
from voxpop.widths.search import EPS, Path


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
        self, problem: Problem, arms: Indices, noise: Array, clipping: Array | None = None, z: float | None = None
    ) -> None:
        self.problem, self.arms = problem, arms
        self.z = -float(ndtri(problem.beta / 2)) if z is None else z
        gram = problem.covariance(arms, arms)
        self.gram, self.noise, self.clipping = gram, noise, clipping
        self.theta, self.basis = shared_coordinates(gram, noise)  # (arms,), and (arms, arms) into the eigenbasis

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
        return np.asarray(width if self.clipping is None else width + root_form(weights, self.clipping))
