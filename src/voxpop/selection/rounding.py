"""How far posterior variances can be off when the factor V is kept in single precision (docs/mathematics.md)."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_triangular

from voxpop.core.errors import Array

UNIT = 2.0**-24  # the relative rounding of single precision
FLUSH = 1e-16  # smaller numbers become zero in single precision: denormal products are very slow
ROOM = (1e-4, 1e4)  # prior variances that suit the range of single precision


class Slack:
    """A bound on |variance - variance in single precision|, for a factor L that gains rows."""

    def __init__(self, prior: float, panel: int) -> None:
        self.prior, self.panel = prior, panel
        self._inverse = np.zeros((0, 0))  # of L, as far as it was needed

    def at_least(self, size: int) -> float:
        """Return a value that the bound exceeds for any L of this size."""
        return 2 * self._roundings(size) * UNIT * self.prior

    def of(self, root: Array) -> float:
        """Compute the bound for L, which extends the last L given; infinite where single precision is useless."""
        size, scale = len(root), math.sqrt(self.prior)
        largest = max(float(np.abs(root).max()), scale)
        if not ROOM[0] <= self.prior <= ROOM[1] or largest > ROOM[1]:
            return math.inf
        inverse, rounded = np.abs(self._invert(root)), self._roundings(size) * UNIT
        forward = norm_bound(inverse, np.abs(root))
        grow = rounded / (1 - rounded) * forward  # of the error, for V as computed
        if grow >= 0.5:
            return math.inf
        flushed = norm_bound(inverse) * math.sqrt(size) * FLUSH * (1 + (size + 1) * largest)
        error = (grow * scale + UNIT * forward * scale + flushed) / (1 - grow)
        return error * (2 * scale + error)

    def _roundings(self, size: int) -> int:
        """Count the roundings that a number of V undergoes at most."""
        return self.panel + -(-size // self.panel) + 4

    def _invert(self, root: Array) -> Array:
        """Invert L, reusing the rows that are known already."""
        known, size = len(self._inverse), len(root)
        inverse = np.zeros((size, size))
        inverse[:known, :known] = self._inverse
        right = np.eye(size - known, size, k=known)
        right[:, :known] = -root[known:, :known] @ self._inverse
        inverse[known:] = solve_triangular(root[known:, known:], right, lower=True)
        self._inverse = inverse
        return inverse


def norm_bound(*factors: Array) -> float:
    """Bound the spectral norm of a product of matrices without negative entries.

    For M of this kind and any positive x, |M|^2 is at most the largest (M'M x)_i / x_i (Collatz, Wielandt), and a few
    steps of x <- M'M x make that sharp.

    >>> round(norm_bound(np.array([[1.0, 0.0], [1.0, 1.0]])), 3)
    1.618
    """
    x, least = np.ones(factors[-1].shape[1]), math.inf
    for _ in range(10):
        y = x
        for factor in (*reversed(factors), *(factor.T for factor in factors)):
            y = factor @ y
        least = min(least, float((y / x).max()))
        x = np.maximum(y / y.max(), 1e-100)
    return math.sqrt(least) * (1 + 1e-9)
