"""What every policy is: three pure functions and an opinion."""

from __future__ import annotations

from typing import Any, Protocol

from voxpop.core.errors import InputError
from voxpop.core.phases import Feedback, Info, Plan
from voxpop.core.problem import Problem
from voxpop.core.state import State

MOST_ROUNDS = 10**7  # of a policy that thinks about every single one


def require_few_rounds(name: str, problem: Problem) -> None:
    """Refuse a horizon that a policy which plays round by round would not live to see."""
    if problem.horizon > MOST_ROUNDS:
        raise InputError(
            f"policy {name!r} plays one round at a time, and a horizon of {problem.horizon:,} is too long for that "
            f"(at most {MOST_ROUNDS:,}); use dpbe"
        )


class Policy(Protocol):
    """Decides what to play and whom to ask; never sees the truth, a clock or a random number."""

    @property
    def name(self) -> str:
        """The name by which it is chosen."""

    @property
    def aggregates(self) -> bool:
        """Whether it learns from averages of many people, as privacy needs, or from one person a round."""

    def settings(self) -> dict[str, Any]:
        """The arguments that make this policy again."""

    def init(self, problem: Problem) -> State:
        """The state before the first phase."""

    def plan(self, problem: Problem, state: State) -> Plan | None:
        """The next phase, or None when nothing is left to learn."""

    def advance(self, problem: Problem, state: State, plan: Plan, feedback: Feedback) -> tuple[State, Info]:
        """The state after the phase."""

    def best(self, problem: Problem, state: State) -> int:
        """The action to use now."""
