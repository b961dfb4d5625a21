"""A study's log in the database: the SQL backend of its journal, the snapshots of it that a process keeps in memory,
and what else the parts of a coordinator share.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from secrets import token_hex
from threading import Lock
from typing import Any, Self

import msgspec
import numpy as np
import sqlalchemy as sa

from voxpop.errors import InputError
from voxpop.io.schema import encode, wave_for_devices
from voxpop.journal import journal
from voxpop.journal.journal import Course, Event, Released, decode_event, encode_event
from voxpop.journal.wave import Wave
from voxpop.privacy import Secure, Source
from voxpop.service.keys import Keyring
from voxpop.service.refusals import no_study
from voxpop.service.shuffler.signed_http import ShufflerLink
from voxpop.service.stores.database import Database
from voxpop.service.stores.schema import events, stands, studies
from voxpop.service.study.definition import Definition, most_participations
from voxpop.service.study.invitations import Seat
from voxpop.service.study.released import LastRelease, ReleaseRecord, closed_waves, created_at
from voxpop.service.study.response import Pace
from voxpop.service.study.stages import Kind, Life


@dataclass(frozen=True)
class Record:
    """One record of the log as it is stored: the definition, or an event of the journal."""

    seq: int
    kind: str
    at: float  # seconds since 1970; for readers only, nothing is computed from it
    body: dict[str, Any]


@dataclass(frozen=True)
class SqlJournal:
    """The journal of a study in the database, in one transaction.

    A release is written into the record outside the database before it is committed: see `released.py`.
    """

    connection: sa.Connection
    study: str
    at: float = 0.0  # when what is appended happened
    record: ReleaseRecord | None = None

    def records(self, start: int = 0) -> list[Record]:
        """Return the records numbered `start` and above."""
        wanted = sa.select(events).where(events.c.study == self.study, events.c.seq >= start).order_by(events.c.seq)
        found = [Record(row.seq, row.kind, row.at, json.loads(row.body)) for row in self.connection.execute(wanted)]
        assert [record.seq for record in found] == [start + place for place in range(len(found))], "the log has a gap"
        return found

    def read(self, after: int = 0) -> list[Event]:
        """Return the events after the first `after` ones."""
        return [decode_event(record.kind, record.body) for record in self.records(after + 1)]

    def begin(self, definition: journal.Definition) -> None:
        """Store what the study begins with; its row is there already."""
        self._insert(0, [(Kind.CREATED, definition.encode())])

    def append(self, new: Sequence[Event], expected: int, **changes: Any) -> None:
        """Append events and change the study's row; refuse if the journal does not hold exactly `expected` events."""
        row = row_of(self.connection, self.study, lock=True)
        if row.seq != expected:
            raise InputError(f"the study {self.study!r} was changed by another program; look at it, and try again")
        self._insert(expected + 1, [encode_event(event) for event in new])
        update_study(self.connection, self.study, seq=expected + len(new), **changes)
        note_stand(self.connection, self.study, self.at)
        if self.record is not None and any(isinstance(event, Released) for event in new):
            created, wave = created_at(self.connection, self.study), closed_waves(self.connection, self.study)
            assert created is not None
            self.record.note(LastRelease(self.study, created, wave, row.attempt or ""))

    def _insert(self, start: int, bodies: Sequence[tuple[str, dict[str, Any]]]) -> None:
        rows = [
            {"study": self.study, "seq": seq, "kind": kind, "at": self.at, "body": text_of(body)}
            for seq, (kind, body) in enumerate(bodies, start)
        ]
        self.connection.execute(sa.insert(events), rows)


def text_of(body: Any) -> str:
    """Return a body as JSON, as it is stored."""
    return json.dumps(body, allow_nan=False, separators=(",", ":"))


def update_study(connection: sa.Connection, study: str, **changes: Any) -> None:
    """Update the study's row, which says how far the study is."""
    connection.execute(sa.update(studies).where(studies.c.id == study).values(**changes))


def note_stand(connection: sa.Connection, study: str, at: float) -> None:
    """Remember where a study stands from now on, so that what was in force at a time can be said later."""
    names = [column.name for column in stands.c if column.name not in ("id", "study", "at")]
    here = sa.select(studies.c.id, sa.literal(at), *(studies.c[name] for name in names)).where(studies.c.id == study)
    connection.execute(sa.insert(stands).from_select(["study", "at", *names], here))


def row_of(connection: sa.Connection, study: str, lock: bool = False, alone: bool = False) -> Any:
    """Find a study's row; with `lock`, nobody else can change it before this transaction ends.

    The lock lets others refer to the study, so that people register meanwhile, unless it is for one `alone`.
    """
    wanted = sa.select(studies).where(studies.c.id == study)
    row = connection.execute(wanted.with_for_update(key_share=not alone) if lock else wanted).first()
    if row is None:
        raise no_study(study)
    return row


def lock_unmoved(connection: sa.Connection, snapshot: Snapshot) -> Any:
    """Lock the row of a study that runs and whose log has not grown since; return None otherwise."""
    row = row_of(connection, snapshot.study, lock=True)
    return row if row.seq == snapshot.seq and row.life == Life.RUNNING else None


@dataclass(frozen=True, eq=False)
class Snapshot(Course):
    """The course of a study of the service: everything that follows from its log up to event `seq`."""

    definition: Definition

    @property
    def study(self) -> str:
        """The study's name."""
        return self.definition.name

    @property
    def seq(self) -> int:
        """The number of the last event; the definition has number 0."""
        return self.events

    @property
    def undated(self) -> Self:
        """The same without a calendar: only the database knows when waves were played, as people may have lacked."""
        return self if self.calendar is None else replace(self, definition=replace(self.definition, calendar=None))

    @property
    def open_wave(self) -> Wave:
        """The wave that is open, where one must be."""
        assert self.wave is not None
        return self.wave

    @property
    def best(self) -> int:
        """The best action so far."""
        return self.policy.best(self.problem, self.state)

    @cached_property
    def told(self) -> dict[int, msgspec.Raw]:
        """What the devices of each block are told about the open wave, as JSON."""
        plan, release = self.open_wave.plan, encode(self.open_wave.release)
        blocks = range(1, plan.blocks + 1)
        told = (wave_for_devices(self.problem, plan, release, self.direction, block) for block in blocks)
        return {block: msgspec.Raw(text_of(one)) for block, one in zip(blocks, told, strict=True)}

    @cached_property
    def most_words(self) -> int:
        """How many words of eight bytes a report of a wave has had at most; 0 before the first wave."""
        return max((wave.release.words for wave in (*self.closed, self.wave) if wave is not None), default=0)

    @cached_property
    def quotas(self) -> Mapping[str | None, int]:
        """How many people the open wave hears of each stratum; without strata everyone is of the stratum None.

        They follow from study and wave, so that every process computes the same, also after the secret of the tokens
        was replaced. They tell nothing of who is asked.
        """
        strata, plan = self.definition.strata, self.open_wave.plan
        if strata is None:
            return {None: plan.people}
        bits = hashlib.shake_256(f"{self.study}, wave {plan.wave}".encode()).digest(8 * plan.people)
        offsets = (np.frombuffer(bits, "<u8") >> 11) / 2.0**53
        return dict(strata.quotas(offsets).items())

    def seats(self, people: int) -> Mapping[Seat, int]:
        """How many people of each stratum to hold invited to each block of the open wave: about as many to each.

        They are more than the wave hears if some will not answer, except where strata need their proportions.
        """
        seats, before, blocks = dict[Seat, int](), 0, self.open_wave.plan.blocks
        quotas = self.quotas if self.definition.strata is not None else {None: people}
        for stratum, quota in quotas.items():
            for place in range(blocks):
                seats[stratum, place + 1] = (before + quota + place) // blocks - (before + place) // blocks
            before += quota
        return seats

    @cached_property
    def most_participations(self) -> int:
        """How often a person may take part in waves like the open one before the budget is spent."""
        entry = self.open_wave.release.entry(self.open_wave.plan.people)
        return most_participations(self.ledger, entry, self.definition.rules.participations)


def fold(records: Iterable[Record], name: str = "study") -> Snapshot:
    """Compute the snapshot of a whole log."""
    first, *rest = records
    snapshot = Snapshot.begin(Definition.decode(first.body, name))
    for record in rest:
        snapshot = snapshot.after(decode_event(record.kind, record.body))
    return snapshot


@dataclass
class Snapshots:
    """The snapshots of all studies, each brought up to date on request; its dictionaries change one key at a time."""

    database: Database
    _snapshots: dict[str, Snapshot] = field(default_factory=dict)
    _locks: dict[str, Lock] = field(default_factory=dict)

    def current(self, study: str, connection: sa.Connection | None = None) -> Snapshot:
        """Return a study's snapshot, including everything that other coordinators have appended."""
        if connection is None:
            with self.database.read() as connection:
                return self.current(study, connection)
        log = SqlJournal(connection, study)
        if study not in self._snapshots:
            row = row_of(connection, study)  # an unknown name must not leave anything in memory
            if row.life == Life.DRAFT:  # nor may a draft, which can still change
                return fold(log.records()[:1], study)
        with self._locks.setdefault(study, Lock()):
            snapshot = self._snapshots.get(study)
            if snapshot is None:
                snapshot = fold(log.records(), study)
            else:
                for event in log.read(snapshot.seq):
                    snapshot = snapshot.after(event)
            self._snapshots[study] = snapshot
            return snapshot

    def forget(self, study: str) -> None:
        """Forget the snapshot of a study that was deleted."""
        self._snapshots.pop(study, None)
        self._locks.pop(study, None)

    def names(self) -> set[str]:
        """Return the studies whose snapshots are in memory."""
        return set(self._snapshots)

    def known(self, study: str) -> Snapshot | None:
        """Return the snapshot in memory without reading the database; it may be out of date."""
        return self._snapshots.get(study)

    def at(self, study: str, seq: int, connection: sa.Connection | None = None) -> Snapshot:
        """Return the snapshot in memory if it is at event `seq`; otherwise read the log and return the current one."""
        snapshot = self._snapshots.get(study)
        return snapshot if snapshot is not None and snapshot.seq == seq else self.current(study, connection)


@dataclass
class Context:
    """The database, the secrets, the shuffler, the source of noise, the clock and the snapshots."""

    database: Database
    secrets: Keyring
    shuffler: ShufflerLink | None = None
    noise: Source = field(default_factory=Secure)
    clock: Callable[[], float] = time.time
    note: Callable[..., None] = lambda kind, **values: None  # logs an event, never a key, a token or a report
    released: ReleaseRecord | None = None  # outside the database; None: a restored database is not recognised
    noted: dict[str, int] = field(default_factory=dict)  # by study: the closed waves that the record knows
    attempts: dict[str, str] = field(default_factory=dict)  # by study: the last attempt of this process to release
    shuffled: dict[str, int] = field(default_factory=dict)  # by study: reports that the shuffler has; for display only
    paces: dict[str, Pace] = field(default_factory=dict)  # by study: how fast answers come to its open wave
    crowd: tuple[int, float] = (0, -math.inf)  # people who may be asked, and how long that count holds
    writer: str = field(default_factory=partial(token_hex, 8))  # whose counters this process adds to

    def __post_init__(self) -> None:
        self.snapshots = Snapshots(self.database)
