"""Who is told what happens: addresses, in which format, of which studies, which may be reached; and every delivery.

An operator names an address, and the service, which may reach more than the operator, sends there. So an address that
is not on the public internet is refused unless the service was started with its network, when it is named and again
whenever something is sent: names may point elsewhere by then. What is sent is signed as Standard Webhooks says.

A delivery is one message to one receiver, kept in the database until it has arrived, or was tried for days.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, urlsplit

import sqlalchemy as sa

from voxpop.client.addresses import embedded
from voxpop.errors import InputError, require_choice
from voxpop.journal.journal import Event, Finished, Opened, Released
from voxpop.model.words import counted
from voxpop.service import audit
from voxpop.service.audit import COMMAND_LINE, Action
from voxpop.service.keys import Keyring
from voxpop.service.messages import Count, Reply, says
from voxpop.service.operators import require_email, require_holder
from voxpop.service.refusals import Refusal
from voxpop.service.stores.database import Database, insert_into
from voxpop.service.stores.schema import deliveries, events, hooks, told
from voxpop.service.study import log
from voxpop.service.study.log import Context, SqlJournal

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Format = Literal["json", "slack", "email"]
FORMATS: tuple[Format, ...] = ("json", "slack", "email")
MOST_ADDRESS = 2000  # characters
MOST_HOOKS = 100
WAITS = (5.0, 300.0, 1800.0, 7200.0, 18000.0, 36000.0, 50400.0, 72000.0, 86400.0)  # seconds between attempts
LEASE = 60.0  # seconds after which a delivery whose sender died is sent again
KEPT = 30 * 86400.0  # seconds for which what was told, or could not be, is listed
MOST_LISTED = 200


class Happening(StrEnum):
    """What can be told."""

    DECISION = "decision.changed"
    OPENED = "wave.opened"
    LACKING = "people.lacking"
    CLOSED = "wave.closed"
    FINISHED = "study.finished"
    ALERT = "alert"
    TEST = "test"  # only when somebody asks for it


class Hook(Reply, frozen=True):
    """Who is told what happens."""

    name: str
    address: str
    format: Format = "json"
    study: str | None = None
    events: list[str] = []  # noqa: RUF012
    secret: str = ""


@dataclass(frozen=True)
class Outside:
    """What the service may reach, and how it sends mail."""

    allowed: tuple[Network, ...] = ()
    smtp: str | None = None  # smtp://user:password@host:port, or smtps://
    sender: str = "voxpop@localhost"
    url: str | None = None  # of the console, for links

    def may_reach(self, address: Address) -> bool:
        """Return True for an address of the public internet, or of a network that is allowed."""
        inner = (isinstance(address, IPv6Address) and address.sixtofour) or embedded(address)
        if any(one in network for one in {address, inner} for network in self.allowed):
            return True
        return inner.is_global and not inner.is_multicast

    def require_reachable(self, parts: SplitResult, found: Sequence[str]) -> str:
        """Return the first of the addresses that a name stands for; refuse it if one of them is inside the network."""
        for text in found:
            if not self.may_reach(ip_address(text.partition("%")[0])):
                raise InputError(
                    f"{parts.hostname} points to {text}, which is no address of the public internet; name another "
                    "receiver, or start the service with --webhook-allow and its network"
                )
        if parts.scheme == "http" and not all(any(ip_address(one) in net for net in self.allowed) for one in found):
            raise InputError(
                f"what is sent to {parts.hostname} could be read on the way; begin the address with https://"
            )
        return found[0]


def require_networks(name: str, text: str) -> tuple[Network, ...]:
    """Return the networks in a text, separated by spaces or commas.

    >>> require_networks("webhook_allow", "10.1.0.0/16, 127.0.0.1")
    (IPv4Network('10.1.0.0/16'), IPv4Network('127.0.0.1/32'))
    """
    try:
        return tuple(ip_network(part) for part in text.replace(",", " ").split())
    except ValueError as error:
        raise InputError(f"{name} must be networks such as 10.1.0.0/16 127.0.0.1, got {text!r}: {error}") from None


def require_address(address: str, form: str, outside: Outside) -> str:
    """Return the address of a receiver; refuse one to which nothing may be sent."""
    if form == "email":
        if outside.smtp is None:
            raise InputError("no mail server is known; start the service with VOXPOP_SMTP_URL and VOXPOP_SMTP_FROM")
        return require_email(address.removeprefix("mailto:"))
    try:
        parts, port = urlsplit(address), urlsplit(address).port
    except ValueError:
        parts, port = urlsplit(""), None
    visible = address.isascii() and address.isprintable() and " " not in address
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None or not visible:
        raise InputError(f"a receiver is an address such as https://host/path, got {address!r:.80}; correct it")
    if len(address) > MOST_ADDRESS:
        raise InputError(f"the address of a receiver has at most {MOST_ADDRESS} characters, got {len(address)}")
    try:
        infos = socket.getaddrinfo(parts.hostname, port or 443, type=socket.SOCK_STREAM)
    except OSError:
        raise InputError(f"nobody knows the host {parts.hostname!r}; correct the address") from None
    outside.require_reachable(parts, [str(info[4][0]) for info in infos])
    return address


def set_hook(
    database: Database, hook: Hook, at: float, outside: Outside, actor: str = COMMAND_LINE, replace: bool = True
) -> None:
    """Store a receiver of what happens from now on; it replaces the one of the same name, and keeps its secret."""
    name = require_holder(hook.name)
    address = require_address(hook.address, require_choice("format", hook.format, FORMATS), outside)
    kinds = sorted({require_choice("event", kind, [*Happening][:-1]) for kind in hook.events})
    with database.write() as connection:
        if hook.study is not None:
            log.row_of(connection, hook.study)
        known = {row.name: row for row in connection.execute(sa.select(hooks))}
        if not replace and name in known:
            raise Refusal(409, f"there is a receiver {name!r}; choose another name, or remove that one first")
        if len(known) >= MOST_HOOKS and name not in known:
            raise Refusal(409, f"there are {MOST_HOOKS} receivers already; remove one first")
        nonce = known[name].nonce if name in known else secrets.token_bytes(16)
        heard = [row.study for row in known.values()]
        if None not in heard and hook.study not in heard:
            _skip(connection, hook.study, heard)
        connection.execute(sa.delete(hooks).where(hooks.c.name == name))
        row = {"name": name, "address": address, "format": hook.format, "study": hook.study, "nonce": nonce}
        connection.execute(sa.insert(hooks).values(**row, kinds=" ".join(kinds), made_at=at))
        audit.note(connection, at, actor, Action.HOOK_SET, hook.study, f"{name} ({hook.format})")


def _skip(connection: sa.Connection, study: str | None, heard: Sequence[str | None]) -> None:
    """Take what happened before anyone wanted to hear it for told."""
    newest = sa.select(events.c.study, sa.func.max(events.c.seq).label("seq")).group_by(events.c.study)
    newest = newest.where(events.c.study.not_in([each for each in heard if each is not None]))
    newest = newest if study is None else newest.where(events.c.study == study)
    for row in connection.execute(newest).all():
        new = insert_into(connection, told).values(study=row.study, seq=row.seq, body="{}")
        connection.execute(new.on_conflict_do_update(index_elements=["study"], set_={"seq": row.seq, "body": "{}"}))


def remove_hook(database: Database, name: str, at: float, actor: str = COMMAND_LINE, study: str | None = None) -> bool:
    """Remove a receiver, of one study if it is named, and what was still to be sent to it; False if there is none."""
    with database.write() as connection:
        if not connection.execute(sa.delete(hooks).where(_ours(name, study))).rowcount:
            return False
        waits = (deliveries.c.hook == name, deliveries.c.state == "due")
        connection.execute(sa.update(deliveries).where(*waits).values(state="failed", error="the receiver was removed"))
        audit.note(connection, at, actor, Action.HOOK_REMOVED, study, name)
    return True


def _ours(name: str, study: str | None) -> sa.ColumnElement[bool]:
    """Name a receiver; if a study is named, only one of this study."""
    return (hooks.c.name == name) & (sa.true() if study is None else hooks.c.study == study)


def list_hooks(database: Database, keys: Keyring, study: str | None = None) -> list[Hook]:
    """List the receivers by name, of all studies or those for one, with the secrets by which they know the sender."""
    wanted = sa.select(hooks).order_by(hooks.c.name)
    wanted = wanted if study is None else wanted.where(hooks.c.study == study)
    with database.read() as connection:
        rows = connection.execute(wanted).all()
    return [
        Hook(row.name, row.address, row.format, row.study, row.kinds.split(), shown(secrets_of(keys, row.nonce)[0]))
        for row in rows
    ]


# Signatures


def secrets_of(keys: Keyring, nonce: bytes) -> list[bytes]:
    """Return what signs for a receiver: its secret, and those from before the service's own secret was replaced."""
    return [hmac.digest(key, b"voxpop: webhook" + nonce, "sha256") for key in keys.all]


def shown(secret: bytes) -> str:
    """Write a receiver's secret as libraries of Standard Webhooks read it."""
    return "whsec_" + base64.b64encode(secret).decode()


def signed(secrets: Sequence[bytes], message: str, at: int, body: str) -> dict[str, str]:
    """Return the headers of a message that was sent at a time, with a signature by each secret."""
    text = f"{message}.{at}.{body}".encode()
    signatures = (base64.b64encode(hmac.digest(secret, text, "sha256")).decode() for secret in secrets)
    made = {"webhook-id": message, "webhook-timestamp": str(at)}
    return {**made, "webhook-signature": " ".join(f"v1,{one}" for one in signatures)}


def body_for(form: str, body: str, outside: Outside) -> str:
    """Write a message for a receiver; Slack shows a text, in which it would take these characters for markup."""
    if form != "slack":
        return body
    said = json.loads(body)["data"]
    text = said["sentence"].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    link = "" if outside.url is None or said["study"] is None else f"\n<{outside.url}/studies/{said['study']}>"
    return json.dumps({"text": text + link})


# Deliveries


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
        row = connection.execute(sa.select(hooks).where(_ours(name, study))).first()
        if row is None:
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
    hearing = connection.execute(wanted).all()
    for at, kind, sentence in found:
        to = [one for one in hearing if not one.kinds or kind in one.kinds.split()]
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


def take(context: Context, busy: Collection[str]) -> list[Any]:
    """Take what is due: for each receiver that is not busy the oldest, which nobody else takes meanwhile."""
    now, part, found = context.clock(), deliveries.c, dict[str, Any]()
    wanted = sa.select(deliveries, hooks.c.address, hooks.c.format, hooks.c.nonce)
    wanted = wanted.join(hooks, hooks.c.name == part.hook).order_by(part.id)
    wanted = wanted.where(part.state == "due", part.due <= now, part.hook.not_in(sorted(busy)))
    with context.database.read() as connection:
        if connection.execute(wanted.limit(1)).first() is None:
            return []
    with context.database.write() as connection:
        rows = connection.execute(wanted.limit(MOST_LISTED).with_for_update(of=deliveries, skip_locked=True)).all()
        for row in rows:
            found.setdefault(row.hook, row)
        taken = part.id.in_([row.id for row in found.values()])
        values = {"due": now + LEASE, "attempts": part.attempts + 1}
        connection.execute(sa.update(deliveries).where(taken).values(**values))
    return list(found.values())


def note_result(context: Context, letter: Any, error: str) -> None:
    """Write down that a delivery arrived, or why not, and when it is tried again, if it is."""
    values: dict[str, Any] = {"state": "failed" if error else "delivered", "error": error}
    if error and letter.attempts < len(WAITS):
        values |= {"state": "due", "due": context.clock() + WAITS[letter.attempts]}
    with context.database.write() as connection:
        ours = (deliveries.c.id == letter.id, deliveries.c.state == "due")
        connection.execute(sa.update(deliveries).where(*ours).values(**values))


def forget_old(context: Context) -> None:
    """Delete what was told long ago, or could not be."""
    old = (deliveries.c.state != "due", deliveries.c.at < context.clock() - KEPT)
    with context.database.write() as connection:
        connection.execute(sa.delete(deliveries).where(*old))
