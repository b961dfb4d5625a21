"""The aggregate model: no single server sees a report.

A device encodes its answer (`encoded`) with levels fine enough for rounding to cost nothing and fair coins for noise,
so that the total of a batch is as good as one with Gaussian noise that is added once. It shares the bits of each whole
number v (`prio3`), r and v - r modulo M, between the coordinator and a helper that somebody else runs, together with a
proof that v is between 0 and g + b. Both check the proof, each adds its shares up, and only these two totals are put
together.

Against the coordinator alone, or the helper alone. r is a seed that is expanded, which looks uniform to whoever does
not have the seed, and so does v - r: a single share, and all shares of one server together, tell nothing of any answer.
Nor do verifier shares, which the proof's own randomness hides. What the coordinator learns is the sum of the two
totals, which is the total of the v: binomial noise of the whole batch protects it. The helper learns which proofs are
wrong, and nothing else.

Against both together, only the noise of the device itself: as much as a shuffler sees, next to nothing.

A device can lie about its own answer, as in every model: its numbers are what it likes from 0 to g + b. With anything
else its proof is wrong, and its report is refused alone. A total that is out of range can only come from a server; then
nothing is released.
"""

import math
from base64 import b64encode
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np

from voxpop.errors import Array, InputError
from voxpop.model.waves import Tally
from voxpop.privacy.encoded import MOST_BITS, MOST_TRIALS, SURE, Encoded, Encoding, refuse_delta, shift_of
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.release import COORDINATING, HELPER, HELPING, Parts, View
from voxpop.privacy.sources import Source

FAIR = 0.5  # the chance of each trial: a device counts the ones among random bits
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
        """Refuse noise that is not made of fair coins, before all else."""
        if self.encoding.chance != FAIR:
            return f"noise of coins with a chance of {self.encoding.chance}, which are not fair"
        return super().weakness(epsilon, delta, honest)

    @property
    def words(self) -> int:
        return self.batch.words(COORDINATING)

    def gather(self, stored: Array) -> Tally:
        return self.batch.gather(stored, COORDINATING)

    def split(self, report: Array, source: Source) -> tuple[bytes, bytes]:
        """Split one report into the coordinator's share and the helper's, each with its share of the proof."""
        prio3 = self.batch.prio3
        ours, theirs = prio3.shard(report.tolist(), source.bytes(prio3.random_bytes))
        return ours, theirs

    def parts(self, report: Array, source: Source) -> Parts:
        """Give each server its share; the helper also hears which batch the noise was made for."""
        ours, theirs = self.split(report, source)
        return Parts(ours, {"report": b64encode(theirs).decode(), **self.batch.stated()})

    def join(self, ours: Tally, theirs: Tally) -> Tally:
        """Put the totals of the two servers together; refuse a total that no people can have."""
        if ours.count != theirs.count:
            raise InputError(f"one server adds up {ours.count} shares, the other {theirs.count}; seal the same people")
        both = ours + theirs
        total = tuple(value % self.batch.modulus for value in both.total)
        self.batch.require_total(ours.count, total)
        return Tally(ours.count, total, both.step)

    @property
    def glimpses(self) -> dict[str, View]:
        """What the coordinator alone and the helper alone hold of the first person, as shares of the modulus."""
        return {"coordinator": partial(self._glimpse, COORDINATING), "helper": partial(self._glimpse, HELPING)}

    def _glimpse(self, holder: int, answers: Array, source: Source) -> Array:
        share = self.split(self.randomize(answers[:1], source)[0], source)[holder]
        return np.asarray(self.batch.prio3.outputs(holder, [share])[0] / self.batch.modulus)
