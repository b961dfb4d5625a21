"""The local model: people trust nobody, and their own devices add the noise."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from voxpop.errors import Array, InputError
from voxpop.model.waves import Feedback, Tally
from voxpop.privacy.clipped import MOST_STD, Additive, weakness_of_noise
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.release import Positive, check_finite, check_length
from voxpop.privacy.sources import Source

# Steps per radius: enough for a discrete Gaussian to be as good as a continuous one, and, like MOST_STD, few enough for
# reports to be exact as floats.
LEAST_STEPS, MOST_STEPS = 2.0**10, 2.0**32
FARTHEST = 2.0**52  # where a printed release, which does not clip, cuts off answers


@dataclass(frozen=True, eq=False)
class Local(Additive):
    """Each device whitens, clips and adds noise itself (eq:randomizer_ldp)."""

    std: Positive  # of the noise, in steps
    model: ClassVar[str] = "local"
    seen: ClassVar[str] = (
        "Nobody sees what a person answers: each device adds noise of its own before it sends anything. It takes many "
        "more people."
    )
    noise_on_device: ClassVar[bool] = True

    def variance(self, count: int) -> float:
        return (self.std * self.step) ** 2 / count

    def weakness(self, epsilon: float, delta: float, honest: float = 1.0) -> str | None:
        """Recompute the noise that the promise takes, and compare it with the noise of the release."""
        steps = self.ball.radius / self.step
        if 0 < self.ball.radius < math.inf and not LEAST_STEPS <= steps <= MOST_STEPS:
            return f"a grid of {steps:g} steps per radius, for which the noise is not known to be enough"
        if self.std > MOST_STD:
            return f"noise of {self.std:g} steps, more than {MOST_STD:g}, with which a report would not be exact"
        needed = noise_multiplier(epsilon, delta) * (2 * steps + math.sqrt(self.arms))
        # Written with >= so that NaN is refused.
        return weakness_of_noise(self.ball, self.std >= needed * (1 - 1e-6), epsilon)

    def randomize(self, y: Array, source: Source) -> Array:
        # Whole numbers are added to whole numbers: a sum of floats would be rounded, in a way that depends on y.
        grid = np.clip(self.grid(y), -FARTHEST, FARTHEST).astype(np.int64)
        people, arms = grid.shape
        return (grid + source.gaussian(people, arms, self.std)).astype(float)

    def tally(self, reports: Array) -> Tally:
        check_length(reports, self.arms)
        check_finite(reports)
        farthest = self.ball.radius / self.step + 40 * self.std if math.isfinite(self.ball.radius) else math.inf
        largest = float(np.abs(reports).max())
        if largest > farthest:
            raise InputError(f"a report holds {largest:g}, which no device sends (at most {farthest:g}); send it again")
        return Tally.of_steps(np.rint(reports), self.step)

    def analyze(self, tally: Tally, source: Source) -> Feedback:
        mean = np.array(tally.total, dtype=float) * self.step / tally.count
        return self.feedback(mean, tally.count, self.variance(tally.count))

    def view(self, answers: Array, source: Source) -> Array:
        """Return what an attacker sees: a single person's own report."""
        return super().view(answers[:1], source)
