"""Invitations: people drawn uniformly at random from those who may still take part, and how each invitation ended.

The counters of a wave are kept in the transactions that change what they count, so that nobody has to count rows. Each
process that stores reports adds to a row of its own, and whoever holds the lock on the study's row adds to the row
without a name; so nobody waits for another's counter. Readers add the rows up.
"""

from __future__ import annotations

import math
import secrets
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from voxpop.service.keys import hash_key, token_of
from voxpop.service.stores.database import scrub_after
from voxpop.service.stores.schema import EVERYBODY, counts, inbox, invitations, people, receipts, studies, tallies

LOCKED = ""  # the writer of those who hold the lock on the study's row
NAMES = ("asked", "answered", "lapsed", "refused")


@dataclass(frozen=True)
class Funnel:
    """What became of the people of a wave."""

    asked: int = 0  # invitations, also those that were made in place of others
    answered: int = 0  # reports that were counted
    lapsed: int = 0  # invitations that ended without an answer
    refused: int = 0  # reports with a valid token that were not counted


def funnel(connection: sa.Connection, study: str, wave: int) -> Funnel:
    """Return the counters of a wave."""
    sums = (sa.func.coalesce(sa.func.sum(tallies.c[name]), 0) for name in NAMES)
    found = connection.execute(sa.select(*sums).where(tallies.c.study == study, tallies.c.wave == wave)).one()
    return Funnel(*map(int, found))


def add(connection: sa.Connection, study: str, wave: int, *, writer: str = LOCKED, **more: int) -> None:
    """Add to the counters of a wave; without a writer's name, only under the lock on the study's row."""
    if not any(more.values()):
        return
    insert = sqlite.insert(tallies) if connection.dialect.name == "sqlite" else postgresql.insert(tallies)
    sums = {name: tallies.c[name] + number for name, number in more.items()}
    connection.execute(
        insert.values(study=study, wave=wave, writer=writer, **more).on_conflict_do_update(
            index_elements=["study", "wave", "writer"], set_=sums
        )
    )


CHUNK = 10_000  # tokens per statement
READ = 10_000  # people who are read at once, so that other threads get their turn
CHANCES = 2  # invitations to a wave, before somebody else is asked for

# For PostgreSQL: as binary arrays, any number of rows is one statement with eight values.
INSERT = """
    INSERT INTO invitations (study, wave, person, nonce, token_hash, deadline, ready, expired)
    SELECT * FROM unnest(
        %b::text[], %b::integer[], %b::bigint[], %b::bytea[], %b::bytea[], %b::float8[], %b::boolean[], %b::boolean[]
    )
"""


def held(connection: sa.Connection, study: str, wave: int) -> int:
    """Count the invitations to a wave that were answered or still can be."""
    ours = (invitations.c.study == study) & (invitations.c.wave == wave) & ~invitations.c.expired
    return int(connection.execute(sa.select(sa.func.count()).select_from(invitations).where(ours)).scalar_one())


def live(connection: sa.Connection, study: str, wave: int, tokens: Sequence[bytes]) -> int:
    """Count the tokens that belong to invitations to this wave that have not ended."""
    ours = (invitations.c.study == study) & (invitations.c.wave == wave) & ~invitations.c.expired
    found = 0
    for start in range(0, len(tokens), CHUNK):
        wanted = sa.select(sa.func.count()).select_from(invitations)
        wanted = wanted.where(ours, invitations.c.token_hash.in_(tokens[start : start + CHUNK]))
        found += int(connection.execute(wanted).scalar_one())
    return found


def draw(connection: sa.Connection, study: str, wave: int, wanted: int, most: int, newest: int) -> list[int]:
    """Draw up to `wanted` people at random from those who may still take part and registered before person `newest`.

    People who did not answer an invitation to this wave are drawn a second time, but only when nobody else is left.
    """
    may, asked = _may(study, most) & (people.c.id <= newest), _asked(wave)
    chosen = _sample(_ids(connection, may & ~asked.exists()), wanted)
    if len(chosen) < wanted:
        times = asked.with_only_columns(sa.func.count()).scalar_subquery()
        chosen += _sample(_ids(connection, may & _ended(wave) & (times < CHANCES)), wanted - len(chosen))
    return chosen


def draw_again(connection: sa.Connection, study: str, wave: int, wanted: int, most: int, newest: int) -> list[int]:
    """Draw from people who were invited to this wave before and did not answer, however often."""
    may = _may(study, most) & (people.c.id <= newest)
    return _sample(_ids(connection, may & _ended(wave)), wanted)


def count_later(connection: sa.Connection, study: str, most: int, newest: int) -> int:
    """Count the people who registered after person `newest` and may take part."""
    later = _may(study, most) & (people.c.id > newest)
    return int(connection.execute(sa.select(sa.func.count()).select_from(people).where(later)).scalar_one())


def holders(connection: sa.Connection, study: str, wave: int, persons: Sequence[int]) -> set[int]:
    """Return those of these people who have an invitation to this wave that was answered or still can be."""
    ours = (invitations.c.study == study, invitations.c.wave == wave, ~invitations.c.expired)
    wanted = sa.select(invitations.c.person).where(*ours, invitations.c.person.in_(persons))
    return set(connection.execute(wanted).scalars())


def _may(study: str, most: int) -> sa.ColumnElement[bool]:
    """Select the people of a study who have taken part fewer than `most` times and have not withdrawn."""
    return (people.c.study == study) & (people.c.participations < most) & ~people.c.withdrawn


def all_here(connection: sa.Connection, persons: Sequence[int], newest: int) -> bool:
    """Return True if none of these people, who were drawn a moment ago, has withdrawn since."""
    here = sa.select(sa.func.count()).select_from(people).where(~people.c.withdrawn, people.c.id <= newest)
    return bool(connection.execute(here.where(people.c.id.in_(persons))).scalar_one() == len(persons))


def _asked(wave: int) -> sa.Select[Any]:
    """Select the invitations of a person to a wave."""
    ours = sa.select(invitations.c.id).where(invitations.c.person == people.c.id, invitations.c.wave == wave)
    return ours.correlate(people)


def _ended(wave: int) -> sa.ColumnElement[bool]:
    """Select people whose invitations to a wave all ended without an answer."""
    asked = _asked(wave)
    return asked.exists() & ~asked.where(~invitations.c.expired).exists()


def _ids(connection: sa.Connection, which: sa.ColumnElement[bool]) -> Sequence[int]:
    """Read the numbers of these people, as few bytes as a million of them need, and a part at a time."""
    found = connection.execute(sa.select(people.c.id).where(which).execution_options(yield_per=READ))
    ids = array("q")
    for part in found.scalars().partitions():
        ids.extend(part)
    return ids


def _sample(ids: Sequence[int], wanted: int) -> list[int]:
    """Draw a uniform sample with the operating system's randomness: nobody may predict who is asked."""
    places = secrets.SystemRandom().sample(range(len(ids)), min(wanted, len(ids)))
    return [ids[place] for place in places]


def made(secret: bytes, study: str, wave: int, chosen: list[int], deadline: float, ready: bool) -> list[dict[str, Any]]:
    """Make an invitation, with a new token, for each of these people."""
    rows = []
    for person in chosen:
        nonce = secrets.token_bytes(16)
        rows.append(
            {
                "study": study,
                "wave": wave,
                "person": person,
                "nonce": nonce,
                "token_hash": hash_key(token_of(secret, nonce)),
                "deadline": deadline,
                "ready": ready,
                "expired": False,
            }
        )
    return rows


def insert(connection: sa.Connection, rows: list[dict[str, Any]]) -> None:
    """Store the invitations of one wave, and count those who are asked."""
    if not rows:
        return
    if connection.dialect.name == "sqlite":
        connection.execute(sa.insert(invitations), rows)
    else:
        names = ("study", "wave", "person", "nonce", "token_hash", "deadline", "ready", "expired")
        connection.exec_driver_sql(INSERT, tuple([row[name] for row in rows] for name in names))
    add(connection, rows[0]["study"], rows[0]["wave"], asked=len(rows))


def overdue(connection: sa.Connection, study: str, wave: int, now: float) -> bool:
    """Return True if the deadline of an unanswered invitation has passed."""
    late = sa.select(invitations.c.id).where(_late(study, wave, now)).limit(1)
    return connection.execute(late).first() is not None


def next_deadline(connection: sa.Connection, study: str, wave: int, now: float) -> float:
    """Return when the next deadline passes; infinity if none is left."""
    ours = (invitations.c.study == study, invitations.c.wave == wave, invitations.c.deadline >= now)
    found = connection.execute(sa.select(sa.func.min(invitations.c.deadline)).where(*ours)).scalar_one()
    return math.inf if found is None else float(found)


def _late(study: str, wave: int, now: float) -> sa.ColumnElement[bool]:
    """Select the open invitations past their deadline that have no receipt."""
    return _silent(study, wave) & (invitations.c.deadline < now)


def _silent(study: str, wave: int) -> sa.ColumnElement[bool]:
    """Select the open invitations to a wave that have no receipt."""
    return sa.and_(
        invitations.c.study == study,
        invitations.c.wave == wave,
        ~invitations.c.expired,
        ~sa.exists().where(receipts.c.invitation == invitations.c.id),
    )


def expire(connection: sa.Connection, study: str, wave: int, now: float) -> int:
    """End the unanswered invitations past their deadline; return how many."""
    return _end(connection, study, wave, _late(study, wave, now))


def expire_all(connection: sa.Connection, study: str, wave: int) -> None:
    """End every invitation to a wave, because nothing will be released."""
    _end(connection, study, wave, _silent(study, wave))
    ours = sa.update(invitations).where(invitations.c.study == study, invitations.c.wave == wave)
    connection.execute(ours.values(expired=True))


def _end(connection: sa.Connection, study: str, wave: int, which: sa.ColumnElement[bool]) -> int:
    """End invitations that were not answered, and count them; return how many."""
    ended = connection.execute(sa.update(invitations).where(which).values(expired=True)).rowcount
    add(connection, study, wave, lapsed=ended)
    return ended


def postpone(connection: sa.Connection, study: str, wave: int, seconds: float) -> None:
    """Give those who are invited to a wave more time."""
    ours = (invitations.c.study == study, invitations.c.wave == wave, ~invitations.c.expired)
    later = invitations.c.deadline + seconds
    connection.execute(sa.update(invitations).where(*ours).values(deadline=later))


def forget(connection: sa.Connection, study: str, wave: int) -> None:
    """Erase the nonces of a wave's tokens: with a token, one could test guesses of a report against its receipt."""
    ours = sa.update(invitations).where(invitations.c.study == study, invitations.c.wave == wave)
    connection.execute(ours.values(nonce=b""))


def settle(connection: sa.Connection, study: str, wave: int) -> tuple[str, ...]:
    """Count the participation of those who answered, end all other invitations; return the pseudonyms of the former."""
    took_part = _took_part(study, wave)
    persons = connection.execute(took_part.order_by(invitations.c.person)).scalars().all()
    new = sa.select(sa.func.count()).select_from(people).where(people.c.id.in_(took_part), people.c.participations == 0)
    left = counts.c.never_asked - connection.execute(new.where(~people.c.withdrawn)).scalar_one()
    connection.execute(sa.update(counts).where(counts.c.study == study).values(never_asked=left))
    more = people.c.participations + 1
    connection.execute(sa.update(people).where(people.c.id.in_(took_part)).values(participations=more))
    _end(connection, study, wave, _silent(study, wave))
    return tuple(map(str, persons))


def _took_part(study: str, wave: int) -> sa.Select[Any]:
    """Select the people whose invitations to a wave were answered."""
    joined = invitations.join(receipts, receipts.c.invitation == invitations.c.id)
    ours = (invitations.c.study == study, invitations.c.wave == wave)
    return sa.select(invitations.c.person).select_from(joined).where(*ours)


def note_answered(connection: sa.Connection, study: str, wave: int, tokens: list[bytes]) -> None:
    """Add the missing receipts of invitations whose reports the shuffler has counted."""
    for start in range(0, len(tokens), CHUNK):
        wanted = sa.select(invitations.c.id, sa.null()).where(
            invitations.c.token_hash.in_(tokens[start : start + CHUNK]),
            invitations.c.study == study,
            invitations.c.wave == wave,
            ~sa.exists().where(receipts.c.invitation == invitations.c.id),
        )
        insert = sa.insert(receipts).from_select(["invitation", "digest"], wanted)
        counted = insert.execution_options(preserve_rowcount=True)  # which PostgreSQL's driver keeps only on demand
        add(connection, study, wave, answered=connection.execute(counted).rowcount)


def answered(connection: sa.Connection, study: str, wave: int) -> list[bytes]:
    """Return the hashes of the tokens of a wave under which a report is here."""
    joined = invitations.join(receipts, receipts.c.invitation == invitations.c.id)
    ours = (invitations.c.study == study, invitations.c.wave == wave, ~invitations.c.expired)
    return list(connection.execute(sa.select(invitations.c.token_hash).select_from(joined).where(*ours)).scalars())


def take_back(connection: sa.Connection, study: str, wave: int, tokens: list[bytes]) -> None:
    """End invitations although a report came, which cannot be counted; delete what is here of it."""
    for start in range(0, len(tokens), CHUNK):
        ours = (invitations.c.study == study, invitations.c.wave == wave, ~invitations.c.expired)
        wanted = sa.select(invitations.c.id).where(*ours, invitations.c.token_hash.in_(tokens[start : start + CHUNK]))
        ids = list(connection.execute(wanted).scalars())
        for table in (inbox, receipts):
            connection.execute(sa.delete(table).where(table.c.invitation.in_(ids)))
        connection.execute(sa.update(invitations).where(invitations.c.id.in_(ids)).values(expired=True))
        add(connection, study, wave, answered=-len(ids), lapsed=len(ids))
    scrub_after(connection)


def spend(connection: sa.Connection, study: str, wave: int, participations: int) -> None:
    """Count the people who answered as if they had taken part as often as anyone may: they are not asked again."""
    took_part = _took_part(study, wave)
    connection.execute(sa.update(people).where(people.c.id.in_(took_part)).values(participations=participations))


def unready(connection: sa.Connection, study: str, wave: int) -> bool:
    """Return True if there are invitations whose tokens the second server does not know yet."""
    wanted = sa.select(invitations.c.id).where(_silent(study, wave), ~invitations.c.ready).limit(1)
    return connection.execute(wanted).first() is not None


def waits(connection: sa.Connection, study: str, wave: int) -> bool:
    """Return True if an invitation to a wave can still be answered."""
    return connection.execute(sa.select(invitations.c.id).where(_silent(study, wave)).limit(1)).first() is not None


def unanswered(connection: sa.Connection, study: str, wave: int) -> list[Any]:
    """Return token hash, ready and deadline of the open invitations of a wave that have no receipt."""
    wanted = sa.select(invitations.c.token_hash, invitations.c.ready, invitations.c.deadline)
    return list(connection.execute(wanted.where(_silent(study, wave))))


def make_ready(connection: sa.Connection, tokens: list[bytes], deadline: float) -> None:
    """Show devices the invitations whose tokens the shuffler knows by now, with a new deadline."""
    for start in range(0, len(tokens), CHUNK):
        ours = sa.update(invitations).where(invitations.c.token_hash.in_(tokens[start : start + CHUNK]))
        connection.execute(ours.values(ready=True, deadline=deadline))


def withdraw(connection: sa.Connection, study: str, wave: int, tokens: list[bytes]) -> None:
    """End invitations whose tokens the shuffler no longer accepts."""
    for start in range(0, len(tokens), CHUNK):
        ours = invitations.c.token_hash.in_(tokens[start : start + CHUNK])
        _end(connection, study, wave, ours & ~invitations.c.expired)


def newest(connection: sa.Connection) -> int:
    """Return the number of the person who registered last."""
    return int(connection.execute(sa.select(sa.func.coalesce(sa.func.max(people.c.id), 0))).scalar_one())


def require_later(connection: sa.Connection) -> None:
    """Let nobody who registers from now on pass for one who was there before, after people were deleted.

    SQLite gives the number of a person who registered last again when they are gone; PostgreSQL gives none twice.
    """
    if connection.dialect.name == "sqlite":
        last = newest(connection)
        later = sa.update(studies).where(studies.c.newest > last, studies.c.newest < EVERYBODY)
        connection.execute(later.values(newest=last))
