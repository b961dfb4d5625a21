"""What a device remembers: its key, its rewards, the report it is about to send, and how many it has made."""

from __future__ import annotations

import json
import math
import os
import secrets
import sqlite3
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Literal
from weakref import finalize

from voxpop.errors import require_integer, require_number
from voxpop.privacy.ball import HUGE
from voxpop.privacy.release import Batch

REWARDS = """CREATE TABLE IF NOT EXISTS rewards (
    wave INTEGER, block INTEGER, arm INTEGER, count INTEGER NOT NULL, total REAL NOT NULL, metric TEXT DEFAULT '',
    PRIMARY KEY (wave, block, arm, metric));"""
TABLES = f"""
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
{REWARDS}
CREATE TABLE IF NOT EXISTS outbox (
    wave INTEGER PRIMARY KEY, address TEXT NOT NULL, token TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS twins (wave INTEGER PRIMARY KEY, address TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS made (number INTEGER PRIMARY KEY, wave INTEGER NOT NULL);
"""


@dataclass(frozen=True)
class Outgoing:
    """A report that was made and is not acknowledged yet."""

    wave: int
    address: str
    token: str
    body: bytes
    twin: tuple[str, bytes] | None = None  # of a shared report, whose body is no JSON: what a helper gets first

    @property
    def report(self) -> list[float]:
        """The report, put together again if it is shared."""
        if self.twin is None:
            return list(map(float, json.loads(self.body)["report"]))
        said = json.loads(self.twin[1])
        both = self.body, b64decode(said.pop("report"))
        ours, theirs = (Batch(**said).prio3.outputs(holder, [share])[0].tolist() for holder, share in enumerate(both))
        return [float((one + other) % Batch(**said).modulus) for one, other in zip(ours, theirs, strict=True)]


class Fact:
    """Something that a device notes once, and that holds from then on."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, memory: Memory, owner: type | None = None) -> bool:
        with memory._lock:
            found = memory._file.execute("SELECT 1 FROM facts WHERE name = ?", [self.name])
            return found.fetchone() is not None

    def __set__(self, memory: Memory, value: Literal[True]) -> None:
        with memory._lock:
            memory._file.execute("INSERT OR IGNORE INTO facts VALUES (?, '')", [self.name])


class Memory:
    """An SQLite file, from which a device continues after a power cut; without a path, nothing outlives the process."""

    registered = Fact()  # the coordinator knows the key
    withdrawn = Fact()  # the owner has left the study
    forgotten = Fact()  # the coordinator has forgotten the key

    def __init__(self, path: str | PathLike[str] | None = None) -> None:
        if path is not None:  # no other account of the device may read it
            os.close(os.open(Path(path), os.O_CREAT | os.O_RDWR, 0o600))
        self._lock = RLock()
        self._file = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
        finalize(self, self._file.close)  # from 3.13 on, Python warns of a connection that is dropped while open
        self._file.execute("PRAGMA secure_delete = ON")
        self._upgrade()
        self._file.executescript(TABLES)

    def _upgrade(self) -> None:
        """Upgrade the file of a former version: waves were called phases, or had no blocks, or there was one metric."""
        named = "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE c.name = 'phase'"
        with self._transaction():
            former = [table for (table,) in self._file.execute(named).fetchall()]  # the oldest have no twins
            for table in former:
                self._file.execute(f"ALTER TABLE {table} RENAME COLUMN phase TO wave")
            for table in {"outbox", "twins"}.intersection(former):
                renamed = "replace(replace(address, '/v1/', '/v2/'), '/phases/', '/waves/')"
                self._file.execute(f"UPDATE {table} SET address = {renamed}")
            columns = [name for (name,) in self._file.execute("SELECT name FROM pragma_table_info('rewards')")]
            if columns and "metric" not in columns:
                block = "block" if "block" in columns else "1"
                self._file.execute("ALTER TABLE rewards RENAME TO former")
                self._file.execute(REWARDS)
                self._file.execute(f"INSERT INTO rewards SELECT wave, {block}, arm, count, total, '' FROM former")
                self._file.execute("DROP TABLE former")

    @property
    def key(self) -> str:
        """The device's own key, made on first use; the coordinator keeps only its hash."""
        with self._lock:
            self._file.execute("INSERT OR IGNORE INTO facts VALUES ('key', ?)", [secrets.token_urlsafe(32)])
            return str(self._file.execute("SELECT value FROM facts WHERE name = 'key'").fetchone()[0])

    def withdraw(self) -> None:
        """Delete all rewards and the report that is not acknowledged, and keep none from now on."""
        with self._transaction():
            self.withdrawn = True
            for table in ("outbox", "twins", "rewards"):
                self._file.execute(f"DELETE FROM {table}")

    def record(
        self,
        wave: int,
        arm: int,
        reward: float | None,
        rounds: int = 1,
        block: int = 1,
        metrics: Mapping[str, float] | None = None,
    ) -> bool:
        """Add a reward and other metrics, of one round or the average of several; return False after withdrawing."""
        require_integer("wave", wave, least=1)
        require_integer("arm", arm, least=0)
        require_integer("rounds", rounds, least=1)
        require_integer("block", block, least=1)
        # Beyond this every answer is clipped anyway; without a limit, a sum could be infinite.
        values = {**(metrics or {}), **({} if reward is None else {"": reward})}
        known = {name: max(-HUGE, min(HUGE, require_number(name or "reward", one))) for name, one in values.items()}
        rows = [[wave, block, arm, rounds, one * rounds, name] for name, one in known.items()]
        add = "ON CONFLICT DO UPDATE SET count = count + excluded.count, total = total + excluded.total"
        with self._transaction():
            if not self.withdrawn:
                self._file.executemany(f"INSERT INTO rewards VALUES (?, ?, ?, ?, ?, ?) {add}", rows)
            return not self.withdrawn

    def averages(self, wave: int, arms: list[int], block: int = 1, metric: str = "") -> list[float]:
        """Compute the average of a metric for each arm in a block of a wave; NaN for an arm of which none is known."""
        wanted = "SELECT arm, total, count FROM rewards WHERE wave = ? AND block = ? AND metric = ?"
        with self._lock:
            rows = self._file.execute(wanted, [wave, block, metric]).fetchall()
        found = {arm: total / count for arm, total, count in rows}
        return [found.get(arm, math.nan) for arm in arms]

    @property
    def reports(self) -> int:
        """The number of reports that were ever kept for sending, counted or not."""
        with self._lock:
            return int(self._file.execute("SELECT COUNT(*) FROM made").fetchone()[0])

    def keep(self, outgoing: Outgoing) -> None:
        """Keep a report before it is sent, and count it; if sending fails, this same report is sent again."""
        values = [outgoing.wave, outgoing.address, outgoing.token, outgoing.body]
        with self._transaction():
            if self._file.execute("INSERT OR IGNORE INTO outbox VALUES (?, ?, ?, ?)", values).rowcount:
                self._file.execute("INSERT INTO made (wave) VALUES (?)", [outgoing.wave])
                if outgoing.twin is not None:
                    twin = [outgoing.wave, *outgoing.twin]
                    self._file.execute("INSERT OR REPLACE INTO twins VALUES (?, ?, ?)", twin)

    def keep_within(self, outgoing: Outgoing, most: int) -> Outgoing | None:
        """Keep a report if fewer than `most` were ever kept; return the report to send, or None."""
        with self._transaction():
            if self.withdrawn:
                return None
            left = self.outgoing()
            if left is not None:  # another process of this device was faster
                return left
            if self.reports >= most:
                return None
            self.keep(outgoing)
            return outgoing

    def outgoing(self) -> Outgoing | None:
        """Return the report that is not acknowledged yet, if there is one."""
        with self._lock:
            row = self._file.execute("SELECT * FROM outbox ORDER BY wave LIMIT 1").fetchone()
            if row is None:
                return None
            wave, address, token, body = row
            twin = self._file.execute("SELECT address, body FROM twins WHERE wave = ?", [wave]).fetchone()
        return Outgoing(wave, address, token, body, twin)

    def forget(self, wave: int) -> None:
        """Delete the report of a wave that is over for this device, and the rewards up to that wave."""
        with self._transaction():
            for table in ("outbox", "twins"):
                self._file.execute(f"DELETE FROM {table} WHERE wave = ?", [wave])
            self._file.execute("DELETE FROM rewards WHERE wave <= ?", [wave])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Run the block as a transaction; inside another transaction, as part of that one."""
        with self._lock:
            if self._file.in_transaction:
                yield
                return
            self._file.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._file.execute("ROLLBACK")
                raise
            self._file.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._file.close()
