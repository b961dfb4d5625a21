"""Reading and appending to a study's log, and the snapshots that a process keeps in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import sqlalchemy as sa

from voxpop.service.refusals import no_study
from voxpop.service.stores.database import Database
from voxpop.service.stores.schema import events, studies
from voxpop.service.study.events import Event, Kind
from voxpop.service.study.snapshot import Snapshot
from voxpop.service.study.stages import Life


def append(connection: sa.Connection, study: str, event: Event, **changes: Any) -> None:
    """Append an event and update the study's row; the database refuses a second event with the same number."""
    row = {"study": study, "seq": event.seq, "kind": event.kind, "at": event.at, "body": event.text}
    connection.execute(sa.insert(events), [row])
    update_study(connection, study, seq=event.seq, **changes)


def update_study(connection: sa.Connection, study: str, **changes: Any) -> None:
    """Update the study's row, which says how far the study is."""
    connection.execute(sa.update(studies).where(studies.c.id == study).values(**changes))


def read(connection: sa.Connection, study: str, start: int = 0) -> list[Event]:
    """Read the events numbered `start` and above."""
    wanted = sa.select(events).where(events.c.study == study, events.c.seq >= start).order_by(events.c.seq)
    return [Event(row.seq, Kind(row.kind), row.at, json.loads(row.body)) for row in connection.execute(wanted)]


def row_of(connection: sa.Connection, study: str, lock: bool = False, alone: bool = False) -> Any:
    """Find a study's row; with `lock`, nobody else can change it before this transaction ends.

    The lock lets others refer to the study, so that people register meanwhile, unless it is for one `alone`.
    """
    wanted = sa.select(studies).where(studies.c.id == study)
    row = connection.execute(wanted.with_for_update(key_share=not alone) if lock else wanted).first()
    if row is None:
        raise no_study(study)
    return row


def lock_unmoved(connection: sa.Connection, study: str, seq: int) -> Any:
    """Lock the row of a study that runs and whose log has not grown; return None otherwise."""
    row = row_of(connection, study, lock=True)
    return row if row.seq == seq and row.life == Life.RUNNING else None


@dataclass
class Snapshots:
    """The snapshots of all studies, each brought up to date on request."""

    database: Database
    _snapshots: dict[str, Snapshot] = field(default_factory=dict)
    _locks: dict[str, Lock] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def current(self, study: str, connection: sa.Connection | None = None) -> Snapshot:
        """Return a study's snapshot, including everything that other coordinators have appended."""
        if connection is None:
            with self.database.read() as connection:
                return self.current(study, connection)
        if study not in self._snapshots:
            row = row_of(connection, study)  # an unknown name must not leave anything in memory
            if row.life == Life.DRAFT:  # nor may a draft, which can still change
                return Snapshot.begin(read(connection, study)[0])
        with self._lock:
            lock = self._locks.setdefault(study, Lock())
        with lock:
            snapshot = self._snapshots.get(study)
            for event in read(connection, study, 0 if snapshot is None else snapshot.seq + 1):
                snapshot = Snapshot.begin(event) if snapshot is None else snapshot.after(event)
            assert snapshot is not None
            with self._lock:
                self._snapshots[study] = snapshot
            return snapshot

    def forget(self, study: str) -> None:
        """Forget the snapshot of a study that was deleted."""
        with self._lock:
            self._snapshots.pop(study, None)
            self._locks.pop(study, None)

    def names(self) -> set[str]:
        """Return the studies whose snapshots are in memory."""
        with self._lock:
            return set(self._snapshots)

    def known(self, study: str) -> Snapshot | None:
        """Return the snapshot in memory without reading the database; it may be out of date."""
        return self._snapshots.get(study)

    def at(self, study: str, seq: int, connection: sa.Connection | None = None) -> Snapshot:
        """Return the snapshot in memory if it is at event `seq`; otherwise read the log and return the current one."""
        snapshot = self._snapshots.get(study)
        return snapshot if snapshot is not None and snapshot.seq == seq else self.current(study, connection)
