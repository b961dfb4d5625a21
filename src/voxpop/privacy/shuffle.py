"""The shuffle model: alg:shuffler, bit for bit, with the printed or with calibrated parameters.

A device shifts each whitened, clipped coordinate to [0, 2R], scales it to [0, g], rounds it at random to a whole
number, and adds Bin(b, p). That number of ones, among g + b bits, is its report for the coordinate. All the bits of a
coordinate are shuffled together, so all that anyone sees of them is how many are ones.

Privacy of the total. For fixed rounding, replacing one person shifts the vector of totals by an integer vector d, and
the noise Bin(bU, p) of each coordinate is independent. Before rounding |d| <= g (the ball has diameter 2R), and
rounding both answers moves each coordinate by less than one, so |d| < g + sqrt(H). Averaging over the rounding is a
mixture, which cannot increase the divergence. Among shifts of one length the worst puts all of it into one
coordinate: the log-ratio of a binomial and its shift grows faster than linearly towards the tails, and a concentrated
shift reaches farther into them than a spread one. So delta is the hockey-stick divergence of Bin(bU, p) and its shift
by ceil(g + sqrt(H)), summed exactly over the support, in both directions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.special import gammaln

from voxpop.errors import Array, InputError
from voxpop.phases import Feedback, Tally
from voxpop.privacy.ball import Ball
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.ledger import Entry
from voxpop.privacy.release import check_reports
from voxpop.privacy.sources import Source

FINENESS = 10.0  # g is at least this many times sqrt(H), so that rounding costs a tenth of the sensitivity


@dataclass(frozen=True)
class Encoding:
    """g, b and p of eq:gbp_set, and the number of people they hold for."""

    levels: int  # g
    trials: int  # b
    chance: float  # p
    users: int  # |U|

    @property
    def bits(self) -> int:
        """Bits that a person sends for each coordinate."""
        return self.levels + self.trials

    @property
    def variance(self) -> float:
        """Of a coordinate's total: noise and, at worst, rounding."""
        return self.users * (self.trials * self.chance * (1 - self.chance) + 0.25)


def printed_encoding(epsilon: float, delta: float, users: int, arms: int) -> Encoding:
    """eq:gbp_set, with g rounded up to a whole number."""
    shrunk = epsilon / (18 * math.sqrt(math.log(2 / delta)))
    log_term = math.log(4 * arms / delta)
    g = math.ceil(max(shrunk * math.sqrt(users) / (6 * math.sqrt(5 * log_term)), math.sqrt(arms), 10))
    b = math.ceil(180 * g**2 * log_term / (shrunk**2 * users))
    return Encoding(g, b, 90 * g**2 * log_term / (b * shrunk**2 * users), users)


@cache
def calibrated_encoding(epsilon: float, delta: float, users: int, arms: int) -> Encoding:
    """The least noise for which the privacy of the actual binomial total is (eps, delta)."""
    multiplier = noise_multiplier(epsilon, delta)
    g = math.ceil(max(FINENESS * math.sqrt(arms), math.sqrt(users) / multiplier))
    shift = shift_of(g, arms)
    # Start from the Gaussian of the same variance, which is close, and search for the least p that is enough.
    trials = max(1, math.ceil(4.2 * (multiplier * shift) ** 2 / users))
    while binomial_delta(users * trials, 0.5, shift, epsilon) > delta:
        trials += max(1, trials // 10)
    low, high = 0.0, 0.5
    for _ in range(30):
        middle = (low + high) / 2
        enough = binomial_delta(users * trials, middle, shift, epsilon) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return Encoding(g, trials, high, users)


def achieved_epsilon(encoding: Encoding, arms: int, delta: float) -> float:
    """The eps that the actual binomial total gives at delta."""
    shift, trials = shift_of(encoding.levels, arms), encoding.users * encoding.trials
    low, high = 0.0, 1.0
    while binomial_delta(trials, encoding.chance, shift, high) > delta:
        low, high = high, 2 * high
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if binomial_delta(trials, encoding.chance, shift, middle) <= delta else (middle, high)
    return high


def shift_of(levels: int, arms: int) -> int:
    """By how much replacing one person can shift the totals, in the Euclidean norm."""
    return math.ceil(levels + math.sqrt(arms))


def binomial_delta(trials: int, chance: float, shift: int, epsilon: float) -> float:
    """The delta at eps of Bin(trials, chance) against itself shifted by a whole number, the larger of both directions.

    >>> binomial_delta(1000, 0.5, 0, 1.0)
    0.0
    """
    if chance <= 0 or shift > trials:
        return 1.0
    mean, std = trials * chance, math.sqrt(trials * chance * (1 - chance))
    reach = 15 * std + 2 * shift + 30  # beyond it the binomial has less than 1e-40 of its mass
    low, high = max(0, math.floor(mean - reach)), min(trials, math.ceil(mean + reach))
    x = np.arange(low, high + 1)
    log_pmf = gammaln(trials + 1) - gammaln(x + 1) - gammaln(trials - x + 1)
    log_pmf = log_pmf + x * math.log(chance) + (trials - x) * math.log1p(-chance)
    padded = np.full(len(x) + shift, -np.inf)
    plain, moved = padded.copy(), padded
    plain[: len(x)], moved[shift:] = log_pmf, log_pmf
    return max(_hockey_stick(plain, moved, epsilon), _hockey_stick(moved, plain, epsilon))


def _hockey_stick(log_p: Array, log_q: Array, epsilon: float) -> float:
    """sum (P - e^eps Q)+."""
    with np.errstate(invalid="ignore"):
        gap = np.where(np.isneginf(log_q), -np.inf, epsilon + log_q - log_p)
    worse = (gap < 0) & ~np.isneginf(log_p)
    return float(np.sum(np.exp(log_p[worse]) * -np.expm1(gap[worse])))


@dataclass(frozen=True, eq=False)
class Shuffled:
    """One phase of the shuffle model."""

    ball: Ball
    encoding: Encoding
    z_score: float
    cost: Entry

    def randomize(self, y: Array, source: Source) -> Array:
        """The ones among a person's bits, for each coordinate (alg:shuffler, the local randomizer)."""
        check_reports(y, len(self.ball.centre))
        g, radius = self.encoding.levels, self.ball.radius
        scaled = np.clip((self.ball.clip(self.ball.whiten(y)) + radius) * (g / (2 * radius)), 0.0, g)
        floor = np.floor(scaled)
        rounding = source.bernoulli(scaled - floor)
        users, arms = scaled.shape
        return np.asarray(
            floor + rounding + source.binomial(users, arms, self.encoding.trials, self.encoding.chance), dtype=float
        )

    def tally(self, reports: Array) -> Tally:
        """At the shuffler: how many of a coordinate's shuffled bits are ones, which is all they reveal."""
        check_reports(reports, len(self.ball.centre))
        bits = self.encoding.bits
        if reports.min() < 0 or reports.max() > bits or not np.array_equal(reports, np.rint(reports)):
            raise InputError(f"a report has from 0 to {bits} ones for each arm; encode it again")
        return Tally(len(reports), tuple(map(int, reports.sum(axis=0))), 1.0)

    def analyze(self, tally: Tally, source: Source) -> Feedback:
        """Count and debias (alg:shuffler, the analyzer); the noise is in the reports."""
        code, ball = self.encoding, self.ball
        if tally.count < code.users:
            raise InputError(
                f"only {tally.count} of the {code.users} people for whom the noise was made have answered; "
                "wait for the others: fewer would weaken everyone's privacy"
            )
        unit = 2 * ball.radius / code.levels
        ones = np.array(tally.total, dtype=float) - tally.count * code.trials * code.chance
        mean = ball.restore(unit * ones / tally.count - ball.radius)
        variance = replace(code, users=tally.count).variance * (unit / tally.count) ** 2
        clipping = ball.clipping(tally.count, self.z_score)
        return Feedback(mean, tally.count, variance * ball.shape, clipping, printed=not self.cost.guaranteed)

    def entry(self, count: int) -> Entry:
        return replace(self.cost, users=count)

    def describe(self) -> dict[str, Any]:
        code = self.encoding
        unit = 2 * self.ball.radius / code.levels
        return {
            "mechanism": self.cost.mechanism,
            "metric": self.ball.metric,
            "radius": self.ball.radius,
            "levels": code.levels,
            "trials": code.trials,
            "chance": code.chance,
            "bits_per_user": code.bits * len(self.ball.centre),
            "noise_std": math.sqrt(code.variance) * unit / code.users,
            "epsilon": self.cost.epsilon,
            "delta": self.cost.delta,
        }


def bits_of(ones: Array, encoding: Encoding, rng: np.random.Generator) -> Array:
    """The reports written out as bits and shuffled coordinate by coordinate, (bits of all people, arms)."""
    people, arms = ones.shape
    bits = np.zeros((people, encoding.bits, arms))
    bits[np.arange(encoding.bits)[None, :, None] < ones[:, None, :]] = 1
    return np.asarray(rng.permuted(bits.reshape(-1, arms), axis=0))
