"""The files of a study with a path: one program changes them at a time, and none overwrites what another wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from voxpop.errors import InputError
from voxpop.io.files import locked, read_text, write_atomically
from voxpop.journal.progress import Progress
from voxpop.journal.record import Event, Record, Released


class Kept:
    """A saved study and the record of its releases, which exists only if the study is private and has released."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = Record(path)
        self._seen = ("", "")  # what this program read or wrote last

    @contextmanager
    def new(self) -> Iterator[None]:
        """Hold the lock while the files are made; refuse if there are any."""
        with locked(self.path):
            if self.path.exists():
                raise InputError(f"{self.path} exists already; open it with Study.load or choose another path")
            if self.record.path.exists():
                raise InputError(
                    f"{self.record.path} holds the releases of an earlier study and {self.path} is missing; restore it "
                    f"from a copy, or move {self.record.path} away to begin a new study with other people"
                )
            yield

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock during a change; refuse if the files are not as this program left them."""
        with locked(self.path):
            if self._found() != self._seen:
                raise InputError(
                    f"{self.path} was changed by another program after this one opened it; repeat the command, or "
                    "open it again with Study.load"
                )
            yield

    def read(self) -> tuple[str, list[Event]]:
        """Return the saved study and what its record says. The record is read last, so it is never the older one."""
        text, digest = self._seen = self._found()
        events = self.record.read()
        if self.record.digest() != digest:
            raise InputError(f"{self.path} is being changed by another program; wait until it is done, then try again")
        return text, events

    def write(self, text: str, events: Sequence[Event] = ()) -> None:
        """Add events to the record, then replace the study; if that fails, remove them again: nobody has seen them."""
        size = self.record.size()
        if events:
            self.record.append(events)
        try:
            write_atomically(self.path, text)
        except BaseException:
            with suppress(InputError):  # if this fails as well, the next change finds the record changed
                if events and read_text(self.path) == self._seen[0]:
                    self.record.cut(size)
            raise
        self._seen = (text, self.record.digest())

    def recover(
        self, progress: Progress, events: Sequence[Event], newest: bool = False
    ) -> tuple[Progress, tuple[int, ...]]:
        """Take in what the record knows and the file does not; return it with the waves that this is about.

        Refuse files that contradict each other, and a record that lacks steps, unless the file is surely the newest.
        """
        file, record = self.path, self.record.path
        if len(events) < progress.events and not newest:
            raise InputError(
                f"{record} knows {len(events)} of the {progress.events} steps that {file} has recorded there; restore "
                f"{record}, or open {file} with --newest (newest=True) if it is surely the newest copy"
            )
        ledger = iter(progress.charged)
        known = (event.entry for event in events[: progress.events] if isinstance(event, Released))
        fits = all(entry in ledger for entry in known)  # each after the one before
        recovered: list[int] = []
        for event in events[progress.events :]:
            wave, done = (event.answered.plan.wave, 0) if isinstance(event, Released) else (event.wave, 1)
            fits = fits and wave == len(progress.closed) + 1 - done
            if fits:
                progress = progress.after(event)
                recovered.append(wave)
        if not fits:
            raise InputError(
                f"{file} and {record} are of different studies or copies; restore both from the newest copy"
            )
        return replace(progress, events=len(events)), tuple(recovered)

    def _found(self) -> tuple[str, str]:
        return read_text(self.path), self.record.digest()
