"""The snapshot: what follows from a study's log, state == fold(advance, log)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from voxpop.io.schema import wave_for_devices
from voxpop.journal import journal
from voxpop.journal.journal import Course
from voxpop.journal.wave import ClosedWave, Wave, next_wave
from voxpop.model.state import State
from voxpop.model.waves import End
from voxpop.privacy import Ledger
from voxpop.service.study.definition import Definition, most_participations
from voxpop.service.study.events import Event, Kind, closed_parts, opened_wave


@dataclass(frozen=True)
class Standing:
    """What was known at some moment: the best decision, what is certified about it, and what it is expected to lose."""

    best: int
    certified: float  # infinite: nothing
    expected_loss: float | None
    left: int  # decisions that can still be best

    @classmethod
    def of(cls, definition: Definition, state: State) -> Self:
        """Say where a study stands in this state."""
        best = definition.policy.best(definition.problem, state)
        certified = state.certificate if best == state.best else state.most_lost(best)
        return cls(best, certified, state.expected_loss, len(state.active))


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything that follows from the log up to event `seq`."""

    definition: Definition
    seq: int
    state: State
    ledger: Ledger
    current: Wave | None = None
    told: str = ""  # what devices are told about the current wave, as JSON
    closed: tuple[ClosedWave, ...] = ()
    finished: bool = False
    reason: str = ""  # why it finished
    early: bool = False  # an operator ended it
    standings: tuple[Standing, ...] = ()  # before the first wave, and after each

    @classmethod
    def begin(cls, event: Event) -> Self:
        """Start from the event that created a study."""
        definition = Definition.of(event.body)
        state = definition.policy.init(definition.problem)
        standings = (Standing.of(definition, state),)
        return cls(definition, event.seq, state, Ledger(definition.budget), standings=standings)

    def after(self, event: Event) -> Snapshot:
        """Fold in one more event."""
        assert event.seq == self.seq + 1, "the log has a gap"
        if event.kind == Kind.OPENED:
            wave = opened_wave(event.body)
            return replace(self, seq=event.seq, current=wave, told=self._told(wave, event.body))
        if event.kind == Kind.FINISHED:
            reason, early = str(event.body.get("reason", "")), bool(event.body.get("early", False))
            return replace(self, seq=event.seq, current=None, told="", finished=True, reason=reason, early=early)
        assert self.current is not None
        feedback, entry = closed_parts(event.body)
        plan, release = self.current.plan, self.current.release
        state, info = self.definition.policy.advance(self.definition.problem, self.state, plan, feedback)
        return replace(
            self,
            seq=event.seq,
            state=state,
            ledger=Ledger(self.ledger.budget, [*self.ledger.entries, entry]),
            current=None,
            told="",
            closed=(*self.closed, ClosedWave(plan, release, feedback, info, state.active)),
            standings=(*self.standings, Standing.of(self.definition, state)),
        )

    @property
    def best(self) -> int:
        """The best action so far."""
        return self.definition.policy.best(self.definition.problem, self.state)

    @property
    def course(self) -> Course:
        """How the study has gone so far, for tables, pictures and reports."""
        definition, current = self.definition, self.current
        begun = journal.Definition(definition.problem, definition.policy, definition.privacy, reward=definition.reward)
        ended = self.reason if self.finished else None
        return Course(begun, self.state, self.closed, current, tuple(self.ledger.entries), ended, self.early)

    @cached_property
    def most_arms(self) -> int:
        """How many arms a wave has had at most, and so a report numbers; 0 before the first wave."""
        return max((len(wave.plan.arms) for wave in (*self.closed, self.current) if wave is not None), default=0)

    @cached_property
    def most_participations(self) -> int:
        """How often a person may take part in waves like the current one before the budget is spent."""
        assert self.current is not None
        entry = self.current.release.entry(self.current.plan.people)
        return most_participations(self.ledger, entry, self.definition.rules.participations)

    def next_wave(self) -> Wave | End:
        """Plan the next wave, or say why there is none; every coordinator plans the same."""
        return next_wave(self.definition.problem, self.definition.policy, self.definition.privacy, self.state)

    def _told(self, wave: Wave, body: dict[str, Any]) -> str:
        told = wave_for_devices(self.definition.problem, wave.plan, body["release"])
        return json.dumps(told, allow_nan=False, separators=(",", ":"))


def fold(events: Iterable[Event]) -> Snapshot:
    """Compute the snapshot of a whole log."""
    first, *rest = events
    snapshot = Snapshot.begin(first)
    for event in rest:
        snapshot = snapshot.after(event)
    return snapshot
