"""The coordinator over HTTP: its handlers, its routes and its application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cached_property, partial
from typing import Any

import msgspec
import sqlalchemy as sa
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from voxpop.service.console.routes import console_routes, refusal_page
from voxpop.service.console.screen import Console
from voxpop.service.console.sign_in import SignIn
from voxpop.service.group_commit import GroupWriter
from voxpop.service.keys import SIGNATURE, Keyring
from voxpop.service.refusals import Refusal, accepted
from voxpop.service.reports import Verdict, decode
from voxpop.service.stores.schema import studies
from voxpop.service.study import inbox, participants
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.scheduler import Scheduler
from voxpop.service.web import bodies
from voxpop.service.web.bodies import MOST_STUDY_BYTES, Report, Rounds, Total
from voxpop.service.web.guard import Guard
from voxpop.service.web.health import Readiness, standard_routes
from voxpop.service.web.limits import RateLimit
from voxpop.service.web.metrics import StudyMetrics, Telemetry
from voxpop.service.web.openapi import openapi_document
from voxpop.service.web.operator_api import OperatorApi
from voxpop.service.web.origins import Origins
from voxpop.service.web.routes import (
    STUDY,
    Role,
    RoleCheck,
    Route,
    Router,
    anyone,
    bearer,
    body_of,
    most_bytes_of,
    path_text,
    path_wave,
    read_body,
    route,
    routes_of,
)

DESCRIPTION = (
    "A coordinator plays decisions in waves and asks a random sample of people after each wave. The x-voxpop-role of "
    'an operation says who may call it. Errors are {"error": one sentence}.'
)
COUNTED, COUNTED_BEFORE = JSONResponse({"status": "counted"}, 201), JSONResponse({"status": "counted before"})


class CoordinatorApp:
    """The handlers of a coordinator, and what they share."""

    def __init__(
        self,
        coordinator: Coordinator,
        shuffler_key: Keyring | bytes | None = None,
        open_dashboard: bool = False,
        workers: int = 1,
        origins: frozenset[str] = frozenset(),
    ) -> None:
        self.coordinator, self._origins = coordinator, origins
        self.shuffler_keys = None if shuffler_key is None else Keyring.of(shuffler_key)
        self.telemetry = Telemetry()
        self.scheduler = Scheduler(coordinator)
        self.operators = OperatorApi(coordinator, self.scheduler.nudge, open_dashboard)
        self._readiness = Readiness(lambda: coordinator.database)
        self.console = Console(coordinator, open_dashboard, self.scheduler.nudge, self._trouble, workers)
        self.sign_in = SignIn(self.console)
        self.telemetry.observe(lambda: {"voxpop_scheduler_lag_seconds": self.scheduler.lag})
        self._study_metrics = StudyMetrics(coordinator.context)
        self.registrations: GroupWriter[participants.Newcomer, bool | Refusal] = GroupWriter(
            partial(participants.register, coordinator.context)
        )
        self.check_ins: GroupWriter[tuple[str, str], str | Refusal] = GroupWriter(
            partial(participants.check_in, coordinator.context)
        )
        self.uploads: GroupWriter[inbox.Upload, Verdict] = GroupWriter(partial(inbox.store, coordinator.context))

    # -- roles

    async def shuffler(self, request: Request) -> str:
        """Check the shuffler's signature; refuse what it can before reading the body, which may be large."""
        keys, given = self.shuffler_keys, request.headers.get("x-voxpop-signature", "")
        stranger = Refusal(401, "the signature is not that of this coordinator's shuffler; nothing was taken")
        if keys is None or not SIGNATURE.fullmatch(given):
            raise stranger
        if not await run_in_threadpool(self._awaits, path_text(request, "batch")):
            raise Refusal(410, "no wave waits for this batch; it was released, or never announced")
        if not keys.signed(request.method, request.scope["path"], await body_of(request).read(), given):
            raise stranger
        return ""

    def _awaits(self, batch: str) -> bool:
        with self.coordinator.database.read() as connection:
            return connection.execute(sa.select(studies.c.id).where(studies.c.batch == batch)).first() is not None

    # -- for people

    @route(
        "PUT",
        STUDY + "/waves/{wave}/report",
        "token",
        {201: bodies.Receipt, 200: bodies.Receipt},
        (403, 404, 409, 410),
        Report,
        for_devices=True,
    )
    async def upload_report(self, request: Request, token: str) -> Response:
        """Upload the report for an invitation; repeating the same report is fine, a different one is refused."""
        study, wave = path_text(request, "study"), path_wave(request)
        body = body_of(request)
        most = most_bytes_of(self._known_numbers(study))
        if body.announced is None or body.announced > most:  # another coordinator may just have opened a wave
            with suppress(Refusal):  # the upload itself will be refused
                await run_in_threadpool(self.coordinator.snapshots.current, study)
            most = most_bytes_of(self._known_numbers(study))
        body.limit(most)
        report = decode(await body.read())
        new = accepted(await self.uploads.put(inbox.Upload((study, wave), token, report), len(report)))
        if new:
            self.telemetry.reports.inc()
            self.scheduler.count(study)
        return COUNTED if new else COUNTED_BEFORE

    def _known_numbers(self, study: str) -> int:
        """Return how many numbers a report of the study has at most, in any wave that is known here."""
        snapshot = self.coordinator.snapshots.known(study)
        return 0 if snapshot is None else snapshot.most_arms

    # -- for the application

    @route("GET", STUDY + "/decision", "anyone", {200: bodies.CurrentDecision}, (404,), for_devices=True)
    async def decision(self, request: Request, _: str) -> Response:
        """Get the decision in force."""
        return JSONResponse(await run_in_threadpool(self.coordinator.decision, path_text(request, "study")))

    @route("PUT", STUDY + "/rounds/{key}", "operator", {200: bodies.RoundsCounted}, (403, 404, 409), Rounds)
    async def play(self, request: Request, _: str) -> Response:
        """Report rounds that were played; repeating a key changes nothing."""
        study, key = path_text(request, "study"), path_text(request, "key")
        rounds = await read_body(request, Rounds)
        done = await run_in_threadpool(self.coordinator.play, study, rounds.wave, key, rounds.rounds)
        self.scheduler.nudge(study)
        return JSONResponse(done)

    # -- for people

    @route(
        "PUT",
        STUDY + "/participant",
        "participant",
        {201: bodies.Registered, 200: bodies.Registered},
        (403, 404, 410),
        headers={"X-Voxpop-Enrolment": "The enrolment code, if the study has one."},
        for_devices=True,
    )
    async def register(self, request: Request, key: str) -> Response:
        """Register as a participant; repeating the request changes nothing."""
        code = request.headers.get("x-voxpop-enrolment")
        study = path_text(request, "study")
        new = accepted(await self.registrations.put(participants.Newcomer(study, key, code)))
        if new:
            self.scheduler.nudge(study)
        return JSONResponse({"status": "registered"}, 201 if new else 200)

    @route("DELETE", STUDY + "/participant", "participant", {200: bodies.Withdrawn}, (404,), for_devices=True)
    async def withdraw(self, request: Request, key: str) -> Response:
        """Withdraw: what may be forgotten of this participant is; repeating the request changes nothing."""
        study = path_text(request, "study")
        await run_in_threadpool(self.coordinator.withdraw, study, key)
        self.scheduler.nudge(study)
        return JSONResponse({"status": "withdrawn"})

    @route("GET", STUDY + "/checkin", "participant", {200: bodies.CheckIn}, (404,), for_devices=True)
    async def check_in(self, request: Request, key: str) -> Response:
        """Check whether this participant is invited and, if so, get what the device needs."""
        reply = accepted(await self.check_ins.put((path_text(request, "study"), key)))
        return Response(reply, media_type="application/json")

    # -- for the shuffler

    @route(
        "PUT",
        "/v2/batches/{batch}/total",
        "shuffler",
        {201: bodies.Taken, 200: bodies.Taken},
        (404, 409, 410),
        Total,
        most_bytes=MOST_STUDY_BYTES,
    )
    async def total(self, request: Request, _: str) -> Response:
        """Deliver the total of a whole batch."""
        total = await read_body(request, Total)
        new = await run_in_threadpool(
            self.coordinator.take_total, path_text(request, "batch"), msgspec.to_builtins(total)
        )
        self.scheduler.nudge()
        return JSONResponse({"status": "taken"}, 201 if new else 200)

    # -- whether it works

    async def _trouble(self) -> str | None:
        return await self._readiness.problem() or self._problem()

    async def metrics_of_studies(self, request: Request) -> bytes:
        """Return the metrics of the studies that the caller may see, if there is a key."""
        if "authorization" not in request.headers:
            return b""
        return await run_in_threadpool(self._study_metrics.text, await self.operators.principal(request))

    def _problem(self) -> str | None:
        return None if self.scheduler.alive else "the scheduler has stopped; restart the service"

    # -- the application

    def routes(self) -> list[Route]:
        """Declare every route, the busiest first: the router tries them in this order."""
        return [
            *routes_of(self),
            *standard_routes(
                lambda: self.coordinator.database,
                self.telemetry,
                self._problem,
                lambda: self.document,
                self.metrics_of_studies,
            ),
            *self.operators.routes(),
            *console_routes(self.console, self.sign_in),
        ]

    @cached_property
    def document(self) -> dict[str, Any]:
        """The OpenAPI document."""
        return openapi_document("voxpop coordinator", DESCRIPTION, self.routes())

    def guarded(self, rate_limit: RateLimit, most_bytes: int) -> Guard:
        """Make the ASGI application, with the guard before its routes."""
        checks: dict[Role, RoleCheck] = {
            "anyone": anyone,
            "operator": self.operators.operator,
            "viewer": self.operators.viewer,
            "participant": bearer,
            "token": bearer,
            "shuffler": self.shuffler,
            **self.sign_in.checks,
        }
        routes = self.routes()
        origins, router = Origins(self._origins, routes), Router(routes, checks, most_bytes)
        return Guard(router, self.telemetry, rate_limit, refusal_page, origins, self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _: object) -> AsyncIterator[None]:
        async with self.scheduler:
            yield
        for group in (self.registrations, self.check_ins, self.uploads):
            await group.close()
