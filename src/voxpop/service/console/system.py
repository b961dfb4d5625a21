"""The screen about the service itself: whether it works, its database, its shuffler and its process."""

from __future__ import annotations

import asyncio
import os
import platform
import time
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from voxpop import __version__
from voxpop.service.console.live import Feed
from voxpop.service.console.shared import Console, page, require_operator
from voxpop.service.console.words import duration
from voxpop.service.shuffler.signed_http import HttpShuffler
from voxpop.service.stores.database import cause
from voxpop.service.stores.migrate import DatabaseFacts, facts_of
from voxpop.service.web.readiness import DATABASE_SECONDS
from voxpop.service.web.routes import Route

STARTED = time.monotonic()
LOOK_SECONDS = 5.0  # between two looks, each of which writes to the database and asks the shuffler


@dataclass(frozen=True)
class ShufflerFacts:
    """The shuffler, and why it cannot work."""

    url: str
    problem: str | None


@dataclass(frozen=True)
class System:
    """What the screen shows."""

    problem: str | None  # why the service cannot work
    database: DatabaseFacts | None  # None: it does not answer
    database_problem: str
    shuffler: ShufflerFacts | None
    workers: int  # processes that serve together
    watching: int  # pages that this process keeps up to date
    running: str  # for how long
    process: int = field(default_factory=os.getpid)
    processors: int = field(default_factory=lambda: os.cpu_count() or 1)
    version: str = __version__
    python: str = field(default_factory=platform.python_version)


def view_of(console: Console, problem: str | None) -> System:
    """Look at everything that the service needs; `problem` is why it cannot work."""
    facts, failed = None, ""
    try:
        facts = facts_of(console.coordinator.database)
    except Exception as error:  # the page must say so, whatever it is
        failed = cause(error)
    link, shuffler = console.coordinator.context.shuffler, None
    if isinstance(link, HttpShuffler):
        shuffler = ShufflerFacts(link.url, link.problem())
    running = duration(time.monotonic() - STARTED)
    return System(problem, facts, failed, shuffler, console.workers, console.hub.streams, running)


def routes(console: Console) -> list[Route]:
    """Declare the screen."""

    async def show(request: Request, _: str) -> Response:
        view = await run_in_threadpool(view_of, console, await console.problem())
        return console.show(request, "system", system=view)

    async def live(request: Request, _: str) -> Response:
        require_operator(request)
        loop = asyncio.get_running_loop()
        feed = Feed("system", lambda: view_of(console, asked(loop)), lambda: time.monotonic() // LOOK_SECONDS)
        return console.live(request, feed, {"system": "system"})

    def asked(loop: asyncio.AbstractEventLoop) -> str | None:
        return asyncio.run_coroutine_threadsafe(console.problem(), loop).result(2 * DATABASE_SECONDS)

    return [
        page("/system", "manager", show, "Show whether the service works."),
        page("/system/live", "live", live, "Keep that up to date."),
    ]
