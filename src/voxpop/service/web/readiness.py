"""Whether the database takes what it is given: a small durable write, whose answer is shared for a second."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable

import sqlalchemy as sa
from starlette.concurrency import run_in_threadpool

from voxpop.service import logs
from voxpop.service.stores.database import Database, ReplacedFileError, cause

DATABASE_SECONDS = 5.0  # that the database has to answer
MARKS = sa.table("marks", sa.column("name"), sa.column("mark"))  # both services have it
LEAST_ROOM = 16 * 2**20  # bytes that must be free on the disk of an SQLite database
SHARED_SECONDS = 1.0  # for which an answer holds, so that a flood of questions does not wear the disk


class Readiness:
    """Asks the database at most once a second, and never again before it has answered."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        self._asked: asyncio.Task[str | None] | None = None
        self._since = 0.0

    async def problem(self) -> str | None:
        """Return in one sentence what keeps the database from storing anything, or None."""
        old = self._asked is None or (self._asked.done() and time.monotonic() - self._since >= SHARED_SECONDS)
        if old:
            self._asked, self._since = asyncio.create_task(run_in_threadpool(self._write)), time.monotonic()
        assert self._asked is not None
        try:
            return await asyncio.wait_for(asyncio.shield(self._asked), DATABASE_SECONDS)
        except TimeoutError:
            return f"the database has not answered for {DATABASE_SECONDS:g} s; check that it runs"

    def _write(self) -> str | None:
        """Change one row, and wait until that is on disk."""
        try:
            database = self._database()
            with database.write() as connection:
                changed = sa.update(MARKS).where(MARKS.c.name == "ready").values(mark=secrets.token_bytes(8))
                if connection.execute(changed).rowcount != 1:
                    return "the database is not the one that was opened; stop the service, and restore it"
            if database.file is not None and (room := database.file.room()) < LEAST_ROOM:
                return f"the disk of the database has {room:,} bytes left, and needs {LEAST_ROOM:,}; make room on it"
        except ReplacedFileError as error:
            logs.fault("not_ready", error)
            return str(error)
        except Exception as error:
            logs.fault("not_ready", error)
            return f"the database takes no writes ({cause(error)}); check that it runs, is whole and has room"
        return None
