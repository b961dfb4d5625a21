"""Conditioning and the search for the affine width in machine code. Import this only where numba is installed."""

from __future__ import annotations

import math

import numpy as np

from voxpop.errors import Array, Numbers
from voxpop.gp.widths import CLOSE, EPS, SPAN, STEPS, TINY
from voxpop.runtime.machine import compiled

STRIP = 512  # actions that are conditioned together


@compiled
def narrow(wide: Numbers, out: Numbers, flush: float) -> None:
    """Round to the precision of `out`; numbers smaller than `flush` become zero."""
    for i in range(len(wide)):
        for j in range(wide.shape[1]):
            value = wide[i, j]
            out[i, j] = value if abs(value) >= flush else 0.0


@compiled
def condition(root: Numbers, columns: Numbers, variance: Array, flush: float) -> None:
    """Solve root V' = columns in place, (batches, actions), and subtract the squares of V from the variances.

    It takes a few hundred actions at a time, so that their numbers stay in the fastest cache.
    """
    batches, actions = columns.shape
    number = root.dtype.type  # mixed precision would not run on vector registers
    one, zero, least = number(1.0), number(0.0), number(flush)
    for left in range(0, actions, STRIP):
        right = min(left + STRIP, actions)
        rest = variance[left:right]
        for i in range(batches):
            row = columns[i, left:right]
            for k in range(i):
                factor, other = root[i, k], columns[k, left:right]
                for j in range(len(row)):
                    row[j] -= factor * other[j]
            scale = one / root[i, i]
            for j in range(len(row)):
                value = row[j] * scale
                row[j] = value if abs(value) >= least else zero
            for j in range(len(row)):
                wide = np.float64(row[j])
                rest[j] -= wide * wide
        for j in range(len(rest)):
            rest[j] = max(rest[j], 0.0)


SHORT = 0.1  # the longest step of log c for which Newton's method is trusted


@compiled
def _sums(theta: Array, g: Array, c: float) -> tuple[float, float, float]:
    """Compute sum g^2 / (theta + c)^2, the same times theta, and sum g^2 / (theta + c)^3."""
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
    """Find the c that minimises s + weight b for functions of coordinates g, (functions, arms), and |h|^2.

    It works like the readable search, except that a short step of Newton's method, which gains half of slope times
    step, is taken without a check when it gains too little to matter.
    """
    top = math.log(max(theta[-1], TINY))
    found = np.empty(len(g))
    for i in range(len(g)):
        rounding = 4 * len(theta) * EPS * square[i]
        low, high, log_c = top - SPAN, top + SPAN, top - 2.0
        best, least = log_c, np.inf
        for _ in range(STEPS):
            c = math.exp(log_c)
            s2, inner, cube = _sums(theta, g[i], c)
            b2 = max(max(square[i] - inner - 2 * c * s2, 0.0) + rounding, TINY)
            s, b, fall = math.sqrt(max(s2, TINY)), math.sqrt(b2), c * cube
            width = s + weight * b
            change = abs(width - least)
            if width < least:
                best, least = log_c, width
            excess = log_c + math.log(max(weight * s, TINY)) - math.log(b)
            if excess < 0:
                low = log_c
            else:
                high = log_c
            step = log_c - excess / max(1 - fall / (s * s) - c * fall / b2, 1e-3)
            step = step if low <= step <= high else (low + high) / 2
            if fall * abs((weight * c / b - 1 / s) * (step - log_c)) <= CLOSE * width:  # the next step gains nothing
                if best == log_c and abs(step - log_c) <= SHORT:
                    best = step
                    break
                if change <= CLOSE * width:
                    break
            log_c = step
        found[i] = math.exp(best)
    return found


@compiled
def evaluate(theta: Array, g: Array, c: Array, y: Array) -> tuple[Array, Array, Array, Array]:
    """Compute u'y, u'g, |u|^2 and sum theta u^2 of every function, for u = g / (theta + c)."""
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
