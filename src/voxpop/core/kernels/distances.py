"""Squared distances of scaled points: with NumPy, or compiled for large problems, the same to the last bit."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from voxpop.core.errors import Array
from voxpop.runtime.compiling import numba_installed

WORTHWHILE = 4096  # entries of a matrix from which compiled code is faster


class Distances(Protocol):
    """Code that computes squared distances."""

    def __call__(self, x: Array, y: Array, rates: Array, out: Array) -> None:
        """Put the sums over the dimensions of ((x_i - y_j) rate)^2 into `out`, (m, n), for x, (m, d), and y, (n, d)."""


def plain_distances(x: Array, y: Array, rates: Array, out: Array) -> None:
    """Compute squared distances with NumPy."""
    # One dimension at a time: exact differences (no |x|^2 + |y|^2 - 2 x'y, which cancels) in (m, n) memory.
    dimensions = zip(x.T, y.T, rates, strict=True)
    _squared_steps(*next(dimensions), out)
    for left, right, rate in dimensions:
        out += _squared_steps(left, right, rate, np.empty_like(out))


def _squared_steps(left: Array, right: Array, rate: float, out: Array) -> Array:
    np.subtract.outer(left, np.ascontiguousarray(right), out=out)
    out *= rate
    out *= out
    return out


def fast_distances(x: Array, y: Array, rates: Array, out: Array) -> None:
    """Compute squared distances in machine code where that is faster; smaller matrices do not import numba."""
    if out.size < WORTHWHILE or not out.flags.c_contiguous or not numba_installed():
        plain_distances(x, y, rates, out)
        return
    from voxpop.core.kernels.compiled_distances import squared_distances

    squared_distances(np.ascontiguousarray(x), np.asfortranarray(y), rates, out)
