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
from copy import deepcopy
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from voxpop.errors import Array
from voxpop.model.options import option
from voxpop.model.problem import Problem
from voxpop.model.state import OPEN, Channel, State
from voxpop.model.waves import End, Feedback, Info, Plan, changed
from voxpop.policies.protocol import OVER, Answer, Configured, Played, require_few_rounds, uneliminated
from voxpop.runtime.machine import require_room

TOGETHER = 16  # updates that are subtracted from the covariance at once


@dataclass(eq=False)
class Belief:
    """The posterior over all actions, and the information gained so far; that of a state is copied to be changed."""

    mean: Array  # (n,) with the prior mean
    variance: Array  # (n,)
    earlier: Array  # (n, n) the covariance before the latest updates
    updates: Array  # (TOGETHER, n) of which `recent` count: the covariance is now `earlier` - updates' updates
    recent: int = 0
    gain: float = 0.0

    @classmethod
    def of(cls, mean: Array, covariance: Array) -> Belief:
        """Return the belief of this mean and covariance."""
        return cls(mean.copy(), covariance.diagonal().copy(), covariance.copy(), np.empty((TOGETHER, len(mean))))

    @property
    def covariance(self) -> Array:
        """The covariance of all pairs of actions, (n, n)."""
        updates = self.updates[: self.recent]
        return np.asarray(self.earlier - updates.T @ updates)

    def learn(self, arm: int, answer: float, noise: float) -> None:
        """Condition on an answer about f(arm) with noise of this variance."""
        known, update = self.narrow(arm, noise)
        self.mean += update * ((answer - self.mean.item(arm)) / math.sqrt(known + noise))
        self.gain += 0.5 * math.log1p(known / noise)

    def narrow(self, arm: int, noise: float) -> tuple[float, Array]:
        """Condition the covariance alone, which needs no answer; return the arm's variance before, and the update."""
        updates = self.updates[: self.recent]
        column = self.earlier[arm] - updates[:, arm].dot(updates)
        known = column.item(arm)
        update = np.multiply(column, 1 / math.sqrt(known + noise), out=self.updates[self.recent])
        self.variance -= update * update
        self.recent += 1
        if self.recent == TOGETHER:
            self.earlier -= self.updates.T @ self.updates
            self.recent = 0
        return known, update


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
        everything = np.arange(problem.size)
        known = Belief.of(problem.means, problem.covariance(everything, everything))
        return self._bounded(problem, Believing.of(State.prior(problem, problem.norm_bound), known))

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
        belief = deepcopy(state.belief)
        belief.learn(arm, feedback.mean.item(0), noise)
        after = self._bounded(problem, changed(state.played(plan), belief=belief))
        return after, uneliminated(problem, float(after.lead_width.max()), belief.gain)

    def play(self, problem: Problem, state: State, waves: int, answer: Answer) -> tuple[State, list[Played]]:
        """Plan and advance, wave after wave, on one belief that is changed in place."""
        assert isinstance(state, Believing)
        belief, upper, noise = deepcopy(state.belief), state.upper, noise_variance(problem)
        log, left = list[Played](), problem.horizon - state.rounds
        while left > 0 and len(log) < waves:
            arm = int(upper.argmax())
            rounds = self._rounds(problem, belief.variance.item(arm), left)
            left -= rounds
            mean = answer(state.wave + len(log) + 1, arm, rounds)
            belief.learn(arm, mean, noise / rounds)
            width = self._width(problem, belief)
            upper = belief.mean + width
            log.append((arm, rounds, mean, width.item(width.argmax()), belief.gain))
        played = changed(state, wave=state.wave + len(log), rounds=problem.horizon - left, belief=belief)
        return self._bounded(problem, played), log

    def _rounds(self, problem: Problem, variance: float, left: int) -> int:
        """Return how often to play an action whose value has this variance."""
        return 1

    def _bounded(self, problem: Problem, state: Believing) -> Believing:
        return state.bounded(state.belief.mean, self._width(problem, state.belief))

    def _width(self, problem: Problem, belief: Belief) -> Array:
        bonus = confidence_bonus(problem, belief.gain, self.delta)
        return np.asarray(bonus * np.sqrt(np.maximum(belief.variance, 0.0)))


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


def confidence_bonus(problem: Problem, gain: float, delta: float) -> float:
    """Compute beta_t for the information gained so far."""
    return problem.norm_bound + math.sqrt(2 * (gain + 1 + math.log(1 / delta)))


def noise_variance(problem: Problem) -> float:
    """Compute R^2, the noise of a round by an unknown person, whose bias counts as noise."""
    return problem.bias_std**2 * problem.largest_variance + problem.noise_std**2
