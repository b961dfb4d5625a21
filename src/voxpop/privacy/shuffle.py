"""The shuffle model: alg:shuffler, bit for bit, with printed or calibrated parameters.

A device shifts each whitened, clipped coordinate to [0, 2R], scales it to [0, g], rounds it at random to a whole
number, and adds Bin(b, p). That number of ones, among g + b bits, is its report for the coordinate. All the bits of a
coordinate are shuffled together, so that shuffled bits reveal only how many of them are ones. The shuffler itself sees
each report, and the noise of a single device hides next to nothing from it.

Privacy of the total. A coordinate x is rounded to floor(x + t) with t uniform in [0, 1). Couple the two neighbouring
groups: let the answer that is replaced and the one that replaces it be rounded with the same t. For fixed t,
replacing one person then shifts the vector of totals by an integer vector d, and the noise of each coordinate is
independent. Before rounding |d| <= g (the ball has diameter 2R), and coupled rounding changes the difference of a
coordinate by less than one, so |d| < g + sqrt(H). (With different t it could be g + 2 sqrt(H).) Both totals are
mixtures over the same t, and mixing cannot increase the divergence. The calibration computes the delta of a shift by
ceil(g + sqrt(H)) in one coordinate, summed exactly over the support in both directions (`binomial`). Among shifts of
the same length, this one is the worst for small delta: towards the tails the log-ratio of a binomial and its shift
grows faster than linearly, and a concentrated shift reaches farther into them. (At a delta above 0.02 a spread shift
can be worse, by a fraction of a percent; such deltas are refused.) There is a margin besides: shifts whose length is
near g + sqrt(H) are spread over all coordinates by rounding, and concentrated ones have a length near g.

The noise of a total is that of the people whose devices add it. If only a share h of them does (the others send what
they like), the total of U people has noise Bin(b floor(hU), p) at least, and that is what is calibrated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from voxpop.core.errors import Array, InputError, require_number
from voxpop.core.phases import Feedback, Tally
from voxpop.privacy.ball import Ball
from voxpop.privacy.batch import Batch
from voxpop.privacy.binomial import Binomial, least
from voxpop.privacy.checks import require_count
from voxpop.privacy.clipped import Clipped, clipped_from_dict, weakness_of_noise
from voxpop.privacy.entries import Entry
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.sources import Source

MOST_DELTA = 0.01
MOST_TRIALS = 10**7
MOST_LEVELS, MOST_BITS = 10**6, 10**10  # up to these, a device computes the privacy of a total in a second
TYPICAL = 1000, 10  # people and arms of a release, to say in advance what several cost
FINENESS = 10.0  # g is at least this many times sqrt(H), so that rounding costs a tenth of the sensitivity


@dataclass(frozen=True)
class Encoding:
    """g, b and p of eq:gbp_set, and the number of people for which they were chosen."""

    levels: int  # g
    trials: int  # b
    chance: float  # p
    people: int  # |U|

    @property
    def bits(self) -> int:
        """The number of bits that a person sends for each coordinate."""
        return self.levels + self.trials

    def noise(self, arms: int, honest: float = 1.0) -> Binomial:
        """Return the noise of the totals if this share of the people adds it, and how far one person moves them."""
        return Binomial(self.trials * math.floor(honest * self.people), self.chance, shift_of(self.levels, arms))

    @property
    def variance(self) -> float:
        """Sub-Gaussian variance of a coordinate's total, from the noise and, at worst, from rounding.

        The sub-Gaussian variance of a Bernoulli variable is a little larger than its variance: it is
        (1 - 2p) / (2 ln((1 - p)/p)) (Kearns and Saul, 1998), and 1/4 at p = 1/2.
        """
        p = self.chance
        proxy = 0.25 if abs(p - 0.5) < 1e-6 else (1 - 2 * p) / (2 * math.log((1 - p) / p))
        return self.people * (self.trials * proxy + 0.25)


def printed_encoding(epsilon: float, delta: float, people: int, arms: int) -> Encoding:
    """Compute the encoding of eq:gbp_set, with g rounded up to a whole number."""
    shrunk = epsilon / (18 * math.sqrt(math.log(2 / delta)))
    log_term = math.log(4 * arms / delta)
    g = math.ceil(max(shrunk * math.sqrt(people) / (6 * math.sqrt(5 * log_term)), math.sqrt(arms), 10))
    b = math.ceil(180 * g**2 * log_term / (shrunk**2 * people))
    return Encoding(g, b, 90 * g**2 * log_term / (b * shrunk**2 * people), people)


@lru_cache(maxsize=2048)
def calibrated_encoding(epsilon: float, delta: float, people: int, arms: int, honest: float = 1.0) -> Encoding:
    """Find the encoding with the least noise for which the actual binomial total is (eps, delta)-private."""
    if delta > MOST_DELTA:
        raise InputError(f"delta must be at most {MOST_DELTA} in the shuffle model, got {delta}; lower it")
    multiplier = noise_multiplier(epsilon, delta)
    delta *= 1 - 1e-3  # the sums are exact to about 1e-4
    g = math.ceil(max(FINENESS * math.sqrt(arms), math.sqrt(people) / multiplier))
    adding = math.floor(honest * people)
    # Start from the Gaussian of the same variance, which is close, and search for the least p that suffices.
    trials = max(1, math.ceil(4.2 * (multiplier * shift_of(g, arms)) ** 2 / max(adding, 1)))
    if trials > MOST_TRIALS or not adding:
        raise InputError(
            f"{people} people are too few to shuffle for epsilon {epsilon:g} (each would send {trials:.2g} bits); "
            "ask more people, or for less privacy"
        )

    def enough(trials: int, chance: float) -> bool:
        return Encoding(g, trials, chance, people).noise(arms, honest).delta(epsilon) <= delta

    while not enough(trials, 0.5):
        trials += max(1, trials // 10)
    return Encoding(g, trials, least(lambda p: enough(trials, p), 0.0, 0.5), people)


def shift_of(levels: int, arms: int) -> int:
    """Bound the shift of the totals when one person is replaced, in the Euclidean norm, with coupled rounding."""
    return math.ceil(levels + math.sqrt(arms))


@dataclass(frozen=True, eq=False)
class Shuffled(Clipped):
    """Devices encode their answers into bits; a shuffler adds these up and forwards only totals (alg:shuffler)."""

    encoding: Encoding
    model: ClassVar[str] = "shuffle"
    seen: ClassVar[str] = (
        "A shuffler, run by somebody else, sees each answer with a little noise on it, and passes on only the total. "
        "People must trust it not to look, and the others not to be made up. It costs next to nothing."
    )
    noise_on_device: ClassVar[bool] = True
    by_shuffler: ClassVar[bool] = True
    most_delta: ClassVar[float] = MOST_DELTA

    @classmethod
    def make(cls, ball: Ball, epsilon: float, delta: float, people: int, beta: float, honest: float = 1.0) -> Self:
        """Calibrate the least noise for (eps, delta) and this number of people, of whom a share adds noise."""
        arms = len(ball.centre)
        encoding = calibrated_encoding(epsilon, delta, people, arms, honest)
        cost = Entry(cls.model, 0, epsilon, delta, binomial=encoding.noise(arms, honest), honest=honest)
        return cls(ball, beta, cost, encoding)

    @classmethod
    def cost_of(cls, epsilon: float, delta: float, honest: float = 1.0) -> Entry:
        """Return what a typical release of this promise costs a person in it; others differ by a few percent."""
        people, arms = TYPICAL
        noise = calibrated_encoding(epsilon, delta, people, arms, honest).noise(arms, honest)
        return Entry(cls.model, 0, epsilon, delta, binomial=noise, honest=honest)

    @property
    def batch(self) -> Batch:
        """What the shuffler is told; not the ball, whose centre is an earlier estimate."""
        code = self.encoding
        return Batch(code.people, self.arms, code.levels, code.trials, code.chance)

    @property
    def unit(self) -> float:
        """The value of one bit, in whitened coordinates."""
        return 2 * self.ball.radius / self.encoding.levels

    def variance(self, count: int) -> float:
        """Variance of the noise per whitened coordinate, averaged over `count` people."""
        return replace(self.encoding, people=count).variance * (self.unit / count) ** 2

    def weakness(self, epsilon: float, delta: float, honest: float = 1.0) -> str | None:
        """Recompute the privacy of the total from the encoding, and compare it with the promise."""
        code = self.encoding
        known = (
            1 <= code.levels <= MOST_LEVELS
            and 1 <= code.trials <= 2 * MOST_TRIALS
            and code.people >= 1
            and code.people * code.trials <= MOST_BITS
            and 0 < code.chance < 1
        )
        if 0 < self.ball.radius < math.inf and not known:
            return (
                f"an encoding ({code.levels} levels, {code.trials} trials of {code.chance}, "
                f"{code.people} people) whose privacy cannot be computed"
            )
        # Written with <= so that NaN is refused.
        enough = known and code.noise(self.arms, honest).delta(epsilon * (1 + 1e-9)) <= delta
        return weakness_of_noise(self.ball, enough, epsilon)

    def randomize(self, y: Array, source: Source) -> Array:
        """Draw the number of ones among a person's bits, for each coordinate (alg:shuffler, the local randomizer)."""
        code = self.encoding
        scaled = np.clip((self.clipped(y) + self.ball.radius) / self.unit, 0.0, code.levels)
        floor = np.floor(scaled)
        people, arms = scaled.shape
        ones = floor + source.bernoulli(scaled - floor) + source.binomial(people, arms, code.trials, code.chance)
        return np.asarray(ones, dtype=float)

    def tally(self, reports: Array) -> Tally:
        """Count, at the shuffler, the ones among a coordinate's shuffled bits, which is all that the bits reveal."""
        return self.batch.tally(reports)

    def require_whole(self, tally: Tally) -> Tally:
        """Return the tally, or refuse one of fewer people than the noise was calibrated for."""
        if tally.count < self.encoding.people:
            raise InputError(
                f"only {tally.count} of the {self.encoding.people} people that the noise was made for have answered; "
                "wait for the others: fewer would weaken everyone's privacy"
            )
        return tally

    def analyze(self, tally: Tally, source: Source) -> Feedback:
        """Average and debias the counts (alg:shuffler, the analyzer); the noise is in the reports already."""
        tally = self.require_whole(tally)
        ones = np.array(tally.total, dtype=float) / tally.count - self.encoding.trials * self.encoding.chance
        return self.feedback(self.unit * ones - self.ball.radius, tally.count, self.variance(tally.count))

    def describe(self) -> dict[str, Any]:
        code = self.encoding
        return {
            **super().describe(),
            "levels": code.levels,
            "trials": code.trials,
            "chance": code.chance,
            "bits_per_person": code.bits * self.arms,
            "noise_std": math.sqrt(self.variance(code.people)),
        }

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "encoding": asdict(self.encoding)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(*clipped_from_dict(data), _encoding_from_dict(data["encoding"]))


def _encoding_from_dict(data: Mapping[str, Any]) -> Encoding:
    extra = set(data) - {field.name for field in fields(Encoding)}
    if extra:
        raise InputError(f"encoding has the unknown entries {sorted(extra)}; leave them out")
    levels, trials, people = (require_count(name, data[name]) for name in ("levels", "trials", "people"))
    return Encoding(levels, trials, require_number("chance", data["chance"], above=0, below=1), people)


def bits_of(ones: Array, encoding: Encoding, rng: np.random.Generator) -> Array:
    """Write reports out as bits, shuffled coordinate by coordinate, of shape (bits of all people, arms)."""
    people, arms = ones.shape
    bits = np.zeros((people, encoding.bits, arms))
    bits[np.arange(encoding.bits)[None, :, None] < ones[:, None, :]] = 1
    return np.asarray(rng.permuted(bits.reshape(-1, arms), axis=0))
