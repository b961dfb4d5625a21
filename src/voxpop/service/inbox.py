"""Where reports arrive: stored, and by that counted, in one transaction for all that wait at the moment."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from voxpop.errors import Array
from voxpop.privacy.additive import Central
from voxpop.service.coordinator import Coordinator
from voxpop.service.keys import digest_of, hash_key, same
from voxpop.service.refusals import Refusal
from voxpop.service.reports import check
from voxpop.stores.schema import invitations, receipts, studies


@dataclass(frozen=True)
class Upload:
    """A report with the token that allows it."""

    place: tuple[str, int]  # study and phase
    token: str
    body: bytes  # numbers, eight bytes each


INBOX = {"invitation": "bigint", "study": "text", "phase": "integer", "body": "bytea"}
RECEIPTS = {"invitation": "bigint", "digest": "bytea"}

Verdict = bool | Refusal  # True: counted now; False: it was counted before


def store(coordinator: Coordinator, uploads: list[Upload]) -> list[Verdict]:
    """Store what may be stored, all or nothing; what to answer to each."""
    hashes = [hash_key(upload.token) for upload in uploads]
    with coordinator.database.write() as connection:
        stages = _lock(connection, sorted({upload.place[0] for upload in uploads}))
        rows = _invitations(connection, hashes)
        valid = _valid(coordinator, uploads, stages)
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
            _insert(connection, "inbox", INBOX, [(i, *upload.place, upload.body) for i, (upload, _) in new.items()])
            _insert(connection, "receipts", RECEIPTS, [(i, digest) for i, (_, digest) in new.items()])
    return verdicts


def _insert(connection: sa.Connection, table: str, columns: dict[str, str], rows: list[tuple[Any, ...]]) -> None:
    """Many rows at once, past SQLAlchemy's own bookkeeping for each, which would cost as much as the database."""
    names = ", ".join(columns)
    if connection.dialect.name == "sqlite":
        # In one statement: the driver lets other threads run at every step, and takes its turn again after each.
        marks = ", ".join(["(" + ", ".join("?" * len(columns)) + ")"] * len(rows))
        values = tuple(value for row in rows for value in row)
        connection.exec_driver_sql(f"INSERT INTO {table} ({names}) VALUES {marks}", values)
    else:  # whole columns as arrays: one statement, planned once
        arrays = ", ".join(f"%s::{kind}[]" for kind in columns.values())
        columns_of = tuple(list(column) for column in zip(*rows, strict=True))
        connection.exec_driver_sql(f"INSERT INTO {table} ({names}) SELECT * FROM unnest({arrays})", columns_of)


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
    if row.expired or stage.phase != row.phase or stage.stage != "collecting":
        return Refusal(410, "this invitation is over; the report came too late and was not counted")
    return problem if problem is not None else True


def _lock(connection: sa.Connection, names: list[str]) -> dict[str, Any]:
    """The studies' rows, which stay as they are until the transaction ends; others may store reports meanwhile."""
    wanted = sa.select(studies).where(studies.c.id.in_(names)).order_by(studies.c.id).with_for_update(read=True)
    return {row.id: row for row in connection.execute(wanted)}


def _invitations(connection: sa.Connection, hashes: list[bytes]) -> dict[bytes, Any]:
    """The invitations of these tokens and what was counted under them, locked in a fixed order."""
    joined = invitations.outerjoin(receipts, receipts.c.invitation == invitations.c.id)
    columns = (
        invitations.c.id,
        invitations.c.study,
        invitations.c.phase,
        invitations.c.token_hash,
        invitations.c.expired,
        receipts.c.digest,
    )
    if connection.dialect.name == "sqlite":  # the transaction has the only write lock
        return _invitations_in_one_row(connection, hashes)
    # An array keeps the statement the same for any number of tokens, so that it is planned once.
    mine = invitations.c.token_hash == sa.any_(sa.literal(hashes, postgresql.ARRAY(sa.LargeBinary)))
    locked = sa.select(invitations.c.id).where(mine).order_by(invitations.c.id)
    connection.execute(locked.with_for_update())
    wanted = sa.select(*columns).select_from(joined).where(mine)
    return {row.token_hash: row for row in connection.execute(wanted)}


@dataclass(frozen=True, slots=True)
class _Invitation:
    id: int
    study: str
    phase: int
    token_hash: bytes
    expired: bool
    digest: bytes | None


def _invitations_in_one_row(connection: sa.Connection, hashes: list[bytes]) -> dict[bytes, Any]:
    """The same from SQLite, which gives way to other threads at every row."""
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
    return {row.token_hash: row for row in rows}


def _anything(reports: Array) -> None: ...


def _valid(coordinator: Coordinator, uploads: list[Upload], stages: dict[str, Any]) -> list[Refusal | None]:
    """What is wrong with each report, judged by the very function that will add them up."""
    problems: list[Refusal | None] = [None] * len(uploads)
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for index, upload in enumerate(uploads):
        if upload.place[0] in stages:
            groups[upload.place].append(index)
    for (study, phase), indices in groups.items():
        record = coordinator.journal.latest(study, stages[study].seq)
        if record.current is None or record.current.plan.phase != phase:
            continue  # too late, whatever it says
        release, arms = record.current.release, len(record.current.plan.arms)
        # The central model clips whatever is finite, so that there is nothing to check but the length.
        tally = _anything if isinstance(release, Central) else release.tally
        for index, problem in check(tally, arms, [uploads[index].body for index in indices], indices):
            problems[index] = problem
    return problems
