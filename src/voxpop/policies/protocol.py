"""What every policy is: three pure functions and an opinion."""

from __future__ import annotations

from typing import Any, Protocol

from voxpop.phases import Feedback, Info, Plan
from voxpop.problem import Problem
from voxpop.state import State


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
