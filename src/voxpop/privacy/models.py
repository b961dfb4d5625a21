"""The trust models with their parameters: who is enlisted, and how a phase is released."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from voxpop.core.errors import Array, InputError, require_choice, require_integer
from voxpop.core.phases import Plan
from voxpop.core.problem import Problem
from voxpop.core.state import State
from voxpop.privacy import printed
from voxpop.privacy.additive import Central, Local
from voxpop.privacy.ball import Ball, candidates
from voxpop.privacy.gaussian import require_delta, require_epsilon
from voxpop.privacy.ledger import Budget
from voxpop.privacy.release import NoPrivacy, Privacy, Release
from voxpop.privacy.shuffle import Shuffled
from voxpop.widths.affine import AffineEstimator
from voxpop.widths.blocks import affine_values

RELEASES: dict[str, type[Central | Local | Shuffled]] = {
    "central": Central,
    "local": Local,
    "shuffle": Shuffled,
}
MODELS = tuple(RELEASES)
SHARE = 2.0  # with the floor, privacy makes the schedule's sample look at most this many times smaller
MOST_USERS = 100_000  # the floor never asks for more people than this in a phase


@dataclass(frozen=True)
class Private:
    """A trust model that promises (eps, delta) to everyone, whatever they answer.

    `floor` is the least number of participants a phase: a number, 0 for the policy's own schedule, or None for a
    number chosen from public constants so that privacy does not dominate.
    """

    model: str
    epsilon: float
    delta: float = 1e-6
    calibration: str = "exact"
    floor: int | None = None

    def __post_init__(self) -> None:
        require_choice("privacy model", self.model, MODELS)
        require_epsilon(self.epsilon)
        require_delta(self.delta)
        require_choice("calibration", self.calibration, ("exact", "paper"))
        if self.floor is not None:
            require_integer("floor", self.floor, least=0)

    def describe(self) -> dict[str, Any]:
        """The parameters as plain data."""
        return {
            "privacy": self.model,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "calibration": self.calibration,
            "caveats": printed.caveats(self.model, self.epsilon, self.delta) if self.calibration == "paper" else [],
        }

    def enlist(self, problem: Problem, state: State, plan: Plan) -> Plan:
        """The plan with at least as many people as the floor asks for."""
        if self.calibration == "paper" and self.floor is None:
            return plan
        floor = self._floor(problem, state, plan) if self.floor is None else self.floor
        return replace(plan, participants=max(plan.participants, floor))

    def calibrate(self, problem: Problem, state: State, plan: Plan) -> Release:
        """The release of a phase: the metric that predicts the smaller width, and noise for the number of people."""
        if self.calibration == "paper":
            return printed.release(self.model, self.epsilon, self.delta, problem, plan)
        releases = self._releases(candidates(problem, plan, state), plan.participants, problem.beta)
        return min(releases, key=lambda release: _mean_width(problem, state, plan, release))

    @property
    def budget(self) -> Budget | None:
        """What everyone is promised, if the calibration keeps its promise."""
        return Budget(self.epsilon, self.delta) if self.calibration == "exact" else None

    def _releases(self, balls: list[Ball], users: int, beta: float) -> list[Central | Local | Shuffled]:
        """A release for every ball that public knowledge allows."""
        make = RELEASES[self.model].make
        return [make(ball, self.epsilon, self.delta, users, beta) for ball in balls]

    def _floor(self, problem: Problem, state: State, plan: Plan) -> int:
        """The least number of people with whom the widths are as if the schedule's had shrunk SHARE times."""
        shrunk = SHARE * problem.answer_noise(plan.arms, plan.pulls, plan.participants)
        target = _mean_width_of(problem, state, plan, shrunk)
        balls = candidates(problem, plan, state)

        def enough(users: int) -> bool:
            larger = replace(plan, participants=users)
            try:
                releases = self._releases(balls, users, problem.beta)
            except InputError:  # too few to hide in at all
                return False
            return any(_mean_width(problem, state, larger, release) <= target for release in releases)

        low, high = plan.participants, min(MOST_USERS, 2 * plan.participants)
        while high < MOST_USERS and not enough(high):
            low, high = high, min(MOST_USERS, 2 * high)
        while high - low > max(1, high // 20):
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return max(high, plan.participants)


def _mean_width(problem: Problem, state: State, plan: Plan, release: Central | Local | Shuffled) -> float:
    """The mean width that the active actions can expect of a release, if everyone answers."""
    users = plan.participants
    noise = problem.answer_noise(plan.arms, plan.pulls, users) + release.variance(users) * release.ball.shape
    return _mean_width_of(problem, state, plan, noise)


def _mean_width_of(problem: Problem, state: State, plan: Plan, noise: Array) -> float:
    estimator = AffineEstimator(problem, plan.arms, noise)
    return float(affine_values(estimator, state.active, state.norm_bound)[1].mean())


def make_privacy(
    model: str, epsilon: float | None, delta: float, calibration: str = "exact", floor: int | None = None
) -> Privacy:
    """The trust model that the options describe."""
    require_choice("privacy model", model, ("none", *MODELS))
    if model == "none":
        if epsilon is not None:
            raise InputError(f"epsilon {epsilon:g} needs a trust model; add --privacy central, local or shuffle")
        return NoPrivacy()
    if epsilon is None:
        raise InputError(f"the {model} model needs to know what to promise; add --epsilon, such as --epsilon 5")
    return Private(model, epsilon, delta, calibration, floor)
