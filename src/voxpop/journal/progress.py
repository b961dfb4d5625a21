"""Where a study stands: what follows from its log of plans and feedback, as a value.

A step makes a new `Progress` and leaves the old one alone, so a step that could not be saved is undone by keeping the
old one. Nothing here knows of files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from voxpop.io import schema as wire
from voxpop.journal.record import Event, Released
from voxpop.journal.wave import ClosedWave, Wave, next_wave
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.waves import Answered, End, Feedback, Plan
from voxpop.policies import Policy
from voxpop.privacy import Entry, Ledger, NoPrivacy, Privacy


@dataclass(frozen=True, eq=False)
class Progress:
    """The closed waves of a study, the open one, the state after them, and what the ledger was charged for.

    >>> from voxpop.model.kernels import SquaredExponential
    >>> from voxpop.policies import make_policy
    >>> problem = Problem([[0.0], [0.5], [1.0]], SquaredExponential(0.3), 0.01, 0.1, norm_bound=1.0, horizon=50)
    >>> begun = Progress.begin(problem, make_policy(), NoPrivacy())
    >>> asked = begun.asked()
    >>> begun.pending, asked.pending.plan.wave
    (None, 1)
    """

    problem: Problem
    policy: Policy
    privacy: Privacy
    state: State
    closed: tuple[ClosedWave, ...] = ()
    charged: tuple[Entry, ...] = ()  # also for releases that were taken back
    pending: Wave | None = None
    events: int = 0  # of the record of releases, which this takes into account

    @classmethod
    def begin(cls, problem: Problem, policy: Policy, privacy: Privacy) -> Progress:
        """Return where a study stands before it has asked anything."""
        return cls(problem, policy, privacy, policy.init(problem))

    @property
    def log(self) -> list[Answered]:
        """The plans and the feedback of the closed waves, from which everything else follows."""
        return [Answered(wave.plan, wave.feedback) for wave in self.closed]

    @property
    def private(self) -> bool:
        """True if people are promised privacy."""
        return self.privacy.model != NoPrivacy.model

    @cached_property
    def ledger(self) -> Ledger:
        """What was released about whom."""
        return Ledger(self.privacy.budget, list(self.charged))

    @cached_property
    def following(self) -> Wave | End:
        """The wave that is open, or else the one to ask next."""
        return self.pending or next_wave(self.problem, self.policy, self.privacy, self.state)

    def asked(self) -> Progress:
        """Return where the study stands once the next wave is open."""
        following = self.following
        return self if isinstance(following, End) else replace(self, pending=following)

    def after(self, event: Event) -> Progress:
        """Return where the study stands after an event, whether it happens now or is read from the record."""
        events = self.events + self.private
        if isinstance(event, Released):
            (plan, feedback), pending = event.answered, self.pending
            wave = pending if pending is not None and pending.plan is plan else self._opened(plan)
            return replace(self._advanced(wave, feedback), charged=(*self.charged, event.entry), events=events)
        *kept, last = self.closed
        progress = replace(self, state=self.policy.init(self.problem), closed=(), events=events)
        for done in kept:
            progress = progress._advanced(Wave(done.plan, done.release), done.feedback)
        return replace(progress, pending=Wave(last.plan, last.release))

    def to_dict(self) -> dict[str, Any]:
        """Return the study as plain data: the log, and no second copy of what follows from it."""
        return {
            "problem": wire.problem_to_dict(self.problem),
            "policy": wire.policy_to_dict(self.policy),
            "privacy": self.privacy.settings(),
            "ledger": wire.ledger_to_list(self.ledger),
            "log": [[wire.plan_to_dict(plan), wire.feedback_to_dict(feedback)] for plan, feedback in self.log],
            "pending": None if self.pending is None else wire.plan_to_dict(self.pending.plan),
            "events": self.events,
        }

    def replayed(self, data: dict[str, Any]) -> Progress:
        """Return where a study stands that begins like this and went on as `to_dict` wrote it."""
        ledger = wire.ledger_from_list(self.privacy.budget, data["ledger"])
        progress = replace(self, charged=tuple(ledger.entries), events=data.get("events", 0))
        for plan, feedback in data["log"]:
            wave = progress._opened(wire.plan_from_dict(plan))
            progress = progress._advanced(wave, wire.feedback_from_dict(feedback))
        if data["pending"] is None:
            return progress
        return replace(progress, pending=progress._opened(wire.plan_from_dict(data["pending"])))

    def _opened(self, plan: Plan) -> Wave:
        return Wave(plan, self.privacy.calibrate(self.problem, self.state, plan))

    def _advanced(self, wave: Wave, feedback: Feedback) -> Progress:
        state, info = self.policy.advance(self.problem, self.state, wave.plan, feedback)
        closed = ClosedWave(wave.plan, wave.release, feedback, info, state.active)
        return replace(self, state=state, closed=(*self.closed, closed), pending=None)
