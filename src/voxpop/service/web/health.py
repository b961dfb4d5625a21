"""The routes that both services have: liveness, readiness, metrics, the OpenAPI document and the page made of it.

A service is ready if the database takes what it is given: a small durable write, whose answer is shared for a second.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

import sqlalchemy as sa
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from voxpop.service import logs
from voxpop.service.refusals import Refusal
from voxpop.service.stores.database import Database, ReplacedFileError, cause
from voxpop.service.web.api_page import api_page
from voxpop.service.web.bodies import Alive, OpenAPI, Ready
from voxpop.service.web.metrics import Telemetry
from voxpop.service.web.routes import Route

DATABASE_SECONDS = 5.0  # that the database has to answer
MARKS = sa.table("marks", sa.column("name"), sa.column("mark"))  # both services have it
LEAST_ROOM = 16 * 2**20  # bytes that must be free on the disk of an SQLite database
SHARED_SECONDS = 1.0  # for which an answer holds, so that a flood of questions does not wear the disk


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


def standard_routes(
    database: Callable[[], Database],
    telemetry: Telemetry,
    problem: Callable[[], str | None],
    document: Callable[[], dict[str, Any]],
    more_metrics: Callable[[Request], Awaitable[bytes]] | None = None,
) -> list[Route]:
    """Declare the routes.

    `problem` returns what else keeps the service from working besides the database, or None. `more_metrics` returns
    those that only some callers may see.
    """
    readiness = Readiness(database)

    async def health(request: Request, _: str) -> Response:
        return JSONResponse({"status": "alive"})

    async def ready(request: Request, _: str) -> Response:
        found = await readiness.problem() or problem()
        if found is not None:
            raise Refusal(503, found)
        return JSONResponse({"status": "ready"})

    async def metrics(request: Request, _: str) -> Response:
        telemetry.database_up = await readiness.problem() is None
        more = b"" if more_metrics is None or not telemetry.database_up else await more_metrics(request)
        return Response(generate_latest(telemetry.registry) + more, media_type=CONTENT_TYPE_LATEST)

    async def api(request: Request, _: str) -> Response:
        made, headers = page()
        return HTMLResponse(made, headers=headers)

    @cache
    def page() -> tuple[str, dict[str, str]]:
        return api_page(document())

    async def openapi(request: Request, _: str) -> Response:
        return JSONResponse(document())

    return [
        Route("GET", "/healthz", "anyone", health, "Check that the process is alive.", {200: Alive}),
        Route("GET", "/readyz", "anyone", ready, "Check that the service can store reports.", {200: Ready}, (503,)),
        Route(
            "GET",
            "/metrics",
            "anyone",
            metrics,
            "Get Prometheus metrics."
            if more_metrics is None
            else "Get Prometheus metrics; with an operator's or a viewer's key, also those of studies.",
            {200: None},
            () if more_metrics is None else (401,),
            media_type="text/plain",
        ),
        Route("GET", "/api", "anyone", api, "Read this document as a page.", {200: None}, media_type="text/html"),
        Route("GET", "/openapi.json", "anyone", openapi, "Get this document.", {200: OpenAPI}),
    ]
