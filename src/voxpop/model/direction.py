"""Whether more is better or less: a study of costs is a study of rewards with the other sign.

Everything inside voxpop maximises. What people hand over and read (answers, pilots, files, bounds, reports) is in
their own units, rewards or costs. A `Direction` is the one place that turns one into the other; it is its own inverse.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TypeVar

from voxpop.errors import Array, require_choice
from voxpop.model.guardrails import Rule
from voxpop.model.problem import Evidence, Problem
from voxpop.model.waves import Feedback, changed

Value = TypeVar("Value", float, Array)


class Direction(StrEnum):
    """To maximize rewards or to minimize costs.

    >>> Direction.of("minimize").turn(3.0), Direction.of("minimize").bounds(1.0, 2.0)
    (-3.0, (-2.0, -1.0))
    >>> Direction.of("maximize").turn(3.0)
    3.0
    """

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"

    @classmethod
    def of(cls, name: str) -> Direction:
        """Return the direction of that name."""
        return cls(require_choice("direction", name, [each.value for each in cls]))

    @property
    def measure(self) -> str:
        """What people are asked for: the name of the column in which they answer."""
        return "reward" if self is Direction.MAXIMIZE else "cost"

    def turn(self, value: Value) -> Value:
        """Turn a person's reward or cost into what is maximised, or back."""
        return value if self is Direction.MAXIMIZE else 0.0 - value  # not -value, which would turn 0 into -0

    def bounds(self, low: Value, high: Value) -> tuple[Value, Value]:
        """Turn an interval; its ends change places if less is better."""
        return (low, high) if self is Direction.MAXIMIZE else (self.turn(high), self.turn(low))

    def feedback(self, feedback: Feedback) -> Feedback:
        """Turn an average answer. Its noise has no sign."""
        by_block = None if feedback.by_block is None else self.turn(feedback.by_block)
        return changed(feedback, mean=self.turn(feedback.mean), by_block=by_block)

    def evidence(self, group: Evidence) -> Evidence:
        """Turn the averages of people who answered before."""
        return changed(group, mean=self.turn(group.mean))

    def problem(self, problem: Problem) -> Problem:
        """Turn what a problem says about the level of rewards: its prior mean and the pilot's averages."""
        if self is Direction.MAXIMIZE:
            return problem
        low, high = problem.reward_range.split(":")
        turned = ":".join(f"{0.0 - float(limit)!r}" if limit.strip() else "" for limit in (high, low))
        pilot = tuple(map(self.evidence, problem.pilot))
        return replace(problem, prior_mean=0.0 - problem.prior_mean, pilot=pilot, reward_range=turned)


def of_rule(rule: Rule) -> Direction:
    """Return the direction of a guardrail's metric."""
    return Direction.MINIMIZE if rule.less else Direction.MAXIMIZE


def metrics_of(problem: Problem, direction: Direction) -> list[tuple[str, Direction, Problem]]:
    """Return the name, direction and problem of each metric that people answer about; the objective's name is empty."""
    rails = ((guardrail.name, of_rule(guardrail.rule), guardrail.problem) for guardrail in problem.guardrails)
    return [("", direction, problem), *rails]
