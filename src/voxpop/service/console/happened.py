"""A study's log and audit trail in words, the newest first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from voxpop.io.schema import plan_from_dict
from voxpop.journal.wave import ClosedWave
from voxpop.model.words import counted
from voxpop.service import audit
from voxpop.service.console.words import in_waves
from voxpop.service.study.events import Event, Kind
from voxpop.service.study.life import ENDED
from voxpop.service.study.snapshot import Snapshot

MOST_RAW = 2_000  # characters of an event that are part of the page


@dataclass(frozen=True)
class Happening:
    """An event of the log: when, what, and the beginning of how it is stored."""

    seq: int
    at: float
    words: str
    raw: str
    whole: bool  # False: the raw text goes on


@dataclass(frozen=True)
class Deed:
    """An entry of the audit trail."""

    at: float
    actor: str
    words: str


def happenings(snapshot: Snapshot, events: Sequence[Event]) -> tuple[Happening, ...]:
    """Say what the events of a log are; `snapshot` is what follows from them."""
    closed = {wave.plan.wave: wave for wave in snapshot.closed}
    return tuple(_happening(event, closed) for event in reversed(events))


def _happening(event: Event, closed: Mapping[int, ClosedWave]) -> Happening:
    raw = json.dumps(event.body, indent=1, ensure_ascii=False)
    return Happening(event.seq, event.at, _words(event, closed), raw[:MOST_RAW], len(raw) <= MOST_RAW)


def _words(event: Event, closed: Mapping[int, ClosedWave]) -> str:
    wave = (event.seq + 1) // 2  # a log is created, opened, closed, opened, closed, ..., finished
    if event.kind == Kind.CREATED:
        return "The study was created."
    if event.kind == Kind.FINISHED:
        reason = in_waves(str(event.body.get("reason") or "no further wave is planned"))
        return "An operator ended the study." if reason == ENDED else f"The study finished: {reason}."
    if event.kind == Kind.OPENED:
        plan = plan_from_dict(event.body["plan"])
        asked = f"{counted(plan.people, 'person', 'people')} about {counted(len(plan.arms), 'decision')}"
        return f"Wave {wave} was planned: it asks {asked}, after {counted(plan.asked, 'round')}."
    done = closed[wave]
    left, people = counted(done.info.active_after, "decision"), counted(done.people, "person", "people")
    warning = f" Model check: {done.info.warning}" if done.info.warning else ""
    return f"Wave {wave} was released: {people} answered, and {left} can still be best.{warning}"


def deeds(entries: Sequence[audit.Entry]) -> tuple[Deed, ...]:
    """Say who did what."""
    return tuple(
        Deed(entry.at, entry.actor, f"{entry.action}{': ' if entry.detail else ''}{entry.detail}") for entry in entries
    )
