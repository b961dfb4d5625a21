"""The mechanisms as the paper prints them, for comparison; they do not promise what they claim.

High-probability sensitivity instead of clipping, classical noise, printed shuffle parameters (eq:gaussian_noise,
eq:randomizer_ldp, eq:gbp_set), with delta_1 = delta_2 = delta / 2.
"""

from __future__ import annotations

import math
from dataclasses import replace

from voxpop.core.phases import Plan
from voxpop.core.problem import Problem
from voxpop.privacy.ball import unbounded
from voxpop.privacy.central import Central
from voxpop.privacy.gaussian import classical_multiplier, delta_of
from voxpop.privacy.ledger import Entry
from voxpop.privacy.local import Local
from voxpop.privacy.release import PrivateRelease
from voxpop.privacy.shuffle import Shuffled, printed_encoding


def release(model: str, epsilon: float, delta: float, problem: Problem, plan: Plan) -> PrivateRelease:
    """One phase of DP-DPBE, LDP-DPBE or SDP-DPBE."""
    arms, half = len(plan.arms), delta / 2
    kappa_square = float(problem.prior_variance.max())
    spread = math.sqrt(2 * (kappa_square + problem.noise_std**2) * arms * math.log(2 * arms / half))
    cost = Entry(model, 0, epsilon, delta, guaranteed=False)
    ball = unbounded(problem, plan)
    if model == "shuffle":
        radius = problem.norm_bound * math.sqrt(kappa_square * arms) + spread
        encoding = printed_encoding(epsilon, half, plan.participants, arms)
        return Shuffled(replace(ball, radius=radius), problem.beta, cost, encoding)
    # eq:gaussian_noise is 2 sqrt(2 (kappa^2 + sigma^2) H log(2H/delta_1) ln(1.25/delta_2)) / (eps |U|).
    std = 2 * spread * math.sqrt(math.log(1.25 / half)) / epsilon
    step = problem.grid_step
    made = Central if model == "central" else Local
    return made(ball, problem.beta, cost, step, std / step)


def caveats(model: str, epsilon: float, delta: float) -> list[str]:
    """Where the printed calibration does not give the promised guarantee."""
    found = ["the sensitivity holds for people who behave like the model only: others get no guarantee"]
    half = delta / 2
    actual = delta_of(classical_multiplier(epsilon, half), epsilon)
    if model != "shuffle" and actual > half:
        found.append(f"the classical noise gives delta = {actual:.2g} at epsilon = {epsilon:g}, not {half:g}")
    return found
