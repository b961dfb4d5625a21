"""Binomial noise on totals: how private one release is, and what several about the same person add up to.

Each coordinate of a total carries noise Bin(n, p), and replacing one person moves the totals by an integer vector d
with |d| <= D. What one release reveals is computed for a move by D in one coordinate, summed over the support in both
directions; `shuffle` says why that is the worst move for small delta.

Several releases are composed by Rényi divergences, which add up over coordinates and over releases. For order a let
A(s) be the divergence of the noise and its move by s in one coordinate, the larger of both directions. For every d,

    sum of A(d_i) <= sum of d_i^2 max over s of A(s) / s^2 <= D^2 max over s of A(s) / s^2, s = 1 .. D,

so that no move need be known to be the worst. (A grows with s, so that moves may be skipped: if s' is the next one that
is computed, A(s) / s^2 <= A(s') / s^2.) The divergence is that of the noise given that it is inside a window
that its move can reach as well; the probability r of the rest, which is bounded over coordinates in the same way, is
added to delta: with P = (1 - r) P' + r P'', the hockey-stick divergence H, which is convex and at most 1, satisfies
H(P, Q) <= r + H(P', Q). Releases are independent given what is public, and may be chosen adaptively. dp-accounting
turns the sum of the divergences into eps.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import bdtr, bdtrc, logsumexp

from voxpop.errors import Array

MOST_EPSILON = 2.0**20  # noise that needs a larger eps hides nothing
ORDERS = 1 + np.geomspace(0.2, 300, 32)  # of the Rényi divergences
GAP = 64  # up to this one, every move is computed; from then on, steps are this many times shorter than the move


@dataclass(frozen=True)
class Binomial:
    """Noise Bin(trials, chance) on every total, and how far one person can move the totals.

    >>> Binomial(1000, 0.5, 0).delta(1.0)
    0.0
    """

    trials: int
    chance: float
    shift: int

    @lru_cache(maxsize=2048)  # noqa: B019  a value, not an object with a life of its own
    def delta(self, epsilon: float) -> float:
        """Compute the delta at eps of one release: the hockey-stick divergence of the noise and its worse move."""
        if self.chance <= 0 or self.shift > self.trials:
            return 1.0
        _, log_pmf = _window(self, 15)  # farther from the mean there is less than 1e-40 of the mass
        padded = np.full(len(log_pmf) + self.shift, -np.inf)
        plain, moved = padded.copy(), padded
        plain[: len(log_pmf)], moved[self.shift :] = log_pmf, log_pmf
        return max(_hockey_stick(plain, moved, epsilon), _hockey_stick(moved, plain, epsilon))

    def epsilon(self, delta: float) -> float:
        """Compute the eps at delta of one release; inf if a move leaves more than delta outside the support."""

        def enough(epsilon: float) -> bool:
            return self.delta(epsilon) <= delta

        low, high = 0.0, 1.0
        while not enough(high):
            low, high = high, 2 * high
            if high > MOST_EPSILON:
                return math.inf
        return least(enough, low, high)

    @lru_cache(maxsize=256)  # noqa: B019
    def divergences(self) -> tuple[Array, float]:
        """Compute, for each of `ORDERS`, a bound on the Rényi divergence, and the probability it leaves out."""
        if self.chance <= 0 or self.shift > self.trials:
            return np.full(len(ORDERS), np.inf), 1.0
        low, log_pmf = _window(self, 9)
        high, n, p = low + len(log_pmf) - 1, self.trials, self.chance
        most, outside, before = np.zeros(len(ORDERS)), 0.0, 0
        for move in _moves(self.shift):
            plain, moved = log_pmf[move:], log_pmf[: len(log_pmf) - move]  # where both are inside the window
            kept = (low + move, high), (low, high - move)
            for one, other, (first, last) in zip((plain, moved), (moved, plain), kept, strict=True):
                mixed = logsumexp(np.outer(ORDERS, one - logsumexp(one)) + np.outer(1 - ORDERS, other), axis=1)
                most = np.maximum(most, mixed / (ORDERS - 1) / (before + 1) ** 2)
                below = float(bdtr(first - 1, n, p)) if first else 0.0
                outside = max(outside, (below + float(bdtrc(last, n, p))) / (before + 1) ** 2)
            before = move
        return most * self.shift**2, outside * self.shift**2


def least(enough: Callable[[float], bool], low: float, high: float) -> float:
    """Find by bisection the least number that is enough; `high` must be enough, and so is the result."""
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _window(noise: Binomial, deviations: float) -> tuple[int, Array]:
    """Compute the logarithms of the probabilities up to some standard deviations and two shifts from the mean.

    Return them with the least value of the window. They are summed up from the ratios of neighbours, which keeps them
    correct to about twelve digits for any number of trials.
    """
    n, p = noise.trials, noise.chance
    mean, std = n * p, math.sqrt(n * p * (1 - p))
    reach = deviations * std + 2 * noise.shift + 30
    low, high = max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach))
    x = np.arange(low + 1, high + 1, dtype=float)
    log_ratios = np.log(n - x + 1) - np.log(x) + (math.log(p) - math.log1p(-p))
    log_pmf = np.concatenate([[0.0], np.cumsum(log_ratios)])
    return low, np.asarray(log_pmf - logsumexp(log_pmf))


def _hockey_stick(log_p: Array, log_q: Array, epsilon: float) -> float:
    """Compute sum (P - e^eps Q)+."""
    with np.errstate(invalid="ignore"):
        gap = np.where(np.isneginf(log_q), -np.inf, epsilon + log_q - log_p)
    worse = (gap < 0) & ~np.isneginf(log_p)
    return float(np.sum(np.exp(log_p[worse]) * -np.expm1(gap[worse])))


def _moves(shift: int) -> list[int]:
    """Return the moves that are computed, the longest last."""
    moves = [1]
    while moves[-1] < shift:
        moves.append(min(shift, moves[-1] + max(1, moves[-1] // GAP)))
    return moves
