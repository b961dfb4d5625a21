"""Registration and check-in of participants, many in one transaction."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from voxpop.service.keys import hash_key, same
from voxpop.service.refusals import Refusal, no_study
from voxpop.service.study.context import Context
from voxpop.service.study.stages import Life, Stage
from voxpop.stores.schema import counts, invitations, people, receipts, studies


@dataclass(frozen=True)
class Newcomer:
    """A device that registers."""

    study: str
    key: str
    enrolment: str | None = None


def register(context: Context, newcomers: list[Newcomer]) -> list[bool | Refusal]:
    """Register people in one transaction; answer False for keys that are already registered."""
    with context.database.write() as connection:
        rows = _studies(connection, [newcomer.study for newcomer in newcomers])
        hashes = [hash_key(newcomer.key) for newcomer in newcomers]
        known = {(row.study, row.key_hash): row for row in _people(connection, rows, hashes)}
        answers: list[bool | Refusal] = []
        new: dict[tuple[str, bytes], None] = {}
        for newcomer, hashed in zip(newcomers, hashes, strict=True):
            row, name = rows.get(newcomer.study), (newcomer.study, hashed)
            problem = _problem(row, newcomer, known.get(name), name in known or name in new)
            if problem is None and name not in known and name not in new:
                new[name] = None
                answers.append(True)
            else:
                answers.append(problem or False)
        if new:
            # Another coordinator may have registered the same device a moment ago.
            insert = sqlite.insert(people) if context.database.embedded else postgresql.insert(people)
            values = [{"study": study, "key_hash": hashed} for study, hashed in new]
            stored = connection.execute(insert.on_conflict_do_nothing().returning(people.c.study), values)
            _count(connection, Counter(stored.scalars()))
            if context.released is not None:  # whoever was forgotten under the same key is someone new
                context.released.remember(new)
    return answers


def _count(connection: sa.Connection, new: Counter[str]) -> None:
    """Add new people to the counts of their studies, in the same order as everybody else."""
    for study in sorted(new):
        more = {"registered": counts.c.registered + new[study], "never_asked": counts.c.never_asked + new[study]}
        connection.execute(sa.update(counts).where(counts.c.study == study).values(**more))


def _problem(row: Any, newcomer: Newcomer, person: Any, known: bool) -> Refusal | None:
    if row is None or row.life == Life.DRAFT:
        return no_study(newcomer.study)
    code, given = row.enrolment_hash, newcomer.enrolment
    if code is not None and (given is None or not same(code, hash_key(given))):
        return Refusal(403, "this study only admits people with its enrolment code; send the right one")
    if person is not None and person.withdrawn:
        return Refusal(410, f"this key has withdrawn from the study {newcomer.study!r}; it is not asked again")
    if row.stage == Stage.FINISHED and not known:
        return Refusal(410, f"the study {newcomer.study!r} is over; nobody is asked any more")
    return None


def check_in(context: Context, callers: list[tuple[str, str]]) -> list[str | Refusal]:
    """Answer every (study, key) with JSON: whether the participant is invited and, if so, all the device needs."""
    hashes = [hash_key(key) for _, key in callers]
    with context.database.read() as connection:
        rows = _studies(connection, [study for study, _ in callers])
        known = {(person.study, person.key_hash): person for person in _people(connection, rows, hashes)}
        invited = _invited(connection, rows, [person.id for person in known.values()])
    answers: list[str | Refusal] = []
    for (study, _), hashed in zip(callers, hashes, strict=True):
        person = known.get((study, hashed))
        if study not in rows or rows[study].life == Life.DRAFT:
            answers.append(no_study(study))
        elif person is None or not same(person.key_hash, hashed):
            answers.append(Refusal(401, "this participant key is not registered; register first"))
        else:
            answers.append(_answer(context, rows[study], person, invited[person.id]))
    return answers


def _studies(connection: sa.Connection, names: list[str]) -> dict[str, Any]:
    wanted = sa.select(studies).where(studies.c.id.in_(sorted(set(names))))
    return {row.id: row for row in connection.execute(wanted)}


def _people(connection: sa.Connection, rows: dict[str, Any], hashes: list[bytes]) -> list[Any]:
    wanted = sa.select(people).where(people.c.study.in_(sorted(rows)), people.c.key_hash.in_(hashes))
    return list(connection.execute(wanted))


def _invited(connection: sa.Connection, rows: dict[str, Any], persons: list[int]) -> defaultdict[int, Any]:
    """Find the open invitations of these people to the current phases, by person."""
    found: defaultdict[int, Any] = defaultdict(lambda: None)
    joined = invitations.outerjoin(receipts, receipts.c.invitation == invitations.c.id)
    wanted = sa.select(invitations, receipts.c.invitation.label("receipt")).select_from(joined)
    wanted = wanted.where(invitations.c.person.in_(persons), ~invitations.c.expired)
    for row in connection.execute(wanted):
        if row.phase == rows[row.study].phase:
            found[row.person] = row
    return found


def _answer(context: Context, row: Any, person: Any, invitation: Any) -> str:
    waiting = json.dumps({"invited": False, "status": "waiting", "participations": person.participations})
    if person.withdrawn:
        return json.dumps({"invited": False, "status": "withdrawn"})
    if row.stage == Stage.FINISHED:
        return json.dumps({"invited": False, "status": "finished"})
    if invitation is not None and invitation.receipt is not None:
        return json.dumps({"invited": False, "status": "answered"})
    if invitation is None or row.stage != Stage.COLLECTING or not invitation.ready:
        return waiting
    snapshot = context.snapshots.at(row.id, row.seq)
    if snapshot.seq != row.seq or snapshot.current is None:  # the phase has just closed, and the next one may be open
        return waiting
    token = context.secrets.token_of(invitation.nonce, invitation.token_hash)
    if token is None:  # its secret was retired too early: somebody else is asked when its time is over
        return waiting
    address = f"/v1/studies/{row.id}/phases/{row.phase}/report"
    if snapshot.current.release.batch is not None:
        assert context.shuffler is not None
        address = context.shuffler.upload_address(row.batch)
    head = {
        "invited": True,
        "status": "invited",
        "token": token,
        "upload": address,
        # Seconds from now: a device's clock may be years off.
        "seconds_left": max(0.0, round(invitation.deadline - context.clock(), 3)),
    }
    return json.dumps(head)[:-1] + ', "phase": ' + snapshot.told + "}"
