"""Gaussian noise on an integer grid, as the central and the local model add it.

Clipped answers are rounded to an integer grid, on which sums are exact and noise is a discrete Gaussian: nothing leaks
through the low-order bits of a floating-point sampler, or through the rounding of a floating-point sum. Rounding is to
the nearest step and moves an answer by at most half a step per coordinate, so replacing one person moves the sum by at
most 2 R / step + sqrt(H) steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from voxpop.core.errors import Array, require_number
from voxpop.privacy.ball import Ball
from voxpop.privacy.clipped import Clipped, clipped_from_dict
from voxpop.privacy.entries import Entry
from voxpop.privacy.gaussian import noise_multiplier

GRID = 2.0**-30  # the grid's step, as a share of the radius
MOST_STD = 2.0**44  # of the noise, in steps; if more noise is needed, the grid is coarser


@dataclass(frozen=True, eq=False)
class Additive(Clipped):
    """A release with Gaussian noise on a grid, added to each answer or to their sum."""

    step: float
    std: float  # of the noise, in steps

    @classmethod
    def make(cls, ball: Ball, epsilon: float, delta: float, people: int, beta: float, honest: float = 1.0) -> Self:
        """Calibrate the least noise for (eps, delta); it depends neither on the number of people nor on the others."""
        cost = cls.cost_of(epsilon, delta)
        assert cost.multiplier is not None
        step = ball.radius * max(GRID, 2.5 * cost.multiplier / MOST_STD)
        sensitivity = 2 * ball.radius / step + math.sqrt(len(ball.centre))
        return cls(ball, beta, cost, step, cost.multiplier * sensitivity)

    @classmethod
    def cost_of(cls, epsilon: float, delta: float, honest: float = 1.0) -> Entry:
        """Return what any release of this promise costs a person in it."""
        return Entry(cls.model, 0, epsilon, delta, noise_multiplier(epsilon, delta))

    def grid(self, y: Array) -> Array:
        """Whiten, clip and round answers to whole steps."""
        return np.rint(self.clipped(y) / self.step)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "noise_std": self.std * self.step}

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "step": self.step, "std": self.std}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        step = require_number("step", data["step"], above=0)
        std = require_number("std", data["std"], **({"above": 0} if cls.noise_on_device else {"least": 0}))
        return cls(*clipped_from_dict(data), step, std)
