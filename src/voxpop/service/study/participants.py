"""Registration and check-in of participants, many in one transaction."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from voxpop.privacy.release import SHUFFLER
from voxpop.service.keys import hash_key, same
from voxpop.service.refusals import Refusal, no_study
from voxpop.service.stores.schema import counts, invitations, people, receipts, studies
from voxpop.service.study.context import Context
from voxpop.service.study.pacing import SHARE, next_check_in, spread
from voxpop.service.study.snapshot import Snapshot
from voxpop.service.study.stages import Life, Stage, time_of


@dataclass(frozen=True)
class Newcomer:
    """A device that registers."""

    study: str
    key: str
    enrolment: str | None = None


def register(context: Context, newcomers: list[Newcomer]) -> list[bool | Refusal]:
    """Register people in one transaction; answer False for keys that are already registered."""
    try:
        return _register(context, newcomers)
    except IntegrityError:  # a study was deleted meanwhile; now it is not found
        return _register(context, newcomers)


def _register(context: Context, newcomers: list[Newcomer]) -> list[bool | Refusal]:
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
        found = _found(connection, [study for study, _ in callers], hashes)
        strange = [study for (study, _), hashed in zip(callers, hashes, strict=True) if (study, hashed) not in found]
        known = {row.id for row in _studies(connection, strange).values() if row.life != Life.DRAFT} if strange else ()
        context.crowd.look(connection)
    answers: list[str | Refusal] = []
    for (study, _), hashed in zip(callers, hashes, strict=True):
        row = found.get((study, hashed))
        if row is None and study not in known:
            answers.append(no_study(study))
        elif row is None or not same(row.key_hash, hashed):
            answers.append(Refusal(401, "this participant key is not registered; register first"))
        else:
            answers.append(_answer(context, row))
    return answers


def _found(connection: sa.Connection, names: list[str], hashes: list[bytes]) -> dict[tuple[str, bytes], Any]:
    """Find these people by study and key hash, each with the study's row and the open invitation to its wave."""
    rows = connection.execute(CHECK_IN, {"names": list(set(names)), "hashes": hashes})
    return {(row.id, row.key_hash): row for row in rows if row.life != Life.DRAFT}


def _check_in_statement() -> sa.Select[Any]:
    live = (invitations.c.person == people.c.id) & (invitations.c.wave == studies.c.wave) & ~invitations.c.expired
    joined = people.join(studies, studies.c.id == people.c.study).outerjoin(invitations, live)
    joined = joined.outerjoin(receipts, receipts.c.invitation == invitations.c.id)
    study = [studies.c[name] for name in ("id", "seq", "wave", "stage", "opened_at", "batch", "life", "life_since")]
    person = (people.c.key_hash, people.c.participations, people.c.withdrawn)
    invited = (invitations.c.nonce, invitations.c.token_hash, invitations.c.deadline, invitations.c.ready)
    wanted = sa.select(*study, *person, *invited, receipts.c.invitation.label("receipt")).select_from(joined)
    ours = people.c.study.in_(sa.bindparam("names", expanding=True))
    return wanted.where(ours, people.c.key_hash.in_(sa.bindparam("hashes", expanding=True)))


CHECK_IN = _check_in_statement()  # made once: making it takes longer than the database


def _studies(connection: sa.Connection, names: list[str]) -> dict[str, Any]:
    wanted = sa.select(studies).where(studies.c.id.in_(sorted(set(names))))
    return {row.id: row for row in connection.execute(wanted)}


def _people(connection: sa.Connection, rows: dict[str, Any], hashes: list[bytes]) -> list[Any]:
    wanted = sa.select(people).where(people.c.study.in_(sorted(rows)), people.c.key_hash.in_(hashes))
    return list(connection.execute(wanted))


def _answer(context: Context, row: Any) -> str:
    if row.withdrawn or row.stage == Stage.FINISHED:
        return json.dumps(
            {"invited": False, "status": "withdrawn" if row.withdrawn else "finished", "next_check_in": None}
        )
    snapshot = context.snapshots.at(row.id, row.seq)
    again = next_check_in(context.crowd.size, snapshot, row, row.participations, context.clock())
    if row.receipt is not None:
        return json.dumps({"invited": False, "status": "answered", "next_check_in": again})
    told = _invitation(context, row, snapshot)
    if told is None:
        waiting = {"invited": False, "status": "waiting", "participations": row.participations}
        return json.dumps({**waiting, "next_check_in": again})
    head, wave = told
    if row.life == Life.RUNNING:  # if the report does not arrive, there is time to send it again
        again = min(again, spread(head["seconds_left"] * SHARE))
    return json.dumps({**head, "next_check_in": again})[:-1] + ', "wave": ' + wave + "}"


def _invitation(context: Context, row: Any, snapshot: Snapshot) -> tuple[dict[str, Any], str] | None:
    """Return what an invited device is told, and about the wave as JSON; None if it is not invited now."""
    if not row.ready or row.stage != Stage.COLLECTING:  # also if there is no invitation
        return None
    if snapshot.seq != row.seq or snapshot.current is None:  # the wave has just closed, and the next one may be open
        return None
    token = context.secrets.token_of(row.nonce, row.token_hash)
    if token is None:  # its secret was retired too early: somebody else is asked when its time is over
        return None
    addresses = {"upload": f"/v1/studies/{row.id}/waves/{row.wave}/report"}
    second = snapshot.current.release.second
    if second is not None:
        assert context.shuffler is not None
        addresses["upload" if second == SHUFFLER else "helper"] = context.shuffler.upload_address(row.batch)
    # Seconds from now: a device's clock may be years off.
    left = max(0.0, round(row.deadline - time_of(row, context.clock()), 3))
    head = {"invited": True, "status": "invited", "token": token, **addresses, "seconds_left": left}
    return head, snapshot.told
