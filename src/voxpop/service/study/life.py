"""The life of a study, as operators decide it: draft, start, pause, resume, end, archive, delete.

Each of these is one transaction that locks the study's row, changes it, and writes who did it into the audit trail.
Asking for what already holds changes nothing, so that two operators who press the same button at once both succeed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from voxpop.service import audit
from voxpop.service.audit import Action
from voxpop.service.refusals import Refusal
from voxpop.service.study import asking, invitations, log, withdrawal
from voxpop.service.study.context import Context
from voxpop.service.study.events import Event, Kind
from voxpop.service.study.released import created_at
from voxpop.service.study.stages import Life, Stage
from voxpop.stores.database import scrub_after
from voxpop.stores.schema import counts, deleted, events, inbox, people, plays, receipts, studies, summaries, tallies
from voxpop.stores.schema import invitations as invited
from voxpop.stores.schema import totals as forwarded

ENDED = "an operator ended it"


class Wanted(StrEnum):
    """What an operator can want of a study."""

    RUNNING = "running"
    PAUSED = "paused"
    ENDED = "ended"
    ARCHIVED = "archived"


def change(context: Context, study: str, wanted: Wanted, actor: str) -> bool:
    """Bring a study to where an operator wants it; return False if it is there already."""
    with context.database.write() as connection:
        row = log.row_of(connection, study, lock=True)
        action = _change(context, connection, row, wanted)
        if action is None:
            return False
        audit.note(connection, context.clock(), actor, action, study)
    context.note(action.value, study=study)
    return True


def _change(context: Context, connection: sa.Connection, row: Any, wanted: Wanted) -> Action | None:
    """Change the study's row; return what was done, or None if there was nothing to do."""
    over, now = row.stage == Stage.FINISHED, context.clock()
    if wanted is Wanted.ENDED:
        return None if over else _end(context, connection, row)
    if wanted is Wanted.ARCHIVED and not over:
        raise Refusal(409, f"the study {row.id!r} is not finished; end it before you archive it")
    if wanted is Wanted.PAUSED and (over or row.life == Life.DRAFT):
        raise Refusal(
            409, f"the study {row.id!r} {'is finished' if over else 'has not begun'}; there is nothing to pause"
        )
    if wanted is Wanted.RUNNING and over and row.life != Life.ARCHIVED:
        raise Refusal(409, f"the study {row.id!r} is finished and cannot go on; create a new one with what it found")
    if row.life == wanted:
        return None
    if row.life == Life.PAUSED and wanted is Wanted.RUNNING:
        _make_up(connection, row, now - row.life_since)
    log.update_study(connection, row.id, life=Life(wanted), life_since=now)
    if wanted is Wanted.RUNNING:
        return {Life.DRAFT: Action.STARTED, Life.PAUSED: Action.RESUMED}.get(Life(row.life), Action.RESTORED)
    return Action.PAUSED if wanted is Wanted.PAUSED else Action.ARCHIVED


def _make_up(connection: sa.Connection, row: Any, seconds: float) -> None:
    """Give the clock of the rounds, and those who are invited, the time that the pause took."""
    seconds = max(0.0, seconds)
    log.update_study(connection, row.id, opened_at=row.opened_at + seconds)
    invitations.postpone(connection, row.id, row.phase, seconds)


def _end(context: Context, connection: sa.Connection, row: Any) -> Action:
    """Finish a study with what is known; reports of an open phase are deleted, unread.

    Its batch stays in the study's row until the shuffler has been told to delete it, too: see `batching.py`.
    """
    if row.life == Life.DRAFT:
        raise Refusal(409, f"the study {row.id!r} has not begun; delete it instead")
    event = Event(row.seq + 1, Kind.FINISHED, context.clock(), {"reason": ENDED, "early": True})
    log.append(connection, row.id, event, stage=Stage.FINISHED, life=Life.RUNNING, life_since=event.at, short=0)
    for table in (inbox, forwarded):
        connection.execute(sa.delete(table).where(table.c.study == row.id))
    connection.execute(sa.delete(plays).where(plays.c.study == row.id))
    invitations.expire_all(connection, row.id, row.phase)
    invitations.forget(connection, row.id, row.phase)
    withdrawal.erase_rest(connection, row.id, row.phase)
    scrub_after(connection)
    context.shuffled.pop(row.id, None)
    return Action.ENDED


def make_room(connection: sa.Connection, study: str) -> bool:
    """Remove an earlier draft under this name, and return True; refuse the name of a study that was deleted."""
    if connection.execute(sa.select(deleted.c.study).where(deleted.c.study == study)).first() is not None:
        raise Refusal(409, f"a study {study!r} was deleted, and devices may remember it; choose another name")
    row = connection.execute(sa.select(studies.c.life).where(studies.c.id == study).with_for_update()).first()
    if row is None or row.life != Life.DRAFT:
        return False
    _remove(connection, study)
    return True


def delete(context: Context, study: str, actor: str) -> None:
    """Delete a study with its log, its people and their invitations; only the audit trail keeps its name.

    The record of releases forgets it before the commit: if the process is killed in between, the next start writes the
    record again from the database.
    """
    with context.database.write() as connection:
        row = log.row_of(connection, study, lock=True, alone=True)
        if row.life != Life.DRAFT and row.stage != Stage.FINISHED:
            raise Refusal(409, f"the study {study!r} is under way, and people may be answering; end it first")
        if row.batch is not None:
            sentence = f"the shuffler has not deleted its reports of the study {study!r} yet"
            raise Refusal(409, f"{sentence}; see that it runs, and try again in a moment")
        if row.life != Life.DRAFT:  # a draft was never seen by anyone else, and its name is free again
            connection.execute(sa.insert(deleted).values(study=study, created_at=created_at(connection, study)))
        _remove(connection, study)
        audit.note(connection, context.clock(), actor, Action.DELETED, study)
        scrub_after(connection)
        if context.released is not None:
            context.released.drop(study)
    context.snapshots.forget(study)
    context.note(Action.DELETED.value, study=study)


def _remove(connection: sa.Connection, study: str) -> None:
    """Delete every row that belongs to a study."""
    ours = sa.select(invited.c.id).where(invited.c.study == study)
    connection.execute(sa.delete(receipts).where(receipts.c.invitation.in_(ours)))
    for table in (inbox, forwarded, plays, tallies, summaries, counts, events, invited, people):
        connection.execute(sa.delete(table).where(table.c.study == study))
    connection.execute(sa.delete(studies).where(studies.c.id == study))
    asking.require_later(connection)
