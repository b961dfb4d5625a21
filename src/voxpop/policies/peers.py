"""What a practitioner would do: keep the pilot's best action, ask about every action once, or halve the field.

All of them ask fresh people for averages, and none proves anything: no action is dropped from the state, and its bounds
stay those of the prior. Their decision is the action of largest pooled mean, from the pilot and all answers together.

An arm is in force for ceil(2 sigma^2 / (v^2 max k)) rounds: from then on only more people make an average better.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from voxpop.gp.belief import believe, pooled_best, total_noise
from voxpop.gp.posterior import information_gain
from voxpop.model.options import option
from voxpop.model.problem import Indices, Problem
from voxpop.model.state import OPEN, Channel, State
from voxpop.model.waves import End, Feedback, Info, Plan, changed
from voxpop.policies.gp_ucb import Belief, Believing
from voxpop.policies.protocol import OVER, Configured, prior_state, uneliminated

MOST_ARMS = 101  # of more actions, an evenly spread subset is played


@dataclass(frozen=True)
class Pooled(Configured):
    """What these policies have in common: answers go to the pool, and the action of largest pooled mean is used."""

    name: ClassVar[str]
    aggregates: ClassVar[bool] = True

    def init(self, problem: Problem) -> State:
        """Return the state in which only the prior and the pilot are known."""
        return prior_state(problem)

    def advance(self, problem: Problem, state: State, plan: Plan, feedback: Feedback) -> tuple[State, Info]:
        """Add the answers to the pool."""
        feedback.check(plan)
        after = state.record(plan, feedback)
        after = changed(after, decision=pooled_best(problem, after.history))
        return after, unproven(problem, after, plan)


@dataclass(frozen=True)
class PilotOnly(Pooled):
    """Keep the pilot's best action for all rounds; without a pilot, the one of largest prior mean."""

    name = "pilot-only"

    def plan(self, problem: Problem, state: State, channel: Channel = OPEN) -> Plan | End:
        """Ask nobody."""
        return End("it only uses the pilot")


@dataclass(frozen=True)
class EqualSplit(Pooled):
    """Play every action once, and ask the same people about all of them."""

    people: int = option(100, least=1, help="The people who are asked.")
    arms: int = option(MOST_ARMS, least=1, help="The most actions that are asked about.")
    name = "equal-split"

    def plan(self, problem: Problem, state: State, channel: Channel = OPEN) -> Plan | End:
        """Plan the only wave."""
        if state.wave > 0:
            return End("every action was asked about once")
        arms = spread(problem, min(self.arms, problem.horizon))
        return channel.enlist(problem, state, short_plan(problem, state, arms, self.people))


@dataclass(frozen=True)
class Halving(Pooled):
    """Successive halving: ask about all actions, then about the better half, until one is left.

    A stage ranks its arms by its own averages. It asks twice as many people as the one before, about half as many arms,
    so that all stages send about the same number of numbers.
    """

    people: int = option(11, least=1, help="The people in the first wave.")
    arms: int = option(MOST_ARMS, least=1, help="The most actions in the first wave.")
    name = "halving"

    def plan(self, problem: Problem, state: State, channel: Channel = OPEN) -> Plan | End:
        """Plan the next stage; if the horizon ends in it, only the best arms of the stage before are played."""
        left = problem.horizon - state.rounds
        if left == 0:
            return OVER
        arms = spread(problem, min(self.arms, left))
        if state.history:  # the better half of the last wave's arms, best first; of three arms, two
            plan, feedback = state.history[-1]
            arms = plan.arms[np.argsort(-feedback.mean, kind="stable")][: (len(plan.arms) + 1) // 2]
        if len(arms) == 1:
            return End("one arm is left")
        people = math.ceil(self.people * min(self.arms, problem.size) / len(arms))
        return channel.enlist(problem, state, short_plan(problem, state, arms[:left], people))


def few_rounds(problem: Problem) -> int:
    """Compute the rounds beyond which an arm teaches almost nothing: 2 sigma^2 / (v^2 max k), rounded up.

    >>> from voxpop.model.kernels import SquaredExponential
    >>> few_rounds(Problem([0.0, 1.0], SquaredExponential(0.2), 0.3, 0.1, norm_bound=1.0, horizon=100))
    18
    """
    share = problem.noise_std / problem.bias_std
    return math.ceil(round(min(2 * share * share / problem.largest_variance, problem.horizon), 9))


def short_plan(problem: Problem, state: State, arms: Indices, people: int) -> Plan:
    """Plan a wave of few rounds of each arm, and fewer if the horizon ends before that."""
    rounds = min(few_rounds(problem), (problem.horizon - state.rounds) // len(arms))
    return Plan(state.wave + 1, arms, np.full(len(arms), rounds), people, state.best)


def unproven(problem: Problem, state: State, plan: Plan) -> Info:
    """Describe a wave that leaves the bounds as they are."""
    return uneliminated(problem, float(state.lead_width.max()), information_gain(problem, plan.arms, plan.pulls))


@lru_cache(maxsize=64)
def spread(problem: Problem, count: int) -> Indices:
    """Choose `count` evenly spread actions, in their order: each is the farthest from those chosen before it.

    >>> from voxpop.model.kernels import SquaredExponential
    >>> line = Problem([[x / 8] for x in range(9)], SquaredExponential(0.2), 0.3, 0.1, norm_bound=1.0, horizon=100)
    >>> spread(line, 5).tolist()
    [0, 2, 4, 6, 8]
    """
    if count >= problem.size:
        return np.arange(problem.size)
    points = problem.decisions.points
    chosen, distance = [0], np.full(problem.size, np.inf)
    while len(chosen) < count:
        distance = np.minimum(distance, np.square(points - points[chosen[-1]]).sum(axis=1))
        distance[chosen[-1]] = -1.0  # never twice, even if distances vanish to rounding
        chosen.append(int(np.argmax(distance)))
    return np.sort(np.array(chosen, dtype=np.intp))


MOST_ACTIONS = 1000  # of more actions, draws are compared at an evenly spread subset
JITTER = 1e-9  # of the prior variance, so that a covariance that is singular to rounding has a root


@dataclass(frozen=True)
class Thompson(Configured):
    """Thompson sampling with averages of a few people."""

    people: int = option(20, least=1, help="The people in each wave.")
    steps: int = option(200, least=1, help="The most waves.")
    widen: float = option(
        1.5, above=0, most=1e3, help="How many times as far as the posterior, whose constants are fitted, draws spread."
    )
    seed: int = option(0, least=0, help="The seed of the draws.")
    name = "thompson"
    aggregates = True

    def init(self, problem: Problem) -> State:
        """Return the state in which only the prior and the pilot are known."""
        return fitted(problem, prior_state(problem))

    def plan(self, problem: Problem, state: State, channel: Channel = OPEN) -> Plan | End:
        """Plan to play the best action of a function drawn from the posterior."""
        left = problem.horizon - state.rounds
        if left == 0:
            return OVER
        if state.wave >= self.steps:
            return End("every step is played")
        assert isinstance(state, Believing)
        arm = spread(problem, MOST_ACTIONS)[self._draw(problem, state)]
        rounds = min(few_rounds(problem), left)
        plan = Plan(state.wave + 1, np.array([arm]), np.array([rounds]), self.people, state.best)
        return channel.enlist(problem, state, plan)

    def advance(self, problem: Problem, state: State, plan: Plan, feedback: Feedback) -> tuple[State, Info]:
        """Condition on the average of the people."""
        feedback.check(plan)
        after = state.record(plan, feedback)
        over = after.wave >= self.steps or after.rounds >= problem.horizon
        assert isinstance(after, Believing)
        after = (fitted if over or after.wave.bit_count() == 1 else one_more)(problem, after)
        return after, unproven(problem, after, plan)

    def _draw(self, problem: Problem, state: Believing) -> int:
        """Return which of the actions that are compared is the best of a drawn function."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(state.wave,)))
        at, belief = spread(problem, MOST_ACTIONS), state.belief
        covariance = self.widen**2 * belief.covariance
        covariance.flat[:: len(at) + 1] += JITTER * problem.norm_bound**2 * problem.prior_variance[at]
        return int(np.argmax(rng.multivariate_normal(belief.mean, covariance, check_valid="ignore", method="cholesky")))


def fitted(problem: Problem, state: State) -> Believing:
    """Return the state with a posterior whose scale and length-scales are fitted to all answers."""
    belief, at = believe(problem, state.history), spread(problem, MOST_ACTIONS)
    known = Belief.of(belief.mean[at], belief.covariance(at))
    return changed(Believing.of(state, known), decision=int(np.argmax(belief.mean)))


def one_more(problem: Problem, state: Believing) -> Believing:
    """Return the state with the posterior conditioned on the last wave, which played one arm."""
    plan, feedback = state.history[-1]
    at = spread(problem, MOST_ACTIONS)
    place = int(np.searchsorted(at, plan.arms[0]))
    noise = total_noise(problem, plan, feedback)
    known = deepcopy(state.belief)
    known.learn(place, float(feedback.mean[0]), float(noise[0, 0]))
    return changed(state, belief=known, decision=int(at[np.argmax(known.mean)]))
