"""The life of a study, as operators decide it: draft, start, pause, resume, end, archive, delete.

Each of these is one transaction that locks the study's row, changes it, and writes who did it into the audit trail.
Asking for what already holds changes nothing, so that two operators who press the same button at once both succeed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from voxpop.journal.journal import Finished
from voxpop.service import audit, operators
from voxpop.service.audit import COMMAND_LINE, SERVICE, Action
from voxpop.service.outbox import receivers
from voxpop.service.refusals import Refusal
from voxpop.service.stores import schema
from voxpop.service.stores.database import Database, insert_into, scrub_after
from voxpop.service.stores.schema import deleted, inbox, plays, studies, totals
from voxpop.service.study import log, participants
from voxpop.service.study.invitations import Invitations
from voxpop.service.study.log import Context, SqlJournal
from voxpop.service.study.released import created_at
from voxpop.service.study.stages import Life, Stage

ENDED = "an operator ended it"
KEPT = (schema.audit, deleted, schema.grants, schema.hooks, schema.deliveries)  # which outlive a study


class Wanted(StrEnum):
    """What an operator can want of a study."""

    RUNNING = "running"
    PAUSED = "paused"
    ENDED = "ended"
    ARCHIVED = "archived"


def is_draft(database: Database, study: str) -> bool:
    """Return True if a study is a draft; refuse one that does not exist."""
    with database.read() as connection:
        return bool(log.row_of(connection, study).life == Life.DRAFT)


def change(context: Context, study: str, wanted: Wanted, actor: str = COMMAND_LINE) -> bool:
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
        # The clock of the rounds, and those who are invited, get the time that the pause took.
        paused = max(0.0, now - row.life_since)
        log.update_study(connection, row.id, opened_at=row.opened_at + paused)
        Invitations(connection, row.id, row.wave).postpone(paused)
    log.update_study(connection, row.id, life=Life(wanted), life_since=now)
    log.note_stand(connection, row.id, now)
    if wanted is Wanted.RUNNING:
        return {Life.DRAFT: Action.STARTED, Life.PAUSED: Action.RESUMED}.get(Life(row.life), Action.RESTORED)
    return Action.PAUSED if wanted is Wanted.PAUSED else Action.ARCHIVED


def _end(context: Context, connection: sa.Connection, row: Any) -> Action:
    """Finish a study with what is known; reports of an open wave are deleted, unread.

    Its batch stays in the study's row until the shuffler has been told to delete it, too: see `collecting.py`.
    """
    if row.life == Life.DRAFT:
        raise Refusal(409, f"the study {row.id!r} has not begun; delete it instead")
    now = context.clock()
    over = {"stage": Stage.FINISHED, "life": Life.RUNNING, "life_since": now, "short": 0}
    SqlJournal(connection, row.id, now).append([Finished(ENDED, early=True)], row.seq, **over)
    for table in (inbox, totals, plays):
        connection.execute(sa.delete(table).where(table.c.study == row.id))
    invited_ones = Invitations(connection, row.id, row.wave)
    invited_ones.expire_all()
    invited_ones.forget()
    participants.erase_rest(connection, row.id, row.wave)
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


def delete(context: Context, study: str, actor: str = COMMAND_LINE) -> None:
    """Delete a study with its log, its people and their invitations; its viewers' keys are revoked.

    The record of releases remembers before the commit that it was deleted: if the process is killed in between, the
    next start deletes it.
    """
    with context.database.write() as connection:
        row = log.row_of(connection, study, lock=True, alone=True)
        if row.life != Life.DRAFT and row.stage != Stage.FINISHED:
            raise Refusal(409, f"the study {study!r} is under way, and people may be answering; end it first")
        if row.batch is not None:
            sentence = f"the shuffler has not deleted its reports of the study {study!r} yet"
            raise Refusal(409, f"{sentence}; see that it runs, and try again in a moment")
        created = created_at(connection, study) if row.life != Life.DRAFT else None
        if created is not None:  # a draft was never seen by anyone else, and its name is free again
            _note_deleted(connection, study, created)
        receivers.tell_last(connection, study)
        _delete(context, connection, study, created, actor)
    context.snapshots.forget(study)
    context.note(Action.DELETED.value, study=study)


def _delete(
    context: Context, connection: sa.Connection, study: str, created: float | None, actor: str, detail: str = ""
) -> None:
    """Delete a study, say who did it, and bury what had begun in the record; what follows must be the commit."""
    _remove(connection, study)
    operators.revoke_viewers(connection, study, context.clock(), actor)
    audit.note(connection, context.clock(), actor, Action.DELETED, study, detail)
    scrub_after(connection)
    if created is not None and context.released is not None:
        context.released.bury(study, created)  # which forgets what was noted since it is here again


def delete_again(context: Context, study: str | None = None) -> int:
    """Delete the studies, or one, that a database restored from a backup knows again; return how many.

    Their reports may have been released before, and people were told that they are deleted. What the database knows of
    deletions by other coordinators is written into the record.
    """
    if context.released is None or (not (buried := context.released.buried(study)) and study is not None):
        return 0
    with context.database.read() as connection:
        wanted = sa.select(deleted) if study is None else sa.select(deleted).where(deleted.c.study == study)
        known = {(row.study, float(row.created_at)) for row in connection.execute(wanted)}
    for name, created in sorted(known - buried):
        context.released.bury(name, created)
    return sum(_delete_again(context, name, created) for name, created in sorted(buried - known))


def _delete_again(context: Context, study: str, created: float) -> bool:
    """Note a deletion that the database does not know; delete the study if it is there, or a draft under its name."""
    with context.database.write() as connection:
        _note_deleted(connection, study, created)
        row = connection.execute(sa.select(studies.c.life).where(studies.c.id == study).with_for_update()).first()
        here = row is not None and (row.life == Life.DRAFT or created_at(connection, study) == created)
        if here:
            _delete(context, connection, study, created, SERVICE, "again: a restored backup knew it")
    if here:
        context.snapshots.forget(study)
        context.note("deleted_again", study=study)
    return here


def _note_deleted(connection: sa.Connection, study: str, created: float) -> None:
    """Remember a deletion in the database, so that the name is not used again and nobody misses the study."""
    new = insert_into(connection, deleted).values(study=study, created_at=created)
    connection.execute(new.on_conflict_do_nothing())


def _remove(connection: sa.Connection, study: str) -> None:
    """Delete every row that belongs to a study."""
    ours = sa.select(schema.invitations.c.id).where(schema.invitations.c.study == study)
    connection.execute(sa.delete(schema.receipts).where(schema.receipts.c.invitation.in_(ours)))
    for table in reversed(schema.coordinator.sorted_tables):  # those first that refer to others
        if table not in KEPT and "study" in table.c:
            connection.execute(sa.delete(table).where(table.c.study == study))
    connection.execute(sa.delete(studies).where(studies.c.id == study))
    schema.require_later(connection)
