"""The trust models with their parameters: who is enlisted, and how a phase is released."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from scipy.special import ndtri

from voxpop.errors import Array, require_choice, require_integer
from voxpop.phases import Plan
from voxpop.privacy import printed
from voxpop.privacy.additive import GRID, Central, Local
from voxpop.privacy.ball import Ball, candidates
from voxpop.privacy.gaussian import noise_multiplier, require_delta, require_epsilon
from voxpop.privacy.ledger import Entry
from voxpop.privacy.release import Release
from voxpop.privacy.shuffle import Encoding, Shuffled, calibrated_encoding
from voxpop.problem import Problem
from voxpop.state import State
from voxpop.widths import AffineEstimator, answer_noise

MODELS = ("central", "local", "shuffle")
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
        ball = min(candidates(problem, plan, state), key=lambda ball: self._predicted_width(problem, state, plan, ball))
        z = -float(ndtri(problem.beta / 2))
        cost = Entry(self.model, 0, self.epsilon, self.delta, noise_multiplier(self.epsilon, self.delta))
        if self.model == "shuffle":
            encoding = self._encoding(plan)
            return Shuffled(ball, encoding, z, replace(cost, multiplier=None))
        step = ball.radius * GRID
        sensitivity = 2 * ball.radius / step + math.sqrt(len(plan.arms))
        made = Central if self.model == "central" else Local
        return made(ball, step, noise_multiplier(self.epsilon, self.delta) * sensitivity, z, cost)

    def _variance(self, ball: Ball, plan: Plan, users: int) -> float:
        """Of the noise in the average of whitened answers, a coordinate."""
        if self.model == "shuffle":
            code = self._encoding(replace(plan, participants=users))
            return code.variance * (2 * ball.radius / (code.levels * users)) ** 2
        std = 2 * ball.radius * noise_multiplier(self.epsilon, self.delta)
        return std**2 / (users**2 if self.model == "central" else users)

    def _encoding(self, plan: Plan) -> Encoding:
        return calibrated_encoding(self.epsilon, self.delta, plan.participants, len(plan.arms))

    def _predicted_width(self, problem: Problem, state: State, plan: Plan, ball: Ball) -> float:
        """The mean width that the active actions will have, if everyone answers."""
        noise = answer_noise(problem, plan.arms, plan.pulls, plan.participants)
        noise += self._variance(ball, plan, plan.participants) * ball.shape
        return _mean_width(problem, state, plan, noise)

    def _floor(self, problem: Problem, state: State, plan: Plan) -> int:
        """The least number of people with whom the widths are as if the schedule's had shrunk SHARE times."""
        balls = candidates(problem, plan, state)
        target = _mean_width(
            problem, state, plan, SHARE * answer_noise(problem, plan.arms, plan.pulls, plan.participants)
        )

        def enough(users: int) -> bool:
            larger = replace(plan, participants=users)
            return any(self._predicted_width(problem, state, larger, ball) <= target for ball in balls)

        low, high = plan.participants, min(MOST_USERS, 2 * plan.participants)
        while high < MOST_USERS and not enough(high):
            low, high = high, min(MOST_USERS, 2 * high)
        while high - low > max(1, high // 20):
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return max(high, plan.participants)


def _mean_width(problem: Problem, state: State, plan: Plan, noise: Array) -> float:
    estimator = AffineEstimator(problem, plan.arms, noise)
    return float(estimator.values(state.active, state.norm_bound).width.mean())
