"""The places in which a journal can be kept. To test another, add it to `BACKENDS`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from voxpop.errors import InputError
from voxpop.journal.file import JournalFile
from voxpop.journal.journal import Definition, Journal


class Backend(Protocol):
    """One journal in a place of its own, as several programs see it."""

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


BACKENDS: dict[str, Callable[[Path], Backend]] = {"file": FileBackend}
