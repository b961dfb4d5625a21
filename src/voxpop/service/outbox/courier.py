"""The courier of a coordinator: it finds what is to be told, and sends it.

The log is the outbox: a wave that opens or closes is written into it in the transaction in which that happens, and
`told` says up to where it was made into receivers. What no transaction does, such as a decision that a clock changes,
is compared with what was told last. Both are done in one transaction, so that nothing is lost, and nothing told twice,
whatever is killed. A delivery may arrive twice, if who sends it dies after sending: it has the same number then.

Each receiver gets one message at a time, so that one that hangs delays nobody else. A receiver has ten seconds, is
reached at the very address that was checked, and nothing of its reply is read but the status.
"""

from __future__ import annotations

import asyncio
import json
import smtplib
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from email.message import EmailMessage
from functools import cache, partial
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import httpx
import sqlalchemy as sa
from starlette.concurrency import run_in_threadpool

from voxpop import __version__
from voxpop.errors import InputError
from voxpop.service import logs
from voxpop.service.outbox import receivers
from voxpop.service.outbox.receivers import Happening, Outside, body_for, logged, secrets_of, signed, tell
from voxpop.service.stores.database import insert_into
from voxpop.service.stores.schema import hooks, studies, told
from voxpop.service.study import log
from voxpop.service.study.log import Context
from voxpop.service.study.stages import Cause, Life, Stage
from voxpop.service.study.status import Status, status_of

EVERY = 1.0  # seconds between looks
EVERY_STUDY = 5.0  # seconds between looks at a study in which nothing seems to have happened: a clock may play it
SECONDS = 10.0  # that a receiver has to take a message
OLD_SECONDS = 3600.0  # between two looks for what is too old
LAST = 2.0  # seconds that deliveries under way get when the service stops; the others are made again
LACKING = (Cause.FEW_PEOPLE, Cause.NOBODY_LEFT)
Told = dict[str, Any]


class Courier:
    """Tells receivers what happens, in the background of a service."""

    def __init__(self, context: Context, outside: Outside) -> None:
        self.context, self.outside = context, outside
        self._sends: dict[str, asyncio.Task[None]] = {}  # by receiver
        self._seen: dict[str, tuple[tuple[Any, ...], float]] = {}  # by study: how it was, and when to look again
        self._stop = asyncio.Event()
        self._cleaned = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._stop.set()
        await asyncio.wait([self._task, *self._sends.values()], timeout=LAST)
        for task in (self._task, *self._sends.values()):
            task.cancel()

    async def _run(self) -> None:
        while not self._stop.is_set():
            try:
                for letter in await run_in_threadpool(self.look):
                    self._sends[letter.hook] = asyncio.create_task(self._send(letter))
            except Exception as error:  # for instance, the database cannot be reached
                logs.fault("courier", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), EVERY)

    def look(self) -> list[Any]:
        """Find what has happened, and take what is to be sent now."""
        now, found = time.monotonic(), heard(self.context)
        for study, signs in found.items():
            before, again = self._seen.get(study, (None, 0.0))
            if signs != before or now >= again:
                self._seen[study] = signs, now + EVERY_STUDY
                collect(self.context, study)
        self._seen = {study: seen for study, seen in self._seen.items() if study in found}
        if now >= self._cleaned:
            receivers.forget_old(self.context)
            self._cleaned = now + OLD_SECONDS
        return receivers.take(self.context, list(self._sends))

    async def _send(self, letter: Any) -> None:
        try:
            error = await self.send(letter)
            await run_in_threadpool(receivers.note_result, self.context, letter, error)
            self.context.note("told" if not error else "not_told", receiver=letter.hook, attempt=letter.attempts + 1)
        except Exception as error:  # the database is away: it is sent again
            logs.fault("courier", error)
        finally:
            del self._sends[letter.hook]

    async def send(self, letter: Any) -> str:
        """Send a message; return why it did not arrive, or nothing if it did."""
        body = body_for(letter.format, letter.body, self.outside)
        try:
            async with asyncio.timeout(SECONDS):
                if letter.format == "email":
                    await run_in_threadpool(post_mail, self.outside, letter.address, body)
                    return ""
                headers = signed(
                    secrets_of(self.context.secrets, letter.nonce), letter.message, round(self.context.clock()), body
                )
                return await post(self.outside, letter.address, body, headers)
        except (TimeoutError, httpx.TimeoutException):
            return f"it did not answer within {SECONDS:g} s"
        except (InputError, smtplib.SMTPException) as error:
            return str(error)[:300]
        except (OSError, httpx.HTTPError, httpx.InvalidURL) as error:
            return f"it cannot be reached ({type(error).__name__})"


async def post(outside: Outside, address: str, body: str, headers: dict[str, str]) -> str:
    """Send a message over HTTP, to the address that was checked and nowhere else; return what is wrong, or nothing."""
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    checked = outside.require_reachable(parts, [str(info[4][0]) for info in infos])
    url = httpx.URL(address).copy_with(host=checked)
    sent = {**headers, "host": parts.netloc, "content-type": "application/json", "user-agent": f"voxpop/{__version__}"}
    tls = await run_in_threadpool(_tls)  # made once, because it reads hundreds of certificates
    # No proxy of the environment, which would look the name up again.
    async with httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=SECONDS, verify=tls) as client:
        asked = {"sni_hostname": host} if parts.scheme == "https" else {}
        async with client.stream("POST", url, content=body.encode(), headers=sent, extensions=asked) as reply:
            if reply.is_redirect:
                return (
                    f"it answered {reply.status_code} and points elsewhere, where nothing is sent; correct its address"
                )
            return "" if reply.is_success else f"it answered {reply.status_code}"


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def post_mail(outside: Outside, address: str, body: str) -> None:
    """Send a message as an e-mail through the operator's server."""
    if outside.smtp is None:
        raise InputError("no mail server is known any more; start the service with VOXPOP_SMTP_URL")
    said = json.loads(body)["data"]
    letter = EmailMessage()
    letter["From"], letter["To"] = outside.sender, address
    letter["Subject"] = "voxpop: " + " ".join(said["sentence"].split())[:120]
    link = f"\n\n{outside.url}/studies/{said['study']}" if outside.url and said["study"] else ""
    letter.set_content(said["sentence"] + link + "\n")
    server = urlsplit(outside.smtp)
    safe = server.scheme == "smtps"
    kind: Any = partial(smtplib.SMTP_SSL, context=_tls()) if safe else smtplib.SMTP
    with kind(server.hostname or "", server.port or 0, timeout=SECONDS) as connection:
        connection.ehlo()
        if not safe and connection.has_extn("starttls"):
            connection.starttls(context=_tls())
            safe = True
        if server.username and not safe:
            raise InputError("the mail server offers no encryption, and its password would be read on the way")
        if server.username:
            connection.login(unquote(server.username), unquote(server.password or ""))
        connection.send_message(letter)


def heard(context: Context) -> dict[str, tuple[Any, ...]]:
    """Return the studies that somebody wants to hear of, and what changes when something happens in them."""
    signs = (studies.c.seq, studies.c.stage, studies.c.life, studies.c.newest, studies.c.short, studies.c.played)
    wanted = sa.select(studies.c.id, told.c.seq, *signs).outerjoin(told, told.c.study == studies.c.id)
    ours = sa.exists().where(hooks.c.study.is_(None) | (hooks.c.study == studies.c.id))
    goes_on = (studies.c.stage != Stage.FINISHED) | told.c.seq.is_(None) | (told.c.seq != studies.c.seq)
    with context.database.read() as connection:
        rows = connection.execute(wanted.where(studies.c.life != Life.DRAFT, ours, goes_on)).all()
        return {name: tuple(signs) for name, *signs in rows}


def collect(context: Context, study: str) -> bool:
    """Make deliveries of what has happened in a study since the last time; return True if there were any."""
    ours = sa.select(told).where(told.c.study == study)
    with context.database.read() as connection:
        last = connection.execute(ours).first()
    status = status_of(context, study)  # after what was told last: an older one could take back a newer one
    holds = {f"{hold.cause} {status.wave}": hold.sentence for hold in status.holds}
    before: Told = {} if last is None else json.loads(last.body)
    now: Told = {"decision": status.in_force.index, "holds": sorted(holds), "warning": status.warning}
    with context.database.write() as connection:
        log.row_of(connection, study)
        if last is None:
            begun = insert_into(connection, told).values(study=study, seq=0, body="{}").on_conflict_do_nothing()
            connection.execute(begun)
        row = connection.execute(ours.with_for_update()).one()
        if (row.seq, json.loads(row.body)) != (0 if last is None else last.seq, before):
            return False  # another coordinator has just told it
        events = logged(connection, study, row.seq)
        found = [*events, *((context.clock(), *change) for change in _changes(before, now, status, holds))]
        if not found and now == before:
            return False
        tell(connection, study, found, wave=status.wave, decision=status.in_force.decision)
        values = {"seq": row.seq + len(events), "body": json.dumps(now)}
        connection.execute(sa.update(told).where(told.c.study == study).values(**values))
    return bool(found)


def _changes(before: Told, now: Told, status: Status, holds: Mapping[str, str]) -> Iterator[tuple[Happening, str]]:
    """Say how a study stands otherwise than it was told last."""
    if now["decision"] != before.get("decision", now["decision"]):
        yield Happening.DECISION, status.says[0]
    for key in set(holds).difference(before.get("holds", ())):
        lacks = key.startswith(tuple(cause.value for cause in LACKING))
        yield (Happening.LACKING if lacks else Happening.ALERT), holds[key]
    if now["warning"] and now["warning"] != before.get("warning", ""):
        yield Happening.ALERT, f"Warning: {now['warning']}"
