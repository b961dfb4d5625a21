"""A database, SQLite or PostgreSQL, whose transactions really lock and whose commits really last."""

from __future__ import annotations

import errno
import math
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote, unquote

import psycopg
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from voxpop.errors import InputError

BUSY_SECONDS = 30.0
RETRY_SECONDS = 0.01
IDLE_SECONDS = 1.0
DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB")  # the beginnings of SQLite's names for it
SCRUB_SECONDS = 1.0  # how long scrubbing, and uploads with it, may wait for readers
REMEDY = "check --database (or VOXPOP_DATABASE), or start the service, which sets up a new one"
FileId = tuple[int, int]  # device and inode


def cause(error: BaseException) -> str:
    """Name the cause of an error, without the text of its message.

    >>> cause(OSError(28, "secret text"))
    'ENOSPC'
    """
    found = getattr(error, "orig", None) or error  # the driver's own error
    name = getattr(found, "sqlite_errorname", None)
    number = getattr(found, "errno", None)
    if name is None and isinstance(number, int):
        name = errno.errorcode.get(number)
    state = getattr(found, "sqlstate", None)  # of PostgreSQL; none if there was no connection
    if name is None and isinstance(found, psycopg.OperationalError):
        name = next((said for said, sign in UNREACHED.items() if any(one in str(found) for one in sign)), None)
    return str(name or " ".join(filter(None, (state, type(found).__name__))))


# Why PostgreSQL cannot be reached, in our words, and by which words of its own that is recognised.
UNREACHED = {
    "too many connections": ("too many clients", "remaining connection slots", "too many connections"),
    "password refused": ("password authentication failed", "no password supplied"),
    "refused by its rules": ("no pg_hba.conf entry",),
    "no such database or user": ("does not exist",),
    "connection refused": ("Connection refused",),
    "unknown host": ("could not translate host name", "failed to resolve host"),
    "no answer": ("timeout expired", "timed out", "server closed the connection", "Network is unreachable"),
    "starting or stopping": ("the database system is",),
}
REMEDIES = {
    "too many connections": "raise max_connections, or start fewer workers",
    "password refused": "check the password; in an address, @ and / may stand as they are",
    "connection refused": "check host and port, and start the server",
}


class ReplacedFileError(Exception):
    """The path of the database no longer names the file that is open."""


class SqliteFile:
    """A database file, recognised by its inode and by a random number in its header."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._real = str(Path(path).resolve())  # if the path is a link, SQLite keeps the log beside its target
        self._made = _file_id(path)
        self._number = 0  # 0: not known, as in a database that is being set up

    def connect(self, patience: float) -> sqlite3.Connection:
        """Connect to the file; never create another one, and never touch the log of another one.

        The driver begins its transactions too late and loses updates, so it is told to begin none.
        """
        self.require_same()
        connection = sqlite3.connect(
            self._address("rw"), patience, isolation_level=None, check_same_thread=False, uri=True
        )
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


class MissingDatabaseError(InputError):
    """There is no database, or an empty one, where one with a service's tables was expected."""


@dataclass(eq=False)
class Database:
    """Transactions on one database."""

    engine: sa.Engine
    file: SqliteFile | None = None  # of SQLite
    _turn: Lock = field(default_factory=Lock)  # of SQLite: threads that wait for it are woken, and need not poll
    _unclean: bool = True  # the last process may have been killed before it scrubbed

    @property
    def embedded(self) -> bool:
        """True if it is an SQLite file."""
        return self.engine.dialect.name == "sqlite"

    @property
    def name(self) -> str:
        """Its address for people to read, without a password."""
        url = self.engine.url
        return str(url.database) if self.embedded else url.render_as_string(hide_password=True)

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """Open a transaction that may change rows; on SQLite it holds the write lock from the beginning.

        It fails if the file is no longer at its path: what is committed must be found by those who open it later.
        """
        taken = self.embedded and self._turn.acquire(timeout=BUSY_SECONDS)  # after that, SQLite itself refuses
        try:
            with self.engine.connect().execution_options(voxpop_write=True) as connection:
                with connection.begin():
                    yield connection
                    if self.file is not None:
                        self.file.require_intact(connection.info["log"])
                deleted = connection.info.pop("deleted", False)
        finally:
            if taken:
                self._turn.release()
        if deleted:
            self._unclean = True
            self.scrub()

    def scrub(self) -> bool:
        """Empty SQLite's write-ahead log, where deleted reports stay readable; return False if it must be repeated."""
        if self.file is None or not self._unclean:
            return True
        self._unclean = False  # before, so that what is deleted meanwhile is scrubbed again
        try:
            with closing(self.file.connect(SCRUB_SECONDS)) as connection:
                busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except (sqlite3.Error, ReplacedFileError):
            busy = True
        if busy:
            self._unclean = True
        return not busy

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Open a transaction that only reads."""
        with self.engine.connect() as connection, connection.begin():
            yield connection

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()


def insert_into(connection: sa.Connection, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    """Begin an insert that says what to do about rows that are there: both databases can, and neither as the other."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def scrub_after(connection: sa.Connection) -> None:
    """Note that this transaction deletes reports, so that nothing of them stays on disk after it."""
    connection.info["deleted"] = True


@contextmanager
def driver_of(connection: sa.Connection) -> Iterator[Any]:
    """Yield PostgreSQL's own connection, for what SQLAlchemy cannot do; its errors become SQLAlchemy's all the same."""
    try:
        yield connection.connection.driver_connection
    except psycopg.OperationalError as error:
        raise sa.exc.OperationalError(None, None, error) from None


def open_database(address: str) -> Database:
    """Open the database at a path (SQLite) or a URL (sqlite:///..., postgresql://...)."""
    url = _url(address)
    if url.get_backend_name() == "sqlite":
        return _sqlite(url)
    engine = _postgresql(url)
    try:
        with engine.connect():
            pass
    except sa.exc.OperationalError as error:
        place, reason = url.render_as_string(hide_password=True), cause(error)
        remedy = REMEDIES.get(reason, "check the address and the server")
        raise InputError(f"cannot reach the database {place}: {reason}; {remedy}") from None
    return Database(engine)


def file_of(address: str) -> Path | None:
    """Return the file of an SQLite database; None for another kind of database."""
    url = _url(address)
    return Path(str(url.database)) if url.get_backend_name() == "sqlite" else None


def require_database(address: str) -> None:
    """Refuse the path of an SQLite database that does not exist, because opening it would create it."""
    if (file := file_of(address)) is not None and not file.exists():
        raise MissingDatabaseError(f"there is no database {str(file)!r}; {REMEDY}")


def _url(address: str) -> URL:
    if "://" not in address:
        return URL.create("sqlite+pysqlite", database=str(Path(address)))
    # What stands between the first : and the last @ is a password, whatever it holds.
    given = re.fullmatch(r"(?P<start>postgres[^:]*://[^:/@]*):(?P<password>.+)(?P<place>@[^@]*)", address)
    try:
        url = make_url(address if given is None else given["start"] + given["place"])
        url = url if given is None else url.set(password=unquote(given["password"]))
    except (ArgumentError, ValueError):
        raise InputError("the database address is not a URL; write a path, or postgresql://user@host/name") from None
    kinds = {"sqlite": "sqlite+pysqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
    if url.drivername not in kinds:
        raise InputError(f"unknown kind of database {url.drivername!r}; use a path for SQLite, or postgresql://...")
    return url.set(drivername=kinds[url.drivername])


def _postgresql(url: URL) -> sa.Engine:
    engine = sa.create_engine(url, pool_size=20, max_overflow=20)

    # Test a connection before use only if it was idle. SQLAlchemy would test it every time, which takes three round
    # trips, as many as a group of uploads.
    @sa.event.listens_for(engine, "checkout")
    def _try(connection: Any, record: Any, _: Any) -> None:
        if time.monotonic() - record.info.get("used", math.inf) > IDLE_SECONDS:
            try:
                engine.dialect.do_ping(connection)
            except engine.dialect.loaded_dbapi.Error:
                raise sa.exc.DisconnectionError from None  # the pool opens a new one

    @sa.event.listens_for(engine, "checkin")
    def _note(_: Any, record: Any) -> None:
        record.info["used"] = time.monotonic()

    return engine


def _sqlite(url: URL) -> Database:
    if not url.database or url.database == ":memory:":
        raise InputError("a service needs a database that outlives it; name a file")
    folder = Path(url.database).resolve().parent
    if not folder.is_dir():
        raise InputError(f"there is no folder {str(folder)!r} for the database; create it first")
    make_file(url.database)
    file = SqliteFile(url.database)
    engine = sa.create_engine(url, pool_size=20, max_overflow=20, creator=lambda: file.connect(BUSY_SECONDS))

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, _: Any) -> None:
        cursor = connection.cursor()
        _switch_to_wal(cursor)
        for pragma in (
            "synchronous = FULL",  # what is acknowledged survives a power cut
            "foreign_keys = ON",
            "secure_delete = ON",  # a deleted report is overwritten, not just unlinked
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @sa.event.listens_for(engine, "handle_error")
    def _damaged(context: sa.engine.ExceptionContext) -> None:
        # The driver has no class of its own for a damaged file; callers must be told to try again, as for a full disk.
        if getattr(context.original_exception, "sqlite_errorname", "").startswith(DAMAGED):
            raise sa.exc.OperationalError(None, None, context.original_exception) from None

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get("voxpop_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
        if writes and "log" not in connection.info:
            connection.info["log"] = file.log()

    return Database(engine, file)


def _switch_to_wal(cursor: sqlite3.Cursor) -> None:
    """Turn the write-ahead log on, even if several connections do so at once.

    SQLite reads the file and then asks for the write lock. Two connections that have both read would wait for each
    other, so SQLite tells one of them at once that the database is busy, without the busy timeout. That one retries.
    """
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # the low byte; the rest says why
            if not busy or time.monotonic() > end:
                raise
        time.sleep(RETRY_SECONDS)
