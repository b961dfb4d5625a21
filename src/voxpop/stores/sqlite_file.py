"""The file of an SQLite database: made for its owner only, and checked to be the one that is still at its path.

SQLite keeps writing to a file that was deleted or replaced, and to a write-ahead log that was deleted. What it
acknowledges then is lost when the process ends, because nobody can find those files again.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from voxpop.core.errors import InputError

FileId = tuple[int, int]  # device and inode


class ReplacedFileError(Exception):
    """The path of the database no longer names the file that is open."""


class SqliteFile:
    """A database file, recognised by its inode and by a random number in its header."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._real = str(Path(path).resolve())  # if the path is a link, SQLite keeps the log beside its target
        self._made = _file_id(path)
        self._number = 0  # 0: not known, as in a database that is being set up

    def connect(self) -> sqlite3.Connection:
        """Connect to the file; never create another one, and never touch the log of another one."""
        self.require_same()
        connection = sqlite3.connect(self._address("rw"), uri=True, check_same_thread=False)
        try:
            self.require_same()  # SQLite has opened the file by now, but not its log
        except ReplacedFileError:
            connection.close()
            raise
        return connection

    def require_same(self) -> None:
        """Refuse a path that names another file than at the beginning, or none."""
        if self._made is None or _file_id(self.path) != self._made:
            raise ReplacedFileError(
                "the file of the database was replaced or deleted while it was open; stop the service, put the file "
                "back, and start it again"
            )

    def require_intact(self, log: FileId | None) -> None:
        """Refuse to write if the file, its header or its write-ahead log is not the one that is open."""
        self.require_same()
        if log is None or self.log() != log:
            raise ReplacedFileError(
                "the write-ahead log of the database was replaced or deleted while it was open; stop the service, "
                "and restore the database"
            )
        number = self._header_number()
        if number < 0 or self._number not in (0, number):
            raise ReplacedFileError(
                "the file of the database was overwritten while it was open; stop the service, and restore it"
            )
        self._number = number

    def room(self) -> int:
        """Return the bytes that are free on its disk; a write may still fit into the log when nothing else would."""
        disk = os.statvfs(self.path)
        return disk.f_bavail * disk.f_frsize

    def log(self) -> FileId | None:
        """Return which file is the write-ahead log; a connection that has begun a transaction has it open."""
        return _file_id(self._real + "-wal")

    def _header_number(self) -> int:
        """Read the number from the file itself, past the write-ahead log; return -1 if it has no valid header.

        It is read by SQLite: closing the file by other means would release the locks that SQLite has on it.
        """
        try:
            with closing(sqlite3.connect(self._address("ro&immutable=1"), uri=True)) as connection:
                return int(connection.execute("PRAGMA user_version").fetchone()[0])
        except sqlite3.Error:
            return -1

    def _address(self, mode: str) -> str:
        return f"file:{quote(self._real)}?mode={mode}"


def make_file(path: str) -> None:
    """Create the file if it does not exist. Only its owner may read it, and the files that SQLite puts beside it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not Path(path).is_file() or not os.access(path, os.R_OK | os.W_OK):
            raise InputError(
                f"cannot open the database {path!r}: it is not a file that may be read and written; check it"
            ) from None
    except OSError as error:
        raise InputError(f"cannot open the database {path!r}: {error.strerror}; check its permissions") from None


def _file_id(path: str) -> FileId | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
