"""Invitations: people drawn uniformly at random from those who may still take part, and how each invitation ended.

If the study has strata, people are drawn like that in each of them.

An invitation is open until its receipt shows that it was answered, or until it has ended (`expired`): because its time
is over, or because its report cannot be counted. One that was answered or is open is held.

The counters of a wave are kept in the transactions that change what they count, so that nobody has to count rows. Each
process that stores reports adds to a row of its own, and whoever holds the lock on the study's row adds to the row
without a name; so nobody waits for another's counter. Readers add the rows up.
"""

from __future__ import annotations

import math
import secrets
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from voxpop.service.keys import hash_key, token_of
from voxpop.service.stores.database import insert_into, scrub_after
from voxpop.service.stores.schema import counts, inbox, invitations, people, receipts, tallies

LOCKED = ""  # the writer of those who hold the lock on the study's row
NAMES = ("asked", "answered", "lapsed", "refused")
CHUNK = 10_000  # tokens per statement
READ = 10_000  # people who are read at once, so that other threads get their turn
Seat = tuple[str | None, int]  # a stratum, None if there are none, and a block of the wave
CHANCES = 2  # invitations to a wave, before somebody else is asked for


@dataclass(frozen=True)
class Funnel:
    """What became of the people of a wave."""

    asked: int = 0  # invitations, also those that were made in place of others
    answered: int = 0  # reports that were counted
    lapsed: int = 0  # invitations that ended without an answer
    refused: int = 0  # reports with a valid token that were not counted


@dataclass(frozen=True)
class Invitations:
    """The invitations to one wave of a study, in one transaction."""

    connection: sa.Connection
    study: str
    wave: int

    @property
    def _ours(self) -> sa.ColumnElement[bool]:
        return (invitations.c.study == self.study) & (invitations.c.wave == self.wave)

    @property
    def _held(self) -> sa.ColumnElement[bool]:
        return self._ours & ~invitations.c.expired

    @property
    def _open(self) -> sa.ColumnElement[bool]:
        return self._held & ~sa.exists().where(receipts.c.invitation == invitations.c.id)

    def _any(self, which: sa.ColumnElement[bool]) -> bool:
        return self.connection.execute(sa.select(invitations.c.id).where(which).limit(1)).first() is not None

    def _count(self, which: sa.ColumnElement[bool]) -> int:
        wanted = sa.select(sa.func.count()).select_from(invitations).where(which)
        return int(self.connection.execute(wanted).scalar_one())

    def _update(self, which: sa.ColumnElement[bool], **values: Any) -> int:
        return self.connection.execute(sa.update(invitations).where(which).values(**values)).rowcount

    # -- looking

    @property
    def held(self) -> int:
        """The number of invitations that were answered or still can be."""
        return self._count(self._held)

    def held_by(self, tokens: Sequence[bytes]) -> int:
        """Count the tokens that belong to invitations that were answered or still can be."""
        return sum(self._count(self._held & invitations.c.token_hash.in_(part)) for part in _chunks(tokens))

    @property
    def held_by_seat(self) -> dict[Seat, int]:
        """The number of invitations to people of each stratum and to each block that were answered or still can be."""
        seat = people.c.stratum, invitations.c.block
        joined = people.join(invitations, invitations.c.person == people.c.id)
        wanted = sa.select(*seat, sa.func.count()).select_from(joined).where(self._held).group_by(*seat)
        return {(stratum, block): count for stratum, block, count in self.connection.execute(wanted)}

    @property
    def held_by_stratum(self) -> Mapping[str | None, int]:
        """The same number for each stratum, of all blocks."""
        found = Counter[str | None]()
        for (stratum, _), count in self.held_by_seat.items():
            found[stratum] += count
        return found

    @property
    def waits(self) -> bool:
        """True if an invitation can still be answered."""
        return self._any(self._open)

    @property
    def unready(self) -> bool:
        """True if there are invitations whose tokens the second server does not know yet."""
        return self._any(self._open & ~invitations.c.ready)

    def overdue(self, now: float) -> bool:
        """Return True if the deadline of an unanswered invitation has passed."""
        return self._any(self._open & (invitations.c.deadline < now))

    def next_deadline(self, now: float) -> float:
        """Return when the next deadline passes; infinity if none is left."""
        next_one = sa.select(sa.func.min(invitations.c.deadline)).where(self._ours, invitations.c.deadline >= now)
        found = self.connection.execute(next_one).scalar_one()
        return math.inf if found is None else float(found)

    @property
    def last_deadline(self) -> float | None:
        """When the last of those that were answered or still can be runs out; None if there are none."""
        found: float | None = self.connection.scalar(sa.select(sa.func.max(invitations.c.deadline)).where(self._held))
        return found

    @property
    def answered(self) -> list[bytes]:
        """The hashes of the tokens under which a report is here."""
        joined = invitations.join(receipts, receipts.c.invitation == invitations.c.id)
        wanted = sa.select(invitations.c.token_hash).select_from(joined).where(self._held)
        return list(self.connection.execute(wanted).scalars())

    def answered_by_block(self, blocks: int) -> list[int]:
        """Count the answers about each block."""
        joined = invitations.join(receipts, receipts.c.invitation == invitations.c.id)
        wanted = sa.select(invitations.c.block, sa.func.count()).select_from(joined).where(self._held)
        found = Counter({row[0]: row[1] for row in self.connection.execute(wanted.group_by(invitations.c.block))})
        return [found[block] for block in range(1, blocks + 1)]

    def bodies(self, tokens: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the reports under these tokens."""
        joined = invitations.join(inbox, inbox.c.invitation == invitations.c.id)
        wanted = sa.select(invitations.c.token_hash, inbox.c.body).select_from(joined).where(self._held)
        parts = (self.connection.execute(wanted.where(invitations.c.token_hash.in_(part))) for part in _chunks(tokens))
        return {token: body for rows in parts for token, body in rows}

    @property
    def unanswered(self) -> list[Any]:
        """Token hash, ready and deadline of the invitations that are open."""
        wanted = sa.select(invitations.c.token_hash, invitations.c.ready, invitations.c.deadline)
        return list(self.connection.execute(wanted.where(self._open)))

    # -- drawing

    def draw(self, wanted: int, most: int, newest: int, stratum: str | None = None) -> list[int]:
        """Draw up to `wanted` people of a stratum at random, who may still take part and registered before `newest`.

        People who did not answer an invitation to this wave are drawn a second time, but only when nobody else is left.
        """
        may, asked = _may(self.study, most) & _in_time(newest, stratum), self._asked
        chosen = _sample(_ids(self.connection, may & ~asked.exists()), wanted)
        if len(chosen) < wanted:
            times = asked.with_only_columns(sa.func.count()).scalar_subquery()
            again = _ids(self.connection, may & self._ended & (times < CHANCES))
            chosen += _sample(again, wanted - len(chosen))
        return chosen

    def draw_again(
        self, wanted: int, most: int, newest: int, stratum: str | None = None, besides: Iterable[int] = ()
    ) -> list[int]:
        """Draw from people who were invited to this wave and did not answer, however often, but not from some."""
        may, drawn = _may(self.study, most) & _in_time(newest, stratum), set(besides)
        return _sample([one for one in _ids(self.connection, may & self._ended) if one not in drawn], wanted)

    @property
    def _asked(self) -> sa.Select[Any]:
        """Select the invitations of a person to this wave."""
        ours = sa.select(invitations.c.id).where(invitations.c.person == people.c.id, invitations.c.wave == self.wave)
        return ours.correlate(people)

    @property
    def _ended(self) -> sa.ColumnElement[bool]:
        """Select people whose invitations to this wave all ended without an answer."""
        return self._asked.exists() & ~self._asked.where(~invitations.c.expired).exists()

    # -- changing

    def insert(self, rows: list[dict[str, Any]]) -> None:
        """Store invitations, and count those who are asked."""
        if rows:
            self.connection.execute(sa.insert(invitations), rows)
        self.add(asked=len(rows))

    def expire(self, now: float) -> int:
        """End the unanswered invitations past their deadline; return how many."""
        return self._end(self._open & (invitations.c.deadline < now), late=None)

    def exposure(self, now: float, span: float, after: float = 0.0) -> tuple[int, float]:
        """Count the invitations that are held, and add up the parts of their time, `span`, that are over.

        Those of which less than `after` is over are left out.
        """
        old = self._held & (invitations.c.deadline <= now + (1 - after) * span)
        wanted = sa.select(sa.func.count(), sa.func.sum(self._over(now, span))).where(old)
        count, over = self.connection.execute(wanted).one()
        return int(count), float(over or 0.0)

    def young(self, now: float, span: float, before: float) -> int:
        """Count the open invitations of whose time less than `before` is over."""
        return self._count(self._open & (invitations.c.deadline > now + (1 - before) * span))

    @property
    def first_deadline(self) -> float:
        """The deadline of those who were invited first; infinity if nobody was."""
        found = self.connection.scalar(sa.select(sa.func.min(invitations.c.deadline)).where(self._ours))
        return math.inf if found is None else float(found)

    @staticmethod
    def _over(now: float, span: float) -> sa.ColumnElement[float]:
        over = 1 - (invitations.c.deadline - now) / span
        return sa.case((over > 1, 1.0), (over < 0, 0.0), else_=over)

    def cut_short(self, now: float, span: float) -> None:
        """End the open invitations, because the wave has its answers; the older, the more they count as late."""
        part = self._over(now, span)
        over = self.connection.scalar(sa.select(sa.func.sum(part * part)).where(self._open))
        self._end(self._open, late=float(over or 0.0))

    def expire_all(self) -> None:
        """End every invitation, because nothing will be released."""
        self._end(self._open)
        self._update(self._ours, expired=True)

    def withdraw(self, tokens: Sequence[bytes]) -> None:
        """End invitations whose tokens the shuffler no longer accepts."""
        for part in _chunks(tokens):
            self._end(invitations.c.token_hash.in_(part) & ~invitations.c.expired, late=None)

    def _end(self, which: sa.ColumnElement[bool], late: float | None = 0.0) -> int:
        """End invitations that were not answered, and count them; return how many.

        All of them were `late`, or they were open for so many deadlines, or ended for another reason.
        """
        ended = self._update(which, expired=True)
        self.add(lapsed=ended, late=ended if late is None else late)
        return ended

    def postpone(self, seconds: float) -> None:
        """Give those who are invited more time, and the wave as a whole."""
        self._update(self._ours, deadline=invitations.c.deadline + seconds)

    def make_ready(self, tokens: Sequence[bytes], deadline: float) -> None:
        """Show devices the invitations whose tokens the shuffler knows by now, with a new deadline."""
        for part in _chunks(tokens):
            self._update(invitations.c.token_hash.in_(part), ready=True, deadline=deadline)

    def forget(self) -> None:
        """Erase the nonces of the tokens: with a token, one could test guesses of a report against its receipt."""
        self._update(self._ours, nonce=b"")

    def settle(self) -> tuple[str, ...]:
        """Count the participation of those who answered; return their pseudonyms."""
        took_part = self._took_part
        persons = self.connection.execute(took_part.order_by(invitations.c.person)).scalars().all()
        self._participated(took_part, people.c.participations + 1)
        return tuple(map(str, persons))

    def _participated(self, persons: sa.Select[Any], number: Any) -> None:
        """Write down how often these people have taken part, and that they are no longer new."""
        new = sa.select(sa.func.count()).select_from(people)
        new = new.where(people.c.id.in_(persons), people.c.participations == 0, ~people.c.withdrawn)
        left = counts.c.never_asked - self.connection.execute(new).scalar_one()
        self.connection.execute(sa.update(counts).where(counts.c.study == self.study).values(never_asked=left))
        self.connection.execute(sa.update(people).where(people.c.id.in_(persons)).values(participations=number))

    def refuse(self, tokens: Sequence[bytes], participations: int) -> None:
        """End invitations whose report was not in range; whoever sent it has taken part as often as anyone may."""
        for part in _chunks(tokens):
            persons = sa.select(invitations.c.person).where(self._held, invitations.c.token_hash.in_(part))
            self._participated(persons, participations)
        self.take_back(tokens)
        self.add(refused=len(tokens))

    def spend(self, participations: int) -> None:
        """Count the people who answered as if they had taken part as often as anyone may: they are not asked again."""
        spent = sa.update(people).where(people.c.id.in_(self._took_part))
        self.connection.execute(spent.values(participations=participations))

    @property
    def _took_part(self) -> sa.Select[Any]:
        """Select the people whose invitations were answered."""
        joined = invitations.join(receipts, receipts.c.invitation == invitations.c.id)
        return sa.select(invitations.c.person).select_from(joined).where(self._ours)

    def note_answered(self, tokens: Sequence[bytes]) -> None:
        """Add the missing receipts of invitations whose reports the shuffler has counted."""
        silent = ~sa.exists().where(receipts.c.invitation == invitations.c.id)
        for part in _chunks(tokens):
            ours = (self._ours, silent, invitations.c.token_hash.in_(part))
            insert = sa.insert(receipts).from_select(
                ["invitation", "digest"], sa.select(invitations.c.id, sa.null()).where(*ours)
            )
            counted = insert.execution_options(preserve_rowcount=True)  # which PostgreSQL's driver keeps only on demand
            self.add(answered=self.connection.execute(counted).rowcount)

    def take_back(self, tokens: Sequence[bytes]) -> None:
        """End invitations although a report came, which cannot be counted; delete what is here of it."""
        for part in _chunks(tokens):
            wanted = sa.select(invitations.c.id).where(self._held, invitations.c.token_hash.in_(part))
            ids = list(self.connection.execute(wanted).scalars())
            for table in (inbox, receipts):
                self.connection.execute(sa.delete(table).where(table.c.invitation.in_(ids)))
            self._update(invitations.c.id.in_(ids), expired=True)
            self.add(answered=-len(ids), lapsed=len(ids))
        scrub_after(self.connection)

    # -- counters

    @property
    def funnel(self) -> Funnel:
        """The counters of the wave."""
        sums = (sa.func.coalesce(sa.func.sum(tallies.c[name]), 0) for name in NAMES)
        wanted = sa.select(*sums).where(tallies.c.study == self.study, tallies.c.wave == self.wave)
        return Funnel(*map(int, self.connection.execute(wanted).one()))

    @property
    def late(self) -> float:
        """For how many deadlines the invitations that ended were open."""
        return self._sums(tallies.c.wave == self.wave, tallies.c.late)[0]

    @property
    def before(self) -> tuple[float, float]:
        """How many answered in earlier waves of the study, and how many with those who did not in their time."""
        answered, late = self._sums(tallies.c.wave < self.wave, tallies.c.answered, tallies.c.late)
        return answered, answered + late

    def _sums(self, which: sa.ColumnElement[bool], *columns: sa.Column[Any]) -> list[float]:
        sums = (sa.func.coalesce(sa.func.sum(column), 0) for column in columns)
        wanted = sa.select(*sums).where(tallies.c.study == self.study, which)
        return list(map(float, self.connection.execute(wanted).one()))

    def add(self, **more: float) -> None:
        """Add to the counters of the wave, under the lock on the study's row."""
        if not any(more.values()):
            return
        sums = {name: tallies.c[name] + number for name, number in more.items()}
        new = insert_into(self.connection, tallies).values(study=self.study, wave=self.wave, writer=LOCKED, **more)
        self.connection.execute(new.on_conflict_do_update(index_elements=["study", "wave", "writer"], set_=sums))


def made(
    secret: bytes, study: str, wave: int, chosen: Iterable[tuple[int, int]], deadline: float, ready: bool
) -> list[dict[str, Any]]:
    """Make an invitation, with a new token, for each of these people, to the block beside them."""
    same = {"study": study, "wave": wave, "deadline": deadline, "ready": ready, "expired": False}
    rows = []
    for person, block in chosen:
        nonce = secrets.token_bytes(16)
        hashed = hash_key(token_of(secret, nonce))
        rows.append({**same, "person": person, "block": block, "nonce": nonce, "token_hash": hashed})
    return rows


def _chunks(tokens: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    return (tokens[start : start + CHUNK] for start in range(0, len(tokens), CHUNK))


def _may(study: str, most: int) -> sa.ColumnElement[bool]:
    """Select the people of a study who have taken part fewer than `most` times and have not withdrawn."""
    return (people.c.study == study) & (people.c.participations < most) & ~people.c.withdrawn


def _in_time(newest: int, stratum: str | None) -> sa.ColumnElement[bool]:
    """Select the people of a stratum who registered before person `newest`, and this one."""
    return (people.c.id <= newest) & (people.c.stratum == stratum)


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


def count_later(connection: sa.Connection, study: str, most: int, newest: int) -> dict[str | None, int]:
    """Count the people of each stratum who registered after person `newest` and may take part."""
    number = sa.func.count().label("people")
    wanted = sa.select(people.c.stratum, number).where(_may(study, most), people.c.id > newest)
    return {row.stratum: row.people for row in connection.execute(wanted.group_by(people.c.stratum))}


def all_here(connection: sa.Connection, persons: Sequence[int], newest: int) -> bool:
    """Return True if none of these people, who were drawn a moment ago, has withdrawn since."""
    here = sa.select(sa.func.count()).select_from(people).where(~people.c.withdrawn, people.c.id <= newest)
    return bool(connection.execute(here.where(people.c.id.in_(persons))).scalar_one() == len(persons))
