"""The shuffle model: alg:shuffler, bit for bit, with the printed or with calibrated parameters.

A device shifts each whitened, clipped coordinate to [0, 2R], scales it to [0, g], rounds it at random to a whole
number, and adds Bin(b, p). That number of ones, among g + b bits, is its report for the coordinate. All the bits of a
coordinate are shuffled together, so all that anyone sees of them is how many are ones.

Privacy of the total. For fixed rounding, replacing one person shifts the vector of totals by an integer vector d, and
the noise Bin(bU, p) of each coordinate is independent. Before rounding |d| <= g (the ball has diameter 2R), and
rounding both answers moves each coordinate by less than one, so |d| < g + sqrt(H). Averaging over the rounding is a
mixture, which cannot increase the divergence. The delta that is calibrated is that of a shift by ceil(g + sqrt(H)) in
one coordinate, summed exactly over the support in both directions. Among shifts of one length that is the worst for
small delta: towards the tails the log-ratio of a binomial and its shift grows faster than linearly, and a concentrated
shift reaches farther into them. (At a delta above 0.02 a spread shift can be worse, by a fraction of a percent; such
deltas are refused.) Besides, shifts that come near the length g + sqrt(H) are spread over all coordinates by rounding,
and concentrated ones have a length near g, so there is room on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.special import gammaln

from voxpop.core.errors import Array, InputError
from voxpop.core.phases import Feedback, Tally
from voxpop.privacy.ball import Ball
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.ledger import Entry
from voxpop.privacy.release import Clipped, check_finite, check_length
from voxpop.privacy.sources import Source

MOST_DELTA = 0.01
MOST_TRIALS = 10**7
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
        """Of a coordinate's total, noise and at worst rounding; as a sub-Gaussian variance, which is a little more.

        That of a Bernoulli variable is (1 - 2p) / (2 ln((1 - p)/p)) (Kearns and Saul, 1998), and 1/4 at p = 1/2.
        """
        p = self.chance
        proxy = 0.25 if abs(p - 0.5) < 1e-6 else (1 - 2 * p) / (2 * math.log((1 - p) / p))
        return self.users * (self.trials * proxy + 0.25)


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
    if delta > MOST_DELTA:
        raise InputError(f"delta must be at most {MOST_DELTA} in the shuffle model, got {delta}; lower it")
    multiplier = noise_multiplier(epsilon, delta)
    delta *= 1 - 1e-3  # the sums are exact to about 1e-4
    g = math.ceil(max(FINENESS * math.sqrt(arms), math.sqrt(users) / multiplier))
    shift = shift_of(g, arms)
    # Start from the Gaussian of the same variance, which is close, and search for the least p that is enough.
    trials = max(1, math.ceil(4.2 * (multiplier * shift) ** 2 / users))
    if trials > MOST_TRIALS:
        raise InputError(
            f"{users} people are too few to shuffle for epsilon {epsilon:g} (each would send {trials:.2g} bits); "
            "ask more people, or for less privacy"
        )
    while binomial_delta(users * trials, 0.5, shift, epsilon) > delta:
        trials += max(1, trials // 10)
    chance = _least(lambda p: binomial_delta(users * trials, p, shift, epsilon) <= delta, 0.0, 0.5)
    return Encoding(g, trials, chance, users)


def achieved_epsilon(encoding: Encoding, arms: int, delta: float) -> float:
    """The eps that the actual binomial total gives at delta."""
    shift, trials = shift_of(encoding.levels, arms), encoding.users * encoding.trials

    def enough(epsilon: float) -> bool:
        return binomial_delta(trials, encoding.chance, shift, epsilon) <= delta

    low, high = 0.0, 1.0
    while not enough(high):
        low, high = high, 2 * high
    return _least(enough, low, high)


def _least(enough: Callable[[float], bool], low: float, high: float) -> float:
    """The least number that is enough, by halving; `high` is, and so is what is returned."""
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
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
class Shuffled(Clipped):
    """One phase of the shuffle model."""

    encoding: Encoding

    @classmethod
    def make(cls, ball: Ball, epsilon: float, delta: float, users: int, beta: float) -> Shuffled:
        """The least noise for (eps, delta) and this number of people."""
        encoding = calibrated_encoding(epsilon, delta, users, len(ball.centre))
        return cls(ball, beta, Entry("shuffle", 0, epsilon, delta), encoding)

    @property
    def unit(self) -> float:
        """What one bit stands for, in whitened coordinates."""
        return 2 * self.ball.radius / self.encoding.levels

    def variance(self, users: int) -> float:
        """Of the noise in the average of so many people, a coordinate."""
        return replace(self.encoding, users=users).variance * (self.unit / users) ** 2

    def randomize(self, y: Array, source: Source) -> Array:
        """The ones among a person's bits, for each coordinate (alg:shuffler, the local randomizer)."""
        code = self.encoding
        scaled = np.clip((self.clipped(y) + self.ball.radius) / self.unit, 0.0, code.levels)
        floor = np.floor(scaled)
        users, arms = scaled.shape
        ones = floor + source.bernoulli(scaled - floor) + source.binomial(users, arms, code.trials, code.chance)
        return np.asarray(ones, dtype=float)

    def tally(self, reports: Array) -> Tally:
        """At the shuffler: how many of a coordinate's shuffled bits are ones, which is all they reveal."""
        return count_ones(reports, len(self.ball.centre), self.encoding.bits)

    def seal(self, tally: Tally) -> Tally:
        """At the shuffler: nothing leaves before everyone for whom the noise was made has answered."""
        if tally.count < self.encoding.users:
            raise InputError(
                f"only {tally.count} of the {self.encoding.users} people for whom the noise was made have answered; "
                "wait for the others: fewer would weaken everyone's privacy"
            )
        return tally

    def analyze(self, tally: Tally, source: Source) -> Feedback:
        """Count and debias (alg:shuffler, the analyzer); the noise is in the reports."""
        tally = self.seal(tally)
        ones = np.array(tally.total, dtype=float) / tally.count - self.encoding.trials * self.encoding.chance
        return self.feedback(self.unit * ones - self.ball.radius, tally.count, self.variance(tally.count))

    def describe(self) -> dict[str, Any]:
        code = self.encoding
        return {
            **super().describe(),
            "levels": code.levels,
            "trials": code.trials,
            "chance": code.chance,
            "bits_per_user": code.bits * len(self.ball.centre),
            "noise_std": math.sqrt(self.variance(code.users)),
        }


def count_ones(reports: Array, arms: int, bits: int) -> Tally:
    """The ones of each coordinate in all reports; a shuffler needs to know no more than how many bits there are."""
    check_length(reports, arms)
    check_finite(reports)
    if reports.min() < 0 or reports.max() > bits or (reports != np.rint(reports)).any():
        raise InputError(f"a report has from 0 to {bits} ones for each arm; encode it again")
    return Tally.of_steps(reports, 1.0)


def bits_of(ones: Array, encoding: Encoding, rng: np.random.Generator) -> Array:
    """The reports written out as bits and shuffled coordinate by coordinate, (bits of all people, arms)."""
    people, arms = ones.shape
    bits = np.zeros((people, encoding.bits, arms))
    bits[np.arange(encoding.bits)[None, :, None] < ones[:, None, :]] = 1
    return np.asarray(rng.permuted(bits.reshape(-1, arms), axis=0))
