"""Collecting with a shuffler or a helper: it is told whose reports it may take, whose to forget, and when to add up."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from voxpop.drivers.phase import Phase
from voxpop.privacy.batch import SHUFFLER
from voxpop.service.refusals import Refusal
from voxpop.service.study import asking, invitations, log, withdrawal
from voxpop.service.study.context import BatchProgress, Context, Sealed
from voxpop.service.study.snapshot import Snapshot
from voxpop.service.study.stages import Life, Stage
from voxpop.stores.schema import totals


def collect(context: Context, study: str, snapshot: Snapshot, phase: Phase) -> bool:
    """Tell the shuffler about new, overdue and withdrawn tokens; only it knows which of them have answered."""
    number = phase.plan.phase
    with context.database.read() as connection:
        row = log.row_of(connection, study)
        open_ones = invitations.unanswered(connection, study, number)
        forget = withdrawal.pending(connection, study, number)
    here = [one for one in open_ones if one.token_hash not in set(forget)]
    new = [one.token_hash for one in here if not one.ready]
    shuffled = phase.release.second == SHUFFLER  # otherwise the coordinator itself knows who has answered
    overdue = [one.token_hash for one in here if shuffled and one.ready and one.deadline < context.clock()]
    progress = _announce(context, row, phase, new, overdue, forget)
    if progress is None:
        return False
    if shuffled:
        context.shuffled[study] = progress.count
    if new or progress.withdrawn or progress.answered:
        with context.database.write() as connection:
            locked = log.row_of(connection, study, lock=True)
            if (locked.seq, locked.batch) != (snapshot.seq, row.batch):
                return True
            _note_ended(connection, locked, progress, forget)  # the shuffler has done it, even if a pause began since
            if locked.life != Life.RUNNING:
                return True
            invitations.make_ready(connection, new, context.clock() + snapshot.definition.rules.deadline)
    return asking.ask(context, study, snapshot, phase) or bool(new)


def has_total(connection: sa.Connection, study: str, phase: int) -> bool:
    """Return True if the second server's total of a phase is here."""
    here = sa.select(totals.c.phase).where(totals.c.study == study, totals.c.phase == phase)
    return connection.execute(here).first() is not None


def seal(context: Context, study: str, snapshot: Snapshot, phase: Phase) -> bool:
    """Have the helper add up its shares of the people whose shares are here; keep its total, or end those it misses."""
    number = phase.plan.phase
    with context.database.read() as connection:
        row = log.row_of(connection, study)
        forget = withdrawal.pending(connection, study, number)
        chosen = sorted(invitations.answered(connection, study, number))  # their order tells nothing
    if context.shuffler is None:
        context.note("no_shuffler", study=study)
        return False
    if forget and clean_up(context, study, snapshot):
        return True  # somebody withdrew before the batch was sealed
    try:
        sealed = context.shuffler.seal(row.batch, chosen)
    except Refusal as refusal:
        if refusal.status != 404:
            context.note("not_sealed", study=study, people=len(chosen), status=refusal.status)
            return False
        sealed = Sealed((), tuple(chosen))  # a helper that has lost everything
    with context.database.write() as connection:
        locked = log.lock_unmoved(connection, study, snapshot.seq)
        if locked is None or locked.batch != row.batch:
            return True
        if sealed.missing:
            invitations.take_back(connection, study, number, list(sealed.missing))
            asking.recount(connection, study, number)
            context.note("missing", study=study, phase=number, people=len(sealed.missing))
            return True
        if not has_total(connection, study, number):
            text = json.dumps({"count": len(chosen), "total": list(sealed.total)})
            connection.execute(sa.insert(totals).values(study=study, phase=number, body=text))
            context.note("total", study=study, phase=number, people=len(chosen))
    return True


def clean_up(context: Context, study: str, snapshot: Snapshot) -> bool:
    """Have the shuffler forget what it may not keep of a study that is paused or over; return True if it did."""
    with context.database.read() as connection:
        row = log.row_of(connection, study)
        if row.batch is None:
            return False
        here = has_total(connection, study, row.phase)
        forget = [] if here else withdrawal.pending(connection, study, row.phase)
    if row.stage == Stage.FINISHED:
        return _call_off(context, row)
    if not forget or snapshot.current is None:
        return False
    progress = _announce(context, row, snapshot.current, [], [], forget)
    if progress is None or not progress.withdrawn:
        return False  # the reports are in the total
    with context.database.write() as connection:
        locked = log.row_of(connection, study, lock=True)
        if locked.batch == row.batch:
            _note_ended(connection, locked, progress, forget)
    return True


def _call_off(context: Context, row: Any) -> bool:
    """Have the batch of a study that an operator ended deleted; only then is the study done with it."""
    if context.shuffler is None:
        context.note("no_shuffler", study=row.id)
        return False
    context.shuffler.call_off(row.batch)
    with context.database.write() as connection:
        log.row_of(connection, row.id, lock=True)
        log.update_study(connection, row.id, batch=None)
    context.note("called_off", study=row.id, phase=row.phase)
    return True


def _announce(
    context: Context, row: Any, phase: Phase, new: list[bytes], overdue: list[bytes], forget: list[bytes]
) -> BatchProgress | None:
    """Tell the shuffler; return None if there is none, or if it refuses."""
    batch = phase.release.batch
    assert batch is not None
    if context.shuffler is None:
        context.note("no_shuffler", study=row.id)
        return None
    try:
        return context.shuffler.announce(row.batch, batch, new, overdue, forget)
    except Refusal as refusal:  # for instance a batch that is too small for it: the two operators must settle that
        context.note("not_announced", study=row.id, people=batch.size, status=refusal.status)
        return None


def _note_ended(connection: sa.Connection, row: Any, progress: BatchProgress, forget: list[bytes]) -> None:
    """Write down which tokens ended and which have answered, and erase what the shuffler has forgotten."""
    gone = set(forget)
    invitations.withdraw(connection, row.id, row.phase, [token for token in progress.withdrawn if token not in gone])
    withdrawal.erase_confirmed(connection, row, [token for token in progress.withdrawn if token in gone])
    invitations.note_answered(connection, row.id, row.phase, list(progress.answered))
    asking.recount(connection, row.id, row.phase)
