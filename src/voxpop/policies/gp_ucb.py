"""GP-UCB and mini-GP-Opt: one person per round, the action of largest upper confidence bound.

`gp-ucb` is IGP-UCB (Chowdhury and Gopalan, 2017): every round a new person plays argmax mu(x) + beta_t sigma(x) with

    beta_t = B + (R / sqrt(lambda)) sqrt(2 (gamma_{t-1} + 1 + ln(1/delta))),     lambda = R^2,

where a person's bias counts as noise, R^2 = v^2 k(x, x) + sigma^2, and gamma is the information gained so far. (Without
1/sqrt(lambda), as it is often printed, it holds only for lambda near 1.)

`mini-gp-opt` (Calandriello et al., 2022) repeats the action for floor((C^2 - 1) lambda / sigma^2(x)) rounds before the
posterior is updated.

The posterior is kept over the n actions and updated by one rank: O(n^2) per step, regardless of the number of rounds.
Updates are collected and subtracted from the covariance together, which reads it once for many rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from voxpop.errors import Array
from voxpop.model.options import option
from voxpop.model.problem import Problem
from voxpop.model.state import OPEN, Channel, State
from voxpop.model.waves import End, Feedback, Info, Plan, changed
from voxpop.policies.protocol import OVER, Configured, require_few_rounds
from voxpop.runtime.machine import require_room

TOGETHER = 16  # updates that are subtracted from the covariance at once


@dataclass(frozen=True, eq=False)
class Belief:
    """The posterior over all actions, and the information gained so far."""

    mean: Array  # (n,) with the prior mean
    variance: Array  # (n,)
    earlier: Array  # (n, n) the covariance before the latest updates
    updates: Array  # (updates, n): the covariance is now `earlier` - updates' updates
    gain: float

    @classmethod
    def prior(cls, problem: Problem) -> Belief:
        """Return what is known before the first round."""
        everything = np.arange(problem.size)
        return cls.of(problem.means, problem.covariance(everything, everything))

    @classmethod
    def of(cls, mean: Array, covariance: Array) -> Belief:
        """Return the belief of this mean and covariance."""
        return cls(mean, covariance.diagonal(), covariance, np.empty((0, len(mean))), 0.0)

    @property
    def covariance(self) -> Array:
        """The covariance of all pairs of actions, (n, n)."""
        return np.asarray(self.earlier - self.updates.T @ self.updates)

    def condition(self, arm: int, answer: float, noise: float) -> Belief:
        """Return the posterior after an answer about f(arm) with noise of this variance."""
        column = self.earlier[arm] - self.updates[:, arm].dot(self.updates)
        known = column.item(arm)
        root = math.sqrt(known + noise)
        update = column * (1 / root)
        earlier, updates = self.earlier, np.concatenate((self.updates, update[None]))
        if len(updates) == TOGETHER:
            earlier, updates = earlier - updates.T @ updates, updates[:0]
        mean = self.mean + update * ((answer - self.mean.item(arm)) / root)
        gain = self.gain + 0.5 * math.log1p(known / noise)
        return Belief(mean, self.variance - update * update, earlier, updates, gain)


@dataclass(frozen=True, eq=False)
class Believing(State):
    """The state of a policy that carries a posterior over all actions, or over some."""

    belief: Belief = field(kw_only=True)

    @classmethod
    def of(cls, state: State, belief: Belief) -> Believing:
        """Return the state with this posterior."""
        return cls(**{**vars(state), "belief": belief})


@dataclass(frozen=True)
class GPUCB(Configured):
    """Upper confidence bounds; an action is chosen every round."""

    delta: float = option(0.1, above=0, below=1, help="The probability that the bounds are false.")
    name: ClassVar[str] = "gp-ucb"
    aggregates: ClassVar[bool] = False

    def init(self, problem: Problem) -> State:
        """Return the state in which only the prior is known."""
        require_few_rounds(self.name, problem)
        return self._prior(problem)

    def _prior(self, problem: Problem) -> State:
        require_room(3 * 8 * problem.size**2, problem.size, "a covariance of every pair", power=2)
        return self._bounded(problem, Believing.of(State.prior(problem, problem.norm_bound), Belief.prior(problem)))

    def plan(self, problem: Problem, state: State, channel: Channel = OPEN) -> Plan | End:
        """Plan to play the action of largest upper bound."""
        left = problem.horizon - state.rounds
        if left == 0:
            return OVER
        arm = int(state.upper.argmax())
        assert isinstance(state, Believing)
        rounds = self._rounds(problem, state.belief.variance.item(arm), left)
        return Plan(state.wave + 1, np.array([arm]), np.array([rounds]), rounds, arm, "one")

    def advance(self, problem: Problem, state: State, plan: Plan, feedback: Feedback) -> tuple[State, Info]:
        """Condition on the average of the rounds."""
        feedback.check(plan)
        arm = plan.arms.item(0)
        noise = noise_variance(problem) / plan.pulls.item(0)
        assert isinstance(state, Believing)
        belief = state.belief.condition(arm, feedback.mean.item(0), noise)
        after = self._bounded(problem, changed(state.played(plan), belief=belief))
        return after, news(problem, after, belief.gain)

    def _rounds(self, problem: Problem, variance: float, left: int) -> int:
        """Return how often to play an action whose value has this variance."""
        return 1

    def _bounded(self, problem: Problem, state: Believing) -> Believing:
        belief = state.belief
        bonus = confidence_bonus(problem, belief.gain, self.delta)
        return state.bounded(belief.mean, bonus * np.sqrt(np.maximum(belief.variance, 0.0)))


@dataclass(frozen=True)
class MiniGPOpt(GPUCB):
    """Upper confidence bounds; an action is repeated before the next is chosen."""

    ratio: float = option(1.6, above=1, most=1e6, help="C, how rarely the action is switched.")
    name: ClassVar[str] = "mini-gp-opt"

    def init(self, problem: Problem) -> State:
        """Return the state in which only the prior is known."""
        return self._prior(problem)

    def _rounds(self, problem: Problem, variance: float, left: int) -> int:
        usable = max(variance, np.finfo(float).tiny)
        return max(1, int(min((self.ratio**2 - 1) * noise_variance(problem) / usable, left)))


def news(problem: Problem, state: State, gain: float) -> Info:
    """Describe a wave of a policy that never eliminates anything."""
    widest = state.lead_width.item(state.lead_width.argmax())
    return Info(problem.size, problem.size, widest, gain, problem.norm_bound, refuted=False)


def confidence_bonus(problem: Problem, gain: float, delta: float) -> float:
    """Compute beta_t for the information gained so far."""
    return problem.norm_bound + math.sqrt(2 * (gain + 1 + math.log(1 / delta)))


def noise_variance(problem: Problem) -> float:
    """Compute R^2, the noise of a round by an unknown person, whose bias counts as noise."""
    return problem.bias_std**2 * problem.largest_variance + problem.noise_std**2
