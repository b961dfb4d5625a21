"""The audit trail: who did what to which study, in the transaction that does it. Nothing is ever removed from it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import sqlalchemy as sa

from voxpop.service.messages import Count, Reply, says
from voxpop.service.stores.database import Database
from voxpop.service.stores.schema import audit

COMMAND_LINE = "command line"  # who acts when no operator's key is involved
SERVICE = "service"  # who acts when nobody does
MOST = 200  # entries in one page of the trail


class Action(StrEnum):
    """What is done to studies, keys and the service; each is also the name of a line in the service's log."""

    CREATED = "created"
    CHANGED = "changed"
    STARTED = "started"
    PAUSED = "paused"
    RESUMED = "resumed"
    CLOSED_EARLY = "closed early"
    ENDED = "ended"
    ARCHIVED = "archived"
    RESTORED = "unarchived"
    DELETED = "deleted"
    CODES_ADDED = "codes added"
    KEY_ADDED = "key added"
    KEY_REVOKED = "key revoked"
    ROLE_CHANGED = "role changed"
    OPENED_UP = "decisions opened"
    CLOSED_UP = "decisions closed"
    HOOK_SET = "webhook set"
    HOOK_REMOVED = "webhook removed"
    SENT_AGAIN = "sent again"
    NOTED = "noted"
    SIGNED_IN = "signed in"
    SIGNED_OUT = "signed out"
    SECRET_ROTATED = "secret rotated"
    BACKED_UP = "backed up"


class AuditEntry(Reply, frozen=True):
    """Who did what."""

    number: Count
    at: Annotated[float, says("Seconds since 1970.")]
    actor: str
    action: str
    study: str | None
    detail: str


def note(
    connection: sa.Connection, at: float, actor: str, action: Action, study: str | None = None, detail: str = ""
) -> None:
    """Append an entry, in the transaction of what it tells."""
    row = {"at": at, "actor": actor[:64], "action": action, "study": study, "detail": detail}
    connection.execute(sa.insert(audit).values(**row))


def creators(database: Database) -> dict[str, str]:
    """Return who made each study that was made with a key or on the command line."""
    wanted = sa.select(audit.c.study, audit.c.actor).where(audit.c.action == Action.CREATED).order_by(audit.c.id)
    with database.read() as connection:
        return {row.study: row.actor for row in connection.execute(wanted)}


def trail(
    database: Database,
    study: str | None = None,
    before: int | None = None,
    most: int = MOST,
    actor: str | None = None,
    action: str | None = None,
) -> list[AuditEntry]:
    """Return the newest entries first: all, or those of a study, actor or action, and before number `before`."""
    wanted = sa.select(audit).order_by(audit.c.id.desc()).limit(most)
    for column, value in ((audit.c.study, study), (audit.c.actor, actor), (audit.c.action, action)):
        wanted = wanted if value is None else wanted.where(column == value)
    if before is not None:
        wanted = wanted.where(audit.c.id < before)
    with database.read() as connection:
        return [AuditEntry(*row) for row in connection.execute(wanted)]  # its fields are the columns, in their order
