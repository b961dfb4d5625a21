"""The central and the local model: clip, and add Gaussian noise; once to the sum, or on every device.

Clipped answers are rounded to an integer grid, on which sums are exact and noise is a discrete Gaussian: no
floating-point sampler leaks through low-order bits. Rounding moves an answer by at most half a step a coordinate, so
that replacing one person moves the sum by at most 2 R / step + sqrt(H) steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from voxpop.errors import Array, InputError
from voxpop.phases import Feedback, Tally
from voxpop.privacy.ball import Ball
from voxpop.privacy.ledger import Entry
from voxpop.privacy.release import check_reports
from voxpop.privacy.sources import Source

GRID = 2.0**-30  # the grid's step, as a share of the radius


@dataclass(frozen=True, eq=False)
class Additive:
    """What both models share."""

    ball: Ball
    step: float
    std: float  # of the noise, in steps
    z_score: float  # of the width's beta, for the clipping slack
    cost: Entry  # of one release about one person

    def entry(self, count: int) -> Entry:
        return replace(self.cost, users=count)

    def describe(self) -> dict[str, Any]:
        return {
            "mechanism": self.cost.mechanism,
            "metric": self.ball.metric,
            "radius": self.ball.radius,
            "noise_std": self.std * self.step,
            "epsilon": self.cost.epsilon,
            "delta": self.cost.delta,
        }

    def _grid(self, y: Array) -> Array:
        """Whitened, clipped and rounded, in steps."""
        check_reports(y, len(self.ball.centre))
        return np.rint(self.ball.clip(self.ball.whiten(y)) / self.step)

    def _feedback(self, total: Array, count: int, variance: float) -> Feedback:
        """The mean of whitened answers, in steps, as feedback."""
        ball = self.ball
        mean = ball.restore(total * self.step / count)
        clipping = None if math.isinf(ball.radius) else ball.clipping(count, self.z_score)
        noise = variance * self.step**2 * ball.shape
        return Feedback(mean, count, noise, clipping, printed=not self.cost.guaranteed)


class Central(Additive):
    """People trust the agent: it whitens, clips, adds up, and adds noise once (eq:privatizer_cdp)."""

    def randomize(self, y: Array, source: Source) -> Array:
        return y

    def tally(self, reports: Array) -> Tally:
        grid = self._grid(reports)
        return Tally(len(grid), tuple(map(int, grid.sum(axis=0))), self.step)

    def analyze(self, tally: Tally, source: Source) -> Feedback:
        # The noise hides one person in the sum, so it is right for any number of people who answered.
        noise = source.gaussian(1, len(tally.total), self.std)[0]
        total = np.array([value + int(extra) for value, extra in zip(tally.total, noise, strict=True)], dtype=float)
        return self._feedback(total, tally.count, self.std**2 / tally.count**2)


class Local(Additive):
    """People trust nobody: each device whitens, clips and adds noise itself (eq:randomizer_ldp)."""

    def randomize(self, y: Array, source: Source) -> Array:
        grid = self._grid(y)
        users, arms = grid.shape
        return grid + source.gaussian(users, arms, self.std)

    def tally(self, reports: Array) -> Tally:
        check_reports(reports, len(self.ball.centre))
        farthest = self.ball.radius / self.step + 40 * self.std if math.isfinite(self.ball.radius) else math.inf
        largest = float(np.abs(reports).max())
        if largest > farthest:
            raise InputError(f"a report holds {largest:g}, which no device sends (at most {farthest:g}); send it again")
        return Tally(len(reports), tuple(map(int, np.rint(reports).sum(axis=0))), self.step)

    def analyze(self, tally: Tally, source: Source) -> Feedback:
        return self._feedback(np.array(tally.total, dtype=float), tally.count, self.std**2 / tally.count)
