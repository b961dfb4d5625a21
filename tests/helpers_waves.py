"""Truths, people and whole studies for the tests of waves."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.helpers import function_of_norm
from voxpop.errors import Array
from voxpop.model.problem import Problem
from voxpop.model.state import OPEN, Channel, State
from voxpop.model.waves import Feedback, Info, Plan, Tally, changed, in_blocks
from voxpop.policies import Policy
from voxpop.simulation.people import GPPeople

ENDLESS = 60  # more waves than any study may have


def truth(problem: Problem, seed: int, norm: float = 0.8) -> Array:
    return function_of_norm(problem, norm * problem.norm_bound, np.random.default_rng(seed))


def everyone(problem: Problem, f: Array, seed: int, most: int = 3000) -> Callable[[Plan], Feedback]:
    """Return a function that asks people who follow the model; at most this many answer."""
    people, rng = GPPeople(problem, f), np.random.default_rng(seed)

    def answer(plan: Plan) -> Feedback:
        asked, count = changed(plan, pulls=plan.lived), min(plan.people, most)
        each = [people.observe(asked, (count + block) // plan.blocks, rng) for block in range(plan.blocks)]
        return in_blocks([Tally.of(some, problem.grid_step).feedback() for some in each if len(some)])

    return answer


@dataclass(frozen=True)
class Played:
    """A study that is over."""

    plans: list[Plan]
    feedbacks: list[Feedback]
    infos: list[Info]
    state: State
    end: str

    @property
    def people(self) -> int:
        return sum(plan.people for plan in self.plans)

    @property
    def numbers(self) -> int:
        return sum(plan.numbers for plan in self.plans)

    @property
    def rounds(self) -> int:
        return sum(plan.length for plan in self.plans)

    @property
    def warnings(self) -> str:
        return "; ".join(info.warning for info in self.infos)


def played(policy: Policy, problem: Problem, answer: Callable[[Plan], Feedback], channel: Channel = OPEN) -> Played:
    """Play a study to its end, and check what must hold in every one."""
    state = policy.init(problem)
    plans: list[Plan] = []
    feedbacks: list[Feedback] = []
    infos: list[Info] = []
    while isinstance(plan := policy.plan(problem, state, channel), Plan):
        assert plan.wave == len(plans) + 1 < ENDLESS
        assert plan.reference == state.best == policy.best(problem, state)
        assert plan.people >= 1
        assert (plan.pulls >= 1).all()
        assert (np.diff(plan.arms) > 0).all()
        plans.append(plan)
        feedbacks.append(answer(plan))
        state, info = policy.advance(problem, state, plan, feedbacks[-1])
        infos.append(info)
        assert state.best in state.active
        assert state.certificate >= 0
        assert 0 <= state.spent <= getattr(policy, "delta", 0)
        assert state.expected_loss is not None
        assert np.isfinite(state.expected_loss)
        assert state.rounds == sum(plan.length for plan in plans) <= problem.horizon
    assert plan.reason
    return Played(plans, feedbacks, infos, state.concluded(), plan.reason)
