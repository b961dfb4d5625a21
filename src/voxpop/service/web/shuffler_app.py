"""The shuffler over HTTP: its handlers, and the task that forwards totals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
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
from voxpop.service.shuffler.batches import BatchProgress, CheckedShares, EncodedReport, SealedBatch, Shuffler
from voxpop.service.stores.schema import batches
from voxpop.service.web import bodies
from voxpop.service.web.bodies import MOST_STUDY_BYTES, Announcement, Seal, ShuffledReport, Verify, bytes_of
from voxpop.service.web.guard import SIGNED_WITH
from voxpop.service.web.routes import body_of, most_bytes_of, route
from voxpop.service.web.service import Service, upload

BATCH = "/v2/batches/{batch}"
RETRY = 1.0  # seconds between attempts to forward


class ShufflerApp(Service):
    """The handlers of a shuffler, and what they share."""

    title = "voxpop shuffler"
    description = (
        "A shuffler takes encoded reports, waits for a whole batch, and forwards the number of ones per coordinate. Of "
        "shares it is a helper: it checks their proofs with the coordinator, and tells it their total once, for the "
        "tokens that it names. The "
        'x-voxpop-role of an operation says who may call it. Errors are {"error": one sentence}.'
    )

    def __init__(
        self, shuffler: Shuffler, coordinator_url: str, key: Keyring | bytes, origins: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(lambda: shuffler.database, origins)
        self.shuffler, self.url, self.keys = shuffler, coordinator_url, Keyring.of(key)
        self.checks["coordinator"] = self.coordinator
        self.uploads: GroupWriter[EncodedReport, Verdict] = GroupWriter(shuffler.store)
        self._client = httpx.Client()
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
        request.scope[SIGNED_WITH] = self.keys, given
        return ""

    @route("PUT", BATCH, "coordinator", BatchProgress, (404, 409, 410), most_bytes=MOST_STUDY_BYTES)
    def announce(self, batch: str, body: Announcement) -> BatchProgress:
        """Announce a batch, new tokens, tokens whose time is over, and those to forget; may be repeated."""
        return self.shuffler.announce(batch, body.batch, *map(bytes_of, (body.tokens, body.overdue, body.forget)))

    @route("PUT", BATCH + "/verify", "coordinator", CheckedShares, (404, 409, 410), most_bytes=MOST_STUDY_BYTES)
    def verify(self, batch: str, body: Verify) -> CheckedShares:
        """Check the proofs of shares with the coordinator's verifier shares; may be repeated."""
        shares = {bytes.fromhex(token): share for token, share in body.verifiers.items()}
        return self.shuffler.verify(batch, bytes.fromhex(body.key), shares)

    @route("PUT", BATCH + "/seal", "coordinator", SealedBatch, (404, 409, 410), most_bytes=MOST_STUDY_BYTES)
    def seal(self, batch: str, body: Seal) -> SealedBatch:
        """Add up the shares of exactly these tokens, once, or say which are missing; may be repeated."""
        return self.shuffler.seal(batch, bytes_of(body.tokens))

    @route("DELETE", BATCH, "coordinator", bodies.CalledOff, (404,))
    def call_off(self, batch: str) -> Any:
        """Delete a batch with all its reports, because nothing will be released; may be repeated."""
        self.shuffler.call_off(batch)
        return {"status": "called off"}

    @upload(BATCH + "/report", body=ShuffledReport)
    async def upload_report(self, request: Request, batch: str, caller: str) -> Response:
        """Upload the report for an invitation, with the batch and encoding that its noise was made for."""
        known = self._coordinates.get(batch, 0) or await run_in_threadpool(self._coordinates_of, batch)
        body_of(request).limit(most_bytes_of(known))
        report = await ShuffledReport.read(request)
        encoded = EncodedReport(batch, caller, report.stored, report.batch)
        new = accepted(await self.uploads.put(encoded, len(encoded.body)))
        if new:
            self.telemetry.reports.inc()
            self._counted.set()
        return JSONResponse({"status": "counted" if new else "counted before"}, 201 if new else 200)

    def _coordinates_of(self, batch: str) -> int:
        """Return how many numbers a report of this batch has; 0 if there is no such batch: the upload is refused."""
        wanted = sa.select(batches.c.coordinates).where(batches.c.id == batch)
        with self.shuffler.database.read() as connection:
            found = int(connection.execute(wanted).scalar_one_or_none() or 0)
        if found:
            self._coordinates[batch] = found
        return found

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
            try:
                answer = signed_http.send(self._client, self.keys, self.url, f"/v2/batches/{batch}/total", total)
            except httpx.DecodingError as error:  # no reply of the coordinator's; it may take the others
                logs.fault("forward", error)
                continue
            if answer.status_code in (200, 201, 410):  # 410: presumably released already
                self.shuffler.taken(batch)
            else:
                self.shuffler.note("not_taken", status=answer.status_code)

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncIterator[None]:
        """Forward totals while the service runs."""
        forwarding = asyncio.create_task(self.forward())
        yield
        # Told, and cancelled only if that does not help: `wait_for` of Python 3.11 may swallow a cancellation.
        self._stopping = True
        self._counted.set()
        for _ in range(2):
            await asyncio.wait([forwarding], timeout=2 * RETRY)
            forwarding.cancel()
        await self.uploads.close()
