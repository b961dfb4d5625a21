"""The coordinator over HTTP."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import sqlalchemy as sa
from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from voxpop.service.group_commit import GroupWriter
from voxpop.service.keys import SIGNATURE, signed
from voxpop.service.refusals import Refusal, one
from voxpop.service.study import inbox, participants
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.definition import Definition
from voxpop.service.study.scheduler import Scheduler
from voxpop.service.study.stages import Stage
from voxpop.service.web.bodies import MOST_STUDY_BYTES, RECEIPT, REPORT, NewStudy, Rounds, Total
from voxpop.service.web.dashboard import PAGE_HEADERS, page, watch
from voxpop.service.web.guard import Buckets, Guard, Metrics
from voxpop.service.web.routes import (
    Gate,
    Role,
    Route,
    anyone,
    bearer,
    body_of,
    make_app,
    require_phase,
    require_text,
    text_of,
    unreached,
)
from voxpop.service.web.standard_routes import schema, usual
from voxpop.service.web.upload import Direct
from voxpop.stores.schema import studies

DESCRIPTION = (
    "A coordinator plays decisions in phases and asks a random sample of people after each. Every operation says in "
    'x-voxpop-role who may call it. Errors are {"error": one sentence}.'
)


class Service:
    """The handlers, and what they share."""

    def __init__(
        self, coordinator: Coordinator, shuffler_key: bytes | None = None, open_dashboard: bool = False
    ) -> None:
        self.coordinator = coordinator
        self.shuffler_key = shuffler_key
        self.open_dashboard = open_dashboard
        self.metrics = Metrics()
        self.scheduler = Scheduler(coordinator)
        self.writer: GroupWriter[inbox.Upload, inbox.Verdict] = GroupWriter(partial(inbox.store, coordinator.context))
        self.registrar: GroupWriter[participants.Newcomer, bool | Refusal] = GroupWriter(
            partial(participants.register, coordinator.context)
        )
        self.usher: GroupWriter[tuple[str, str], str | Refusal] = GroupWriter(
            partial(participants.check_in, coordinator.context)
        )

    # -- who may call

    async def operator(self, request: Request) -> str:
        key = await bearer(request)
        if not await run_in_threadpool(self.coordinator.is_operator, key):
            raise Refusal(401, "this is not the key of an operator; make one with: voxpop keys operator")
        return key

    async def shuffler(self, request: Request) -> str:
        # Whatever can be refused is refused before the body is read: anybody may send a large one.
        key, given = self.shuffler_key, request.headers.get("x-voxpop-signature", "")
        stranger = Refusal(401, "the signature is not that of this coordinator's shuffler; nothing was taken")
        if key is None or not SIGNATURE.fullmatch(given):
            raise stranger
        if not await run_in_threadpool(self._awaits, text_of(request, "batch")):
            raise Refusal(410, "no phase waits for this batch; it was released, or never announced")
        if not signed(key, request.method, request.scope["path"], await request.body(), given):
            raise stranger
        return ""

    def _awaits(self, batch: str) -> bool:
        with self.coordinator.database.read() as connection:
            return connection.execute(sa.select(studies.c.id).where(studies.c.batch == batch)).first() is not None

    # -- operators

    async def create(self, request: Request, _: str) -> Response:
        study = text_of(request, "study")
        new = await body_of(request, NewStudy)
        definition = await run_in_threadpool(Definition.of, new.definition)
        created = await run_in_threadpool(self.coordinator.create, study, definition, new.enrolment_code)
        self.scheduler.nudge()
        return JSONResponse({"study": study}, 201 if created else 200)

    async def studies(self, request: Request, _: str) -> Response:
        return JSONResponse({"studies": await run_in_threadpool(self.coordinator.studies)})

    async def status(self, request: Request, _: str) -> Response:
        return JSONResponse(await run_in_threadpool(self.coordinator.status, text_of(request, "study")))

    async def log(self, request: Request, _: str) -> Response:
        events = await run_in_threadpool(self.coordinator.log, text_of(request, "study"))
        return JSONResponse({"events": [{"seq": e.seq, "kind": e.kind, "at": e.at, "body": e.body} for e in events]})

    async def watched(self, request: Request, _: str) -> Response:
        return JSONResponse(await run_in_threadpool(watch, self.coordinator, text_of(request, "study")))

    # -- the application

    async def decision(self, request: Request, _: str) -> Response:
        return JSONResponse(await run_in_threadpool(self.coordinator.decision, text_of(request, "study")))

    async def play(self, request: Request, _: str) -> Response:
        study, key = text_of(request, "study"), text_of(request, "key")
        rounds = await body_of(request, Rounds)
        done = await run_in_threadpool(self.coordinator.play, study, rounds.phase, key, rounds.rounds)
        self.scheduler.nudge()
        return JSONResponse(done)

    # -- participants

    async def register(self, request: Request, key: str) -> Response:
        code = request.headers.get("x-voxpop-enrolment")
        study = text_of(request, "study")
        new = one([await self.registrar.put(participants.Newcomer(study, key, code))])
        if new:
            self.scheduler.nudge()
        return JSONResponse({"status": "registered"}, 201 if new else 200)

    async def checkin(self, request: Request, key: str) -> Response:
        body = one([await self.usher.put((text_of(request, "study"), key))])
        return Response(body, media_type="application/json")

    async def count(self, match: re.Match[str], token: str, report: bytes) -> bool:
        """Count a report; False if it was counted before."""
        place = require_text("study", match["study"]), require_phase(match["phase"])
        new = one([await self.writer.put(inbox.Upload(place, token, report), len(report))])
        if new:
            self.metrics.reports.inc()
            self.scheduler.count(place[0])
        return new

    async def room(self, match: re.Match[str], again: bool) -> int:
        """The most numbers that a report of this study has or had."""
        study = require_text("study", match["study"])
        snapshot = self.coordinator.snapshots.known(study)
        if snapshot is None or again:
            try:
                snapshot = await run_in_threadpool(self.coordinator.snapshots.current, study)
            except Refusal:
                return 0  # there is no such study, as the caller will be told
        plans = [phase.plan for phase in (*snapshot.closed, snapshot.current) if phase is not None]
        return max((len(plan.arms) for plan in plans), default=0)

    # -- the shuffler

    async def total(self, request: Request, _: str) -> Response:
        total = await body_of(request, Total)
        new = await run_in_threadpool(self.coordinator.take_total, text_of(request, "batch"), total.model_dump())
        self.scheduler.nudge()
        return JSONResponse({"status": "taken"}, 201 if new else 200)

    # -- anyone

    async def page(self, request: Request, _: str) -> Response:
        return HTMLResponse(page(self.open_dashboard), headers=PAGE_HEADERS)

    def _unwell(self) -> str | None:
        return None if self.scheduler.alive else "nothing moves the studies on; restart the service"

    def routes(self) -> list[Route]:
        """Every address of the coordinator."""
        v1 = "/v1/studies/{study}"
        watcher: Role = "anyone" if self.open_dashboard else "operator"
        count = {"type": "integer", "minimum": 0}
        stage = {"enum": [str(stage) for stage in Stage]}
        decision = schema(phase=count, stage=stage, index=count, decision=None, rounds=count)
        alive = schema(status=str)
        studies = schema(studies={"type": "array", "items": {"type": "string"}})
        return [
            Route("GET", "/", "anyone", self.page, "The dashboard.", {200: None}, media="text/html"),
            *usual(lambda: self.coordinator.database, self.metrics, self._unwell),
            Route("GET", "/v1/studies", watcher, self.studies, "All studies.", {200: studies}),
            Route(
                "PUT",
                v1,
                "operator",
                self.create,
                "Create a study; the same again changes nothing.",
                {201: schema(study=str), 200: schema(study=str)},
                (404, 409),
                NewStudy.model_json_schema(),
                most_bytes=MOST_STUDY_BYTES,
            ),
            Route("GET", v1, "operator", self.status, "How far a study is.", {200: schema(stage=stage)}, (404,)),
            Route("GET", v1 + "/log", "operator", self.log, "Its log.", {200: schema(events=list)}, (404,)),
            Route("GET", v1 + "/watch", watcher, self.watched, "What the dashboard draws.", {200: schema()}, (404,)),
            Route("GET", v1 + "/decision", "anyone", self.decision, "The decision in force.", {200: decision}, (404,)),
            Route(
                "PUT",
                v1 + "/rounds/{key}",
                "operator",
                self.play,
                "So many rounds were played; the same key again changes nothing.",
                {200: schema(counted=count, played=count)},
                (404, 409),
                Rounds.model_json_schema(),
            ),
            Route(
                "PUT",
                v1 + "/participant",
                "participant",
                self.register,
                "Register; the same key again changes nothing.",
                {201: alive, 200: alive},
                (403, 404, 410),
                headers={"X-Voxpop-Enrolment": "The enrolment code, if the study has one."},
            ),
            Route(
                "GET",
                v1 + "/checkin",
                "participant",
                self.checkin,
                "Whether this participant is invited, and what the device needs then.",
                {200: schema(invited=bool)},
                (404,),
            ),
            Route(
                "PUT",
                v1 + "/phases/{phase}/report",
                "token",
                unreached,
                "Upload the report of an invitation; the same again is fine, another one is refused.",
                {201: RECEIPT, 200: RECEIPT},
                (403, 404, 409, 410, 503),
                REPORT,
            ),
            Route(
                "PUT",
                "/v1/batches/{batch}/total",
                "shuffler",
                self.total,
                "Take the total of a whole batch.",
                {201: alive, 200: alive},
                (404, 409, 410),
                Total.model_json_schema(),
                most_bytes=MOST_STUDY_BYTES,
            ),
        ]

    def gates(self) -> dict[Role, Gate]:
        """Who is let in where."""
        return {
            "anyone": anyone,
            "operator": self.operator,
            "participant": bearer,
            "token": bearer,
            "shuffler": self.shuffler,
        }

    def app(self) -> FastAPI:
        """The application without its guard."""

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[None]:
            async with self.scheduler:
                yield
            for group in (self.writer, self.registrar, self.usher):
                await group.close()

        gates = self.gates()
        routes = self.routes()
        return make_app("voxpop coordinator", DESCRIPTION, routes, gates, openapi_url=None, lifespan=lifespan)

    def guarded(self, buckets: Buckets, most_bytes: int) -> Guard:
        """The application as it meets the world."""
        app = self.app()
        larger = {f"{r.method} {r.path}": r.most_bytes for r in self.routes() if r.most_bytes is not None}
        uploads = next(route for route in self.routes() if route.role == "token")
        return Guard(app, self.metrics, buckets, most_bytes, larger, Direct(uploads, self.count, self.room))
