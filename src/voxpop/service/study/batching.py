"""Collecting with a shuffler or a helper: it is told whose reports it may take, whose to forget, and when to add up."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from voxpop.journal.wave import Wave
from voxpop.privacy.release import SHUFFLER
from voxpop.service.refusals import Refusal
from voxpop.service.stores.schema import totals
from voxpop.service.study import asking, invitations, log, withdrawal
from voxpop.service.study.closing import give_up
from voxpop.service.study.context import BatchProgress, Context, Sealed
from voxpop.service.study.snapshot import Snapshot
from voxpop.service.study.stages import Life, Stage
from voxpop.service.study.turn import Turn

OVER = (409, 410)  # a helper's refusals of a batch that it has sealed for others, or that was called off


def collect(context: Context, study: str, snapshot: Snapshot, wave: Wave) -> bool:
    """Tell the shuffler about new, overdue and withdrawn tokens; only it knows which of them have answered."""
    number = wave.plan.wave
    with context.database.read() as connection:
        row = log.row_of(connection, study)
        open_ones = invitations.unanswered(connection, study, number)
        forget = withdrawal.pending(connection, study, number)
    here = [one for one in open_ones if one.token_hash not in set(forget)]
    new = [one.token_hash for one in here if not one.ready]
    shuffled = wave.release.second == SHUFFLER  # otherwise the coordinator itself knows who has answered
    overdue = [one.token_hash for one in here if shuffled and one.ready and one.deadline < context.clock()]
    progress = _announce(context, row, wave, new, overdue, forget)
    if isinstance(progress, Refusal):
        return not shuffled and progress.status in OVER and _begin_again(context, row, snapshot, wave)
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
    return asking.ask(context, study, snapshot, wave) or bool(new)


def has_total(connection: sa.Connection, study: str, wave: int) -> bool:
    """Return True if the second server's total of a wave is here."""
    here = sa.select(totals.c.wave).where(totals.c.study == study, totals.c.wave == wave)
    return connection.execute(here).first() is not None


def seal(context: Context, study: str, snapshot: Snapshot, wave: Wave) -> bool:
    """Have the helper add up its shares of the people whose shares are here; keep its total, or end those it misses."""
    number = wave.plan.wave
    with context.database.read() as connection:
        row = log.row_of(connection, study)
        forget = withdrawal.pending(connection, study, number)
        chosen = sorted(invitations.answered(connection, study, number))  # their order tells nothing
    if forget:
        told = _forget(context, row, wave, forget)
        if not isinstance(told, Refusal) or told.status not in OVER:  # it is not sealed yet, and they are not in it
            return isinstance(told, BatchProgress)
    sealed = _sealed(context, row, wave, chosen)
    if isinstance(sealed, Refusal) and sealed.status not in OVER:
        return False
    with context.database.write() as connection:
        locked = log.lock_unmoved(connection, study, snapshot.seq)
        if locked is None or locked.batch != row.batch or has_total(connection, study, number):
            return True
        if sorted(invitations.answered(connection, study, number)) != chosen:
            return True  # another coordinator was told who is missing
        if isinstance(sealed, Refusal):
            give_up(Turn(context, connection, locked, snapshot, wave))
        elif sealed.missing:
            invitations.take_back(connection, study, number, list(sealed.missing))
            asking.recount(connection, study, number)
            context.note("missing", study=study, wave=number, people=len(sealed.missing))
        else:
            text = json.dumps({"count": len(chosen), "total": list(sealed.total)})
            connection.execute(sa.insert(totals).values(study=study, wave=number, body=text))
            context.note("total", study=study, wave=number, people=len(chosen))
    return True


def _sealed(context: Context, row: Any, wave: Wave, chosen: list[bytes]) -> Sealed | Refusal:
    """Have the helper seal the batch; refuse what no helper says of these people."""
    batch = wave.release.batch
    assert batch is not None
    if context.shuffler is None:
        return _no_second(context, row)
    try:
        sealed = context.shuffler.seal(row.batch, chosen)
        if not set(chosen).issuperset(sealed.missing):
            raise Refusal(502, "the helper misses people of whom nobody spoke; ask its operator")
        if not sealed.missing and not batch.could_be_shares(sealed.total):
            raise Refusal(502, "the helper's total is not one of shares; ask its operator")
    except Refusal as refusal:
        context.note("not_sealed", study=row.id, people=len(chosen), status=refusal.status)
        return refusal
    return sealed


def _begin_again(context: Context, row: Any, snapshot: Snapshot, wave: Wave) -> bool:
    """Give a batch up that the helper has sealed although people are missing here: shares of this side were lost."""
    number = wave.plan.wave
    with context.database.write() as connection:
        locked = log.lock_unmoved(connection, row.id, snapshot.seq)
        if locked is None or locked.batch != row.batch or has_total(connection, row.id, number):
            return True
        if invitations.funnel(connection, row.id, number).answered >= wave.plan.people:
            return True
        give_up(Turn(context, connection, locked, snapshot, wave))
    return False  # so that a helper that refuses everything is asked once a second, and no more often


def clean_up(context: Context, study: str, snapshot: Snapshot) -> bool:
    """Have the shuffler forget what it may not keep of a study that is paused or over; return True if it did."""
    with context.database.read() as connection:
        row = log.row_of(connection, study)
        if row.batch is None:
            return False
        here = has_total(connection, study, row.wave)
        forget = [] if here else withdrawal.pending(connection, study, row.wave)
    if row.stage == Stage.FINISHED:
        return _call_off(context, row)
    if not forget or snapshot.current is None:
        return False
    told = _forget(context, row, snapshot.current, forget)
    return isinstance(told, BatchProgress) and bool(told.withdrawn)  # otherwise the reports are in the total


def _forget(context: Context, row: Any, wave: Wave, forget: list[bytes]) -> BatchProgress | Refusal:
    """Have the second server forget people who withdrew, and erase here what it has forgotten."""
    told = _announce(context, row, wave, [], [], forget)
    if isinstance(told, BatchProgress) and told.withdrawn:
        with context.database.write() as connection:
            locked = log.row_of(connection, row.id, lock=True)
            if locked.batch == row.batch:
                _note_ended(connection, locked, told, forget)
    return told


def _call_off(context: Context, row: Any) -> bool:
    """Have the batch of a study that an operator ended deleted; only then is the study done with it."""
    if context.shuffler is None:
        _no_second(context, row)
        return False
    context.shuffler.call_off(row.batch)
    with context.database.write() as connection:
        log.row_of(connection, row.id, lock=True)
        log.update_study(connection, row.id, batch=None)
    context.note("called_off", study=row.id, wave=row.wave)
    return True


def _announce(
    context: Context, row: Any, wave: Wave, new: list[bytes], overdue: list[bytes], forget: list[bytes]
) -> BatchProgress | Refusal:
    """Tell the second server; return why not if there is none, or if it refuses."""
    batch = wave.release.batch
    assert batch is not None
    if context.shuffler is None:
        return _no_second(context, row)
    try:
        told = context.shuffler.announce(row.batch, batch, new, overdue, forget)
    except Refusal as refusal:  # for instance a batch that is too small for it: the two operators must settle that
        context.note("not_announced", study=row.id, people=batch.size, status=refusal.status)
        return refusal
    # A helper that takes an announcement has not sealed the batch: it has forgotten all of them, whatever it says.
    return BatchProgress(told.count, tuple(forget), ()) if batch.shared else told


def _no_second(context: Context, row: Any) -> Refusal:
    context.note("no_shuffler", study=row.id)
    return Refusal(503, "this coordinator has no shuffler or helper; start it with --shuffler-url")


def _note_ended(connection: sa.Connection, row: Any, progress: BatchProgress, forget: list[bytes]) -> None:
    """Write down which tokens ended and which have answered, and erase what the shuffler has forgotten."""
    gone = set(forget)
    invitations.withdraw(connection, row.id, row.wave, [token for token in progress.withdrawn if token not in gone])
    withdrawal.erase_confirmed(connection, row, [token for token in progress.withdrawn if token in gone])
    invitations.note_answered(connection, row.id, row.wave, list(progress.answered))
    asking.recount(connection, row.id, row.wave)
