"""The search for the affine width: where on the path of weights a_c = (K + c N)^-1 h(A) the width is least.

The code here is readable, and reads each number some ten times per step; `compiled_search` does the same for large
problems and reads each number once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from voxpop.core.errors import Array

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
