"""Collecting by the shuffler: it is told whose reports it may take and whose to forget, and says who has answered."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from voxpop.drivers.phase import Phase
from voxpop.service.refusals import Refusal
from voxpop.service.study import asking, invitations, log, withdrawal
from voxpop.service.study.context import BatchProgress, Context
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
    overdue = [one.token_hash for one in here if one.ready and one.deadline < context.clock()]
    progress = _announce(context, row, phase, new, overdue, forget)
    if progress is None:
        return False
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


def clean_up(context: Context, study: str, snapshot: Snapshot) -> bool:
    """Have the shuffler forget what it may not keep of a study that is paused or over; return True if it did."""
    with context.database.read() as connection:
        row = log.row_of(connection, study)
        if row.batch is None:
            return False
        here = sa.select(totals.c.phase).where(totals.c.study == study, totals.c.phase == row.phase)
        forget = [] if connection.execute(here).first() else withdrawal.pending(connection, study, row.phase)
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
