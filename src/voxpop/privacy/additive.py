"""The central and the local model: clip, and add Gaussian noise; once to the sum, or on every device.

Clipped answers are rounded to an integer grid, on which sums are exact and noise is a discrete Gaussian: no
floating-point sampler leaks through low-order bits. Rounding moves an answer by at most half a step a coordinate, so
that replacing one person moves the sum by at most 2 R / step + sqrt(H) steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from voxpop.core.errors import Array, InputError
from voxpop.core.phases import Feedback, Tally
from voxpop.privacy.ball import Ball
from voxpop.privacy.crowds import clipped
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.ledger import Entry
from voxpop.privacy.release import Clipped, check_finite, check_length
from voxpop.privacy.sources import Source

GRID = 2.0**-30  # the grid's step, as a share of the radius


@dataclass(frozen=True, eq=False)
class Additive(Clipped):
    """What both models share."""

    step: float
    std: float  # of the noise, in steps

    @classmethod
    def make(cls, ball: Ball, epsilon: float, delta: float, users: int, beta: float) -> Self:
        """The least noise for (eps, delta); it does not depend on the number of people."""
        step = ball.radius * GRID
        multiplier = noise_multiplier(epsilon, delta)
        sensitivity = 2 * ball.radius / step + math.sqrt(len(ball.centre))
        cost = Entry(cls.__name__.lower(), 0, epsilon, delta, multiplier)
        return cls(ball, beta, cost, step, multiplier * sensitivity)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "noise_std": self.std * self.step}

    def _grid(self, y: Array) -> Array:
        """Whitened, clipped and rounded, in steps."""
        return np.rint(self.clipped(y) / self.step)


class Central(Additive):
    """People trust the agent: it whitens, clips, adds up, and adds noise once (eq:privatizer_cdp)."""

    def variance(self, users: int) -> float:
        """Of the noise in the average of so many people, a coordinate."""
        return (self.std * self.step / users) ** 2

    def randomize(self, y: Array, source: Source) -> Array:
        return y

    def tally(self, reports: Array) -> Tally:
        return Tally.of_steps(self._grid(reports), self.step)

    def crowd(self, mean: Array, root: Array, users: int, rng: np.random.Generator) -> Tally:
        """The tally of so many Gaussian people."""
        return clipped(mean, root, users, self.ball, self.step, self.tally, rng)

    def analyze(self, tally: Tally, source: Source) -> Feedback:
        # The noise hides one person in the sum, so it is right for any number of people who answered.
        noise = source.gaussian(1, len(tally.total), self.std)[0].tolist()
        total = np.array([value + extra for value, extra in zip(tally.total, noise, strict=True)], dtype=float)
        return self.feedback(total * self.step / tally.count, tally.count, self.variance(tally.count))


class Local(Additive):
    """People trust nobody: each device whitens, clips and adds noise itself (eq:randomizer_ldp)."""

    def variance(self, users: int) -> float:
        """Of the noise in the average of so many people, a coordinate."""
        return (self.std * self.step) ** 2 / users

    def randomize(self, y: Array, source: Source) -> Array:
        grid = self._grid(y)
        users, arms = grid.shape
        return grid + source.gaussian(users, arms, self.std)

    def tally(self, reports: Array) -> Tally:
        check_length(reports, len(self.ball.centre))
        check_finite(reports)
        farthest = self.ball.radius / self.step + 40 * self.std if math.isfinite(self.ball.radius) else math.inf
        largest = float(np.abs(reports).max())
        if largest > farthest:
            raise InputError(f"a report holds {largest:g}, which no device sends (at most {farthest:g}); send it again")
        return Tally.of_steps(np.rint(reports), self.step)

    def analyze(self, tally: Tally, source: Source) -> Feedback:
        mean = np.array(tally.total, dtype=float) * self.step / tally.count
        return self.feedback(mean, tally.count, self.variance(tally.count))
