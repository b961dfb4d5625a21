"""Deliveries: one message to one receiver each, kept in the database until it has arrived, or was tried for days."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import sqlalchemy as sa

from voxpop.journal.journal import Event, Finished, Opened, Released
from voxpop.model.words import counted
from voxpop.service import audit
from voxpop.service.audit import COMMAND_LINE, Action
from voxpop.service.messages import Count, Reply, says
from voxpop.service.outbox.receivers import Happening
from voxpop.service.refusals import Refusal
from voxpop.service.stores.database import Database
from voxpop.service.stores.schema import deliveries, hooks, told
from voxpop.service.study.log import Context, SqlJournal

WAITS = (5.0, 300.0, 1800.0, 7200.0, 18000.0, 36000.0, 50400.0, 72000.0, 86400.0)  # seconds between attempts
LEASE = 60.0  # seconds after which a delivery whose sender died is sent again
KEPT = 30 * 86400.0  # seconds for which what was told, or could not be, is listed
MOST_LISTED = 200


class Delivery(Reply, frozen=True):
    """One message to one receiver."""

    number: Count
    message: Annotated[str, says("The same for all receivers, and whenever it is sent again.")]
    receiver: str
    study: str | None
    kind: str
    at: Annotated[float, says("When it happened, in seconds since 1970.")]
    state: Annotated[str, says("due, delivered or failed.")]
    attempts: Count
    due: Annotated[float, says("When it is sent, if it is due.")]
    error: Annotated[str, says("Why the last attempt failed; empty if it did not.")]


def list_deliveries(database: Database, study: str | None = None, most: int = MOST_LISTED) -> list[Delivery]:
    """List the newest deliveries, of all studies or of one."""
    part = deliveries.c
    columns = (part.id.label("number"), part.message, part.hook.label("receiver"), part.study, part.kind)
    wanted = sa.select(*columns, part.at, part.state, part.attempts, part.due, part.error)
    wanted = wanted.order_by(part.id.desc()).limit(most)
    with database.read() as connection:
        found = connection.execute(wanted if study is None else wanted.where(part.study == study))
        return [Delivery(**row._mapping) for row in found]


def send_again(database: Database, number: int, at: float, actor: str = COMMAND_LINE, study: str | None = None) -> None:
    """Send a delivery again, as if it had just happened; the receiver knows it by the number of its message."""
    with database.write() as connection:
        row = connection.execute(sa.select(deliveries).where(deliveries.c.id == number)).first()
        if row is None or (study is not None and row.study != study):
            raise Refusal(404, f"there is no delivery {number}; the list has the numbers")
        if connection.execute(sa.select(hooks.c.name).where(hooks.c.name == row.hook)).first() is None:
            raise Refusal(409, f"the receiver {row.hook!r} was removed; there is nobody to send this to")
        changed = sa.update(deliveries).where(deliveries.c.id == number)
        connection.execute(changed.values(state="due", due=at, attempts=0, error=""))
        audit.note(connection, at, actor, Action.SENT_AGAIN, row.study, f"{row.kind} to {row.hook}")


def send_test(database: Database, name: str, at: float, study: str | None = None) -> None:
    """Send a receiver a message that says nothing but that it arrives."""
    with database.write() as connection:
        row = connection.execute(sa.select(hooks).where(hooks.c.name == name)).first()
        if row is None or (study is not None and row.study != study):
            raise Refusal(404, f"there is no receiver {name!r}; the list has their names")
        _put(connection, [row], at, Happening.TEST, {"study": row.study, "sentence": f"A test of {name}: it arrives."})


def _put(connection: sa.Connection, to: list[Any], at: float, kind: Happening, data: dict[str, Any]) -> None:
    when = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = json.dumps({"type": kind.value, "timestamp": when, "data": data}, allow_nan=False)
    row = {"message": f"msg_{secrets.token_hex(12)}", "study": data["study"], "kind": kind.value, "body": body}
    made = [{**row, "hook": hook.name, "at": at, "due": at, "state": "due"} for hook in to]
    if made:
        connection.execute(sa.insert(deliveries), made)


def tell_last(connection: sa.Connection, study: str) -> None:
    """Make deliveries of what the log of a study says, in the transaction that deletes it."""
    last = connection.execute(sa.select(told.c.seq).where(told.c.study == study)).scalar_one_or_none()
    tell(connection, study, logged(connection, study, last or 0))


Found = list[tuple[float, Happening, str]]


def logged(connection: sa.Connection, study: str, seq: int) -> Found:
    """Say what the log of a study tells after an event: when, of which kind, and in a sentence."""
    journal = SqlJournal(connection, study)
    return [
        (record.at, *_said(event)) for record, event in zip(journal.records(seq + 1), journal.read(seq), strict=True)
    ]


def tell(connection: sa.Connection, study: str, found: Found, **more: Any) -> None:
    """Make deliveries of what was found, to all who want to hear it."""
    wanted = sa.select(hooks).where(hooks.c.study.is_(None) | (hooks.c.study == study)).order_by(hooks.c.name)
    receivers = connection.execute(wanted).all()
    for at, kind, sentence in found:
        to = [one for one in receivers if not one.kinds or kind in one.kinds.split()]
        _put(connection, to, at, kind, {"study": study, **more, "sentence": f"{study}: {sentence}"})


def _said(event: Event) -> tuple[Happening, str]:
    """Say what an event of the log tells."""
    match event:
        case Opened(plan, _):
            asked = f"{counted(plan.people, 'person', 'people')} about {counted(len(plan.arms), 'decision')}"
            return Happening.OPENED, f"Wave {plan.wave} is open; it asks {asked}."
        case Released(feedback, _):
            return Happening.CLOSED, f"A wave is closed; {counted(feedback.count, 'person', 'people')} answered."
        case Finished(reason, _):
            return Happening.FINISHED, f"The study is finished: {reason}."
    raise AssertionError("a study of the service has no other events")


# Sending


@dataclass(frozen=True)
class Letter:
    """A delivery that is to be sent now, and where to."""

    number: int
    message: str
    body: str
    attempts: int  # with this one
    hook: str
    address: str
    format: str
    nonce: bytes


def take(context: Context, busy: Collection[str]) -> list[Letter]:
    """Take what is due: for each receiver that is not busy the oldest, which nobody else takes meanwhile."""
    now, found = context.clock(), dict[str, Letter]()
    part = deliveries.c
    columns = (part.id, part.message, part.body, part.attempts, hooks.c.name, hooks.c.address, hooks.c.format)
    wanted = sa.select(*columns, hooks.c.nonce).join(hooks, hooks.c.name == part.hook).order_by(part.id)
    wanted = wanted.where(part.state == "due", part.due <= now, part.hook.not_in(sorted(busy)))
    with context.database.read() as connection:
        if connection.execute(wanted.limit(1)).first() is None:
            return []
    with context.database.write() as connection:
        rows = connection.execute(wanted.limit(MOST_LISTED).with_for_update(of=deliveries, skip_locked=True)).all()
        for row in rows:
            found.setdefault(row.name, Letter(*row[:3], row.attempts + 1, *row[4:]))
        taken = part.id.in_([letter.number for letter in found.values()])
        values = {"due": now + LEASE, "attempts": part.attempts + 1}
        connection.execute(sa.update(deliveries).where(taken).values(**values))
    return list(found.values())


def note_result(context: Context, letter: Letter, error: str) -> None:
    """Write down that a delivery arrived, or why not, and when it is tried again, if it is."""
    values: dict[str, Any] = {"state": "delivered", "error": error}
    if error and letter.attempts <= len(WAITS):
        values |= {"state": "due", "due": context.clock() + WAITS[letter.attempts - 1]}
    elif error:
        values["state"] = "failed"
    with context.database.write() as connection:
        ours = (deliveries.c.id == letter.number, deliveries.c.state == "due")
        connection.execute(sa.update(deliveries).where(*ours).values(**values))


def forget_old(context: Context) -> None:
    """Delete what was told long ago, or could not be."""
    old = (deliveries.c.state != "due", deliveries.c.at < context.clock() - KEPT)
    with context.database.write() as connection:
        connection.execute(sa.delete(deliveries).where(*old))
