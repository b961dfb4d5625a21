"""The shuffler over HTTP: its handlers, its routes, its application, and the task that forwards totals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from typing import Any

import httpx
import numpy as np
import sqlalchemy as sa
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from voxpop.service import logs
from voxpop.service.group_commit import GroupWriter
from voxpop.service.keys import SIGNATURE, Keyring
from voxpop.service.refusals import Refusal, accepted
from voxpop.service.reports import Verdict
from voxpop.service.shuffler import signed_http
from voxpop.service.shuffler.batches import EncodedReport, Shuffler
from voxpop.service.stores.schema import batches
from voxpop.service.web.bodies import (
    MOST_STUDY_BYTES,
    Announcement,
    BatchProgress,
    CalledOff,
    Receipt,
    Seal,
    SealedBatch,
    ShuffledReport,
)
from voxpop.service.web.guard import Guard
from voxpop.service.web.health import standard_routes
from voxpop.service.web.limits import RateLimit
from voxpop.service.web.metrics import Telemetry
from voxpop.service.web.openapi import openapi_document
from voxpop.service.web.origins import Origins
from voxpop.service.web.routes import (
    Role,
    RoleCheck,
    Route,
    Router,
    anyone,
    bearer,
    body_of,
    most_bytes_of,
    path_text,
    read_body,
    route,
    routes_of,
)

DESCRIPTION = (
    "A shuffler takes encoded reports, waits for a whole batch, and forwards the number of ones per coordinate. Of "
    "shares it is a helper, and tells the coordinator their total once, for the tokens that it names. The "
    'x-voxpop-role of an operation says who may call it. Errors are {"error": one sentence}.'
)
BATCH = "/v2/batches/{batch}"
RETRY = 1.0  # seconds between attempts to forward


class ShufflerApp:
    """The handlers of a shuffler, and what they share."""

    def __init__(
        self, shuffler: Shuffler, coordinator_url: str, key: Keyring | bytes, origins: frozenset[str] = frozenset()
    ) -> None:
        self.shuffler, self.url, self.keys, self._origins = shuffler, coordinator_url, Keyring.of(key), origins
        self.telemetry = Telemetry()
        self.uploads: GroupWriter[EncodedReport, Verdict] = GroupWriter(shuffler.store)
        self._client = httpx.Client(timeout=30)
        self._stopping = False
        self._counted = asyncio.Event()  # a report was counted, and a batch may be whole
        self._coordinates: dict[str, int] = {}  # by batch

    async def coordinator(self, request: Request) -> str:
        """Check the coordinator's signature."""
        given = request.headers.get("x-voxpop-signature", "")
        path = request.scope["path"]
        if not SIGNATURE.fullmatch(given) or not self.keys.signed(
            request.method, path, await body_of(request).read(), given
        ):
            raise Refusal(401, "the signature is not that of this shuffler's coordinator; nothing was taken")
        return ""

    @route(
        "PUT", BATCH, "coordinator", {200: BatchProgress}, (404, 409, 410), Announcement, most_bytes=MOST_STUDY_BYTES
    )
    async def announce(self, request: Request, _: str) -> Response:
        """Announce a batch, new tokens, tokens whose time is over, and those to forget; may be repeated."""
        said = await read_body(request, Announcement)
        parts = ([bytes.fromhex(token) for token in part] for part in (said.tokens, said.overdue, said.forget))
        name = path_text(request, "batch")
        return JSONResponse(await run_in_threadpool(self.shuffler.announce, name, said.batch, *parts))

    @route(
        "PUT", BATCH + "/seal", "coordinator", {200: SealedBatch}, (404, 409, 410), Seal, most_bytes=MOST_STUDY_BYTES
    )
    async def seal(self, request: Request, _: str) -> Response:
        """Add up the shares of exactly these tokens, once, or say which are missing; may be repeated."""
        said = await read_body(request, Seal)
        chosen = [bytes.fromhex(token) for token in said.tokens]
        return JSONResponse(await run_in_threadpool(self.shuffler.seal, path_text(request, "batch"), chosen))

    @route("DELETE", BATCH, "coordinator", {200: CalledOff}, (404,))
    async def call_off(self, request: Request, _: str) -> Response:
        """Delete a batch with all its reports, because nothing will be released; may be repeated."""
        await run_in_threadpool(self.shuffler.call_off, path_text(request, "batch"))
        return JSONResponse({"status": "called off"})

    @route(
        "PUT",
        BATCH + "/report",
        "token",
        {201: Receipt, 200: Receipt},
        (403, 404, 409, 410),
        ShuffledReport,
        for_devices=True,
    )
    async def upload_report(self, request: Request, token: str) -> Response:
        """Upload the report for an invitation, with the batch and encoding that its noise was made for."""
        batch = path_text(request, "batch")
        body_of(request).limit(most_bytes_of(await self._coordinates_of(batch)))
        report = await read_body(request, ShuffledReport)
        numbers = np.array(report.report, dtype="<f8").tobytes()
        encoded = EncodedReport(batch, token, numbers, report.batch)
        new = accepted(await self.uploads.put(encoded, len(numbers)))
        if new:
            self.telemetry.reports.inc()
            self._counted.set()
        return JSONResponse({"status": "counted" if new else "counted before"}, 201 if new else 200)

    async def _coordinates_of(self, batch: str) -> int:
        """Return how many numbers a report of this batch has; 0 if there is no such batch."""
        if batch not in self._coordinates:
            wanted = sa.select(batches.c.coordinates).where(batches.c.id == batch)

            def query() -> int | None:
                with self.shuffler.database.read() as connection:
                    return connection.execute(wanted).scalar_one_or_none()

            found = await run_in_threadpool(query)
            if found is None:
                return 0  # the upload itself will be refused
            self._coordinates[batch] = found
        return self._coordinates[batch]

    async def forward(self) -> None:
        """Forward totals until the coordinator takes them, for as long as the service runs."""
        while not self._stopping:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._counted.wait(), RETRY)
            self._counted.clear()
            try:
                await run_in_threadpool(self._forward)
            except Exception as error:  # for instance, the coordinator is down: try again
                logs.fault("forward", error)
                await asyncio.sleep(RETRY)

    def _forward(self) -> None:
        self.shuffler.database.scrub()
        for batch, total in self.shuffler.sealed():
            answer = signed_http.send(self._client, self.keys, self.url, f"/v2/batches/{batch}/total", total)
            if answer.status_code in (200, 201, 410):  # 410: presumably released already
                self.shuffler.taken(batch)
            else:
                self.shuffler.note("not_taken", status=answer.status_code)

    # -- the application

    def routes(self) -> list[Route]:
        """Declare every route, the busiest first: the router tries them in this order."""
        return [
            *routes_of(self),
            *standard_routes(lambda: self.shuffler.database, self.telemetry, lambda: None, lambda: self.document),
        ]

    @cached_property
    def document(self) -> dict[str, Any]:
        """The OpenAPI document."""
        return openapi_document("voxpop shuffler", DESCRIPTION, self.routes())

    def guarded(self, rate_limit: RateLimit, most_bytes: int) -> Guard:
        """Make the ASGI application, with the guard before its routes."""
        checks: dict[Role, RoleCheck] = {"anyone": anyone, "token": bearer, "coordinator": self.coordinator}
        routes = self.routes()
        origins, router = Origins(self._origins, routes), Router(routes, checks, most_bytes)
        return Guard(router, self.telemetry, rate_limit, origins=origins, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _: object) -> AsyncIterator[None]:
        forwarding = asyncio.create_task(self.forward())
        yield
        # Told, and cancelled only if that does not help: `wait_for` of Python 3.11 may swallow a cancellation.
        self._stopping = True
        self._counted.set()
        for _ in range(2):
            await asyncio.wait([forwarding], timeout=2 * RETRY)
            forwarding.cancel()
        await self.uploads.close()
