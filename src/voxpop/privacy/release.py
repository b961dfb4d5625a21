"""What every trust model is: a way to enlist people, and releases that say what each party does.

A release answers for itself: its model's name, what a device must check and send, who adds the reports up, what the
agent makes of them, what it costs, and how it is written down. Nobody outside `privacy/` asks which model it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from voxpop.core.errors import Array
from voxpop.core.phases import Feedback, Plan, Tally
from voxpop.core.problem import Problem
from voxpop.core.state import State
from voxpop.privacy.ball import Ball
from voxpop.privacy.batch import Batch
from voxpop.privacy.ledger import Budget, Entry
from voxpop.privacy.sources import Source


class Release(Protocol):
    """The public constants of one phase; they may cross the wire."""

    model: ClassVar[str]
    noise_on_device: ClassVar[bool]  # people's own devices randomise their reports
    by_shuffler: ClassVar[bool]  # a shuffler adds the reports up
    most_delta: ClassVar[float]  # the largest delta for which the calibration is proved

    @property
    def arms(self) -> int:
        """The number of averages in an answer."""

    @property
    def batch(self) -> Batch | None:
        """What a shuffler must know to add the reports up; None if the agent adds them up itself."""

    def weakness(self, epsilon: float, delta: float) -> str | None:
        """Why a device that promised (eps, delta) must not answer; None if the release keeps the promise."""

    def randomize(self, y: Array, source: Source) -> Array:
        """On the device: what is sent for averages y; several people at once have the shape (people, arms)."""

    def accept(self, reports: Array) -> None:
        """Refuse reports that cannot be added up, as they arrive."""

    def tally(self, reports: Array) -> Tally:
        """Add reports up, at the agent or at the shuffler."""

    def crowd(self, mean: Array, root: Array, people: int, rng: np.random.Generator) -> Tally | None:
        """Draw the tally of people with averages mean + root w, w standard Gaussian; None: draw them one by one."""

    def require_whole(self, tally: Tally) -> Tally:
        """Refuse a tally of fewer people than the noise was made for."""

    def analyze(self, tally: Tally, source: Source) -> Feedback:
        """At the agent: the private average. Called once a phase, because noise is drawn here."""

    def entry(self, count: int) -> Entry:
        """What the release spends of the privacy of the `count` people in it."""

    def describe(self) -> dict[str, Any]:
        """The public constants, for people."""

    def to_dict(self) -> dict[str, Any]:
        """The public constants as plain data, without the model's name."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Make the release that `to_dict` described, or raise an error; no sign, type or NaN turns a bound around."""


class PrivateRelease(Release, Protocol):
    """A release that promises (eps, delta) to everyone in it."""

    @property
    def ball(self) -> Ball:
        """What answers are clipped to."""

    @property
    def cost(self) -> Entry:
        """What it spends of the privacy of one person."""

    @property
    def mu(self) -> float:
        """The promise as an attacker can test it: the distance of two unit Gaussians that keep (eps, delta)."""

    @classmethod
    def make(cls, ball: Ball, epsilon: float, delta: float, people: int, beta: float) -> Self:
        """Calibrate the least noise for (eps, delta), this ball and this number of people."""

    @classmethod
    def cost_of(cls, epsilon: float, delta: float) -> Entry:
        """What any release of this promise costs a person in it."""

    def variance(self, count: int) -> float:
        """Variance of the noise per whitened coordinate, averaged over `count` people."""

    def view(self, answers: Array, source: Source) -> Array:
        """What an attacker sees of people's answers, in whitened coordinates."""


class Privacy(Protocol):
    """A trust model with its parameters."""

    @property
    def model(self) -> str:
        """The model's name: `none`, or a key of `RELEASES`."""

    @property
    def release_type(self) -> type[Release]:
        """The releases that it makes."""

    @property
    def budget(self) -> Budget | None:
        """What a person may be exposed to; None for no promise."""

    @property
    def cost(self) -> Entry | None:
        """What any release costs a person in it; None for no promise."""

    def enlist(self, problem: Problem, state: State, plan: Plan) -> Plan:
        """Ask for enough people to hide in."""

    def calibrate(self, problem: Problem, state: State, plan: Plan) -> Release:
        """Make the release of a phase, from public constants only."""

    def describe(self) -> dict[str, Any]:
        """The parameters, for people."""

    def settings(self) -> dict[str, Any]:
        """The parameters as plain data, from which the same model can be made again."""
