"""The shuffle model: alg:shuffler, bit for bit, with printed or calibrated parameters.

A report (`encoded`) is a number of ones among g + b bits. All the bits of a coordinate are shuffled together, so that
shuffled bits reveal only how many of them are ones. The shuffler itself sees each report, and the noise of a single
device hides next to nothing from it.
"""

import math
from functools import lru_cache
from typing import ClassVar

from voxpop.errors import Array, InputError
from voxpop.privacy.binomial import least
from voxpop.privacy.encoded import MOST_TRIALS, SURE, Encoded, Encoding, refuse_delta, shift_of
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.release import SHUFFLER, Parts
from voxpop.privacy.sources import Source

FINENESS = 10.0  # g is at least this many times sqrt(H), so that rounding costs a tenth of the sensitivity


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
    refuse_delta("shuffle", delta)
    multiplier = noise_multiplier(epsilon, delta)
    delta *= SURE
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


class Shuffled(Encoded):
    """Devices encode their answers into bits; a shuffler adds these up and forwards only totals (alg:shuffler)."""

    model: ClassVar[str] = "shuffle"
    second: ClassVar[str | None] = SHUFFLER
    seen: ClassVar[str] = (
        "A shuffler, run by somebody else, sees each answer with a little noise on it, and passes on only the total. "
        "People must trust it not to look, and the others not to be made up. It costs next to nothing."
    )

    calibrated = staticmethod(calibrated_encoding)

    def parts(self, report: Array, source: Source) -> Parts:
        """Send the whole report to the shuffler, with the batch that its noise was made for."""
        return Parts(helper={"report": report.tolist(), **self.batch.stated()})
