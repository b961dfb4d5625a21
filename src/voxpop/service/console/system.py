"""The screens about the service itself: whether it works, who may use it, and who did what."""

from __future__ import annotations

import asyncio
import os
import platform
import time
from dataclasses import dataclass, field
from typing import Any, get_args

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from voxpop import __version__
from voxpop.errors import InputError, require_choice
from voxpop.service import audit, operators
from voxpop.service.console.forms import MOST_SMALL_FORM, read_form, text_of
from voxpop.service.console.live import Feed
from voxpop.service.console.pages import duration
from voxpop.service.console.screen import Console, form, page, require_operator, session_of
from voxpop.service.keys import hash_key, new_key
from voxpop.service.operators import KeyRole
from voxpop.service.refusals import Refusal
from voxpop.service.shuffler.signed_http import HttpShuffler
from voxpop.service.stores.database import cause
from voxpop.service.stores.migrate import DatabaseFacts, facts_of
from voxpop.service.web.health import DATABASE_SECONDS

STARTED = time.monotonic()
LOOK_SECONDS = 5.0  # between two looks at the system, each of which writes to the database and asks the shuffler
MOST_SHOWN = 50  # entries of the audit trail on a page


@dataclass(frozen=True)
class System:
    """What the screen about the system shows."""

    problem: str | None  # why the service cannot work
    database: DatabaseFacts | None  # None: it does not answer
    database_problem: str
    shuffler: tuple[str, str | None] | None  # its address, and why it cannot work
    workers: int  # processes that serve together
    watching: int  # pages that this process keeps up to date
    running: str  # for how long
    process: int = field(default_factory=os.getpid)
    processors: int = field(default_factory=lambda: os.cpu_count() or 1)
    version: str = __version__
    python: str = field(default_factory=platform.python_version)


def system_view(console: Console, problem: str | None) -> System:
    """Look at everything that the service needs; `problem` is why it cannot work."""
    facts, failed = None, ""
    try:
        facts = facts_of(console.coordinator.database)
    except Exception as error:  # the page must say so, whatever it is
        failed = cause(error)
    link = console.coordinator.context.shuffler
    shuffler = (link.url, link.problem()) if isinstance(link, HttpShuffler) else None
    running = duration(time.monotonic() - STARTED)
    return System(problem, facts, failed, shuffler, console.workers, console.hub.streams, running)


def make_key(console: Console, name: str, role: str, study: str | None, actor: str) -> str:
    """Make a key, and return it; refuse a name that is in use, so that sending the form again replaces nothing."""
    require_choice("role", role, get_args(KeyRole))
    key = new_key()
    kind: KeyRole = "viewer" if role == "viewer" else "operator"
    given = (name, key, console.now, kind, study if kind == "viewer" else None, actor)
    operators.add_key(console.coordinator.database, *given, replace=False)
    return key


@dataclass(frozen=True)
class AuditPage:
    """What the screen with the audit trail shows, the newest first."""

    entries: tuple[audit.AuditEntry, ...]
    older: int | None  # the number before which there are more; None: there are none
    newest: bool  # it begins with the newest entry


def audit_view(console: Console, before: int | None = None) -> AuditPage:
    """Read one page of the audit trail."""
    found = audit.trail(console.coordinator.database, before=before, most=MOST_SHOWN + 1)
    shown = tuple(found[:MOST_SHOWN])
    return AuditPage(shown, shown[-1].number if len(found) > MOST_SHOWN else None, before is None)


class SystemScreens:
    """The handlers of the screens."""

    def __init__(self, console: Console) -> None:
        self.console, self.database = console, console.coordinator.database

    @page("/system", "manager")
    async def health(self, request: Request, _: str) -> Response:
        """Show whether the service works."""
        view = await run_in_threadpool(system_view, self.console, await self.console.problem())
        return self.console.show(request, "system", system=view)

    @page("/system/live", "live")
    async def health_live(self, request: Request, _: str) -> Response:
        """Keep that up to date."""
        require_operator(request)
        loop = asyncio.get_running_loop()

        def look() -> System:
            problem = asyncio.run_coroutine_threadsafe(self.console.problem(), loop).result(2 * DATABASE_SECONDS)
            return system_view(self.console, problem)

        return self.console.live(request, Feed("system", look, LOOK_SECONDS), "system")

    @page("/system/access", "manager")
    async def access(self, request: Request, _: str) -> Response:
        """Show keys and sessions."""
        return await self._access(request)

    async def _access(self, request: Request, status: int = 200, **values: Any) -> Response:
        given = {"made": None, "name": "", "role": "viewer", "study": "", "error": "", **values}
        given["own"] = hash_key(session_of(request).cookie).hex()  # the number of the session that asks
        given["keys"] = await run_in_threadpool(operators.list_keys, self.database)
        given["sessions"] = await run_in_threadpool(operators.list_sessions, self.database, self.console.now)
        given["studies"] = await run_in_threadpool(self.console.coordinator.studies, archived=False)
        return self.console.show(request, "access", status, **given)

    @form("/system/access", "manager", MOST_SMALL_FORM)
    async def add_key(self, request: Request, actor: str) -> Response:
        """Make a key, and show it once."""
        sent = await read_form(request)
        given: dict[str, Any] = {part: text_of(sent, part) for part in ("name", "role", "study")}
        try:
            key = await run_in_threadpool(
                make_key, self.console, given["name"], given["role"], given["study"] or None, actor
            )
        except (Refusal, InputError) as error:
            return await self._access(request, getattr(error, "status", 422), error=str(error), **given)
        return await self._access(request, made=key, **given)

    @form("/system/access/revoke", "manager", MOST_SMALL_FORM)
    async def end_key(self, request: Request, actor: str) -> Response:
        """Revoke a key."""
        name = str((await read_form(request)).get("name", ""))
        await run_in_threadpool(operators.revoke_key, self.database, name, self.console.now, actor)
        return self.console.moved(request, "/system/access")

    @form("/system/access/end", "manager", MOST_SMALL_FORM)
    async def end_session(self, request: Request, actor: str) -> Response:
        """End the session of another browser."""
        number = text_of(await read_form(request), "number")
        await run_in_threadpool(operators.end_session, self.database, number, self.console.now, actor)
        return self.console.moved(request, "/system/access")

    @page("/system/audit", "manager")
    async def audit(self, request: Request, _: str) -> Response:
        """Show a page of the audit trail."""
        given = request.query_params.get("before", "")
        before = int(given) if given.isascii() and given.isdigit() and len(given) < 18 else None
        return self.console.show(request, "audit", audit=await run_in_threadpool(audit_view, self.console, before))

    @page("/system/audit/live", "live")
    async def audit_live(self, request: Request, _: str) -> Response:
        """Keep the newest page up to date."""
        require_operator(request)
        return self.console.live(request, Feed("audit", lambda: audit_view(self.console)), "audit")
