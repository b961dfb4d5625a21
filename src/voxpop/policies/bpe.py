"""BPE, batched pure exploration (Li and Scarlett, 2022): one person per round, elimination after a few long batches.

Batches have N_i = ceil(sqrt(T N_{i-1})) rounds, N_0 = 1, the last one cut at T: about log log T of them. (The paper's
nested root does not give this number.) Inside a batch every round plays the active action of largest posterior variance
and asks a new person; at its end, actions whose upper bound is below some lower bound are dropped. A person's bias
counts as noise, R^2 = v^2 k(x, x) + sigma^2 = lambda. As the batch's actions do not depend on its feedback,

    |f(x) - mu(x)| <= (B + (R / sqrt(lambda)) sqrt(2 ln(1/beta))) sigma(x)

for each x with probability 1 - 2 beta (Vakili et al., 2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from voxpop.errors import Array
from voxpop.gp.posterior import in_blocks, information_gain, regress
from voxpop.gp.selection import select
from voxpop.model.problem import Indices, Problem
from voxpop.model.state import OPEN, Channel, State
from voxpop.model.waves import End, Feedback, Info, Plan, changed
from voxpop.policies.gp_ucb import noise_variance
from voxpop.policies.protocol import ALONE, OVER, Configured, prior_state, require_few_rounds


@dataclass(frozen=True)
class BPE(Configured):
    """Batched pure exploration."""

    name = "bpe"
    aggregates = False

    def init(self, problem: Problem) -> State:
        """Return the state in which only the prior is known."""
        require_few_rounds(self.name, problem)
        return prior_state(problem)

    def plan(self, problem: Problem, state: State, channel: Channel = OPEN) -> Plan | End:
        """Plan the next batch."""
        left = state.rounds_left(problem)
        if left == 0:
            return OVER if len(state.active) > 1 else ALONE
        length = min(batch_lengths(problem.horizon)[state.wave], left)
        chosen = select(_noisy(problem), state.active, length, 2.0, "single")
        return Plan(state.wave + 1, chosen.arms, chosen.pulls, length, state.best, "one")

    def advance(self, problem: Problem, state: State, plan: Plan, feedback: Feedback) -> tuple[State, Info]:
        """Estimate f, and eliminate actions."""
        feedback.check(plan)
        noisy, at = _noisy(problem), state.active
        y, bonus = feedback.mean - problem.means[plan.arms], problem.norm_bound + math.sqrt(-2 * math.log(problem.beta))

        def estimate(block: Indices) -> tuple[Array, ...]:
            weights, variance = regress(noisy, plan.arms, plan.pulls, block)
            return problem.means[block] + weights @ y, bonus * np.sqrt(variance)

        centre, width = in_blocks(estimate, at)
        bounded = changed(state.replace(centre, width).rank(centre, width), decision=None)
        after = bounded.eliminate(np.zeros(len(at), dtype=bool)).played(plan)
        gain = information_gain(noisy, plan.arms, plan.pulls)
        info = Info(len(at), len(after.active), float(width.max()), gain, problem.norm_bound, refuted=False)
        return after, info


def batch_lengths(horizon: int) -> list[int]:
    """List N_1, N_2, ... until they fill the horizon.

    >>> batch_lengths(40_000)
    [200, 2829, 10638, 20629, 5704]
    """
    lengths: list[int] = []
    last = 1
    while sum(lengths) < horizon:
        last = math.ceil(math.sqrt(horizon * last))
        lengths.append(min(last, horizon - sum(lengths)))
    return lengths


@lru_cache(maxsize=64)
def _noisy(problem: Problem) -> Problem:
    """Return the problem with lambda = R^2."""
    return replace(problem, ridge=noise_variance(problem))
