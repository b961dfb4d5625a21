"""Who is asked: uniform random draws among those who may still take part, and what became of the invitations."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from voxpop.service.keys import hash_key, token_of
from voxpop.stores.schema import inbox, invitations, people, receipts

CHUNK = 10_000  # names in one statement


@dataclass(frozen=True)
class Asked:
    """The people who were invited to a phase, counted."""

    answered: int
    waiting: int  # invited, and their time is not over


def count(connection: sa.Connection, study: str, phase: int) -> Asked:
    """How many people answered and how many still can."""
    ours = (invitations.c.study == study) & (invitations.c.phase == phase)
    joined = invitations.outerjoin(receipts, receipts.c.invitation == invitations.c.id)
    counts = sa.select(
        sa.func.count(receipts.c.invitation),
        sa.func.count(sa.case((receipts.c.invitation.is_(None) & ~invitations.c.expired, 1))),
    )
    answered, waiting = connection.execute(counts.select_from(joined).where(ours)).one()
    return Asked(answered, waiting)


def answered(connection: sa.Connection, study: str, phase: int) -> int:
    """How many reports of a phase are in the inbox."""
    ours = sa.select(sa.func.count()).select_from(inbox).where(inbox.c.study == study, inbox.c.phase == phase)
    return int(connection.execute(ours).scalar_one())


def live(connection: sa.Connection, study: str, phase: int, tokens: Sequence[bytes]) -> int:
    """How many of these tokens are those of invitations to this phase that have not ended."""
    ours = (invitations.c.study == study) & (invitations.c.phase == phase) & ~invitations.c.expired
    found = 0
    for start in range(0, len(tokens), CHUNK):
        wanted = sa.select(sa.func.count()).select_from(invitations)
        wanted = wanted.where(ours, invitations.c.token_hash.in_(tokens[start : start + CHUNK]))
        found += int(connection.execute(wanted).scalar_one())
    return found


def draw(
    connection: sa.Connection,
    secret: bytes,
    study: str,
    phase: int,
    wanted: int,
    most: int,
    deadline: float,
    ready: bool,
) -> int:
    """Invite people drawn at random from those who may still take part; how many there were.

    Those who let an invitation of this phase pass are drawn again only when nobody else is left: otherwise a phase of
    a small population could wait for ever.
    """
    mine = (invitations.c.study == study) & (invitations.c.phase == phase)
    may = (people.c.study == study) & (people.c.participations < most)
    asked = sa.select(invitations.c.person).where(mine)
    held = asked.where(~invitations.c.expired)
    fresh = connection.execute(sa.select(people.c.id).where(may, people.c.id.not_in(asked))).scalars().all()
    chosen = _sample(fresh, wanted)
    if len(chosen) < wanted:
        again = sa.select(people.c.id).where(may, people.c.id.in_(asked), people.c.id.not_in(held))
        chosen += _sample(connection.execute(again).scalars().all(), wanted - len(chosen))
    rows = []
    for person in chosen:
        nonce = secrets.token_bytes(16)
        rows.append(
            {
                "study": study,
                "phase": phase,
                "person": person,
                "nonce": nonce,
                "token_hash": hash_key(token_of(secret, nonce)),
                "deadline": deadline,
                "ready": ready,
                "expired": False,
            }
        )
    if rows:
        connection.execute(sa.insert(invitations), rows)
    return len(rows)


def _sample(ids: Sequence[int], wanted: int) -> list[int]:
    """A uniform random sample; the operating system's randomness, for nobody may foresee who is asked."""
    return secrets.SystemRandom().sample(list(ids), min(wanted, len(ids)))


def overdue(connection: sa.Connection, study: str, phase: int, now: float) -> bool:
    """Whether someone's time is over."""
    late = sa.select(invitations.c.id).where(_late(study, phase, now)).limit(1)
    return connection.execute(late).first() is not None


def _late(study: str, phase: int, now: float) -> sa.ColumnElement[bool]:
    """Invitations whose time is over and that have no receipt."""
    return sa.and_(
        invitations.c.study == study,
        invitations.c.phase == phase,
        invitations.c.deadline < now,
        ~invitations.c.expired,
        ~sa.exists().where(receipts.c.invitation == invitations.c.id),
    )


def expire(connection: sa.Connection, study: str, phase: int, now: float) -> int:
    """End the invitations whose time is over; how many there were."""
    late = sa.update(invitations).where(_late(study, phase, now))
    return connection.execute(late.values(expired=True)).rowcount


def forget(connection: sa.Connection, study: str, phase: int) -> None:
    """Erase what the tokens of a phase were made from: with them, guesses could be tested against the receipts."""
    ours = sa.update(invitations).where(invitations.c.study == study, invitations.c.phase == phase)
    connection.execute(ours.values(nonce=b""))


def settle(connection: sa.Connection, study: str, phase: int) -> tuple[str, ...]:
    """At the end of a phase: count the participation of those who answered; their pseudonyms."""
    took_part = (
        sa.select(invitations.c.person)
        .join(receipts, receipts.c.invitation == invitations.c.id)
        .where(invitations.c.study == study, invitations.c.phase == phase)
    )
    persons = connection.execute(took_part.order_by(invitations.c.person)).scalars().all()
    more = people.c.participations + 1
    connection.execute(sa.update(people).where(people.c.id.in_(took_part)).values(participations=more))
    left = sa.update(invitations).where(
        invitations.c.study == study,
        invitations.c.phase == phase,
        ~sa.exists().where(receipts.c.invitation == invitations.c.id),
    )
    connection.execute(left.values(expired=True))
    return tuple(map(str, persons))


def note_answered(connection: sa.Connection, study: str, phase: int, tokens: list[bytes]) -> None:
    """Give receipts to the invitations that the shuffler has counted and that have none."""
    for start in range(0, len(tokens), CHUNK):
        wanted = sa.select(invitations.c.id, sa.null()).where(
            invitations.c.token_hash.in_(tokens[start : start + CHUNK]),
            invitations.c.study == study,
            invitations.c.phase == phase,
            invitations.c.id.not_in(sa.select(receipts.c.invitation)),
        )
        connection.execute(sa.insert(receipts).from_select(["invitation", "digest"], wanted))


def unanswered(connection: sa.Connection, study: str, phase: int) -> list[Any]:
    """The invitations of a phase that are not over and have no receipt: token hash, ready, deadline."""
    wanted = sa.select(invitations.c.token_hash, invitations.c.ready, invitations.c.deadline).where(
        invitations.c.study == study,
        invitations.c.phase == phase,
        ~invitations.c.expired,
        invitations.c.id.not_in(sa.select(receipts.c.invitation)),
    )
    return list(connection.execute(wanted))


def make_ready(connection: sa.Connection, tokens: list[bytes], deadline: float) -> None:
    """Let devices see invitations whose tokens the shuffler knows; their time begins now."""
    _update_by_token(connection, tokens, ready=True, deadline=deadline)


def withdraw(connection: sa.Connection, tokens: list[bytes]) -> None:
    """End invitations whose tokens the shuffler no longer accepts."""
    _update_by_token(connection, tokens, expired=True)


def _update_by_token(connection: sa.Connection, tokens: list[bytes], **changes: Any) -> None:
    if tokens:
        chosen = sa.update(invitations).where(invitations.c.token_hash == sa.bindparam("token"))
        connection.execute(chosen.values(**changes), [{"token": token} for token in tokens])
