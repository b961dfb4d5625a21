"""No privacy: everyone trusts the agent with their averages."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from voxpop.errors import Array, largest
from voxpop.model.problem import Problem
from voxpop.model.state import Open, State
from voxpop.model.strata import Sample
from voxpop.model.waves import Feedback, Plan, Tally, check_scale
from voxpop.privacy.crowds import unclipped
from voxpop.privacy.ledger import Entry
from voxpop.privacy.release import Count, Positive, Release, check_finite, check_length
from voxpop.privacy.sources import Source

WIDE = 10.0  # times what the model says is the most


@dataclass(frozen=True)
class PlainRelease(Release):
    """A release without privacy: averages are sent as they are, and clipped to a public range before they count.

    >>> PlainRelease(0.5, 2, -1.0, 1.0).tally(np.array([[0.5, 1e9], [0.5, 1.0]])).total
    (2, 4)
    """

    step: Positive
    arms: Count
    low: float | tuple[float, ...] | None = None  # of each number, if there are several metrics
    high: float | tuple[float, ...] | None = None  # None: there is no such limit, as in waves of earlier versions
    model: ClassVar[str] = "none"
    fills_gaps: ClassVar[bool] = False
    seen: ClassVar[str] = (
        "Nothing is promised. Whoever runs the service sees what each person answers until the wave closes, and the "
        "exact averages are published. It costs nothing."
    )

    def randomize(self, y: Array, source: Source) -> Array:
        return y

    def tally(self, reports: Array) -> Tally:
        check_length(reports, self.arms)
        check_finite(reports)
        check_scale(largest(reports), self.step)  # a mistake of units is refused, and not counted as an extreme
        return Tally.of(np.clip(reports, *self.limits), self.step)

    @property
    def limits(self) -> tuple[float | Array, float | Array]:
        low, high = (np.array(one) if isinstance(one, tuple) else one for one in (self.low, self.high))
        return -math.inf if low is None else low, math.inf if high is None else high

    def crowd(self, mean: Array, root: Array, people: int, rng: np.random.Generator) -> Tally:
        return unclipped(mean, root, people, self.step, rng)

    def analyze(self, tally: Tally, source: Source) -> Feedback:
        return tally.feedback()

    def weighted(self, reports: Array, sample: Sample, source: Source) -> Feedback:
        return sample.strata.average(
            {name: self.tally(reports[rows]).feedback() for name, rows in sample.members.items()}
        )

    def entry(self, count: int) -> Entry:
        return Entry(self.model, count)


def public_range(problem: Problem, state: State) -> tuple[float, float]:
    """Return what answers are clipped to: the limits of the reward, or else far beyond what the model lets people say.

    Where f has norm B and people differ by v k, averages of one round stay within (B + 10 v) sqrt(k) + 10 sigma of the
    prior mean, up to a chance of 1e-22. The range is wider, for constants that are wrong by some factor.
    """
    most = (max(problem.norm_bound, state.norm_bound) + problem.bias_std) * math.sqrt(problem.largest_variance)
    room, (low, high) = WIDE * (most + problem.noise_std), problem.limits
    least, largest = float(problem.means.min()) - room, float(problem.means.max()) + room
    return low if math.isfinite(low) else least, high if math.isfinite(high) else largest


@dataclass(frozen=True)
class NoPrivacy(Open):
    """The trust model that promises nothing."""

    model: ClassVar[str] = PlainRelease.model
    release_type: ClassVar[type[Release]] = PlainRelease
    budget: ClassVar[None] = None
    cost: ClassVar[None] = None

    def calibrate(self, problem: Problem, state: State, plan: Plan) -> Release:
        if not plan.also:
            return PlainRelease(problem.grid_step, len(plan.arms), *public_range(problem, state))
        each = [public_range(*known) for known in zip(problem.metrics, state.metrics, strict=True)]
        low, high = (tuple(limit for limit in limits for _ in plan.arms) for limits in zip(*each, strict=True))
        step = min(metric.grid_step for metric in problem.metrics)
        return PlainRelease(step, plan.coordinates, low, high)

    def describe(self) -> dict[str, Any]:
        return {"privacy": self.model, "epsilon": None, "delta": None, "calibration": None, "caveats": []}

    def settings(self) -> dict[str, Any]:
        return {"model": self.model}
