"""The calibrations as the paper prints them, for comparison; they do not guarantee what they claim.

They use a high-probability sensitivity instead of clipping, classical noise, and the printed shuffle parameters
(eq:gaussian_noise, eq:randomizer_ldp, eq:gbp_set), with delta_1 = delta_2 = delta / 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from voxpop.core.phases import Plan
from voxpop.core.problem import Problem
from voxpop.privacy.ball import unbounded
from voxpop.privacy.central import Central
from voxpop.privacy.entries import Entry
from voxpop.privacy.gaussian import classical_multiplier, delta_of
from voxpop.privacy.local import Local
from voxpop.privacy.release import PrivateRelease
from voxpop.privacy.shuffle import Shuffled, printed_encoding

Calibrate = Callable[[Entry, Problem, Plan], PrivateRelease]


def release(model: str, epsilon: float, delta: float, problem: Problem, plan: Plan) -> PrivateRelease:
    """Make the release of one phase of DP-DPBE, LDP-DPBE or SDP-DPBE."""
    cost = Entry(model, 0, epsilon, delta, guaranteed=False)
    return PRINTED[model](cost, problem, plan)


def _gaussian(made: type[Central | Local]) -> Calibrate:
    """Return a function that calibrates the noise of eq:gaussian_noise.

    It is 2 sqrt(2 (kappa^2 + sigma^2) H log(2H/delta_1) ln(1.25/delta_2)) / (eps |U|).
    """

    def calibrate(cost: Entry, problem: Problem, plan: Plan) -> PrivateRelease:
        std = 2 * _spread(cost, problem, plan) * math.sqrt(math.log(1.25 / (cost.delta / 2))) / cost.epsilon
        step = problem.grid_step
        return made(unbounded(problem, plan), problem.beta, cost, step, std / step)

    return calibrate


def _shuffled(cost: Entry, problem: Problem, plan: Plan) -> PrivateRelease:
    """Calibrate by eq:gbp_set; answers are clipped to the sum of the norm bound and the spread."""
    arms = len(plan.arms)
    radius = problem.norm_bound * math.sqrt(problem.largest_variance * arms) + _spread(cost, problem, plan)
    encoding = printed_encoding(cost.epsilon, cost.delta / 2, plan.people, arms)
    return Shuffled(replace(unbounded(problem, plan), radius=radius), problem.beta, cost, encoding)


def _spread(cost: Entry, problem: Problem, plan: Plan) -> float:
    """Bound the length of a deviation, with probability 1 - delta_1."""
    arms = len(plan.arms)
    log_term = math.log(2 * arms / (cost.delta / 2))
    return math.sqrt(2 * (problem.largest_variance + problem.noise_std**2) * arms * log_term)


PRINTED: dict[str, Calibrate] = {
    Central.model: _gaussian(Central),
    Local.model: _gaussian(Local),
    Shuffled.model: _shuffled,
}


def caveats(model: str, epsilon: float, delta: float) -> list[str]:
    """Say where the printed calibration does not give the promised guarantee."""
    found = ["the sensitivity holds for people who behave like the model only: others get no guarantee"]
    half = delta / 2
    actual = delta_of(classical_multiplier(epsilon, half), epsilon)
    if model != Shuffled.model and actual > half:
        found.append(f"the classical noise gives delta = {actual:.2g} at epsilon = {epsilon:g}, not {half:g}")
    return found
