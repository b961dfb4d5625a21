"""What the owner of a device was promised, and whether what the coordinator proposes keeps it.

The device believes nothing: the noise it is told to add is checked against the promise before anything is sent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from voxpop.errors import InputError, require_choice
from voxpop.privacy import MODELS, Release
from voxpop.privacy.additive import Central, Local
from voxpop.privacy.gaussian import noise_multiplier, require_delta, require_epsilon
from voxpop.privacy.release import PlainRelease
from voxpop.privacy.shuffle import Encoding, Shuffled, binomial_delta, shift_of


@dataclass(frozen=True)
class Promise:
    """The trust model, and the (eps, delta) of one report."""

    model: str = "none"
    epsilon: float = math.inf
    delta: float = 1e-6

    def __post_init__(self) -> None:
        require_choice("privacy model", self.model, ("none", *MODELS))
        if self.model != "none":
            require_epsilon(self.epsilon)
            require_delta(self.delta)

    def check(self, release: Release) -> None:
        """Refuse a release that gives less than was promised."""
        kind = {PlainRelease: "none", Central: "central", Local: "local", Shuffled: "shuffle"}[type(release)]
        if kind != self.model:
            raise InputError(
                f"the {self.model} model was promised, and the coordinator asks for {kind}; nothing is sent"
            )
        if isinstance(release, Local | Shuffled) and not math.isfinite(release.ball.radius):
            raise InputError("the coordinator asks for an answer without clipping; nothing is sent")
        if isinstance(release, Local):
            sensitivity = 2 * release.ball.radius / release.step + math.sqrt(len(release.ball.centre))
            needed = noise_multiplier(self.epsilon, self.delta) * sensitivity
            if release.std < needed * (1 - 1e-6):
                raise InputError(
                    f"the coordinator asks for less noise than epsilon {self.epsilon:g} takes; nothing is sent"
                )
        if isinstance(release, Shuffled):
            arms = len(release.ball.centre)
            if _shuffled_delta(release.encoding, arms, self.epsilon * (1 + 1e-9)) > self.delta:
                raise InputError(
                    f"the coordinator asks for less noise than epsilon {self.epsilon:g} takes; nothing is sent"
                )


@cache
def _shuffled_delta(code: Encoding, arms: int, epsilon: float) -> float:
    return binomial_delta(code.users * code.trials, code.chance, shift_of(code.levels, arms), epsilon)
