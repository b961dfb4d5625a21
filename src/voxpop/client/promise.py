"""What the owner of a device was promised, and whether what the coordinator proposes keeps it.

The device believes nothing: the noise it is told to add is checked against the promise before anything is sent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from voxpop.core.errors import InputError, require_choice, require_integer
from voxpop.privacy import MODELS, Release
from voxpop.privacy.additive import Central, Local
from voxpop.privacy.gaussian import noise_multiplier, require_delta, require_epsilon
from voxpop.privacy.release import PlainRelease
from voxpop.privacy.shuffle import MOST_DELTA, MOST_TRIALS, Encoding, Shuffled, binomial_delta, shift_of

# Where the noise is what its analysis says: a grid so fine that a discrete Gaussian is as good as a continuous one and
# so coarse that floats hold its numbers, and binomials whose logarithms are right to the fourth digit.
LEAST_STEPS, MOST_STEPS = 2.0**10, 2.0**40
MOST_LEVELS, MOST_BITS = 10**6, 10**10


@dataclass(frozen=True)
class Promise:
    """The trust model, the (eps, delta) of one report, and how many reports may ever leave the device."""

    model: str = "none"
    epsilon: float = math.inf
    delta: float = 1e-6
    participations: int = 1

    def __post_init__(self) -> None:
        require_integer("participations", self.participations, least=1)
        require_choice("privacy model", self.model, ("none", *MODELS))
        if self.model != "none":
            require_epsilon(self.epsilon)
            require_delta(self.delta)
        if self.model == "shuffle" and self.delta > MOST_DELTA:
            raise InputError(f"delta must be at most {MOST_DELTA} in the shuffle model, got {self.delta}; lower it")

    def check(self, release: Release) -> None:
        """Refuse a release that gives less than was promised."""
        kind = {PlainRelease: "none", Central: "central", Local: "local", Shuffled: "shuffle"}[type(release)]
        if kind != self.model:
            raise InputError(
                f"the {self.model} model was promised, and the coordinator asks for {kind}; nothing is sent"
            )
        if isinstance(release, Local | Shuffled) and not 0 < release.ball.radius < math.inf:
            raise InputError("the coordinator asks for an answer without clipping; nothing is sent")
        # Whatever cannot be compared is refused: NaN is neither less than enough nor enough.
        if isinstance(release, Local) and not self._enough(release):
            raise InputError(
                f"the coordinator asks for less noise than epsilon {self.epsilon:g} takes; nothing is sent"
            )
        if isinstance(release, Shuffled) and not self._enough_shuffled(release):
            raise InputError(
                f"the coordinator asks for less noise than epsilon {self.epsilon:g} takes; nothing is sent"
            )

    def _enough(self, release: Local) -> bool:
        steps = release.ball.radius / release.step
        if not LEAST_STEPS <= steps <= MOST_STEPS:
            raise InputError(
                f"the coordinator asks for a grid of {steps:g} steps a radius, for which the noise is not known to be "
                "enough; nothing is sent"
            )
        sensitivity = 2 * steps + math.sqrt(len(release.ball.centre))
        return release.std >= noise_multiplier(self.epsilon, self.delta) * sensitivity * (1 - 1e-6)

    def _enough_shuffled(self, release: Shuffled) -> bool:
        code = release.encoding
        known = (
            1 <= code.levels <= MOST_LEVELS
            and 1 <= code.trials <= 2 * MOST_TRIALS
            and code.users >= 1
            and code.users * code.trials <= MOST_BITS
            and 0 < code.chance < 1
        )
        if not known:
            raise InputError(
                f"the coordinator asks for an encoding ({code.levels} levels, {code.trials} trials of {code.chance}, "
                f"{code.users} people) whose privacy cannot be computed; nothing is sent"
            )
        return _shuffled_delta(code, len(release.ball.centre), self.epsilon * (1 + 1e-9)) <= self.delta


@cache
def _shuffled_delta(code: Encoding, arms: int, epsilon: float) -> float:
    return binomial_delta(code.users * code.trials, code.chance, shift_of(code.levels, arms), epsilon)
