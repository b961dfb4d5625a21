"""What the private releases have in common: answers are clipped to a ball, whatever they hold."""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from msgspec import Meta

from voxpop.errors import Array
from voxpop.model.waves import Feedback
from voxpop.privacy.ball import Ball
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.ledger import Entry
from voxpop.privacy.release import Chance, Positive, Release, View, check_length
from voxpop.privacy.sources import Source

MOST_CONDITION = 1e9  # of a ball's root; the roots that calibration computes stay below 1e8


@dataclass(frozen=True, eq=False)
class Clipped(Release):
    """A release that promises (eps, delta): it clips answers to a ball, and models that inherit from it add noise."""

    ball: Ball
    beta: Chance  # the failure probability of the widths, which also bounds the effect of clipping
    cost: Entry  # what it spends of the privacy of one person

    @classmethod
    @abstractmethod
    def make(cls, ball: Ball, epsilon: float, delta: float, people: int, beta: float, honest: float = 1.0) -> Self:
        """Calibrate the least noise for (eps, delta), this ball and people of whom this share is honest."""

    @classmethod
    @abstractmethod
    def cost_of(cls, epsilon: float, delta: float, honest: float = 1.0) -> Entry:
        """Return what a release of this promise costs a person in it."""

    @abstractmethod
    def variance(self, count: int) -> float:
        """Variance of the noise per whitened coordinate, averaged over `count` people."""

    @property
    def arms(self) -> int:
        """The number of averages in an answer."""
        return len(self.ball.centre)

    @property
    def mu(self) -> float:
        """The promise as an attacker can test it: the distance of two unit Gaussians that is (eps, delta)-private."""
        return 1 / noise_multiplier(self.cost.epsilon, self.cost.delta)

    def clipped(self, y: Array) -> Array:
        """Whiten and clip answers, whatever they hold: refusing a value would reveal something about it."""
        check_length(y, self.arms)
        return self.ball.clip(self.ball.whiten(y))

    def feedback(self, z: Array, count: int, variance: float) -> Feedback:
        """Turn the mean of whitened answers, with noise of this variance per coordinate, into feedback."""
        clipping = self.ball.clipping(count, self.beta)
        noise = variance * self.ball.shape
        return Feedback(self.ball.restore(z), count, noise, clipping, printed=not self.cost.guaranteed)

    def entry(self, count: int) -> Entry:
        return replace(self.cost, people=count)

    def view(self, answers: Array, source: Source) -> Array:
        """Return what an attacker sees of people's answers, in whitened coordinates: the released average."""
        feedback = self.analyze(self.tally(self.randomize(answers, source)), source)
        return np.asarray(self.ball.whiten(feedback.mean[None, :])[0])

    @property
    def glimpses(self) -> dict[str, View]:
        """What each server holds alone of the first person, by its name, if that must tell nothing; otherwise empty."""
        return {}

    def describe(self) -> dict[str, Any]:
        return {
            **super().describe(),
            "metric": self.ball.metric,
            "radius": self.ball.radius,
            "epsilon": self.cost.epsilon,
            "delta": self.cost.delta,
        }


def weakness_of_noise(ball: Ball, enough: bool, epsilon: float) -> str | None:
    """Say what is wrong with noise that a device adds itself: no clipping, or too little noise."""
    if not 0 < ball.radius < math.inf:
        return "an answer without clipping"
    if not ball.condition <= MOST_CONDITION:  # written with <= so that NaN is refused
        return f"a root of condition {ball.condition:.2g}, at which whitening is not accurate"
    return None if enough else f"less noise than epsilon {epsilon:g} takes"


GRID = 2.0**-30  # the grid's step, as a share of the radius
MOST_STD = 2.0**44  # of the noise, in steps; if more noise is needed, the grid is coarser


@dataclass(frozen=True, eq=False)
class Additive(Clipped):
    """A release with Gaussian noise on a grid, added to each answer or to their sum."""

    step: Positive
    std: Annotated[float, Meta(ge=0)]  # of the noise, in steps

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
