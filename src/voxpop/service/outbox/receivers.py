"""Who is told what happens: addresses, in which format, of which studies; and which addresses may be reached.

An operator names an address, and the service, which may reach more than the operator, sends there. So an address that
is not on the public internet is refused unless the service was started with its network, when it is named and again
whenever something is sent: names may point elsewhere by then. What is sent is signed as Standard Webhooks says.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal
from urllib.parse import SplitResult, urlsplit

import sqlalchemy as sa

from voxpop.errors import InputError, require_choice
from voxpop.service import audit
from voxpop.service.audit import COMMAND_LINE, Action
from voxpop.service.keys import Keyring
from voxpop.service.messages import Reply
from voxpop.service.operators import require_email, require_holder
from voxpop.service.refusals import Refusal
from voxpop.service.stores.database import Database, insert_into
from voxpop.service.stores.schema import deliveries, events, hooks, told
from voxpop.service.study import log

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Format = Literal["json", "slack", "email"]
FORMATS: tuple[Format, ...] = ("json", "slack", "email")
MOST_ADDRESS = 2000  # characters
MOST_HOOKS = 100
TRANSLATED = ip_network("64:ff9b::/96")  # addresses of IPv6 that a gateway makes into those of IPv4


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
        inner = address
        if isinstance(inner, IPv6Address):
            inner = inner.ipv4_mapped or inner.sixtofour or inner
            if inner in TRANSLATED:
                inner = IPv4Address(int(inner) & 0xFFFFFFFF)
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
        ours = hooks.c.name == name
        ours = ours if study is None else ours & (hooks.c.study == study)
        if not connection.execute(sa.delete(hooks).where(ours)).rowcount:
            return False
        waits = (deliveries.c.hook == name, deliveries.c.state == "due")
        connection.execute(sa.update(deliveries).where(*waits).values(state="failed", error="the receiver was removed"))
        audit.note(connection, at, actor, Action.HOOK_REMOVED, study, name)
    return True


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
