"""The aggregate model: no single server sees a report.

A device encodes its answer (`encoded`) with levels fine enough for rounding to cost nothing and fair coins for noise,
so that the total of a batch is as good as one with Gaussian noise that is added once. It splits each whole number v
into two shares, r uniform below M and v - r modulo M (`batch`), and gives one to the coordinator and one to a helper
that somebody else runs. Each adds its shares up, and only these two totals are put together.

Against the coordinator alone, or the helper alone. r is uniform whatever v is, and so is v - r: a single share, and all
shares of one server together, are independent of every answer, whatever the server can compute. What the coordinator
learns is the sum of the two totals, which is the total of the v: binomial noise of the whole batch protects it. The
helper learns nothing at all.

Against both together, only the noise of the device itself: as much as a shuffler sees, next to nothing.

A device can lie about its own answer, as in every model, and here also send shares that do not add up to a report at
all: without a proof that v is between 0 and g + b, one device can spoil a total. (Prio3 adds such a proof.) A total
that is out of range is noticed; then nothing is released.
"""

import math
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np

from voxpop.errors import Array, InputError
from voxpop.model.waves import Tally
from voxpop.privacy.encoded import MOST_BITS, MOST_TRIALS, SURE, Encoded, Encoding, refuse_delta, shift_of
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.release import HELPER, Parts, View
from voxpop.privacy.sources import Source

FAIR = 0.5  # the chance of each trial: a device counts the ones among random bits
MOST_WIDTH = 6  # bytes of a share, so that it is exact as a JSON number and as a float
LEAST_FINENESS, FINENESS = 10.0, 100.0  # g is this many times sqrt(H), so that rounding costs a hundredth of the noise
LIKED_TRIALS = 100_000  # more are drawn only if g would be too small otherwise
CLOSE = 1000  # trials are found to a share of 1 / CLOSE


@lru_cache(maxsize=4096)
def calibrated_encoding(epsilon: float, delta: float, people: int, arms: int, honest: float = 1.0) -> Encoding:
    """Find the least number of fair coins a person for which the total is (eps, delta)-private.

    Rounding at random adds at most people / 4 to the variance of a total, and coins add trials * people / 4: for g
    above 5 sqrt(people) / multiplier, rounding is less than a hundredth of the noise.
    """
    refuse_delta(Aggregated.model, delta)
    multiplier = noise_multiplier(epsilon, delta)
    adding = math.floor(honest * people)
    fine = max(FINENESS * math.sqrt(arms), 5 * math.sqrt(people) / multiplier)
    cheap = math.sqrt(min(LIKED_TRIALS * adding, honest * MOST_BITS / 2)) / (2.2 * multiplier)
    g = math.ceil(max(LEAST_FINENESS * math.sqrt(arms), min(fine, cheap)))
    # The Gaussian of the same variance is close.
    low = math.ceil(3.8 * (multiplier * shift_of(g, arms)) ** 2 / max(adding, 1)) - 1
    if low > MOST_TRIALS or not adding:
        raise InputError(
            f"{people} people are too few to hide in for epsilon {epsilon:g} (each would toss {low:.2g} coins for an "
            "answer); ask more people, or for less privacy"
        )

    def enough(trials: int) -> bool:
        return Encoding(g, trials, FAIR, people).noise(arms, honest).delta(epsilon) <= SURE * delta

    while low > 0 and enough(low):
        low = low * 9 // 10
    high = low + max(1, low // 10)
    while not enough(high):
        low, high = high, high + max(1, high // 10)
    while high - low > max(1, high // CLOSE):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return Encoding(g, high, FAIR, people)


class Aggregated(Encoded):
    """Devices split encoded answers between a coordinator and a helper, each of which only adds up."""

    model: ClassVar[str] = "aggregate"
    second: ClassVar[str | None] = HELPER
    seen: ClassVar[str] = (
        "Nobody sees what a person answers: two servers that different people run hold a random half of it each, and "
        "only totals of whole waves are put together. People must trust the two not to work together, and the others "
        "not to be made up. It costs next to nothing."
    )

    calibrated = staticmethod(calibrated_encoding)

    def weakness(self, epsilon: float, delta: float, honest: float = 1.0) -> str | None:
        """Refuse noise that is not made of fair coins, and totals that could wrap around, before all else."""
        if self.encoding.chance != FAIR:
            return f"noise of coins with a chance of {self.encoding.chance}, which are not fair"
        if self.batch.width > MOST_WIDTH:
            return f"shares of {self.batch.width} bytes, more than {MOST_WIDTH}, which would not be exact"
        return super().weakness(epsilon, delta, honest)

    def split(self, reports: Array, source: Source) -> tuple[Array, Array]:
        """Split reports of shape (people, arms) into the coordinator's shares and the helper's."""
        modulus = self.batch.modulus
        people, arms = reports.shape
        ours = source.uniform(people, arms, self.batch.width)
        return ours.astype(float), ((reports.astype(np.int64) - ours) % modulus).astype(float)

    def parts(self, report: Array, source: Source) -> Parts:
        """Give each server its share; the helper also hears which batch the noise was made for."""
        ours, theirs = ([int(number) for number in share[0]] for share in self.split(report[None, :], source))
        return Parts({"report": ours}, {"report": theirs, **self.batch.stated()})

    def join(self, ours: Tally, theirs: Tally) -> Tally:
        """Put the totals of the two servers together; refuse a total that no people can have."""
        if ours.count != theirs.count:
            raise InputError(f"one server adds up {ours.count} shares, the other {theirs.count}; seal the same people")
        both = ours + theirs
        total = tuple(value % self.batch.modulus for value in both.total)
        self.batch.require_total(ours.count, total)
        return Tally(ours.count, total, both.step)

    def view(self, answers: Array, source: Source) -> Array:
        """Return what an attacker sees of people's answers: the coordinator, with the helper's total."""
        ours, theirs = self.split(self.randomize(answers, source), source)
        feedback = self.analyze(self.join(self.tally(ours), self.tally(theirs)), source)
        return np.asarray(self.ball.whiten(feedback.mean[None, :])[0])

    @property
    def glimpses(self) -> dict[str, View]:
        """What the coordinator alone and the helper alone hold of the first person, as shares of the modulus."""
        return {"coordinator": partial(self._glimpse, 0), "helper": partial(self._glimpse, 1)}

    def _glimpse(self, holder: int, answers: Array, source: Source) -> Array:
        shares = self.split(self.randomize(answers[:1], source), source)
        return np.asarray(shares[holder][0] / self.batch.modulus)
