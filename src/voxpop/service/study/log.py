"""Reading and appending the log, and the fold of it that a process keeps at hand."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from threading import Lock

import sqlalchemy as sa

from voxpop.service.refusals import no_study
from voxpop.service.study.snapshot import Event, Record
from voxpop.stores.database import Database
from voxpop.stores.schema import events, studies


def append(connection: sa.Connection, study: str, event: Event) -> None:
    """Add an event; a second one with the same number is refused by the database."""
    row = {"study": study, "seq": event.seq, "kind": event.kind, "at": event.at, "body": event.text}
    connection.execute(sa.insert(events), [row])


def read(connection: sa.Connection, study: str, start: int = 0) -> list[Event]:
    """The events from a number on."""
    wanted = sa.select(events).where(events.c.study == study, events.c.seq >= start).order_by(events.c.seq)
    return [Event(row.seq, row.kind, row.at, json.loads(row.body)) for row in connection.execute(wanted)]


@dataclass
class Journal:
    """The records of all studies, each brought up to date when asked for."""

    database: Database
    _records: dict[str, Record] = field(default_factory=dict)
    _locks: dict[str, Lock] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def record(self, study: str, connection: sa.Connection | None = None) -> Record:
        """The record of a study, with everything that any coordinator has appended."""
        if connection is None:
            with self.database.read() as connection:
                return self.record(study, connection)
        # A name that nobody created must not leave anything behind in memory.
        if study not in self._records and not exists(connection, study):
            raise no_study(study)
        with self._lock:
            lock = self._locks.setdefault(study, Lock())
        with lock:
            record = self._records.get(study)
            for event in read(connection, study, 0 if record is None else record.seq + 1):
                record = Record.begin(event) if record is None else record.after(event)
            assert record is not None
            self._records[study] = record
            return record

    def known(self, study: str) -> Record | None:
        """The record at hand, without a look at the database; it may be behind."""
        return self._records.get(study)

    def latest(self, study: str, seq: int) -> Record:
        """The record if it is already at that event, or else brought up to date: saves a look at the log."""
        record = self._records.get(study)
        return record if record is not None and record.seq == seq else self.record(study)


def exists(connection: sa.Connection, study: str) -> bool:
    """Whether there is such a study."""
    return connection.execute(sa.select(studies.c.id).where(studies.c.id == study)).first() is not None


def lock(connection: sa.Connection, study: str) -> sa.Row[tuple[object, ...]]:
    """The row of a study, which nobody else can change before this transaction ends."""
    row = connection.execute(sa.select(studies).where(studies.c.id == study).with_for_update()).first()
    if row is None:
        raise no_study(study)
    return row
