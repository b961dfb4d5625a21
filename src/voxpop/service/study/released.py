"""What was released, remembered outside the database: a database restored from an older backup is recognised.

Such a database would ask people again, or release the same reports a second time with other noise. A folder beside the
secret holds one small file for each study: its last released wave, and the name of the attempt to release it. The
database knows the name of an attempt before the file does, and the file is written before the release is committed. So
a healthy database has either closed that wave or is in the middle of that attempt; an older one is neither.

For the same reason the folder holds the hashes of the keys of people who withdrew, and the names of studies that were
deleted: a backup knows them again, and the next start forgets and deletes them again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import sqlalchemy as sa

from voxpop.errors import InputError
from voxpop.io.files import read_text, sync_folder, write_durably
from voxpop.service.stores.schema import deleted, events, studies
from voxpop.service.study.stages import Kind, Lost

FORGOTTEN = "forgotten"  # the folder, within the record, with a folder for each study from which people withdrew
KEYS = "keys"  # the file in it: a line with - for each who withdrew, and with + for each who registered again
DELETED = "deleted"  # likewise, with a folder for the name of each deleted study and a file for when it was created
# The names of these files. Anything else was put there by others, such as a file manager.
KEY_HASH, CREATED = re.compile(r"[0-9a-f]{64}"), re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?")


@dataclass(frozen=True)
class LastRelease:
    """The last wave of a study that was released, or was about to be."""

    study: str
    created: float  # when the study was created: another study may have the same name
    wave: int
    attempt: str


@dataclass(frozen=True)
class ReleaseRecord:
    """The folder with the last release of each study."""

    folder: Path

    def prepare(self) -> None:
        """Create the folder, for its owner only; refuse one that cannot be written."""
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise self._refusal(error.strerror or "it is no folder") from None
        if not os.access(self.folder, os.R_OK | os.W_OK | os.X_OK):
            raise self._refusal("it cannot be written")

    def _refusal(self, reason: str) -> InputError:
        return InputError(
            f"cannot keep the record of releases in {str(self.folder)!r}: {reason}; "
            "set VOXPOP_RELEASED to a folder that can be written and that outlives the database"
        )

    def note(self, release: LastRelease) -> None:
        """Write down a release, durably, before it happens."""
        write_durably(self._file(release.study), json.dumps(asdict(release)) + "\n")

    def catch_up(self, connection: sa.Connection, study: str) -> None:
        """Write down the waves that the database has closed and the record does not know: others closed them."""
        created, known, last = created_at(connection, study), closed_waves(connection, study), self.of(study)
        if created is not None and known and (last is None or last.created != created or last.wave < known):
            self.note(LastRelease(study, created, known, ""))

    def of(self, study: str) -> LastRelease | None:
        """Return the last release of a study; None if there was none."""
        path = self._file(study)
        if not path.exists():
            return None
        text = read_text(path)
        try:
            said = json.loads(text)
            if "phase" in said:  # as an earlier version called a wave
                said["wave"] = said.pop("phase")
            return LastRelease(**said)
        except (ValueError, TypeError):
            raise InputError(f"{str(path)!r} is not a record of a release; restore it from a backup") from None

    def lost(self, connection: sa.Connection, study: str) -> Lost | None:
        """Return which released waves of a study a database does not know, or None if it knows them all.

        A study that was deleted on purpose, by any coordinator, is known.
        """
        last = self.of(study)
        if last is None or (study, last.created) in self.buried(study):
            return None
        gone = sa.select(deleted.c.study).where(deleted.c.study == study, deleted.c.created_at == last.created)
        if connection.execute(gone).first() is not None:
            return None
        known = 0
        if created_at(connection, study) == last.created:
            known = closed_waves(connection, study)
            row = connection.execute(sa.select(studies).where(studies.c.id == study)).one()
            if known >= last.wave or (row.wave, row.attempt) == (last.wave, last.attempt):
                return None
        return Lost(study, known + 1, last.wave)

    def all_lost(self, connection: sa.Connection) -> dict[str, Lost]:
        """Return by study which waves were released and are not in the database."""
        found = {path.stem: self.lost(connection, path.stem) for path in sorted(self.folder.glob("*.json"))}
        return {study: lost for study, lost in found.items() if lost is not None}

    def forget(self, study: str) -> None:
        """Forget the releases of a study."""
        self._file(study).unlink(missing_ok=True)

    def note_forgotten(self, study: str, key_hash: bytes) -> None:
        """Write down that a person withdrew, durably, before the database forgets them."""
        self._append(study, f"-{key_hash.hex()}")

    def _append(self, study: str, line: str) -> None:
        """Add a line to what is remembered of those who withdrew from a study, durably."""
        path = self._forgotten(study) / KEYS
        if not path.exists():
            self._touch(path)
        try:
            with path.open("a") as file:
                file.write(f"\n{line}\n")  # a line before it that was not written as a whole ends here
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._refusal(error.strerror or "it cannot be written") from None

    def _touch(self, path: Path) -> None:
        """Make an empty file in a folder of a study, durably."""
        folder = path.parent
        try:
            new = not folder.exists()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            for changed in (folder, *((folder.parent, self.folder) if new else ())):
                sync_folder(changed)
        except OSError as error:
            raise self._refusal(error.strerror or "it cannot be written") from None

    def remember(self, people: Iterable[tuple[str, bytes]]) -> None:
        """Forget that these people, each a study and the hash of a key, withdrew: they have registered again."""
        gone = {study: set(self.forgotten(study)) for study in self.forgetful()}
        for study, key_hash in people:
            if key_hash in gone.get(study, ()):
                self._append(study, f"+{key_hash.hex()}")

    def forgetful(self) -> list[str]:
        """Return the studies from which people withdrew."""
        folder = self.folder / FORGOTTEN
        return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []

    def forgotten(self, study: str) -> list[bytes]:
        """Return the hashes of the keys of those who withdrew from a study."""
        folder = self._forgotten(study)
        gone = {path.name for path in folder.iterdir() if KEY_HASH.fullmatch(path.name)}
        for line in read_text(folder / KEYS).split("\n") if (folder / KEYS).exists() else ():
            if KEY_HASH.fullmatch(line[1:]):  # otherwise it was not written as a whole, and nobody was told that it was
                (gone.add if line[0] == "-" else gone.discard)(line[1:])
        return [bytes.fromhex(name) for name in sorted(gone)]

    def bury(self, study: str, created: float) -> None:
        """Write down that a study is deleted, durably, before it is, and forget everything else about it."""
        self._touch(self.folder / DELETED / study / repr(created))
        self.forget(study)
        shutil.rmtree(self._forgotten(study), ignore_errors=True)

    def buried(self, study: str | None = None) -> set[tuple[str, float]]:
        """Return name and creation of the studies that were deleted: of all, or of those with one name."""
        folder = self.folder / DELETED
        found = (path for path in folder.glob(f"{study or '*'}/*") if CREATED.fullmatch(path.name))
        return {(path.parent.name, float(path.name)) for path in found}

    def _forgotten(self, study: str) -> Path:
        return self.folder / FORGOTTEN / study

    def _file(self, study: str) -> Path:
        return self.folder / f"{study}.json"  # the name of a study has only a-z, 0-9 and -


def created_at(connection: sa.Connection, study: str) -> float | None:
    """Return when a study was created; None if there is no such study."""
    wanted = sa.select(events.c.at).where(events.c.study == study, events.c.seq == 0)
    found = connection.execute(wanted).scalar_one_or_none()
    return None if found is None else float(found)


def closed_waves(connection: sa.Connection, study: str) -> int:
    """Count the waves that a study has closed."""
    closed = sa.select(sa.func.count()).select_from(events)
    return int(connection.execute(closed.where(events.c.study == study, events.c.kind == Kind.CLOSED)).scalar_one())
