"""The inbox: all waiting reports are stored in one transaction, and a report counts once it is stored.

For PostgreSQL, values are arrays: with them, one planned statement takes any number of rows. They are written here,
because the driver looks at every element of a list, which takes as long as storing a group of reports.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from psycopg.errors import UniqueViolation
from psycopg.rows import namedtuple_row

from voxpop.errors import Array
from voxpop.model.direction import metrics_of
from voxpop.model.problem import require_range
from voxpop.privacy.release import SHUFFLER, Release
from voxpop.service.keys import digest_of, hash_key
from voxpop.service.refusals import Refusal
from voxpop.service.reports import Verdict, check, judge
from voxpop.service.stores.database import driver_of
from voxpop.service.study.definition import Definition
from voxpop.service.study.log import Context
from voxpop.service.study.stages import Stage


def array_of(values: Sequence[bytes]) -> str:
    """Write byte strings as PostgreSQL writes a bytea[]."""
    return "{" + ",".join([f'"\\\\x{value.hex()}"' for value in values]) + "}"


Place = tuple[str, int]  # study and wave
ELSEWHERE = 403  # the status of a report that the shuffler takes


@dataclass(frozen=True)
class Upload:
    """A report with the token that allows it."""

    place: Place
    token: str
    body: bytes  # the numbers of the report, eight bytes each, or a share


Row = tuple[int, bytes, bytes]  # invitation, digest and body
TRIES = 20  # to store a group; each time another coordinator was quicker with one of its tokens
Found = tuple[dict[str, Any], dict[bytes, Any]]  # studies by name; invitations with their receipts by token hash

COUNT = """
    INSERT INTO tallies (study, wave, writer, answered, refused) VALUES ({})
    ON CONFLICT (study, wave, writer) DO UPDATE
    SET answered = tallies.answered + excluded.answered, refused = tallies.refused + excluded.refused
"""

# For PostgreSQL: one statement looks the reports of a group up, and one stores those of a wave and counts them.
LOCK = "SELECT id, seq, wave, stage FROM studies WHERE id = ANY(%s) ORDER BY id FOR SHARE"
FIND = """
    SELECT i.id, i.study, i.wave, i.token_hash, i.expired,
        CASE WHEN r.invitation IS NOT NULL THEN coalesce(r.digest, '') END AS digest
    FROM invitations i LEFT JOIN receipts r ON r.invitation = i.id WHERE i.token_hash = ANY(%s::bytea[])
"""
STORE = f"""
    WITH given AS (
        SELECT * FROM unnest(%(invitations)s::bigint[], %(digests)s::bytea[], %(bodies)s::bytea[])
        AS given (invitation, digest, body)
    ), noted AS (
        INSERT INTO receipts (invitation, digest) SELECT invitation, digest FROM given
    ), counted AS (
        {COUNT.format("%(study)s, %(wave)s, %(writer)s, %(answered)s, %(refused)s")}
    )
    INSERT INTO inbox (invitation, study, wave, body) SELECT invitation, %(study)s, %(wave)s, body FROM given
"""


def store(context: Context, uploads: list[Upload]) -> list[Verdict]:
    """Store the reports that are valid, in one transaction; return a verdict on each."""
    if context.database.embedded:
        with context.database.write() as connection:
            return _store(context, _InSqlite(connection), uploads)
    for _ in range(TRIES):
        with (
            suppress(UniqueViolation),
            context.database.write() as connection,
            driver_of(connection) as driver,
            driver.pipeline(),  # two round trips: to look, and to store and commit
        ):
            verdicts = _store(context, _InPostgresql(driver), uploads)
            driver.commit()  # together with what was inserted, in the same round trip
            return verdicts
        # Another coordinator has counted a report under one of these tokens since they were looked up.
    raise RuntimeError(f"receipts changed {TRIES} times while reports were stored")  # all others wait for this writer


def _store(context: Context, desk: _InSqlite | _InPostgresql, uploads: list[Upload]) -> list[Verdict]:
    hashes = [hash_key(upload.token) for upload in uploads]
    stages, rows = desk.look(sorted({upload.place[0] for upload in uploads}), hashes)
    problems = _problems(context, uploads, stages)
    verdicts: list[Verdict] = []
    new: dict[int, tuple[Upload, bytes]] = {}
    counted: dict[Place, Counter[str]] = defaultdict(Counter)
    for index, (upload, hashed) in enumerate(zip(uploads, hashes, strict=True)):
        row: Any = rows.get(hashed)
        problem = problems.get(index)
        stage: Any = stages.get(upload.place[0])
        belongs = row is not None and (row.study, row.wave) == upload.place
        digest = digest_of(upload.token, upload.body)
        if belongs and problem is not None and problem.status == ELSEWHERE:
            verdict: Verdict = problem  # whatever the shuffler has counted under this token
        else:
            before = None if row is None or row.id not in new else new[row.id][1]
            over = belongs and (row.expired or stage.wave != row.wave or stage.stage != Stage.COLLECTING)
            verdict = judge("study or wave", row, digest, before, belongs, over, problem)
        verdicts.append(verdict)
        if verdict is True:
            new[row.id] = (upload, digest)
            counted[upload.place]["answered"] += 1
        elif verdict is not False and belongs:
            counted[upload.place]["refused"] += 1
    for place in sorted(counted):  # in the same order everywhere, so that two coordinators do not wait for each other
        here = ((number, one) for number, one in new.items() if one[0].place == place)
        reports = sorted((number, digest, upload.body) for number, (upload, digest) in here)
        desk.insert(place, context.writer, reports, counted[place])
    return verdicts


class _Invitation(NamedTuple):
    id: int
    study: str
    wave: int
    token_hash: bytes
    expired: bool
    digest: bytes | None  # None: no receipt; empty: the shuffler has the report


class _InPostgresql:
    """What is looked up and stored on PostgreSQL, by the driver's own connection."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def look(self, names: list[str], hashes: list[bytes]) -> Found:
        """Lock the studies against changes until the transaction ends, then find the invitations of these tokens.

        Other coordinators may store reports at the same time. Invitations need no lock: they end only under an
        exclusive lock on the study's row, and if someone else stores a receipt first, the database refuses ours.
        """
        locked, found = (self._driver.cursor(row_factory=namedtuple_row) for _ in range(2))
        locked.execute(LOCK, (names,))
        found.execute(FIND, (array_of(hashes),))
        invited = {row.token_hash: row for row in found.fetchall()}
        return {row.id: row for row in locked.fetchall()}, invited

    def insert(self, place: Place, writer: str, reports: list[Row], counted: Counter[str]) -> None:
        """Insert receipts and reports of a wave, and count them."""
        numbers, digests, bodies = zip(*reports, strict=True) if reports else ((), (), ())
        values = {
            "invitations": "{" + ",".join(map(str, numbers)) + "}",
            "digests": array_of(digests),
            "bodies": array_of(bodies),
            "study": place[0],
            "wave": place[1],
            "writer": writer,
            "answered": counted["answered"],
            "refused": counted["refused"],
        }
        self._driver.cursor().execute(STORE, values)


class _InSqlite:
    """The same in SQLite, where the transaction holds the only write lock.

    The driver releases the GIL for every row and has to wait for it again, so invitations come as one row of JSON, and
    each table takes one statement. SQLAlchemy's work would cost as much as the database: it gets no statement to build.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def look(self, names: list[str], hashes: list[bytes]) -> Found:
        """Find the studies, and the invitations of these tokens."""
        wanted = f"SELECT id, seq, wave, stage FROM studies WHERE id IN ({_marks(len(names))})"
        stages = {row.id: row for row in self._connection.exec_driver_sql(wanted, tuple(names))}
        statement = (
            "SELECT json_group_array(json_array(i.id, i.study, i.wave, hex(i.token_hash), i.expired,"
            " CASE WHEN r.invitation IS NOT NULL THEN hex(r.digest) END))"  # hex(NULL) is empty
            " FROM invitations i LEFT JOIN receipts r ON r.invitation = i.id"
            f" WHERE i.token_hash IN ({_marks(len(hashes))})"
        )
        text = self._connection.exec_driver_sql(statement, tuple(hashes)).scalar_one()
        rows = [
            _Invitation(number, study, wave, bytes.fromhex(token), bool(expired), _bytes(digest))
            for number, study, wave, token, expired, digest in json.loads(text)
        ]
        return stages, {row.token_hash: row for row in rows}

    def insert(self, place: Place, writer: str, reports: list[Row], counted: Counter[str]) -> None:
        """Insert receipts and reports of a wave, and count them."""
        receipts_of = tuple(value for row in reports for value in row[:2])
        reports_of = tuple(value for number, _, body in reports for value in (number, *place, body))
        for columns, values in (
            ("receipts (invitation, digest)", receipts_of),
            ("inbox (invitation, study, wave, body)", reports_of),
        ):
            if reports:
                rows = ", ".join([f"({_marks(len(values) // len(reports))})"] * len(reports))
                self._connection.exec_driver_sql(f"INSERT INTO {columns} VALUES {rows}", values)
        tally = (*place, writer, counted["answered"], counted["refused"])
        self._connection.exec_driver_sql(COUNT.format(_marks(len(tally))), tally)


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _problems(context: Context, uploads: list[Upload], stages: dict[str, Any]) -> dict[int, Refusal]:
    """Check each report as its release does; return the problems of those that have one.

    A report that belongs to the shuffler is refused, however sound: with a receipt here nobody would be asked instead,
    and the shuffler's batch would never be whole.
    """
    problems: dict[int, Refusal] = {}
    groups: dict[Place, dict[int, bytes]] = defaultdict(dict)
    for index, upload in enumerate(uploads):
        if upload.place[0] in stages:
            groups[upload.place][index] = upload.body
    for (study, wave), bodies in groups.items():
        snapshot = context.snapshots.at(study, stages[study].seq)
        current = snapshot.wave
        if current is None or current.plan.wave != wave:
            continue  # it is too late anyway
        if current.release.second == SHUFFLER:
            sentence = "reports of this study go to its shuffler; upload to the address from the check-in"
            problems |= dict.fromkeys(bodies, Refusal(ELSEWHERE, sentence))
        else:
            accept = partial(_accepted, snapshot.definition, current.release)
            problems |= check(accept, current.release.words, bodies)
    return problems


def _accepted(definition: Definition, release: Release, reports: Array) -> None:
    """Refuse reports that cannot be added up and, if nothing is promised to people, answers outside of the limits."""
    release.accept(reports)
    if not release.fills_gaps:
        known = metrics_of(definition.problem, definition.direction)
        for (name, turn, metric), part in zip(known, np.split(reports, len(known), axis=1), strict=True):
            called = f"the {name} answer" if name else "the answer"
            said = partial("{0} about arm {1[1]}".format, called)
            require_range(turn.turn(part), turn.bounds(*metric.limits), said)
