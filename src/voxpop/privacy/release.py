"""What every trust model is: a way to enlist people, and a release with a device's, an adder's and an agent's side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from voxpop.core.errors import Array, InputError
from voxpop.core.phases import Feedback, Plan, Tally
from voxpop.core.problem import Problem
from voxpop.core.state import State
from voxpop.privacy.ball import Ball
from voxpop.privacy.crowds import unclipped
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.ledger import Budget, Entry
from voxpop.privacy.sources import Source


class Release(Protocol):
    """Public constants of one phase; they may cross the wire."""

    def randomize(self, y: Array, source: Source) -> Array:
        """On the device: what is sent for averages y; several people at once have the shape (users, arms)."""

    def tally(self, reports: Array) -> Tally:
        """Where reports are added up (the shuffler in the shuffle model, else the agent)."""

    def seal(self, tally: Tally) -> Tally:
        """The whole tally, or a refusal if it must not leave the place where it was added up."""

    def analyze(self, tally: Tally, source: Source) -> Feedback:
        """At the agent: the private average. Called once for a phase: noise is drawn here."""

    def entry(self, count: int) -> Entry:
        """What the release spends of the privacy of the people in it."""

    def describe(self) -> dict[str, Any]:
        """The public constants, for people."""


@runtime_checkable
class CrowdRelease(Release, Protocol):
    """A release that can add up a crowd of Gaussian people without drawing everyone."""

    def crowd(self, mean: Array, root: Array, users: int, rng: np.random.Generator) -> Tally:
        """The tally of so many people with averages mean + root w, w standard Gaussian."""


class Privacy(Protocol):
    """A trust model with its parameters."""

    @property
    def model(self) -> str:
        """none, central, local or shuffle."""

    @property
    def budget(self) -> Budget | None:
        """What a person may be exposed to; None for no promise."""

    def enlist(self, problem: Problem, state: State, plan: Plan) -> Plan:
        """The plan with enough people to hide in."""

    def calibrate(self, problem: Problem, state: State, plan: Plan) -> Release:
        """The release of a phase, from public constants only."""

    def describe(self) -> dict[str, Any]:
        """The parameters as plain data."""


@dataclass(frozen=True)
class NoPrivacy:
    """Everyone trusts the agent with their averages."""

    model = "none"
    budget = None

    def enlist(self, problem: Problem, state: State, plan: Plan) -> Plan:
        return plan

    def calibrate(self, problem: Problem, state: State, plan: Plan) -> Release:
        return PlainRelease(problem.grid_step, len(plan.arms))

    def describe(self) -> dict[str, Any]:
        return {"privacy": self.model, "epsilon": None, "delta": None, "calibration": None, "caveats": []}


@dataclass(frozen=True)
class PlainRelease:
    """Averages are sent as they are."""

    step: float
    arms: int

    def randomize(self, y: Array, source: Source) -> Array:
        return y

    def tally(self, reports: Array) -> Tally:
        check_length(reports, self.arms)
        return Tally.of(reports, self.step)

    def crowd(self, mean: Array, root: Array, users: int, rng: np.random.Generator) -> Tally:
        return unclipped(mean, root, users, self.step, rng)

    def seal(self, tally: Tally) -> Tally:
        return tally

    def analyze(self, tally: Tally, source: Source) -> Feedback:
        return tally.feedback()

    def entry(self, count: int) -> Entry:
        return Entry("none", count)

    def describe(self) -> dict[str, Any]:
        return {"mechanism": "none"}


@dataclass(frozen=True, eq=False)
class Clipped:
    """What the private releases share: a ball, and what a release about one person costs."""

    ball: Ball
    beta: float  # of the widths, for the clipping slack
    cost: Entry

    def clipped(self, y: Array) -> Array:
        """Whitened and clipped, whatever y holds: refusing a value would tell something about it."""
        check_length(y, len(self.ball.centre))
        return self.ball.clip(self.ball.whiten(y))

    def feedback(self, z: Array, count: int, variance: float) -> Feedback:
        """The mean of whitened answers as feedback; the variance is that of the noise in each coordinate."""
        clipping = self.ball.clipping(count, self.beta)
        noise = variance * self.ball.shape
        return Feedback(self.ball.restore(z), count, noise, clipping, printed=not self.cost.guaranteed)

    @property
    def mu(self) -> float:
        """The promise as an attacker can test it: how far apart two unit Gaussians are that keep (eps, delta)."""
        return 1 / noise_multiplier(self.cost.epsilon, self.cost.delta)

    def seal(self, tally: Tally) -> Tally:
        return tally

    def entry(self, count: int) -> Entry:
        return replace(self.cost, users=count)

    def describe(self) -> dict[str, Any]:
        return {
            "mechanism": self.cost.mechanism,
            "metric": self.ball.metric,
            "radius": self.ball.radius,
            "epsilon": self.cost.epsilon,
            "delta": self.cost.delta,
        }


def check_length(reports: Array, arms: int) -> None:
    """Refuse reports of another length, and none at all."""
    if reports.ndim != 2:
        raise InputError(f"reports must have the shape (people, {arms}), got {reports.shape}; a report is a row")
    if reports.shape[1] != arms:
        raise InputError(f"a report has {arms} numbers, got shape {reports.shape[1:]}; send one for each arm")
    if not len(reports):
        raise InputError("there is not a single report to add up; wait for one")


def check_finite(reports: Array) -> None:
    """Refuse reports that no device sends."""
    if not np.isfinite(reports).all():
        bad = reports[~np.isfinite(reports)][0]
        raise InputError(f"a report holds {bad}, which no device sends; send finite numbers only")
