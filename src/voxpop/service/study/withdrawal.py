"""Withdrawal: a person leaves a study, and everything about them that may be forgotten is.

One transaction deletes their report in the open wave, their receipts and their invitations, and somebody else is asked
instead. A person who is part of no release is deleted entirely. One who is keeps a row with the hash of their key and
the number of their participations: the ledger charges releases to the number of that row, and the same key must never
be asked again beyond its budget. What was released stays; it is a sum over many people.

In the shuffle model only the shuffler can delete the report, and only it knows whether its batch was whole before.
Until it has said so the person's open invitation stays, too; nobody can use it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from voxpop.service.keys import hash_key
from voxpop.service.refusals import Refusal, no_study
from voxpop.service.stores.database import scrub_after
from voxpop.service.stores.schema import counts, inbox, invitations, people, receipts, studies
from voxpop.service.study import asking, log, tallies
from voxpop.service.study.context import Context
from voxpop.service.study.stages import UNRELEASED, Life

CHUNK = 1_000  # keys per statement


def withdraw(context: Context, study: str, key: str) -> None:
    """Forget the person with this key; if there is nobody, or they have withdrawn before, nothing changes."""
    hashed = hash_key(key)
    wanted = sa.select(people).where(people.c.study == study, people.c.key_hash == hashed, ~people.c.withdrawn)
    with context.database.read() as connection:  # anyone can ask with invented keys, and must not hold the lock up
        if log.row_of(connection, study).life == Life.DRAFT:
            raise no_study(study)
        if connection.execute(wanted).first() is None:
            return
    with context.database.write() as connection:
        row = log.row_of(connection, study, lock=True)
        person = connection.execute(wanted).first()
        if person is None:
            return
        _leave(connection, row, person)
        if context.released is not None:  # last, because what follows is the commit
            context.released.note_forgotten(study, hashed)
    context.note("withdrawn", study=study)


def _leave(connection: sa.Connection, row: Any, person: Any) -> None:
    """Mark a person as withdrawn, and erase what no shuffler has to confirm first."""
    connection.execute(sa.update(people).where(people.c.id == person.id).values(withdrawn=True))
    fewer = {"registered": counts.c.registered - 1, "withdrawn": counts.c.withdrawn + 1}
    if person.participations == 0:
        fewer["never_asked"] = counts.c.never_asked - 1
    connection.execute(sa.update(counts).where(counts.c.study == row.id).values(**fewer))
    found = _found(connection, invitations.c.person == person.id)
    if row.batch is not None and row.stage in UNRELEASED:
        found = [one for one in found if one.expired or one.wave != row.wave]
    _take_back(connection, row, found)
    _erase(connection, found, [person.id])


def pending(connection: sa.Connection, study: str, wave: int) -> list[bytes]:
    """Return the hashes of the tokens that the shuffler has to forget."""
    return [one.token_hash for one in _found(connection, *_pending(study, wave)) if not one.expired]


def erase_confirmed(connection: sa.Connection, row: Any, tokens: Sequence[bytes]) -> None:
    """Erase the invitations of people who withdrew, whose tokens the shuffler has forgotten or ended before."""
    gone = set(tokens)
    pending = _found(connection, *_pending(row.id, row.wave))
    found = [one for one in pending if one.expired or one.token_hash in gone]
    _take_back(connection, row, found)
    _erase(connection, found, {one.person for one in found})


def erase_rest(connection: sa.Connection, study: str, wave: int) -> None:
    """Erase the invitations of people who withdrew from a wave that is over; releases know them by now, or never."""
    found = _found(connection, *_pending(study, wave))
    if found:
        _erase(connection, found, {one.person for one in found})


def forget_again(context: Context) -> int:
    """Forget those whom a database restored from a backup knows again; return how many."""
    if context.released is None:
        return 0
    forgotten = 0
    for study in context.released.forgetful():
        hashes = context.released.forgotten(study)
        for start in range(0, len(hashes), CHUNK):
            forgotten += _forget_again(context, study, hashes[start : start + CHUNK])
    return forgotten


def _forget_again(context: Context, study: str, hashes: list[bytes]) -> int:
    wanted = sa.select(people).where(people.c.study == study, people.c.key_hash.in_(hashes), ~people.c.withdrawn)
    with context.database.write() as connection:
        try:
            row = log.row_of(connection, study, lock=True)
        except Refusal:
            return 0  # the backup is older than the study
        found = connection.execute(wanted).all()
        for person in found:
            _leave(connection, row, person)
    if found:
        context.note("forgotten_again", study=study, people=len(found))
    return len(found)


def _pending(study: str, wave: int) -> tuple[sa.ColumnElement[bool], ...]:
    """Select the invitations of people who withdrew from a wave."""
    gone = sa.select(people.c.id).where(people.c.study == study, people.c.withdrawn)
    return invitations.c.wave == wave, invitations.c.person.in_(gone)


def _found(connection: sa.Connection, *which: sa.ColumnElement[bool]) -> list[Any]:
    """Find invitations, each with whether it was answered."""
    joined = invitations.outerjoin(receipts, receipts.c.invitation == invitations.c.id)
    wanted = sa.select(invitations, receipts.c.invitation.is_not(None).label("answered")).select_from(joined)
    return list(connection.execute(wanted.where(*which)))


def _take_back(connection: sa.Connection, row: Any, found: list[Any]) -> None:
    """Correct the counters of a wave that is not released: these invitations end without an answer."""
    ended = [one for one in found if one.wave == row.wave and not one.expired]
    if row.stage in UNRELEASED and ended:
        answered = sum(one.answered for one in ended)
        tallies.add(connection, row.id, row.wave, answered=-answered, lapsed=len(ended))
        log.update_study(connection, row.id, invited=studies.c.invited - len(ended))


def _erase(connection: sa.Connection, found: list[Any], persons: Iterable[int]) -> None:
    """Delete these invitations with their reports and receipts, and those of the people of whom nothing may be kept."""
    _delete_by(connection, inbox.c.invitation, [one.id for one in found])
    _delete_by(connection, receipts.c.invitation, [one.id for one in found])
    _delete_by(connection, invitations.c.id, [one.id for one in found])
    held = sa.select(invitations.c.id).where(invitations.c.person == people.c.id).exists()
    _delete_by(connection, people.c.id, persons, people.c.withdrawn, people.c.participations == 0, ~held)
    asking.require_later(connection)
    scrub_after(connection)


def _delete_by(connection: sa.Connection, column: Any, values: Iterable[int], *where: sa.ColumnElement[bool]) -> None:
    given = [{"one": value} for value in values]
    if given:
        connection.execute(sa.delete(column.table).where(column == sa.bindparam("one"), *where), given)
