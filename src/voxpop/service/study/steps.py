"""What moves a study on: open a phase, draw people when its rounds are played, replace no-shows, and close it once.

Any coordinator may take any step at any time. Each step is one transaction that holds the study's row and checks that
the log is still where it was; whoever comes second finds it further on and does nothing.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from voxpop.core.phases import Tally
from voxpop.privacy.shuffle import Shuffled
from voxpop.service.keys import new_key
from voxpop.service.refusals import Refusal
from voxpop.service.reports import matrix
from voxpop.service.study import invitations as asking
from voxpop.service.study import log as journal
from voxpop.service.study.snapshot import CLOSED, FINISHED, OPENED, Event, Phase, Record, closed_body, opened_body
from voxpop.stores.database import scrub_after
from voxpop.stores.schema import inbox, invitations, plays, receipts, studies, totals

if TYPE_CHECKING:
    from voxpop.service.study.coordinator import Coordinator

CHUNK = 2_000  # reports added up at a time, so that memory stays bounded


def step(self: Coordinator, study: str) -> bool:
    """Do what can be done for a study now; whether anything was."""
    record = self.journal.record(study)
    if record.finished:
        return False
    if record.current is None:
        return _open(self, study, record)
    if _idle(self, study, record.current, record):
        return False
    with self.database.write() as connection:
        row = journal.lock(connection, study)
        if row.seq != record.seq:
            return True  # another coordinator was quicker
        if row.stage != "collecting":
            return _begin_collecting(self, connection, row, record.current, record)
        if not isinstance(record.current.release, Shuffled):
            return _collect(self, connection, row, record.current, record)
        if _total(connection, study, row.phase) is not None:
            return _close(self, connection, row, record.current, record)
    return _collect_shuffled(self, study, record.current, record)


def _idle(self: Coordinator, study: str, phase: Phase, record: Record) -> bool:
    """Whether there is nothing to do: found out without the lock that uploads need."""
    with self.database.read() as connection:
        row: Any = connection.execute(sa.select(studies).where(studies.c.id == study)).one()
        if row.seq != record.seq or isinstance(phase.release, Shuffled) or row.short:
            return False
        if row.stage != "collecting":
            return played(record, row, self.clock()) < phase.plan.length
        self.lacking[study] = phase.plan.participants - asking.answered(connection, study, row.phase)
        return self.lacking[study] > 0 and not asking.overdue(connection, study, row.phase, self.clock())


def _open(self: Coordinator, study: str, record: Record) -> bool:
    """Append the next phase, or that there is none. Planning takes no lock: it is the same whoever does it."""
    planned = record.plan()
    seq, now = record.seq + 1, self.clock()
    changes: dict[str, Any]
    if planned is None:
        event, changes = Event(seq, FINISHED, now, {}), {"stage": "finished"}
    else:
        plan, release = planned
        event = Event(seq, OPENED, now, opened_body(plan, release))
        batch = new_key() if isinstance(release, Shuffled) else None
        stage = "open" if record.definition.rules.rounds_per_second is None else "playing"
        changes = {"stage": stage, "phase": plan.phase, "played": 0, "opened_at": now, "short": 0, "batch": batch}
    with self.database.write() as connection:
        if journal.lock(connection, study).seq == record.seq:
            journal.append(connection, study, event)
            _update(connection, study, seq=seq, **changes)
            self.note(event.kind, study=study, phase=changes.get("phase"))
    return True


def played(record: Record, row: Any, now: float) -> int:
    """The rounds of the current phase that were played, by the application's word or by the clock."""
    assert record.current is not None
    rate = record.definition.rules.rounds_per_second
    rounds = row.played if rate is None else math.floor(max(0.0, now - row.opened_at) * rate)
    return int(min(rounds, record.current.plan.length))


def _begin_collecting(self: Coordinator, connection: sa.Connection, row: Any, phase: Phase, record: Record) -> bool:
    if played(record, row, self.clock()) < phase.plan.length:
        return False
    _update(connection, row.id, stage="collecting", played=phase.plan.length)
    _ask(self, connection, row, phase, record, phase.plan.participants)
    return True


def _ask(self: Coordinator, connection: sa.Connection, row: Any, phase: Phase, record: Record, wanted: int) -> bool:
    """Draw so many people; whether there was anyone."""
    rules, plan = record.definition.rules, phase.plan
    most = asking.most_participations(record.ledger, phase.release.entry(plan.participants), rules.participations)
    ready = not isinstance(phase.release, Shuffled)  # else the shuffler must know the token first
    deadline = self.clock() + rules.deadline
    found = asking.draw(connection, self.secret, row.id, plan.phase, wanted, most, deadline, ready)
    if found or row.short != wanted - found:
        _update(connection, row.id, short=wanted - found)
        self.note("asked", study=row.id, phase=plan.phase, people=found, short=wanted - found)
    return found > 0


def _collect(self: Coordinator, connection: sa.Connection, row: Any, phase: Phase, record: Record) -> bool:
    """Close if everyone answered; otherwise replace those whose time is over."""
    if asking.answered(connection, row.id, row.phase) >= phase.plan.participants:
        return _close(self, connection, row, phase, record)
    asking.expire(connection, row.id, row.phase, self.clock())
    return _replace(self, connection, row, phase, record)


def _replace(self: Coordinator, connection: sa.Connection, row: Any, phase: Phase, record: Record) -> bool:
    """Invite as many as are missing."""
    asked = asking.count(connection, row.id, row.phase)
    missing = phase.plan.participants - asked.answered - asked.waiting
    return missing > 0 and _ask(self, connection, row, phase, record, missing)


def _collect_shuffled(self: Coordinator, study: str, phase: Phase, record: Record) -> bool:
    """Tell the shuffler of new tokens and of those whose time is over; it knows which of them have answered."""
    if self.shuffler is None:
        self.note("no_shuffler", study=study)
        return False
    release = phase.release
    assert isinstance(release, Shuffled)
    mine = (invitations.c.study == study) & (invitations.c.phase == phase.plan.phase) & ~invitations.c.expired
    open_ones = sa.select(invitations.c.token_hash, invitations.c.ready, invitations.c.deadline)
    open_ones = open_ones.where(mine, invitations.c.id.not_in(sa.select(receipts.c.invitation)))
    with self.database.read() as connection:
        batch = connection.execute(sa.select(studies.c.batch).where(studies.c.id == study)).scalar_one()
        rows = connection.execute(open_ones).all()
    new = [row.token_hash for row in rows if not row.ready]
    overdue = [row.token_hash for row in rows if row.ready and row.deadline < self.clock()]
    code, arms = release.encoding, len(phase.plan.arms)
    try:
        reply = self.shuffler.announce(batch, arms, code.bits, phase.plan.participants, new, overdue)
    except Refusal as refusal:  # the batch is too small for it, say: the operators must agree on something else
        self.note("not_announced", study=study, people=phase.plan.participants, status=refusal.status)
        return False
    self.shuffled[study] = reply.count
    with self.database.write() as connection:
        row = journal.lock(connection, study)
        if row.seq != record.seq:
            return True
        by_token = sa.update(invitations).where(invitations.c.token_hash == sa.bindparam("token"))
        if new:
            deadline = self.clock() + record.definition.rules.deadline
            ready = by_token.values(ready=True, deadline=deadline)
            connection.execute(ready, [{"token": token} for token in new])
        if reply.withdrawn:
            connection.execute(by_token.values(expired=True), [{"token": token} for token in reply.withdrawn])
        note_answered(connection, study, phase.plan.phase, list(reply.answered))
        return _replace(self, connection, row, phase, record) or bool(new)


def note_answered(connection: sa.Connection, study: str, phase: int, tokens: list[bytes]) -> None:
    """Give receipts to the invitations that the shuffler has counted and that have none."""
    for start in range(0, len(tokens), asking.CHUNK):
        wanted = sa.select(invitations.c.id, sa.null()).where(
            invitations.c.token_hash.in_(tokens[start : start + asking.CHUNK]),
            invitations.c.study == study,
            invitations.c.phase == phase,
            invitations.c.id.not_in(sa.select(receipts.c.invitation)),
        )
        connection.execute(sa.insert(receipts).from_select(["invitation", "digest"], wanted))


def _close(self: Coordinator, connection: sa.Connection, row: Any, phase: Phase, record: Record) -> bool:
    """Release the phase: noise, log, ledger and the end of the raw reports, in one transaction."""
    study, plan, release = row.id, phase.plan, phase.release
    total = _total(connection, study, plan.phase)
    tally = total if total is not None else _tally(connection, study, phase)
    people = asking.settle(connection, study, plan.phase)
    named = people if record.definition.rules.participations > 1 else ()  # else everyone was drawn once
    entry = replace(release.entry(tally.count), phase=plan.phase, people=named)
    record.ledger.check(entry)
    feedback = release.analyze(release.seal(tally), self.noise)
    journal.append(connection, study, Event(row.seq + 1, CLOSED, self.clock(), closed_body(feedback, entry)))
    _update(connection, study, seq=row.seq + 1, stage="closed", short=0, batch=None)
    for table in (inbox, totals):
        connection.execute(sa.delete(table).where(table.c.study == study, table.c.phase == plan.phase))
    connection.execute(sa.delete(plays).where(plays.c.study == study))
    asking.forget(connection, study, plan.phase)
    scrub_after(connection)
    self.shuffled.pop(study, None)
    self.note("closed", study=study, phase=plan.phase, people=tally.count)
    return True


def _tally(connection: sa.Connection, study: str, phase: Phase) -> Tally:
    """The reports of the inbox added up, a chunk at a time."""
    wanted = sa.select(inbox.c.body).where(inbox.c.study == study, inbox.c.phase == phase.plan.phase)
    rows = connection.execute(wanted.execution_options(stream_results=True))
    arms = len(phase.plan.arms)
    parts = (phase.release.tally(matrix(chunk, arms)) for chunk in rows.scalars().partitions(CHUNK))
    return reduce(add, parts)


def _total(connection: sa.Connection, study: str, phase: int) -> Tally | None:
    """What the shuffler forwarded, if it has."""
    wanted = sa.select(totals.c.body).where(totals.c.study == study, totals.c.phase == phase)
    body = connection.execute(wanted).scalar_one_or_none()
    if body is None:
        return None
    total = json.loads(body)
    return Tally(total["count"], tuple(total["total"]), 1.0)


def _update(connection: sa.Connection, study: str, **changes: Any) -> None:
    connection.execute(sa.update(studies).where(studies.c.id == study).values(**changes))
