"""Whether the model still fits: do the averages of all waves agree with some f of norm at most B?

The averages y of all waves are stacked, one row for each arm of each wave; an action may occur several times. With
the rows' kernel matrix K, their error covariance N (a block for each wave) and the residual r = y - m,

    J(B) = min over |f - m| <= B of (r - f)' N^-1 (r - f)

never exceeds its value at the true f, which is chi-squared with one degree of freedom a row. In the coordinates where
N = I and K = diag theta, the residual being e, the minimiser f = sqrt(theta) h is h = sqrt(theta) e / (theta + c), and

    |f|^2 = sum theta e^2 / (theta + c)^2,     misfit = sum c^2 e^2 / (theta + c)^2 :

one falls in c and the other rises, so that each of the two questions asked here is one equation in c.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh
from scipy.special import chdtri

from voxpop.errors import Array, require_integer, require_number
from voxpop.gp.widths import EPS, shared_coordinates


def misfit(gram: Array, residual: Array, noise: Array, norm_bound: float) -> float:
    """Compute J, the least squared distance of the averages from any f of norm at most B, in units of their noise.

    >>> round(misfit(np.eye(1), np.array([5.0]), np.eye(1), norm_bound=3.0), 6)  # f = 3 is the nearest
    4.0
    """
    norm_bound = require_number("norm_bound", norm_bound, least=0)
    path = _Path(gram, residual, noise)
    if norm_bound == 0:
        return path.farthest
    if path.longest <= norm_bound:
        return path.nearest
    # |f| lies between longest theta / (theta + c) of the least theta and sqrt(sum theta e^2) / c.
    low = float(path.theta.min()) * (path.longest / norm_bound - 1)
    high = math.sqrt(float(path.theta @ path.e2)) / norm_bound
    return path.misfit(_root(lambda c: math.log(path.norm(c) / norm_bound), low, high))


def smallest_norm(gram: Array, residual: Array, noise: Array, limit: float) -> float:
    """Compute the least norm bound B with J <= limit: what B would have to be raised to.

    It is infinite if no f at all fits, as when two waves' averages of the same action differ too much for their noise:
    then v or sigma is too small, or f changed between the waves.

    >>> round(smallest_norm(np.eye(1), np.array([5.0]), np.eye(1), limit=4.0), 6)
    3.0
    >>> smallest_norm(np.ones((2, 2)), np.array([-5.0, 5.0]), np.eye(2), limit=4.0)
    inf
    """
    limit = require_number("limit", limit, least=0)
    path = _Path(gram, residual, noise)
    if path.farthest <= limit:
        return 0.0
    if path.nearest > limit:
        return math.inf
    if path.nearest == limit:
        return path.longest
    # (c / (theta + c))^2 of the largest theta and of the least bound the misfit's share.
    least = math.sqrt((limit - path.nearest) / (path.farthest - path.nearest))
    most = math.sqrt(limit / path.farthest)
    low, high = float(path.theta.min()) * least / (1 - least), float(path.theta.max()) * most / (1 - most)
    return path.norm(_root(lambda c: math.log(path.misfit(c) / limit), low, high))


def misfit_limit(numbers: int, delta: float, fixed: bool = False, clipping: float = 0.0) -> float:
    """Return what J exceeds with probability at most delta if the model is right, for this number of averages.

    With plans that depend on earlier answers, and however often one looks, it is 4 ln(1/delta) + 2 ln 2 * numbers
    (Ville's inequality); for arms and people fixed before the first answer, and one look, the quantile of chi-squared.
    Where answers were clipped, `clipping` is the sum of `clipping_misfit` over the waves.

    >>> round(misfit_limit(30, 0.01), 2), round(misfit_limit(30, 0.01, fixed=True), 2)
    (60.01, 50.89)
    """
    numbers = require_integer("numbers", numbers, least=1)
    delta = require_number("delta", delta, above=0, below=1)
    limit = float(chdtri(numbers, delta)) if fixed else 4 * math.log(1 / delta) + 2 * math.log(2) * numbers
    return (math.sqrt(limit) + math.sqrt(require_number("clipping", clipping, least=0))) ** 2


def clipping_misfit(noise: Array, clipping: Array) -> float:
    """Bound b'N^-1 b for a wave whose averages clipping biases by some b, with |a'b| <= sqrt(a'C a) for all a.

    >>> round(clipping_misfit(np.diag([1.0, 0.5]), np.diag([0.3, 0.4])), 6)
    0.8
    """
    return max(0.0, float(eigh(clipping, noise, eigvals_only=True)[-1]))


class _Path:
    """The functions that fit best for their norm, from f = m (c infinite) to the best fit of all (c = 0)."""

    def __init__(self, gram: Array, residual: Array, noise: Array) -> None:
        theta, basis = shared_coordinates(gram, noise)
        e2 = (basis @ residual) ** 2
        # What rounding left of a zero: directions in which no f differs from m.
        seen = theta > len(theta) * EPS * float(np.linalg.norm(basis) ** 2 * gram.diagonal().max())
        self.theta, self.e2 = theta[seen], e2[seen]
        self.nearest = float(e2[~seen].sum())  # the misfit that no f explains
        self.farthest = float(e2.sum())  # the misfit of f = m
        self.longest = math.sqrt(float((self.e2 / self.theta).sum()))  # the norm of the best fit of all

    def norm(self, c: float) -> float:
        return math.sqrt(float((self.theta * self.e2 / (self.theta + c) ** 2).sum()))

    def misfit(self, c: float) -> float:
        return self.nearest + float((c * c * self.e2 / (self.theta + c) ** 2).sum())


def _root(equation: Callable[[float], float], low: float, high: float) -> float:
    """Solve equation(c) = 0 on the logarithm of c; the bracket, exact but for rounding, is widened a little."""
    from scipy.optimize import brentq  # it takes a third of a second, which every command would wait for

    low, high = math.log(low) - 1e-6, math.log(high) + 1e-6
    return math.exp(float(brentq(lambda log_c: equation(math.exp(log_c)), low, high, xtol=1e-12)))
