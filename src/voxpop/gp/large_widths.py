"""The affine widths of many actions, block by block: like `AffineEstimator`, with less memory and fewer products.

The weights of n actions are as large as the factor that selected the arms, and evaluating them directly takes three
more matrix products of that size. In the eigenbasis Z of (K, N), where weights are a = Z'u with u = g / (theta + c),

    a'h = u'g,     a'K a = u'(diag theta + E_K) u,     a'N a = u'(I + E_N) u,

so that sums over u are enough. E_K and E_N are what rounding left of Z K Z' - diag theta and Z N Z' - I: they are
measured once per wave, with a bound on the rounding of the measurement itself, and their norms are added to the width.
Like the direct width, this one is never too small.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from voxpop.errors import Array
from voxpop.gp.widths import EPS, PLAIN_SEARCH, AffineEstimator, Search
from voxpop.model.problem import GRAM_LIMIT, Indices
from voxpop.runtime.machine import numba_installed, side_by_side

CACHED = 2**18  # numbers per block: few calls, and not much more than a core keeps in its cache
SHARP = 1e-6  # a width may be larger by this share to allow for rounding

Bounds = tuple[Array, Array]  # estimates and widths


def affine_values(estimator: AffineEstimator, at: Indices, norm_bound: float, y: Array | None = None) -> Bounds:
    """Estimate f(x) from averages y, less their prior mean (not needed for the widths alone), with widths."""
    y = np.zeros(len(estimator.arms)) if y is None else y
    if len(at) > GRAM_LIMIT:
        return Streamed(estimator, y).values(at, norm_bound)
    values = estimator.values(at, norm_bound)
    return values.estimate(y), values.width


def affine_values_and_gaps(
    estimator: AffineEstimator, at: Indices, reference: int, norm_bound: float, y: Array
) -> tuple[Bounds, Bounds]:
    """Estimate f(x) and f(x) - f(reference), in which biases common to both cancel, with widths."""
    if len(at) > GRAM_LIMIT:
        return Streamed(estimator, y).values_and_gaps(at, reference, norm_bound)
    values, gaps = estimator.values_and_gaps(at, reference, norm_bound)
    return (values.estimate(y), values.width), (gaps.estimate(y), gaps.width)


class Streamed:
    """Estimates and widths of many actions, from an estimator and averages y less their prior mean."""

    def __init__(self, estimator: AffineEstimator, y: Array) -> None:
        self.estimator, self.problem, self.arms = estimator, estimator.problem, estimator.arms
        self.theta, self.basis = estimator.theta, estimator.basis
        self._y = self.basis @ y  # a'y = u'Z y
        self._search = fastest_search()
        self._noise_error = self._error(estimator.noise, np.ones(len(self.arms)))
        self._gram_error = self._error(estimator.gram, self.theta)
        scale = float(self.problem.prior_variance.max())
        self._reach = float(np.linalg.norm(self.basis)) * 2 * scale * np.sqrt(len(self.arms))  # |Z| |h(A)| at most

    def values(self, at: Indices, norm_bound: float) -> Bounds:
        """Estimate f(x), less its prior mean."""
        found = self._map(at, norm_bound, None)
        return found[0], found[1]

    def values_and_gaps(self, at: Indices, reference: int, norm_bound: float) -> tuple[Bounds, Bounds]:
        """Estimate f(x) and f(x) - f(reference)."""
        found = self._map(at, norm_bound, reference)
        return (found[0], found[1]), (found[2], found[3])

    def _map(self, at: Indices, norm_bound: float, reference: int | None) -> tuple[Array, ...]:
        size = max(64, CACHED // len(self.arms))
        blocks = [at[start : start + size] for start in range(0, len(at), size)]
        parts = side_by_side(partial(self._block, norm_bound, reference), blocks)
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))

    def _block(self, norm_bound: float, reference: int | None, at: Indices) -> tuple[Array, ...]:
        problem = self.problem
        cross, prior = problem.covariance(at, self.arms), problem.prior_variance[at]
        g = cross @ self.basis.T  # (functions, arms)
        values = self._fit(g, cross, prior, norm_bound)
        if reference is None:
            return values
        other = np.array([reference])
        other_cross = problem.covariance(other, self.arms)
        square = prior + problem.prior_variance[reference] - 2 * problem.covariance(at, other)[:, 0]
        gaps = self._fit(g - other_cross @ self.basis.T, cross - other_cross, np.maximum(square, 0.0), norm_bound)
        return (*values, *gaps)

    def _fit(self, g: Array, cross: Array, square: Array, norm_bound: float) -> Bounds:
        """Find the minimiser for functions h with coordinates g, given also as h(A) and |h|^2."""
        z, size = self.estimator.z, len(self.arms)
        c = self._search.minimise(self.theta, g, square, norm_bound / z)
        estimate, gain, length, inner = self._search.evaluate(self.theta, g, c, self._y)
        bias = np.maximum(square - 2 * gain + inner, 0.0)
        slack = self._gram_error * length + (size + 4) * EPS * (4 * square + 2 * np.sqrt(length) * self._reach)
        noise = z * np.sqrt(length * (1 + self._noise_error))
        width = noise + norm_bound * np.sqrt(bias + slack)
        # Where rounding could matter (next to the arms, where there is hardly any bias), the direct way is sharper.
        direct = np.flatnonzero(width > (1 + SHARP) * (noise + norm_bound * np.sqrt(bias)))
        if self.estimator.biases:
            direct = np.arange(len(g))
        weights = (g[direct] / (self.theta + c[direct, None])) @ self.basis
        width[direct] = self.estimator.width_of(weights, cross[direct], square[direct], norm_bound)
        prior = norm_bound * np.sqrt(square)  # without data, a = 0
        useful = width < prior
        return np.where(useful, estimate, 0.0), np.where(useful, width, prior)

    def _error(self, matrix: Array, diagonal: Array) -> float:
        """Bound the norm of Z M Z' - diag, with the rounding of the computation itself."""
        absolute = np.abs(self.basis)
        rounding = 2 * (len(matrix) + 2) * EPS * (absolute @ np.abs(matrix) @ absolute.T)
        measured = self.basis @ matrix @ self.basis.T
        measured.flat[:: len(matrix) + 1] -= diagonal
        return float(np.linalg.norm(np.abs(measured) + rounding))


def fastest_search() -> Search:
    """Return the compiled search if numba is installed. This imports numba, which pays off for large problems only."""
    if not numba_installed():
        return PLAIN_SEARCH
    from voxpop.gp import compiled as compiled_search

    return Search(compiled_search.minimise, compiled_search.evaluate)
