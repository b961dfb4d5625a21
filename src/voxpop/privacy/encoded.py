"""Answers encoded as whole numbers with binomial noise, which are private as a total: the shuffle and aggregate models.

A device shifts each whitened, clipped coordinate to [0, 2R], scales it to [0, g], rounds it at random to a whole
number, and adds Bin(b, p). That number is its report for the coordinate (alg:shuffler, the local randomizer).

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

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from msgspec import Meta

from voxpop.errors import Array, InputError
from voxpop.model.waves import Feedback, Tally
from voxpop.privacy.ball import Ball
from voxpop.privacy.binomial import Binomial
from voxpop.privacy.clipped import Clipped, weakness_of_noise
from voxpop.privacy.ledger import Entry
from voxpop.privacy.release import HELPER, Batch, Count
from voxpop.privacy.sources import Source

MOST_DELTA = 0.01
MOST_TRIALS = 10**7
MOST_LEVELS, MOST_BITS = 10**6, 10**10  # up to these, a device computes the privacy of a total in a second
TYPICAL = 1000, 10  # people and arms of a release, to say in advance what several cost
SURE = 1 - 1e-3  # of the delta that is calibrated for: the sums are exact to about 1e-4


@dataclass(frozen=True)
class Encoding:
    """g, b and p of eq:gbp_set, and the number of people for which they were chosen."""

    levels: Count  # g
    trials: Count  # b
    chance: Annotated[float, Meta(gt=0, lt=1)]  # p
    people: Count  # |U|

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


def shift_of(levels: int, arms: int) -> int:
    """Bound the shift of the totals when one person is replaced, in the Euclidean norm, with coupled rounding."""
    return math.ceil(levels + math.sqrt(arms))


def refuse_delta(model: str, delta: float) -> None:
    """Refuse a delta for which the worst move is not known."""
    if delta > MOST_DELTA:
        raise InputError(f"delta must be at most {MOST_DELTA} in the {model} model, got {delta}; lower it")


@dataclass(frozen=True, eq=False)
class Encoded(Clipped):
    """A release of totals of encoded answers; the models that inherit from it say who adds them up."""

    encoding: Encoding
    noise_on_device: ClassVar[bool] = True
    most_delta: ClassVar[float] = MOST_DELTA
    # From eps, delta, people, arms and the honest share: the least noise for which the actual total is private.
    calibrated: ClassVar[Callable[[float, float, int, int, float], Encoding]]

    @classmethod
    def make(cls, ball: Ball, epsilon: float, delta: float, people: int, beta: float, honest: float = 1.0) -> Self:
        """Calibrate the least noise for (eps, delta) and this number of people, of whom a share adds noise."""
        arms = len(ball.centre)
        encoding = cls.calibrated(epsilon, delta, people, arms, honest)
        cost = Entry(cls.model, 0, epsilon, delta, binomial=encoding.noise(arms, honest), honest=honest)
        return cls(ball, beta, cost, encoding)

    @classmethod
    def cost_of(cls, epsilon: float, delta: float, honest: float = 1.0) -> Entry:
        """Return what a typical release of this promise costs a person in it; others differ by a few percent."""
        people, arms = TYPICAL
        noise = cls.calibrated(epsilon, delta, people, arms, honest).noise(arms, honest)
        return Entry(cls.model, 0, epsilon, delta, binomial=noise, honest=honest)

    @property
    def batch(self) -> Batch:
        """What the second server is told; not the ball, whose centre is an earlier estimate."""
        code = self.encoding
        return Batch(code.people, self.arms, code.levels, code.trials, code.chance, self.second == HELPER)

    @property
    def unit(self) -> float:
        """The value of one bit, in whitened coordinates."""
        return 2 * self.ball.radius / self.encoding.levels

    def variance(self, count: int) -> float:
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

    def alone(self) -> Self:
        return replace(self, encoding=replace(self.encoding, people=1))

    def randomize(self, y: Array, source: Source) -> Array:
        """Draw the number of ones among a person's bits, for each coordinate (alg:shuffler, the local randomizer)."""
        code = self.encoding
        scaled = np.clip((self.clipped(y) + self.ball.radius) / self.unit, 0.0, code.levels)
        floor = np.floor(scaled)
        people, arms = scaled.shape
        ones = floor + source.bernoulli(scaled - floor) + source.binomial(people, arms, code.trials, code.chance)
        return np.asarray(ones, dtype=float)

    def tally(self, reports: Array) -> Tally:
        """Count the ones of each coordinate, which is all that shuffled bits reveal."""
        return self.batch.tally(reports)

    def require_whole(self, tally: Tally) -> Tally:
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
