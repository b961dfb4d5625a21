"""What both services have: liveness, readiness, metrics, the OpenAPI document and the page made of it, and the guard.

A service is ready if the database takes what it is given: a small durable write, whose answer is shared for a second.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import Any

import sqlalchemy as sa
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from voxpop.service import logs
from voxpop.service.refusals import Refusal
from voxpop.service.stores.database import Database, ReplacedFileError, cause
from voxpop.service.web.bodies import Alive, OpenAPI, Ready, Receipt
from voxpop.service.web.guard import Guard, Origins, no_page
from voxpop.service.web.limits import RateLimit
from voxpop.service.web.metrics import Telemetry
from voxpop.service.web.openapi import api_page, openapi_document
from voxpop.service.web.routes import Role, RoleCheck, Route, Router, anyone, bearer, route, routes_of

DATABASE_SECONDS = 5.0  # that the database has to answer
MARKS = sa.table("marks", sa.column("name"), sa.column("mark"))  # both services have it
LEAST_ROOM = 16 * 2**20  # bytes that must be free on the disk of an SQLite database
SHARED_SECONDS = 1.0  # for which an answer holds, so that a flood of questions does not wear the disk

# Declares the route of something that devices store, and may store again.
upload = partial(
    route, "PUT", role="token", reply=Receipt, refusals=(403, 404, 409, 410), statuses=(201, 200), for_devices=True
)


class Readiness:
    """Asks the database at most once a second, and never again before it has answered."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        self._asked: asyncio.Task[str | None] | None = None
        self._since = 0.0

    async def problem(self) -> str | None:
        """Return in one sentence what keeps the database from storing anything, or None."""
        old = self._asked is None or (self._asked.done() and time.monotonic() - self._since >= SHARED_SECONDS)
        if old:
            self._asked, self._since = asyncio.create_task(run_in_threadpool(self._write)), time.monotonic()
        assert self._asked is not None
        try:
            return await asyncio.wait_for(asyncio.shield(self._asked), DATABASE_SECONDS)
        except TimeoutError:
            return f"the database has not answered for {DATABASE_SECONDS:g} s; check that it runs"

    def _write(self) -> str | None:
        """Change one row, and wait until that is on disk."""
        try:
            database = self._database()
            with database.write() as connection:
                changed = sa.update(MARKS).where(MARKS.c.name == "ready").values(mark=secrets.token_bytes(8))
                if connection.execute(changed).rowcount != 1:
                    return "the database is not the one that was opened; stop the service, and restore it"
            if database.file is not None and (room := database.file.room()) < LEAST_ROOM:
                return f"the disk of the database has {room:,} bytes left, and needs {LEAST_ROOM:,}; make room on it"
        except ReplacedFileError as error:
            logs.fault("not_ready", error)
            return str(error)
        except Exception as error:
            logs.fault("not_ready", error)
            return f"the database takes no writes ({cause(error)}); check that it runs, is whole and has room"
        return None


class Service:
    """What both services have: these routes, the OpenAPI document, and the guard before all of it.

    A subclass adds handlers and the checks of their roles.
    """

    title = description = ""
    page = staticmethod(no_page)  # makes the reply to people whose request is refused

    def __init__(self, database: Callable[[], Database], origins: frozenset[str]) -> None:
        self.telemetry, self.readiness, self._origins = Telemetry(), Readiness(database), origins
        self.checks: dict[Role, RoleCheck] = {"anyone": anyone, "token": bearer}

    async def problem(self) -> str | None:
        """Return in one sentence what keeps the service from working, or None."""
        return await self.readiness.problem()

    @route("GET", "/healthz", "anyone", Alive)
    async def health(self) -> Any:
        """Check that the process is alive."""
        return {"status": "alive"}

    @route("GET", "/readyz", "anyone", Ready, (503,))
    async def ready(self) -> Any:
        """Check that the service can store reports."""
        found = await self.problem()
        if found is not None:
            raise Refusal(503, found)
        return {"status": "ready"}

    @route("GET", "/metrics", "anyone", None, media_type="text/plain")
    async def metrics(self, request: Request) -> Response:
        """Get Prometheus metrics."""
        self.telemetry.database_up = await self.readiness.problem() is None
        more = await self.more_metrics(request) if self.telemetry.database_up else b""
        return Response(generate_latest(self.telemetry.registry) + more, media_type=CONTENT_TYPE_LATEST)

    async def more_metrics(self, request: Request) -> bytes:
        """Return the metrics that only some callers may see."""
        return b""

    @route("GET", "/api", "anyone", None, media_type="text/html")
    async def api(self) -> Response:
        """Read this document as a page."""
        return self._api_page

    @cached_property
    def _api_page(self) -> Response:
        return api_page(self.document)

    @route("GET", "/openapi.json", "anyone", OpenAPI)
    async def openapi(self) -> Any:
        """Get this document."""
        return self.document

    @cached_property
    def document(self) -> dict[str, Any]:
        """The OpenAPI document."""
        return openapi_document(self.title, self.description, self.routes())

    def routes(self) -> list[Route]:
        """Return every route, the busiest first: the router tries them in this order."""
        return routes_of(self)

    def guarded(self, rate_limit: RateLimit, most_bytes: int) -> Guard:
        """Make the ASGI application, with the guard before its routes."""
        routes = self.routes()
        router, origins = Router(routes, self.checks, most_bytes), Origins(self._origins, routes)
        return Guard(router, self.telemetry, rate_limit, self.page, origins, self.lifespan)

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncIterator[None]:
        """Run what the service does besides answering."""
        yield
