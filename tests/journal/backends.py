"""The places in which a journal can be kept. To test another, add it to `BACKENDS`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest
import sqlalchemy as sa

from voxpop.errors import InputError
from voxpop.journal.file import JournalFile
from voxpop.journal.journal import Definition, Event, Finished, Released
from voxpop.service.serve import require_newest
from voxpop.service.stores.database import Database
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import events as events_table
from voxpop.service.stores.schema import studies
from voxpop.service.study.log import SqlJournal, update_study
from voxpop.service.study.released import ReleaseRecord, closed_waves
from voxpop.service.study.stages import Stage

STUDY = "tea"


class Journal(Protocol):
    """Where the events of a study are kept, in the order in which they happened."""

    @property
    def definition(self) -> Definition:
        """What the study begins with."""

    def read(self, after: int = 0) -> Sequence[Event]:
        """Return the events after the first `after` ones."""

    def append(self, events: Sequence[Event], expected: int) -> None:
        """Add events durably, all or none; refuse if the journal does not hold exactly `expected` events."""


class Backend(Protocol):
    """One journal in a place of its own, as several programs see it."""

    refuses_every_copy: bool  # also those of studies without privacy

    def create(self, definition: Definition) -> Journal:
        """Begin the journal."""

    def open(self) -> Journal:
        """Open it, as another program would."""

    def tear(self) -> None:
        """Leave the beginning of an event behind, as a program does that is killed while it writes."""

    def backup(self) -> Callable[[], None]:
        """Copy everything but what must never be restored; return a function that puts the copy back."""

    @contextmanager
    def full(self) -> Iterator[None]:
        """Let every write fail half-way."""
        yield


class FileBackend:
    """A journal in a file."""

    refuses_every_copy = False

    def __init__(self, folder: Path) -> None:
        self.path = folder / "tea.json"

    def create(self, definition: Definition) -> JournalFile:
        return JournalFile.create(self.path, definition)

    def open(self) -> JournalFile:
        return JournalFile.open(self.path)

    def tear(self) -> None:
        lines = self.path.read_bytes().splitlines()
        self.path.write_bytes(self.path.read_bytes() + lines[-1][: len(lines[-1]) // 2])

    def backup(self) -> Callable[[], None]:
        data = self.path.read_bytes()

        def restore() -> None:
            self.path.write_bytes(data)

        return restore

    @contextmanager
    def full(self) -> Iterator[None]:
        def fail(handle: int) -> None:
            raise OSError(28, "No space left on device")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("os.fsync", fail)
            with pytest.raises(InputError, match="No space left on device; nothing was changed"):
                yield


class InTransactions:
    """A journal in a database, each of whose calls is a transaction."""

    def __init__(self, database: Database, record: ReleaseRecord) -> None:
        self.database, self.record = database, record

    def _journal(self, connection: sa.Connection) -> SqlJournal:
        return SqlJournal(connection, STUDY, 1.0, self.record)

    @property
    def definition(self) -> Definition:
        with self.database.read() as connection:
            return Definition.decode(self._journal(connection).records()[0].body)

    def read(self, after: int = 0) -> Sequence[Event]:
        with self.database.read() as connection:
            return self._journal(connection).read(after)

    def append(self, events: Sequence[Event], expected: int) -> None:
        if any(isinstance(event, Released) for event in events):  # a service names its attempt to release before it
            with self.database.write() as connection:
                wave = closed_waves(connection, STUDY) + 1
                update_study(connection, STUDY, wave=wave, attempt=f"attempt-{wave}")
        with self.database.write() as connection:
            self._journal(connection).append(events, expected)


class SqlBackend:
    """A journal in a database, with its record of releases beside it."""

    refuses_every_copy = True

    def __init__(self, folder: Path, address: str) -> None:
        self.database = open_store(address, "coordinator")
        self.record = ReleaseRecord(folder / "released")
        self.record.prepare()

    def create(self, definition: Definition) -> InTransactions:
        new = {"seq": 0, "wave": 0, "stage": Stage.NEW, "played": 0, "opened_at": 1.0, "short": 0}
        with self.database.write() as connection:
            connection.execute(sa.insert(studies).values(id=STUDY, **new))
            SqlJournal(connection, STUDY, 1.0).begin(definition)
        return self.open()

    def open(self) -> InTransactions:
        require_newest(self.database, self.record)
        return InTransactions(self.database, self.record)

    def tear(self) -> None:
        with self.database.write() as connection:
            SqlJournal(connection, STUDY).append([Finished()], 2)
            connection.rollback()  # as the database does for a program that was killed

    def backup(self) -> Callable[[], None]:
        with self.database.read() as connection:
            row = connection.execute(sa.select(studies)).one()._asdict()

        def restore() -> None:
            with self.database.write() as connection:
                connection.execute(sa.delete(events_table).where(events_table.c.seq > row["seq"]))
                connection.execute(sa.update(studies).values(**row))

        return restore

    @contextmanager
    def full(self) -> Iterator[None]:
        def fail(*_: object) -> None:
            raise sa.exc.OperationalError(None, None, Exception("disk full"))

        sa.event.listen(self.database.engine, "commit", fail)
        try:
            with pytest.raises(sa.exc.OperationalError):
                yield
        finally:
            sa.event.remove(self.database.engine, "commit", fail)


BACKENDS = ("file", "sqlite", "postgresql")
