"""The factor V of many actions, with cov = K - V V': kept in tiles, extended by matrix products, and in single
precision where that is safe.

With L the factor of the arms' regularised kernel matrix, the columns of the batches d..h are

    V[:, d:h] = (K(all, arms d..h) - V[:, :d] L[d:h, :d]') L[d:h, d:h]'^-1.

In single precision this takes half the memory and half the time, and the resulting variances are off by at most
`Slack`. Code that uses them as bounds must add the slack, and decide whether the result is sharp enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs, solve_triangular

from voxpop.errors import Array, Numbers
from voxpop.model.problem import Indices, Problem
from voxpop.runtime.machine import numba_installed, require_room, side_by_side

UNIT = 2.0**-24  # the relative rounding of single precision
FLUSH = 1e-16  # smaller numbers become zero in single precision: denormal products are very slow
ROOM = (1e-4, 1e4)  # prior variances that suit the range of single precision


class Slack:
    """A bound on |variance - variance in single precision|, for a factor L that gains rows.

    An action's row v of V solves L v = k. Each number is rounded at most m times (a product inside a panel, one
    subtraction a panel, the inverse of the diagonal, L itself), so the computed w solves L w = k + e with

        |e| <= g |L||w| + u |L||v| + f,     g = m u / (1 - m u),     u = UNIT,

    component by component. The middle term comes from rounding k (|k| <= |L||v|), and
    f <= FLUSH (1 + (H + 1) max(max |L|, kappa)) from setting small numbers of K, L and V to zero. With the spectral
    norms A = g norm(|L^-1||L|) and B = u norm(|L^-1||L|) kappa + norm(|L^-1|) sqrt(H) f, and with
    |v| <= kappa = max k(x, x)^1/2,

        |w - v| <= A |w| + B <= A (kappa + |w - v|) + B,     so |w - v| <= eta = (A kappa + B) / (1 - A),

    and the variances differ by ||w|^2 - |v|^2| <= eta (2 kappa + eta).
    """

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


def narrow(wide: Numbers, out: Numbers, flush: float) -> None:
    """Round to the precision of `out`; numbers smaller than `flush` become zero."""
    out[:] = np.where(np.abs(wide) < flush, 0.0, wide)


def condition(root: Numbers, columns: Numbers, variance: Array, flush: float) -> None:
    """Solve root V' = columns in place, (batches, actions), and subtract the squares of V from the variances."""
    # In place: BLAS stores matrices by columns, so it sees these as transposes.
    solve = get_blas_funcs("trsm", (columns,))
    solve(1.0, root, columns.T, side=1, lower=1, trans_a=1, overwrite_b=1)
    columns[np.abs(columns) < flush] = 0.0
    variance -= np.einsum("ij,ij->j", columns, columns, dtype=np.float64)
    np.maximum(variance, 0.0, out=variance)


@dataclass(frozen=True)
class Conditioning:
    """The code that rounds numbers and conditions on batches."""

    narrow: Callable[[Numbers, Numbers, float], None]
    condition: Callable[[Numbers, Numbers, Array, float], None]


PLAIN_CONDITIONING = Conditioning(narrow, condition)


CACHED = 2**16  # numbers that stay in a core's cache while a kernel is evaluated
TILE = 4096  # actions that are updated together
PANEL = 64  # columns of the factor that are allocated together


class Factor:
    """V, and the posterior variances, of many candidate actions."""

    def __init__(self, problem: Problem, candidates: Indices) -> None:
        self._code = fastest_conditioning()
        self.problem, self.size = problem, len(candidates)
        self._tile = min(TILE, self.size)
        self._tiles = -(-self.size // self._tile)
        # The last tile is padded with its last action, so that all tiles have the same size.
        filled = np.minimum(np.arange(self._tiles * self._tile), self.size - 1)
        points = problem.decisions.points[candidates[filled]].reshape(self._tiles, self._tile, -1)
        self._points = np.ascontiguousarray(points.transpose(0, 2, 1))  # (tiles, dimensions, actions of a tile)
        self._prior = problem.prior_variance[candidates[filled]]
        self._panels: list[Numbers] = []  # V', (tiles, PANEL, actions of a tile) each
        self.clear()

    def clear(self) -> None:
        """Forget all batches, and return to double precision."""
        self.columns, self.single = 0, False
        self._panels.clear()
        self._variance = self._prior.copy()

    @property
    def variance(self) -> Array:
        """The variance of every candidate; in single precision it is off by at most the slack."""
        return self._variance[: self.size]

    @property
    def bytes(self) -> int:
        """The memory that V takes, in bytes."""
        return sum(panel.nbytes for panel in self._panels)

    def extend(self, root: Array, arms: list[int]) -> None:
        """Condition on the batches that are still missing, given all arms and L."""
        while self.columns < len(arms):
            low, start = self.columns, self.columns % PANEL
            if start == 0:
                self._panels.append(self._panel())
            high = min(low - start + PANEL, len(arms))
            points = self.problem.decisions.points[arms[low:high]]
            advance = partial(self._advance, self._rounded(root[low:high, :high]), points, low)
            side_by_side(advance, range(self._tiles))
            self.columns = high

    def of(self, positions: Indices) -> Array:
        """Return the columns of V' of some positions, given in order, (batches, positions)."""
        found = np.empty((self.columns, len(positions)))
        edges = np.searchsorted(positions, self._tile * np.arange(self._tiles + 1))
        for tile, (low, high) in enumerate(pairwise(edges)):
            for start, panel in zip(range(0, self.columns, PANEL), self._panels, strict=False):
                rows = panel[tile, : self.columns - start]
                found[start : start + len(rows), low:high] = rows[:, positions[low:high] - tile * self._tile]
        return found

    def adopt(self, columns: Array, variance: Array) -> None:
        """Take over V', (batches, candidates), and the variances that belong to it."""
        self.columns, self._variance[: self.size] = len(columns), variance
        padded = np.pad(columns, ((0, 0), (0, len(self._variance) - self.size)), mode="edge")
        for start in range(0, len(columns), PANEL):
            part = padded[start : start + PANEL].reshape(-1, self._tiles, self._tile)
            self._panels.append(self._panel())
            self._panels[-1][:, : len(part)] = part.transpose(1, 0, 2)

    def narrow(self) -> None:
        """Continue in single precision."""
        self.single = True
        for number, panel in enumerate(self._panels):
            used, narrow = min(PANEL, self.columns - number * PANEL), np.empty(panel.shape, np.float32)
            for wide, out in zip(panel, narrow, strict=True):
                self._code.narrow(wide[:used], out[:used], FLUSH)
            self._panels[number] = narrow

    def _advance(self, rows: Numbers, arms: Array, low: int, tile: int) -> None:
        """Condition one tile on some batches, whose columns are in the last panel."""
        multiply, start = get_blas_funcs("gemm", (rows,)), low % PANEL
        variance = self._variance[tile * self._tile : (tile + 1) * self._tile]
        new = self._panels[-1][tile, start : start + len(arms)]  # (batches, actions)
        self._kernel(new, arms, self._points[tile].T)
        for first, panel in zip(range(0, low, PANEL), self._panels, strict=False):
            last = min(first + PANEL, low)
            # In place: BLAS stores matrices by columns, so it sees these as transposes.
            multiply(-1.0, panel[tile, : last - first].T, rows[:, first:last].T, 1.0, new.T, overwrite_c=1)
        self._code.condition(rows[:, low:], new, variance, FLUSH if self.single else 0.0)

    def _kernel(self, out: Numbers, arms: Array, points: Array) -> None:
        """Fill in K(arms, points), a few rows at a time."""
        step = max(1, CACHED // self._tile)
        room = np.empty((step, len(points))) if self.single else None
        for top in range(0, len(arms), step):
            part = out[top : top + step]
            exact: Any = part if room is None else room[: len(part)]
            self.problem.kernel.fill(exact, arms[top : top + step], points)
            if self.single:
                self._code.narrow(exact, part, FLUSH)

    def _rounded(self, rows: Array) -> Numbers:
        """Round rows of L to the precision of V."""
        if not self.single:
            return rows
        out = np.empty(rows.shape, np.float32)
        self._code.narrow(np.ascontiguousarray(rows), out, FLUSH)
        return out

    def _panel(self) -> Numbers:
        shape, kind = (self._tiles, PANEL, self._tile), np.float32 if self.single else np.float64
        needed = self.bytes + math.prod(shape) * np.dtype(kind).itemsize
        require_room(needed, self.size, f"{len(self._panels) * PANEL + PANEL} batches per wave")
        return np.empty(shape, kind)


def fastest_conditioning() -> Conditioning:
    """Return the compiled code if numba is installed. This imports numba, which pays off for large problems only."""
    if not numba_installed():
        return PLAIN_CONDITIONING
    from voxpop.gp import compiled as compiled_conditioning

    return Conditioning(compiled_conditioning.narrow, compiled_conditioning.condition)
