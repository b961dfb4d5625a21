"""What lies between people and a policy: noise that hides them, and a number of people to hide among."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from voxpop.core.errors import Array
from voxpop.core.phases import Plan
from voxpop.core.problem import Problem
from voxpop.core.state import State


class Channel(Protocol):
    """A trust model, as far as a policy needs to know it when it plans."""

    @property
    def least(self) -> int:
        """The least number of people in a phase, as chosen by whoever runs the study; 0 if nobody chose one."""

    def enlist(self, problem: Problem, state: State, plan: Plan) -> Plan:
        """Return the plan with enough people to hide in; for policies that do not predict the noise."""

    def prospect(self, problem: Problem, state: State, plan: Plan) -> Prospect | None:
        """Predict the noise that the averages of the plan's arms would get, for any number of people; None: none."""


@dataclass(frozen=True, eq=False)
class Prospect:
    """The noise that privacy would add to averages: its covariance is variance(people) times the shape."""

    shape: Array  # (arms, arms)
    variance: Callable[[Array], Array]  # by the number of people; infinite if they are too few to hide in


@dataclass(frozen=True)
class Open:
    """A channel without noise."""

    @property
    def least(self) -> int:
        return 0

    def enlist(self, problem: Problem, state: State, plan: Plan) -> Plan:
        return plan

    def prospect(self, problem: Problem, state: State, plan: Plan) -> Prospect | None:
        return None


OPEN = Open()
