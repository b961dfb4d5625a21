"""The shuffler over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated

import httpx
import numpy as np
import sqlalchemy as sa
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from voxpop.privacy.batch import Batch
from voxpop.service import logs
from voxpop.service.group_commit import GroupWriter
from voxpop.service.keys import SIGNATURE, signed
from voxpop.service.refusals import Refusal, one, too_large
from voxpop.service.shuffler import signed_http
from voxpop.service.shuffler.batches import EncodedReport, Shuffler, Verdict
from voxpop.service.web.bodies import MOST_STUDY_BYTES, RECEIPT
from voxpop.service.web.guard import Buckets, Guard, Metrics
from voxpop.service.web.routes import Gate, Role, Route, anyone, bearer, body_of, make_app, text_of
from voxpop.service.web.standard_routes import schema, usual
from voxpop.service.web.upload import NUMBER, REST
from voxpop.stores.schema import batches

DESCRIPTION = (
    "A shuffler takes encoded reports, waits for a whole batch, and forwards how many ones each coordinate has. Every "
    'operation says in x-voxpop-role who may call it. Errors are {"error": one sentence}.'
)
RETRY = 1.0  # seconds between attempts to forward
Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Announcement(BaseModel):
    """A batch, the tokens that may send reports, and those whose time is over."""

    model_config = ConfigDict(extra="forbid")
    coordinates: int = Field(ge=1, le=100_000)
    bits: int = Field(ge=1, le=10**9)
    size: int = Field(ge=1, le=10**7)
    tokens: list[Hash]
    overdue: list[Hash]


class Report(BaseModel):
    """A report, and the batch for which the device made its noise."""

    model_config = ConfigDict(extra="forbid")
    report: list[Annotated[float, Field(allow_inf_nan=False)]] = Field(min_length=1)
    size: int = Field(ge=1, le=10**7)
    coordinates: int = Field(ge=1, le=100_000)
    bits: int = Field(ge=1, le=10**9)


class ShufflerService:
    """The handlers, and the task that forwards."""

    def __init__(self, shuffler: Shuffler, coordinator_url: str, key: bytes) -> None:
        self.shuffler, self.url, self.key = shuffler, coordinator_url, key
        self.metrics = Metrics()
        self.writer: GroupWriter[EncodedReport, Verdict] = GroupWriter(shuffler.store)
        self._client = httpx.Client(timeout=30)
        self._something = asyncio.Event()
        self._coordinates: dict[str, int] = {}  # by batch

    async def coordinator(self, request: Request) -> str:
        given = request.headers.get("x-voxpop-signature", "")
        path = request.scope["path"]
        if not SIGNATURE.fullmatch(given) or not signed(self.key, request.method, path, await request.body(), given):
            raise Refusal(401, "the signature is not that of this shuffler's coordinator; nothing was taken")
        return ""

    async def announce(self, request: Request, _: str) -> Response:
        said = await body_of(request, Announcement)
        fresh, overdue = ([bytes.fromhex(token) for token in part] for part in (said.tokens, said.overdue))
        name, batch = text_of(request, "batch"), Batch(said.size, said.coordinates, said.bits)
        return JSONResponse(await run_in_threadpool(self.shuffler.announce, name, batch, fresh, overdue))

    async def upload(self, request: Request, token: str) -> Response:
        batch = text_of(request, "batch")
        most = NUMBER * await self._room(batch) + REST
        if len(await request.body()) > most:  # before it is decoded
            raise too_large(most)
        said = await body_of(request, Report)
        body = np.array(said.report, dtype="<f8").tobytes()
        report = EncodedReport(batch, token, body, Batch(said.size, said.coordinates, said.bits))
        new = one([await self.writer.put(report, len(body))])
        if new:
            self.metrics.reports.inc()
            self._something.set()
        return JSONResponse({"status": "counted" if new else "counted before"}, 201 if new else 200)

    async def _room(self, batch: str) -> int:
        """The numbers that a report of this batch has."""
        if batch not in self._coordinates:
            wanted = sa.select(batches.c.coordinates).where(batches.c.id == batch)

            def look() -> int | None:
                with self.shuffler.database.read() as connection:
                    return connection.execute(wanted).scalar_one_or_none()

            found = await run_in_threadpool(look)
            if found is None:
                return 0  # there is no such batch, as the caller will be told
            self._coordinates[batch] = found
        return self._coordinates[batch]

    async def forward(self) -> None:
        """Forward totals until they are taken, for ever."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._something.wait(), RETRY)
            self._something.clear()
            try:
                await run_in_threadpool(self._forward)
            except Exception as error:  # the coordinator is away: it will be back
                logs.fault("forward", error)
                await asyncio.sleep(RETRY)

    def _forward(self) -> None:
        self.shuffler.database.scrub()
        for batch, total in self.shuffler.sealed():
            answer = signed_http.send(self._client, self.key, self.url, f"/v1/batches/{batch}/total", total)
            if answer.status_code in (200, 201, 410):  # 410: released already, or so it seems
                self.shuffler.taken(batch)
            else:
                self.shuffler.note("not_taken", status=answer.status_code)

    def routes(self) -> list[Route]:
        """Every address of the shuffler."""
        batch = "/v1/batches/{batch}"
        return [
            *usual(lambda: self.shuffler.database, self.metrics, lambda: None),
            Route(
                "PUT",
                batch,
                "coordinator",
                self.announce,
                "Announce a batch, new tokens, and tokens whose time is over; may be repeated.",
                {200: schema(count=int, withdrawn=list, answered=list)},
                (404, 409),
                Announcement.model_json_schema(),
                most_bytes=MOST_STUDY_BYTES,
            ),
            Route(
                "PUT",
                batch + "/report",
                "token",
                self.upload,
                "Upload the report of an invitation, with the people, coordinates and bits its noise was made for.",
                {201: RECEIPT, 200: RECEIPT},
                (403, 404, 409, 410, 503),
                Report.model_json_schema(),
            ),
        ]

    def app(self) -> FastAPI:
        """The application without its guard."""

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[None]:
            forwarding = asyncio.create_task(self.forward())
            yield
            forwarding.cancel()
            await asyncio.gather(forwarding, return_exceptions=True)
            await self.writer.close()

        gates: dict[Role, Gate] = {"anyone": anyone, "token": bearer, "coordinator": self.coordinator}
        return make_app("voxpop shuffler", DESCRIPTION, self.routes(), gates, openapi_url=None, lifespan=lifespan)

    def guarded(self, buckets: Buckets, most_bytes: int) -> Guard:
        """The application as it meets the world."""
        larger = {f"{r.method} {r.path}": r.most_bytes for r in self.routes() if r.most_bytes is not None}
        return Guard(self.app(), self.metrics, buckets, most_bytes, larger)
