"""No privacy: everyone trusts the agent with their averages."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from voxpop.errors import Array
from voxpop.model.problem import Problem
from voxpop.model.state import Open, State
from voxpop.model.strata import Sample
from voxpop.model.waves import Feedback, Plan, Tally
from voxpop.privacy.crowds import unclipped
from voxpop.privacy.ledger import Entry
from voxpop.privacy.release import Count, Positive, Release, check_length
from voxpop.privacy.sources import Source


@dataclass(frozen=True)
class PlainRelease(Release):
    """A release without privacy: averages are sent as they are.

    >>> PlainRelease(0.5, 3)
    PlainRelease(step=0.5, arms=3)
    """

    step: Positive
    arms: Count
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
        return Tally.of(reports, self.step)

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


@dataclass(frozen=True)
class NoPrivacy(Open):
    """The trust model that promises nothing."""

    model: ClassVar[str] = PlainRelease.model
    release_type: ClassVar[type[Release]] = PlainRelease
    budget: ClassVar[None] = None
    cost: ClassVar[None] = None

    def calibrate(self, problem: Problem, state: State, plan: Plan) -> Release:
        return PlainRelease(problem.grid_step, len(plan.arms))

    def describe(self) -> dict[str, Any]:
        return {"privacy": self.model, "epsilon": None, "delta": None, "calibration": None, "caveats": []}

    def settings(self) -> dict[str, Any]:
        return {"model": self.model}
