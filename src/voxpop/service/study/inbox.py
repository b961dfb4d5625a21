"""Where reports arrive: stored, and by that counted, in one transaction for all that wait at the moment."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa
from psycopg.rows import namedtuple_row

from voxpop.service.keys import digest_of, hash_key, same
from voxpop.service.refusals import Refusal
from voxpop.service.reports import check
from voxpop.service.study.context import Context
from voxpop.service.study.stages import Stage
from voxpop.stores.schema import studies


@dataclass(frozen=True)
class Upload:
    """A report with the token that allows it."""

    place: tuple[str, int]  # study and phase
    token: str
    body: bytes  # numbers, eight bytes each


Verdict = bool | Refusal  # True: counted now; False: it was counted before

Found = tuple[dict[str, Any], dict[bytes, Any]]  # studies by name, invitations with their receipts by token

# For PostgreSQL. Columns go over as binary arrays, so that a statement is planned once for any number of reports.
LOCK = "SELECT id, seq, phase, stage FROM studies WHERE id = ANY(%b) ORDER BY id FOR SHARE"
FIND = """
    SELECT i.id, i.study, i.phase, i.token_hash, i.expired, r.digest
    FROM invitations i LEFT JOIN receipts r ON r.invitation = i.id WHERE i.token_hash = ANY(%b)
"""
STORE = """
    WITH given AS (
        SELECT * FROM unnest(%b::bigint[], %b::bytea[], %b::text[], %b::integer[], %b::bytea[])
        AS given (invitation, digest, study, phase, body)
    ), new AS (
        INSERT INTO receipts (invitation, digest) SELECT invitation, digest FROM given
        ON CONFLICT DO NOTHING RETURNING invitation
    )
    INSERT INTO inbox (invitation, study, phase, body)
    SELECT invitation, study, phase, body FROM given JOIN new USING (invitation)
"""


class _OvertakenError(Exception):
    """Another coordinator counted a report under one of these tokens since it was looked up."""


def store(context: Context, uploads: list[Upload]) -> list[Verdict]:
    """Store what may be stored, all or nothing; what to answer to each."""
    while True:
        with suppress(_OvertakenError), context.database.write() as connection:
            return _store(context, connection, uploads)


def _store(context: Context, connection: sa.Connection, uploads: list[Upload]) -> list[Verdict]:
    hashes = [hash_key(upload.token) for upload in uploads]
    names = sorted({upload.place[0] for upload in uploads})
    look = _look_in_sqlite if connection.dialect.name == "sqlite" else _look_in_postgresql
    stages, rows = look(connection, names, hashes)
    valid = _valid(context, uploads, stages)
    verdicts: list[Verdict] = []
    new: dict[int, tuple[Upload, bytes]] = {}
    for upload, hashed, problem in zip(uploads, hashes, valid, strict=True):
        row: Any = rows.get(hashed)
        digest = digest_of(upload.token, upload.body)
        verdict = _judge(upload, hashed, digest, row, new, stages, problem)
        verdicts.append(verdict)
        if verdict is True:
            new[row.id] = (upload, digest)
    if new:
        _insert(connection, [(number, digest, *upload.place, upload.body) for number, (upload, digest) in new.items()])
    return verdicts


def _insert(connection: sa.Connection, rows: list[tuple[int, bytes, str, int, bytes]]) -> None:
    """Receipts and reports, past SQLAlchemy's own bookkeeping for each, which would cost as much as the database."""
    rows = sorted(rows)  # whoever else stores some of these does so in the same order
    if connection.dialect.name != "sqlite":
        if connection.exec_driver_sql(STORE, tuple(map(list, zip(*rows, strict=True)))).rowcount < len(rows):
            raise _OvertakenError
        return
    # In one statement each: the driver lets other threads run at every step, and takes its turn again after each.
    receipts_of = tuple(value for row in rows for value in row[:2])
    reports_of = tuple(value for number, _, *rest in rows for value in (number, *rest))
    for columns, values in (
        ("receipts (invitation, digest)", receipts_of),
        ("inbox (invitation, study, phase, body)", reports_of),
    ):
        marks = ", ".join(["(" + ", ".join("?" * (len(values) // len(rows))) + ")"] * len(rows))
        connection.exec_driver_sql(f"INSERT INTO {columns} VALUES {marks}", values)


def _judge(
    upload: Upload,
    hashed: bytes,
    digest: bytes,
    row: Any,
    new: dict[int, tuple[Upload, bytes]],
    stages: dict[str, Any],
    problem: Refusal | None,
) -> Verdict:
    """What becomes of one upload, given what is stored and what came just before it."""
    if row is None or not same(row.token_hash, hashed):
        return Refusal(401, "this token is not known; check in to get the right one")
    if (row.study, row.phase) != upload.place:
        return Refusal(403, "this token is for another study or phase; upload where the check-in said")
    known = new[row.id][1] if row.id in new else row.digest
    if known is not None:
        if same(known, digest):
            return False
        return Refusal(409, "another report was counted under this token; it stays as it is")
    stage = stages[row.study]
    if row.expired or stage.phase != row.phase or stage.stage != Stage.COLLECTING:
        return Refusal(410, "this invitation is over; the report came too late and was not counted")
    return problem if problem is not None else True


def _look_in_postgresql(connection: sa.Connection, names: list[str], hashes: list[bytes]) -> Found:
    """The studies, which stay as they are until the transaction ends, and then the invitations of these tokens.

    Others may store reports meanwhile, and invitations need no lock: only who holds the study's row alone can end them,
    and a receipt that someone else stores shows when ours is refused.
    """
    driver: Any = connection.connection.driver_connection
    new = partial(driver.cursor, row_factory=namedtuple_row)
    with driver.pipeline(), new() as locked, new() as found:  # in one message: the two answers are waited for once
        locked.execute(LOCK, (names,))
        found.execute(FIND, (hashes,))
        return {row.id: row for row in locked}, {row.token_hash: row for row in found}


@dataclass(frozen=True, slots=True)
class _Invitation:
    id: int
    study: str
    phase: int
    token_hash: bytes
    expired: bool
    digest: bytes | None


def _look_in_sqlite(connection: sa.Connection, names: list[str], hashes: list[bytes]) -> Found:
    """The same; the transaction has the only write lock. SQLite lets other threads run at every row: one will do."""
    stages = {row.id: row for row in connection.execute(sa.select(studies).where(studies.c.id.in_(names)))}
    marks = ", ".join("?" * len(hashes))
    statement = (
        "SELECT json_group_array(json_array(i.id, i.study, i.phase, hex(i.token_hash), i.expired, hex(r.digest)))"
        f" FROM invitations i LEFT JOIN receipts r ON r.invitation = i.id WHERE i.token_hash IN ({marks})"
    )
    text = connection.exec_driver_sql(statement, tuple(hashes)).scalar_one()
    rows = [
        _Invitation(number, study, phase, bytes.fromhex(token), bool(expired), bytes.fromhex(digest) or None)
        for number, study, phase, token, expired, digest in json.loads(text)
    ]
    return stages, {row.token_hash: row for row in rows}


def _valid(context: Context, uploads: list[Upload], stages: dict[str, Any]) -> list[Refusal | None]:
    """Say what is wrong with each report, as the release judges it."""
    problems: list[Refusal | None] = [None] * len(uploads)
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for index, upload in enumerate(uploads):
        if upload.place[0] in stages:
            groups[upload.place].append(index)
    for (study, phase), indices in groups.items():
        current = context.snapshots.at(study, stages[study].seq).current
        if current is None or current.plan.phase != phase:
            continue  # too late, whatever it says
        bodies = [uploads[index].body for index in indices]
        for index, problem in check(current.release.accept, current.release.arms, bodies, indices):
            problems[index] = problem
    return problems
