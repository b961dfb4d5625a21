"""People: registration and check-in, many in one transaction; when to check in again; and withdrawal.

All devices of a service together check in about `CHECK_INS` times a second, however many they are; a few devices check
in every second. But whoever is invited must notice in time, so nobody waits for longer than a third of the deadline.

A person who withdraws leaves a study, and everything about them that may be forgotten is. One transaction deletes their
report in the open wave, their receipts and their invitations, and somebody else is asked instead. A person who is part
of no release is deleted entirely. One who is keeps a row with the hash of their key and the number of their
participations: the ledger charges releases to the number of that row, and the same key must never be asked again beyond
its budget. What was released stays; it is a sum over many people.

In the shuffle model only the shuffler can delete the report, and only it knows whether its batch was whole before.
Until it has said so the person's open invitation stays, too; nobody can use it any more.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from secrets import SystemRandom
from typing import Annotated, Any, Literal

import msgspec
import sqlalchemy as sa
from msgspec import Meta
from sqlalchemy.exc import IntegrityError

from voxpop.privacy.release import SHUFFLER
from voxpop.service import audit
from voxpop.service.audit import Action
from voxpop.service.keys import hash_key, same
from voxpop.service.messages import Count, NotNegative, Reply, part, says
from voxpop.service.refusals import Refusal, no_study
from voxpop.service.stores.database import insert_into, scrub_after
from voxpop.service.stores.schema import codes, counts, inbox, invitations, people, receipts, require_later, studies
from voxpop.service.study import log
from voxpop.service.study.definition import require_code
from voxpop.service.study.invitations import Invitations
from voxpop.service.study.log import Context, Snapshot
from voxpop.service.study.stages import UNRELEASED, Life, Stage, time_of

CHECK_INS = 30.0  # a second, of all devices of a service
SHARE = 1 / 3  # of a deadline, within which an invitation is noticed
LEAST, MOST = 1.0, 86_400.0  # seconds
SPREAD = 0.2  # by how much a pause is longer or shorter at random, so that devices do not come at once
RECOUNT = 10.0  # seconds for which a count of all people holds
CHUNK = 1_000  # keys per statement
NO_CODE = "this study only admits people with its enrolment code, or one that nobody has used; send the right one"


class CodesAdded(Reply, frozen=True):
    """Enrolment codes for one person each."""

    added: Annotated[Count, says("Codes that were not known before.")]
    unused: Annotated[Count, says("Codes of the study that nobody has used.")]


@dataclass(frozen=True)
class Newcomer:
    """A device that registers."""

    study: str
    key: str
    enrolment: str | None = None
    stratum: str | None = None


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
        wanted = sa.select(people).where(people.c.study.in_(sorted(rows)), people.c.key_hash.in_(hashes))
        known = {(row.study, row.key_hash): row for row in connection.execute(wanted)}
        answers: list[bool | Refusal] = []
        new: dict[tuple[str, bytes], str | None] = {}  # with the stratum of each
        rooms: dict[str, float] = {}  # by study: how many more may register
        for newcomer, hashed in zip(newcomers, hashes, strict=True):
            row, name = rows.get(newcomer.study), (newcomer.study, hashed)
            problem = _problem(connection, row, newcomer, known.get(name), name in known or name in new)
            before = new[name] if name in new else known[name].stratum if name in known else newcomer.stratum
            problem = problem or _misplaced(context, connection, newcomer, before)
            if problem is None and name not in known and name not in new:
                answer = _admitted(context, connection, row, newcomer, rooms)
                if answer is True:
                    new[name] = newcomer.stratum
                answers.append(answer)
            else:
                answers.append(problem or False)
        if new:
            # Another coordinator may have registered the same device a moment ago.
            insert = insert_into(connection, people)
            values = [{"study": study, "key_hash": hashed, "stratum": one} for (study, hashed), one in new.items()]
            stored = connection.execute(insert.on_conflict_do_nothing().returning(people.c.study), values)
            for study, more in sorted(Counter(stored.scalars()).items()):  # in the same order as everybody else
                _count(connection, study, registered=more, never_asked=more)
            if context.released is not None:  # whoever was forgotten under the same key is someone new
                context.released.remember(new)
    return answers


def _count(connection: sa.Connection, study: str, **more: int) -> None:
    """Add to the counts of a study."""
    sums = {name: counts.c[name] + number for name, number in more.items()}
    connection.execute(sa.update(counts).where(counts.c.study == study).values(**sums))


def _problem(connection: sa.Connection, row: Any, newcomer: Newcomer, person: Any, known: bool) -> Refusal | None:
    if row is None or row.life == Life.DRAFT:
        return no_study(newcomer.study)
    if not known and not _shares_code(row, newcomer) and _code_of(connection, newcomer) is None:
        return Refusal(403, NO_CODE)
    if person is not None and person.withdrawn:
        return Refusal(410, f"this key has withdrawn from the study {newcomer.study!r}; it is not asked again")
    if row.stage == Stage.FINISHED and not known:
        return Refusal(410, f"the study {newcomer.study!r} is over; nobody is asked any more")
    return None


def _shares_code(row: Any, newcomer: Newcomer) -> bool:
    """Return True if a newcomer needs no code for one person: the study has none, or they have everybody's."""
    code, given = row.enrolment_hash, newcomer.enrolment
    return code is None or (given is not None and same(code, hash_key(given)))


def _code_of(connection: sa.Connection, newcomer: Newcomer) -> bytes | None:
    """Return the hash of a newcomer's code for one person, and lock it; None if there is none that is not used."""
    theirs = (codes.c.study == newcomer.study, codes.c.code_hash == hash_key(newcomer.enrolment or ""), ~codes.c.used)
    return connection.execute(sa.select(codes.c.code_hash).where(*theirs).with_for_update()).scalar_one_or_none()


def _room(connection: sa.Connection, study: str, most: int) -> int | None:
    """Return how many more people may register, and let nobody else do so meanwhile; None if the study is deleted.

    Its row is locked first, as by whoever deletes it.
    """
    here = sa.select(studies.c.id).where(studies.c.id == study).with_for_update(read=True, key_share=True)
    if connection.execute(here).first() is None:
        return None
    counted = sa.select(counts.c.registered, counts.c.withdrawn).where(counts.c.study == study).with_for_update()
    registered, withdrawn = connection.execute(counted).one()
    # Whoever took part and withdrew could come back under another key, again and again.
    gone = (people.c.study == study) & people.c.withdrawn & (people.c.participations > 0)
    if withdrawn:
        registered += connection.execute(sa.select(sa.func.count()).where(gone)).scalar_one()
    return int(most - registered)


def _admitted(
    context: Context, connection: sa.Connection, row: Any, newcomer: Newcomer, rooms: dict[str, float]
) -> bool | Refusal:
    """Take a place in the study, and the code if it is for one person; refuse if there is none."""
    study = newcomer.study
    if study not in rooms:
        most = (context.snapshots.known(study) or context.snapshots.current(study, connection)).definition.population
        room = math.inf if most is None else _room(connection, study, most)
        if room is None:
            return no_study(study)
        rooms[study] = room
    if rooms[study] <= 0:
        return Refusal(409, f"as many people are registered in {study!r} as there are; ask its operator")
    if not _shares_code(row, newcomer):
        code = _code_of(connection, newcomer)  # again: somebody may have used it in this transaction
        if code is None:
            return Refusal(403, NO_CODE)
        taken = sa.update(codes).where(codes.c.study == study, codes.c.code_hash == code)
        connection.execute(taken.values(used=True))
    rooms[study] -= 1
    return True


def add_codes(context: Context, study: str, given: list[str], actor: str) -> CodesAdded:
    """Let each of these enrolment codes register one person; codes that are known already are left as they are."""
    hashes = {hash_key(require_code(code)) for code in given}
    with context.database.write() as connection:
        row = log.row_of(connection, study, lock=True)
        known = sa.select(sa.func.count()).select_from(codes).where(codes.c.study == study)
        before = connection.execute(known).scalar_one()
        if hashes:
            values = [{"study": study, "code_hash": hashed} for hashed in sorted(hashes)]
            connection.execute(insert_into(connection, codes).on_conflict_do_nothing(), values)
            log.update_study(connection, study, enrolment_hash=row.enrolment_hash or b"")
        added = connection.execute(known).scalar_one() - before
        if added:
            audit.note(connection, context.clock(), actor, Action.CODES_ADDED, study, f"{added:,}")
        return CodesAdded(added, connection.execute(known.where(~codes.c.used)).scalar_one())


def _misplaced(context: Context, connection: sa.Connection, newcomer: Newcomer, before: str | None) -> Refusal | None:
    """Say why a person cannot register with this stratum, or without one."""
    snapshots, study, given = context.snapshots, newcomer.study, newcomer.stratum
    strata = (snapshots.known(study) or snapshots.current(study, connection)).definition.strata
    if strata is None:
        return None if given is None else Refusal(422, f"the study {study!r} has no strata; register without one")
    if given not in strata.shares:
        return Refusal(422, f"the study {study!r} has the strata {', '.join(strata.shares)}; register with one of them")
    if before != given:
        return Refusal(409, "this key is registered with another stratum; nothing was changed")
    return None


def check_in(context: Context, callers: list[tuple[str, str]]) -> list[bytes | Refusal]:
    """Answer every (study, key) with JSON: whether the participant is invited and, if so, all the device needs."""
    hashes = [hash_key(key) for _, key in callers]
    with context.database.read() as connection:
        rows = connection.execute(CHECK_IN, {"names": list({study for study, _ in callers}), "hashes": hashes})
        found = {(row.id, row.key_hash): row for row in rows if row.life != Life.DRAFT}
        strange = [study for (study, _), hashed in zip(callers, hashes, strict=True) if (study, hashed) not in found]
        known = {row.id for row in _studies(connection, strange).values() if row.life != Life.DRAFT} if strange else ()
        _look_at_crowd(context, connection)
    answers: list[bytes | Refusal] = []
    for (study, _), hashed in zip(callers, hashes, strict=True):
        row = found.get((study, hashed))
        if row is None and study not in known:
            answers.append(no_study(study))
        elif row is None or not same(row.key_hash, hashed):
            answers.append(Refusal(401, "this participant key is not registered; register first"))
        else:
            answers.append(msgspec.json.encode(_answer(context, row)))
    return answers


def _check_in_statement() -> sa.Select[Any]:
    """Select people by study and key hash, each with the study's row and the open invitation to its wave."""
    live = (invitations.c.person == people.c.id) & (invitations.c.wave == studies.c.wave) & ~invitations.c.expired
    joined = people.join(studies, studies.c.id == people.c.study).outerjoin(invitations, live)
    joined = joined.outerjoin(receipts, receipts.c.invitation == invitations.c.id)
    study = [studies.c[name] for name in ("id", "seq", "wave", "stage", "opened_at", "batch", "life", "life_since")]
    person = (people.c.key_hash, people.c.participations, people.c.withdrawn)
    invited = [invitations.c[name] for name in ("nonce", "token_hash", "deadline", "ready", "block")]
    wanted = sa.select(*study, *person, *invited, receipts.c.invitation.label("receipt")).select_from(joined)
    ours = people.c.study.in_(sa.bindparam("names", expanding=True))
    return wanted.where(ours, people.c.key_hash.in_(sa.bindparam("hashes", expanding=True)))


CHECK_IN = _check_in_statement()  # made once: making it takes longer than the database


def _studies(connection: sa.Connection, names: list[str]) -> dict[str, Any]:
    wanted = sa.select(studies).where(studies.c.id.in_(sorted(set(names))))
    return {row.id: row for row in connection.execute(wanted)}


Pause = Annotated[float, Meta(ge=0, description="Seconds after which it is worth checking in again.")]


class Invitation(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """The participant is invited to send a report."""

    invited: Annotated[bool, Meta(extra_json_schema={"const": True})]
    status: Literal["invited"]
    token: str
    upload: Annotated[str, says("The path, or the address of a shuffler, to which the report is sent.")]
    helper: Annotated[str, says("In the aggregate model: the address to which one share is sent first.")] = ""
    seconds_left: NotNegative
    next_check_in: Pause
    wave: Annotated[msgspec.Raw, part("DeviceWave")]


class Waiting(Reply, frozen=True):
    """The participant is not invited now but may be later."""

    invited: Annotated[bool, Meta(extra_json_schema={"const": False})]
    status: Literal["waiting"]
    participations: Annotated[Count, says("How often the participant has taken part.")]
    next_check_in: Pause


class NotNeeded(Reply, frozen=True):
    """The participant has answered in this wave or withdrawn, or the study is over."""

    invited: Annotated[bool, Meta(extra_json_schema={"const": False})]
    status: Literal["answered", "finished", "withdrawn"]
    next_check_in: Annotated[Pause | None, says("null if the participant is never asked again.")]


def _answer(context: Context, row: Any) -> Invitation | Waiting | NotNeeded:
    if row.withdrawn or row.stage == Stage.FINISHED:
        return NotNeeded(False, "withdrawn" if row.withdrawn else "finished", None)
    snapshot = context.snapshots.at(row.id, row.seq)
    again = next_check_in(context.crowd[0], snapshot, row, row.participations, context.clock())
    if row.receipt is not None:
        return NotNeeded(False, "answered", again)
    return _invitation(context, row, snapshot, again) or Waiting(False, "waiting", row.participations, again)


def _invitation(context: Context, row: Any, snapshot: Snapshot, again: float) -> Invitation | None:
    """Return what an invited device is told; None if it is not invited now."""
    if not row.ready or row.stage != Stage.COLLECTING:  # also if there is no invitation
        return None
    if snapshot.seq != row.seq or snapshot.wave is None:  # the wave has just closed, and the next one may be open
        return None
    token = context.secrets.token_of(row.nonce, row.token_hash)
    if token is None:  # its secret was retired too early: somebody else is asked when its time is over
        return None
    addresses = {"upload": f"/v2/studies/{row.id}/waves/{row.wave}/report"}
    second = snapshot.wave.release.second
    if second is not None:
        assert context.shuffler is not None
        addresses["upload" if second == SHUFFLER else "helper"] = context.shuffler.upload_address(row.batch)
    # Seconds from now: a device's clock may be years off.
    left = max(0.0, round(row.deadline - time_of(row, context.clock()), 3))
    if row.life == Life.RUNNING:  # if the report does not arrive, there is time to send it again
        again = min(again, spread(left * SHARE))
    return Invitation(
        invited=True,
        status="invited",
        token=token,
        **addresses,
        seconds_left=left,
        next_check_in=again,
        wave=snapshot.told[row.block],
    )


def _look_at_crowd(context: Context, connection: sa.Connection) -> None:
    """Count the people who may be asked, in all studies that go on, unless that was done a moment ago."""
    if time.monotonic() < context.crowd[1]:
        return
    going = (studies.c.stage != Stage.FINISHED, studies.c.life.in_((Life.RUNNING, Life.PAUSED)))
    wanted = sa.select(sa.func.coalesce(sa.func.sum(counts.c.registered), 0))
    wanted = wanted.join(studies, studies.c.id == counts.c.study).where(*going)
    context.crowd = int(connection.execute(wanted).scalar_one()), time.monotonic() + RECOUNT


def next_check_in(crowd: int, snapshot: Snapshot, row: Any, participations: int, now: float) -> float:
    """Return after how many seconds a device should check in again, given the study's row and how it took part."""
    rules = snapshot.definition.rules
    most = min(MOST, rules.deadline * SHARE)
    if participations >= rules.participations:  # it is never asked again, and only hears of the end
        return spread(MOST)
    if row.life == Life.PAUSED:
        return spread(most)
    wait = 0.0
    if row.stage == Stage.PLAYING and snapshot.definition.by_clock and snapshot.wave is not None:
        end = snapshot.definition.end_of_rounds(row.opened_at, snapshot.wave.plan.asked)
        wait = min(max(0.0, end - now), MOST)  # nobody is invited before
    return round(wait + spread(min(crowd / CHECK_INS, most)), 1)  # only the rest is spread, or the deadline would pass


def spread(seconds: float) -> float:
    """Return about this many seconds, a little more or less at random, and not less than a second."""
    return round(max(LEAST, seconds * SystemRandom().uniform(1 - SPREAD, 1 + SPREAD)), 1)


class OwnWave(Reply, frozen=True):
    """A wave about which a person was asked."""

    wave: Count
    block: Count
    state: Annotated[str, says("answered, open, or over without an answer.")]


class OwnData(Reply, frozen=True):
    """All that is kept of a person here: what they answered is in no wave that is closed."""

    study: str
    stratum: str | None
    participations: Annotated[Count, says("How often they count as having taken part.")]
    waves: list[OwnWave]


def own_data(context: Context, study: str, key: str) -> OwnData:
    """Return what is kept of the person with this key."""
    ours = (people.c.study == study, people.c.key_hash == hash_key(key), ~people.c.withdrawn)
    with context.database.read() as connection:
        draft = log.row_of(connection, study).life == Life.DRAFT
        person = None if draft else connection.execute(sa.select(people).where(*ours)).first()
        if person is None:
            raise Refusal(401, f"nobody with this key takes part in {study!r}; nothing is kept")
        joined = invitations.outerjoin(receipts, receipts.c.invitation == invitations.c.id)
        asked = sa.select(invitations, receipts.c.invitation).select_from(joined)
        asked = asked.where(invitations.c.person == person.id).order_by(invitations.c.wave, invitations.c.id)
        waves = [
            OwnWave(row.wave, row.block, "answered" if row.invitation else "over" if row.expired else "open")
            for row in connection.execute(asked)
        ]
    return OwnData(study, person.stratum, person.participations, waves)


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
    _count(connection, row.id, registered=-1, withdrawn=1, never_asked=-1 if person.participations == 0 else 0)
    found = _found(connection, invitations.c.person == person.id)
    if row.batch is not None and row.stage in UNRELEASED:
        found = [one for one in found if one.expired or one.wave != row.wave]
    _take_back(connection, row, found)
    _erase(connection, found, [person.id])


def pending(connection: sa.Connection, study: str, wave: int) -> list[bytes]:
    """Return the hashes of the tokens that the shuffler has to forget."""
    return [one.token_hash for one in _found(connection, *_pending(study, wave)) if not one.expired]


def erase_confirmed(connection: sa.Connection, row: Any, tokens: Collection[bytes]) -> None:
    """Erase the invitations of people who withdrew, whose tokens the shuffler has forgotten or ended before."""
    pending = _found(connection, *_pending(row.id, row.wave))
    found = [one for one in pending if one.expired or one.token_hash in tokens]
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
        Invitations(connection, row.id, row.wave).add(answered=-answered, lapsed=len(ended))
        log.update_study(connection, row.id, invited=studies.c.invited - len(ended))


def _erase(connection: sa.Connection, found: list[Any], persons: Collection[int]) -> None:
    """Delete these invitations with their reports and receipts, and those of the people of whom nothing may be kept."""
    _delete_by(connection, inbox.c.invitation, [one.id for one in found])
    _delete_by(connection, receipts.c.invitation, [one.id for one in found])
    _delete_by(connection, invitations.c.id, [one.id for one in found])
    held = sa.select(invitations.c.id).where(invitations.c.person == people.c.id).exists()
    _delete_by(connection, people.c.id, persons, people.c.withdrawn, people.c.participations == 0, ~held)
    forgotten = sa.update(people).where(people.c.id == sa.bindparam("one"), people.c.withdrawn, ~held)
    if given := [{"one": person} for person in persons]:
        connection.execute(forgotten.values(stratum=None), given)
    require_later(connection)
    scrub_after(connection)


def _delete_by(connection: sa.Connection, column: Any, values: Iterable[int], *where: sa.ColumnElement[bool]) -> None:
    given = [{"one": value} for value in values]
    if given:
        connection.execute(sa.delete(column.table).where(column == sa.bindparam("one"), *where), given)
