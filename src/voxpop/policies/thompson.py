"""Thompson sampling with people: draw a function from the pooled posterior, play its best action, ask a few people.

After `steps` such phases the action of largest pooled mean is kept. A phase plays one arm and asks fresh people, so the
posterior is updated by one rank; its scale and length-scales are fitted anew when the number of phases has doubled.

Draws come from a seed of their own, and spread wider than the posterior: where the kernel or the norm bound is wrong,
plain Thompson sampling can settle on a poor action and never look elsewhere. It proves nothing, and keeps the prior's
bounds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from voxpop.belief.posterior import believe
from voxpop.belief.rows import total_noise
from voxpop.core.channel import OPEN, Channel
from voxpop.core.errors import require_integer, require_number
from voxpop.core.frozen import changed
from voxpop.core.phases import End, Feedback, Info, Plan
from voxpop.core.problem import Problem
from voxpop.core.state import State
from voxpop.policies.gp_ucb import Belief
from voxpop.policies.peers import few_rounds, spread, unproven
from voxpop.policies.protocol import OVER, prior_state

MOST_ACTIONS = 1000  # of more actions, draws are compared at an evenly spread subset
JITTER = 1e-9  # of the prior variance, so that a covariance that is singular to rounding has a root


@dataclass(frozen=True)
class Thompson:
    """Thompson sampling with averages of a few people."""

    people: int = 20  # in each step
    steps: int = 200
    widen: float = 1.5  # draws spread this many times as far as the posterior, which trusts its fitted constants
    seed: int = 0  # of the draws
    name = "thompson"
    aggregates = True

    def __post_init__(self) -> None:
        require_integer("people", self.people, least=1)
        require_integer("steps", self.steps, least=1)
        require_number("widen", self.widen, above=0, most=1e3)
        require_integer("seed", self.seed, least=0)

    def settings(self) -> dict[str, Any]:
        """Return the arguments with which `make_policy` makes this policy again."""
        return {"name": self.name, **asdict(self)}

    def init(self, problem: Problem) -> State:
        """Return the state in which only the prior and the pilot are known."""
        return fitted(problem, prior_state(problem))

    def plan(self, problem: Problem, state: State, channel: Channel = OPEN) -> Plan | End:
        """Plan to play the best action of a function drawn from the posterior."""
        left = problem.horizon - state.rounds
        if left == 0:
            return OVER
        if state.phase >= self.steps:
            return End("every step is played")
        arm = spread(problem, MOST_ACTIONS)[self._draw(problem, state)]
        rounds = min(few_rounds(problem), left)
        plan = Plan(state.phase + 1, np.array([arm]), np.array([rounds]), self.people, state.best)
        return channel.enlist(problem, state, plan)

    def advance(self, problem: Problem, state: State, plan: Plan, feedback: Feedback) -> tuple[State, Info]:
        """Condition on the average of the people."""
        feedback.check(plan)
        after = state.record(plan, feedback)
        over = after.phase >= self.steps or after.rounds >= problem.horizon
        if over or after.phase.bit_count() == 1:
            after = fitted(problem, after)
        else:
            after = one_more(problem, after, state.memory)
        return after, unproven(problem, after, plan)

    def best(self, problem: Problem, state: State) -> int:
        """Return the action of largest pooled mean."""
        return state.best

    def _draw(self, problem: Problem, state: State) -> int:
        """Return which of the actions that are compared is the best of a drawn function."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(state.phase,)))
        at, belief = spread(problem, MOST_ACTIONS), state.memory
        covariance = self.widen**2 * belief.covariance
        covariance.flat[:: len(at) + 1] += JITTER * problem.norm_bound**2 * problem.prior_variance[at]
        return int(np.argmax(rng.multivariate_normal(belief.mean, covariance, check_valid="ignore", method="cholesky")))


def fitted(problem: Problem, state: State) -> State:
    """Return the state with a posterior whose scale and length-scales are fitted to all answers."""
    belief, at = believe(problem, state.history), spread(problem, MOST_ACTIONS)
    known = Belief.of(belief.mean[at], belief.covariance(at))
    return changed(state, memory=known, decision=int(np.argmax(belief.mean)))


def one_more(problem: Problem, state: State, before: Belief) -> State:
    """Return the state with the posterior conditioned on the last phase, which played one arm."""
    plan, feedback = state.history[-1]
    at = spread(problem, MOST_ACTIONS)
    place = int(np.searchsorted(at, plan.arms[0]))
    noise = total_noise(problem, plan, feedback)
    known = before.condition(place, float(feedback.mean[0]), float(noise[0, 0]))
    return changed(state, memory=known, decision=int(at[np.argmax(known.mean)]))
