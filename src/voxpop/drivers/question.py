"""What a study asks its owner, and what it answers, in terms of the problem's own decisions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from voxpop.core.phases import Forecast, Plan
from voxpop.core.problem import Problem
from voxpop.core.state import State
from voxpop.core.strata import Strata
from voxpop.policies import Policy


@dataclass(frozen=True)
class Question:
    """One phase in terms of the problem's own decisions: play each for its rounds, then ask this many people."""

    phase: int
    decisions: tuple[Any, ...]
    rounds: tuple[int, ...]
    people: int
    meanwhile: Any = None  # the decision to keep in force until the answers are in
    rest: int = 0  # the rounds that are expected to pass until then
    forecast: Forecast | None = None  # what the phase is expected to bring and to cost, if the policy knows
    strata: dict[str, int] = field(default_factory=dict)  # how many of the people to draw from each stratum, if any

    @classmethod
    def of(cls, problem: Problem, plan: Plan, strata: Strata | None = None) -> Question:
        """Put a plan as a question."""
        drawn = {} if strata is None else strata.allocate(plan.people)
        people = sum(drawn.values()) or plan.people
        decisions = tuple(problem.decisions[arm] for arm in plan.arms.tolist())
        meanwhile = problem.decisions[plan.reference]
        rounds = tuple(plan.pulls.tolist())
        return cls(plan.phase, decisions, rounds, people, meanwhile, plan.rest, plan.forecast, drawn)


@dataclass(frozen=True)
class Answer:
    """What to do now, and how sure that is."""

    index: int
    decision: Any
    low: float  # the reward of the decision is between low and high
    high: float
    regret: float  # certified: no decision is better by more than this
    expected_loss: float | None  # what the model expects this decision to lose per round, if the policy knows
    certain: bool  # nothing else can be best

    @classmethod
    def of(cls, problem: Problem, policy: Policy, state: State) -> Answer:
        """Return the best decision in a state."""
        index = policy.best(problem, state)
        low, high = float(state.lower[index]), float(state.upper[index])
        certain = len(state.active) == 1
        return cls(index, problem.decisions[index], low, high, state.certificate, state.expected_loss, certain)
