"""The loops of large problems, compiled: above all `widths.Path.minimise` with the sums fused.

The reference is readable and reads each number some ten times a step; this reads it once, and stops for each function
by itself. Compilation is kept on disk. Imported only where the problem is large enough to pay for it; without numba
(the extra `fast`) the reference is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

from voxpop.errors import Array
from voxpop.widths import CLOSE, EPS, SPAN, STEPS, TINY

STRIP = 256  # actions that are conditioned together

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """The function in machine code.

    Sums may be reordered, so that they run on vector registers; infinities and NaN keep their meaning.
    """
    options: Any = {"cache": True, "nogil": True, "fastmath": {"reassoc", "contract", "arcp", "nsz"}}
    return cast(Function, njit(**options)(function))


def exactly(function: Function) -> Function:
    """The function in machine code, with every operation rounded as written."""
    options: Any = {"cache": True, "nogil": True}
    return cast(Function, njit(**options)(function))


@compiled
def _sums(theta: Array, g: Array, c: float) -> tuple[float, float, float]:
    """sum g^2 / (theta + c)^2, the same times theta, and sum g^2 / (theta + c)^3."""
    square = weighted = cube = 0.0
    for j in range(len(theta)):
        inverse = 1.0 / (theta[j] + c)
        u = g[j] * inverse
        share = u * u
        square += share
        weighted += share * theta[j]
        cube += share * inverse
    return square, weighted, cube


@compiled
def minimise(theta: Array, g: Array, square: Array, weight: float) -> Array:
    """The c of least s + weight b for functions of coordinates g, (functions, arms), and |h|^2."""
    top = math.log(max(theta[-1], TINY))
    found = np.empty(len(g))
    for i in range(len(g)):
        rounding = 4 * len(theta) * EPS * square[i]
        low, high, log_c = top - SPAN, top + SPAN, top - 2.0
        best, least = log_c, np.inf
        for _ in range(STEPS):
            c = math.exp(log_c)
            s2, inner, cube = _sums(theta, g[i], c)
            b2 = max(square[i] - inner - 2 * c * s2, 0.0) + rounding
            fall = c * cube
            slope = 1 - fall / max(s2, TINY) - c * fall / max(b2, TINY)
            s, b = math.sqrt(s2), math.sqrt(b2)
            width = s + weight * b
            change = abs(width - least)
            if width < least:
                best, least = log_c, width
            if change <= CLOSE * width:
                break
            excess = log_c + math.log(max(weight * s, TINY)) - math.log(max(b, TINY))
            if excess < 0:
                low = log_c
            else:
                high = log_c
            step = log_c - excess / max(slope, 1e-3)
            log_c = step if low <= step <= high else (low + high) / 2
        found[i] = math.exp(best)
    return found


@compiled
def evaluate(theta: Array, g: Array, c: Array, y: Array) -> tuple[Array, Array, Array, Array]:
    """For u = g / (theta + c): u'y, u'g, |u|^2 and sum theta u^2 of every function."""
    count = len(g)
    estimate, gain, length, inner = np.empty(count), np.empty(count), np.empty(count), np.empty(count)
    for i in range(count):
        a = b = d = e = 0.0
        for j in range(len(theta)):
            u = g[i, j] / (theta[j] + c[i])
            a += u * y[j]
            b += u * g[i, j]
            d += u * u
            e += u * u * theta[j]
        estimate[i], gain[i], length[i], inner[i] = a, b, d, e
    return estimate, gain, length, inner


@exactly
def squared_distances(x: Array, y: Array, scales: Array, out: Array) -> None:
    """sum ((x - y) / scale)^2 over the dimensions, (m, n); bit for bit what NumPy computes dimension by dimension."""
    for i in range(len(x)):
        row = out[i]
        for k in range(len(scales)):
            left, scale, right = x[i, k], scales[k], y[:, k]
            if k == 0:
                for j in range(len(right)):
                    step = (left - right[j]) / scale
                    row[j] = step * step
            else:
                for j in range(len(right)):
                    step = (left - right[j]) / scale
                    row[j] += step * step


@compiled
def condition(root: Array, columns: Array, variance: Array) -> None:
    """Solve root V' = columns in place, (batches, actions), and take the squares of V from the variances.

    A few hundred actions at a time, whose numbers stay in the fastest cache.
    """
    batches, actions = columns.shape
    for left in range(0, actions, STRIP):
        right = min(left + STRIP, actions)
        for i in range(batches):
            row = columns[i, left:right]
            for k in range(i):
                factor, other = root[i, k], columns[k, left:right]
                for j in range(len(row)):
                    row[j] -= factor * other[j]
            scale = 1.0 / root[i, i]
            for j in range(len(row)):
                row[j] *= scale
                variance[left + j] -= row[j] * row[j]
        for j in range(left, right):
            variance[j] = max(variance[j], 0.0)
