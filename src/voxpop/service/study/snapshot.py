"""The log of a study, and what follows from it: state == fold(advance, log)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Self

from voxpop.core.phases import Feedback, Info, Plan
from voxpop.core.state import State
from voxpop.formats import wire
from voxpop.formats.releases import for_devices, release_from_dict, release_to_dict
from voxpop.privacy import Entry, Ledger, Release
from voxpop.service.study.definition import Definition

# The kinds of event, in the order in which they come.
CREATED, OPENED, CLOSED, FINISHED = "created", "opened", "closed", "finished"


@dataclass(frozen=True)
class Event:
    """One line of the log: a definition, a plan with its public constants, or a released aggregate."""

    seq: int
    kind: str
    at: float  # only for people
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """The body as it is stored."""
        return json.dumps(self.body, allow_nan=False, separators=(",", ":"))


def opened_body(plan: Plan, release: Release) -> dict[str, Any]:
    """The body of an `opened` event."""
    return {"plan": wire.plan_to_dict(plan), "release": release_to_dict(release)}


def closed_body(feedback: Feedback, entry: Entry) -> dict[str, Any]:
    """The body of a `closed` event."""
    return {"feedback": wire.feedback_to_dict(feedback), "entry": entry.as_dict()}


@dataclass(frozen=True, eq=False)
class Phase:
    """A phase whose feedback is not in yet."""

    plan: Plan
    release: Release
    told: str  # what devices are told of it, as JSON


@dataclass(frozen=True)
class Done:
    """What is kept of a closed phase, for watching."""

    plan: Plan
    count: int
    info: Info


@dataclass(frozen=True, eq=False)
class Record:
    """All that follows from the log so far."""

    definition: Definition
    seq: int
    state: State
    ledger: Ledger
    current: Phase | None = None
    done: tuple[Done, ...] = ()
    finished: bool = False

    @classmethod
    def begin(cls, event: Event) -> Self:
        """The record of a study that was just created."""
        definition = Definition.of(event.body)
        return cls(definition, event.seq, definition.policy.init(definition.problem), Ledger(definition.budget))

    def after(self, event: Event) -> Record:
        """The record after one more event."""
        assert event.seq == self.seq + 1, "the log has a gap"
        if event.kind == OPENED:
            plan, release = wire.plan_from_dict(event.body["plan"]), release_from_dict(event.body["release"])
            return replace(self, seq=event.seq, current=Phase(plan, release, self._told(event.body, plan)))
        if event.kind == FINISHED:
            return replace(self, seq=event.seq, finished=True)
        assert self.current is not None
        feedback = wire.feedback_from_dict(event.body["feedback"])
        plan = self.current.plan
        state, info = self.definition.policy.advance(self.definition.problem, self.state, plan, feedback)
        ledger = Ledger(self.ledger.budget, [*self.ledger.entries, wire.entry_from_dict(event.body["entry"])])
        done = (*self.done, Done(plan, feedback.count, info))
        return replace(self, seq=event.seq, state=state, ledger=ledger, current=None, done=done)

    @property
    def best(self) -> int:
        """The action to use now."""
        return self.definition.policy.best(self.definition.problem, self.state)

    def plan(self) -> tuple[Plan, Release] | None:
        """The next phase: pure, so that every coordinator comes to the same one."""
        problem, privacy = self.definition.problem, self.definition.privacy
        plan = self.definition.policy.plan(problem, self.state)
        if plan is None:
            return None
        plan = privacy.enlist(problem, self.state, plan)
        return plan, privacy.calibrate(problem, self.state, plan)

    def _told(self, body: dict[str, Any], plan: Plan) -> str:
        decisions = [self.definition.problem.decisions[arm] for arm in plan.arms.tolist()]
        told = {
            "phase": plan.phase,
            "arms": plan.arms.tolist(),
            "decisions": decisions,
            "rounds": plan.pulls.tolist(),
            "release": for_devices(body["release"]),
        }
        return json.dumps(told, allow_nan=False, separators=(",", ":"))
