"""What summary and pictures of a study are made from: its course, the truth if it is known, and what follows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from voxpop.errors import Array
from voxpop.journal.journal import Course
from voxpop.journal.question import Answer
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.waves import Plan
from voxpop.policies import Policy
from voxpop.report.decisions import Layout
from voxpop.report.stakes import Stakes, stakes_of

MOST_REPLAYED = 60  # waves; policies with more learn in such small steps that no picture shows them


def failure_chance(policy: Policy, problem: Problem, waves: int) -> float:
    """Bound the probability that anything certified is wrong: delta, or beta for every bound of every wave."""
    printed = 2 * problem.size * max(1, waves) * problem.beta
    return float(min(1.0, policy.settings().get("delta", printed)))


def confidence(policy: Policy, problem: Problem, waves: int) -> str:
    """Say how sure everything is that is certified after this number of waves."""
    chance = failure_chance(policy, problem, waves)
    return f"{100 * (1 - chance):.4g} % confidence" if chance >= 5e-6 else f"wrong with probability below {chance:.2g}"


@dataclass(frozen=True, eq=False)
class View:
    """A study as its summary and pictures see it."""

    course: Course
    truth: Array | None = None

    @cached_property
    def layout(self) -> Layout:
        """The decisions by name."""
        return Layout(self.course.problem)

    @cached_property
    def answer(self) -> Answer:
        """What to do now."""
        return self.course.answer

    @cached_property
    def choice(self) -> str:
        """The decision in words."""
        return self.layout.name(self.answer.index)

    @cached_property
    def stakes(self) -> Stakes | None:
        """What asking costs, and what not knowing would cost."""
        return stakes_of(self.course, self.truth)

    @cached_property
    def sure(self) -> str:
        """How sure the certified bounds are."""
        return confidence(self.course.policy, self.course.problem, len(self.course.closed))

    @property
    def informed(self) -> bool:
        """True if anybody has answered, in the pilot or since."""
        return bool(self.course.closed or self.course.problem.pilot)

    @property
    def plans(self) -> list[Plan]:
        """All waves, with the one that is open."""
        return [*self.course.plans, *([] if self.course.pending is None else [self.course.pending])]

    @cached_property
    def trail(self) -> tuple[State, ...]:
        """The state before the first wave and after each; empty if there are too many waves to learn them again."""
        if len(self.course.closed) > MOST_REPLAYED:
            return ()
        return tuple(course.state for course in self.course.replayed())

    def estimate(self, state: State | None = None) -> Array:
        """Return the estimate of every decision; nan where a policy has given a decision up and no longer tracks it."""
        state = state or self.course.state
        if state.expected_loss is not None:
            return state.centre
        known = np.full(len(state.centre), np.nan)
        known[state.active] = state.centre[state.active]
        return known

    def likely(self, state: State | None = None) -> Array | None:
        """Return twice the standard deviation of every estimate, if the policy knows it."""
        state = state or self.course.state
        return None if state.expected_loss is None else 2 * state.lead_width
