"""The same answers through the simulator: plans and state must come out the same as the service's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from voxpop.core.errors import Array
from voxpop.core.phases import Feedback, Plan, Tally
from voxpop.core.problem import Problem
from voxpop.core.state import State
from voxpop.drivers.simulate import run_phases
from voxpop.formats import wire
from voxpop.privacy import Budget, Entry, Privacy, Release, Source
from voxpop.service.study.snapshot import Event, Record


@dataclass(frozen=True)
class _Sent:
    """A release whose devices send what they sent before; all else is the release's own."""

    release: Release
    reports: Array  # (people, arms)

    def randomize(self, y: Array, source: Source) -> Array:
        return self.reports

    def tally(self, reports: Array) -> Tally:
        return self.release.tally(reports)

    def seal(self, tally: Tally) -> Tally:
        return self.release.seal(tally)

    def analyze(self, tally: Tally, source: Source) -> Feedback:
        return self.release.analyze(tally, source)

    def entry(self, count: int) -> Entry:
        return self.release.entry(count)

    def describe(self) -> dict[str, Any]:
        return self.release.describe()


@dataclass(frozen=True)
class _Repeated:
    """A trust model whose reports are known already."""

    privacy: Privacy
    reports: Mapping[int, Array]

    @property
    def model(self) -> str:
        return self.privacy.model

    @property
    def budget(self) -> Budget | None:
        return self.privacy.budget

    def enlist(self, problem: Problem, state: State, plan: Plan) -> Plan:
        return self.privacy.enlist(problem, state, plan)

    def calibrate(self, problem: Problem, state: State, plan: Plan) -> Release:
        return _Sent(self.privacy.calibrate(problem, state, plan), self.reports[plan.phase])

    def describe(self) -> dict[str, Any]:
        return self.privacy.describe()


class _Nobody:
    """People who have nothing to add to what was sent."""

    def observe(self, plan: Plan, users: int, rng: np.random.Generator) -> Array:
        return np.zeros((users, len(plan.arms)))

    def observe_each(self, plan: Plan, rng: np.random.Generator) -> Array:
        raise AssertionError("a service asks no policy that does this")


def record_of(events: list[Event]) -> Record:
    """What follows from a log."""
    record = Record.begin(events[0])
    for event in events[1:]:
        record = record.after(event)
    return record


def disagreements(events: list[Event], reports: Mapping[int, list[list[float]]]) -> list[str]:
    """Where the service's log differs from the simulator's run on the same reports; nothing, if all is well."""
    served = record_of(events)
    definition = served.definition
    arrays = {phase: np.array(rows, dtype=float) for phase, rows in reports.items()}
    repeated = _Repeated(definition.privacy, arrays)
    plans = [done.plan for done in served.done]
    found, state = [], definition.policy.init(definition.problem)
    steps = list(run_phases(definition.problem, definition.policy, _Nobody(), 0, repeated))
    if len(steps) != len(plans):
        found.append(f"the simulator has {len(steps)} phases, and the service {len(plans)}")
    for step, plan in zip(steps, plans, strict=False):
        if wire.plan_to_dict(step.plan) != wire.plan_to_dict(plan):
            found.append(f"the plans of phase {plan.phase} differ")
        state = step.state
    parts = ("active", "lower", "upper", "centre", "lead", "norm_bound")
    differing = [name for name in parts if not np.array_equal(getattr(state, name), getattr(served.state, name))]
    return found + [f"the final states differ in {name}" for name in differing]
