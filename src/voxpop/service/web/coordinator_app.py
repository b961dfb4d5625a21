"""The coordinator over HTTP: the checks of its callers, and its handlers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

import msgspec
import sqlalchemy as sa
from anyio import from_thread
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from voxpop.service import audit, operators
from voxpop.service.console.connect import OutsideScreens
from voxpop.service.console.new_study import NewStudyScreen
from voxpop.service.console.screen import Console, Feed, refusal_page
from voxpop.service.console.sign_in import Provider, SignIn
from voxpop.service.console.studies import StudiesScreen, StudyScreen
from voxpop.service.console.system import SystemScreens
from voxpop.service.group_commit import GroupWriter
from voxpop.service.keys import SIGNATURE, Keyring, new_key
from voxpop.service.operators import Principal, require_holder
from voxpop.service.outbox import receivers
from voxpop.service.outbox.courier import Courier
from voxpop.service.outbox.receivers import Hook, Outside
from voxpop.service.refusals import Refusal, accepted, no_database, no_study
from voxpop.service.reports import Verdict, decode
from voxpop.service.stores.schema import studies
from voxpop.service.study import inbox, life, overview, participants
from voxpop.service.study.coordinator import Coordinator, RoundsCounted
from voxpop.service.study.definition import Definition
from voxpop.service.study.life import Wanted
from voxpop.service.study.scheduler import Scheduler
from voxpop.service.study.stages import Life
from voxpop.service.study.status import CurrentDecision, Status, Watch, status_of, watched
from voxpop.service.study.steps import close_early
from voxpop.service.web import bodies
from voxpop.service.web.bodies import MOST_STUDY_BYTES, bytes_of
from voxpop.service.web.guard import ENDLESS, SIGNED_WITH, STOPPING
from voxpop.service.web.limits import RateLimit, caller_of
from voxpop.service.web.metrics import StudyMetrics
from voxpop.service.web.routes import (
    OCTETS,
    STUDY,
    Route,
    bearer,
    body_of,
    most_bytes_of,
    require_manager,
    require_seen,
    route,
    routes_of,
    text_in,
)
from voxpop.service.web.service import Service, upload

TOTAL, HOOKS = "/v2/batches/{batch}/total", "/v2/webhooks"
ENROLMENT = {"X-Voxpop-Enrolment": "The enrolment code, if the study has one."}
NEWS = {"If-None-Match": "The ETag of the decision that you know: 304 if it is still in force."}
MOST_WAITING = 1000  # requests for another decision that one process lets wait
COUNTED, COUNTED_BEFORE = JSONResponse({"status": "counted"}, 201), JSONResponse({"status": "counted before"})


def tag_of(decision: CurrentDecision) -> str:
    """Return the ETag of a decision: weak, as it does not say for how many more rounds it is in force."""
    said = (decision.wave, decision.stage, decision.block, decision.index)
    return f'W/"{"-".join(map(str, said))}"'


class CoordinatorApp(Service):
    """The handlers of a coordinator, and what they share; of an open one, anyone may list and watch what is no draft.

    Handlers that are no coroutines run in threads.
    """

    title = "voxpop coordinator"
    description = (
        "A coordinator plays decisions in waves and asks a random sample of people after each wave. The x-voxpop-role "
        'of an operation says who may call it. Errors are {"error": one sentence}.'
    )
    page = staticmethod(refusal_page)

    def __init__(
        self,
        coordinator: Coordinator,
        shuffler_key: Keyring | bytes | None = None,
        open_dashboard: bool = False,
        workers: int = 1,
        origins: frozenset[str] = frozenset(),
        newcomers: float = 0.0,
        outside: Outside = Outside(),  # noqa: B008
        provider: Provider | None = None,
    ) -> None:
        super().__init__(lambda: coordinator.database, origins)
        self.coordinator, self._open = coordinator, open_dashboard
        self.context, self.database = coordinator.context, coordinator.database
        self.shuffler_keys = None if shuffler_key is None else Keyring.of(shuffler_key)
        self.newcomers = RateLimit(newcomers / 3600, max(1.0, newcomers))  # who register, an hour, from one address
        self.scheduler = Scheduler(coordinator)
        lag = self.telemetry.lag = lambda: self.scheduler.lag
        self.console = Console(coordinator, open_dashboard, self.nudge, self.problem, workers, lag)
        self.sign_in, self.courier = SignIn(self.console, provider), Courier(coordinator.context, outside)
        screens = (StudiesScreen, StudyScreen, NewStudyScreen, SystemScreens)
        self.screens = [*(one(self.console) for one in screens), OutsideScreens(self.console, outside)]
        self.checks |= {
            "operator": self.operator,
            "viewer": self.viewer,
            "application": self.application,
            "reader": self.reader,
            "participant": bearer,
            "shuffler": self.shuffler,
            **self.sign_in.checks,
        }
        self._waiting = 0  # requests that wait for another decision
        self._study_metrics = StudyMetrics(coordinator.context)
        self.registrations: GroupWriter[participants.Newcomer, bool | Refusal] = GroupWriter(
            partial(participants.register, coordinator.context)
        )
        self.check_ins: GroupWriter[tuple[str, str], bytes | Refusal] = GroupWriter(
            partial(participants.check_in, coordinator.context)
        )
        self.uploads: GroupWriter[inbox.Upload, Verdict] = GroupWriter(partial(inbox.store, coordinator.context))

    def nudge(self, study: str | None = None) -> None:
        """Make the scheduler look at a study soon, or at all; called by handlers in threads."""
        from_thread.run_sync(self.scheduler.nudge, study)

    # -- roles

    async def shuffler(self, request: Request) -> str:
        """Check the shuffler's signature; refuse what it can before reading the body, which may be large."""
        keys, given = self.shuffler_keys, request.headers.get("x-voxpop-signature", "")
        stranger = Refusal(401, "the signature is not that of this coordinator's shuffler; nothing was taken")
        if keys is None or not SIGNATURE.fullmatch(given):
            raise stranger
        request.scope[SIGNED_WITH] = keys, given  # also a refusal, by which the shuffler ends what it sends
        if not await run_in_threadpool(self._awaits, text_in(request.path_params, "batch")):
            raise Refusal(410, "no wave waits for this batch; it was released, or never announced")
        if not keys.signed(request.method, request.scope["path"], await body_of(request).read(), given):
            del request.scope[SIGNED_WITH]
            raise stranger
        return ""

    def _awaits(self, batch: str) -> bool:
        with self.database.read() as connection:
            return connection.execute(sa.select(studies.c.id).where(studies.c.batch == batch)).first() is not None

    async def operator(self, request: Request) -> str:
        """Check that the key is an operator's, and return the operator's name."""
        principal = await self.principal(request)
        require_manager(principal, request.path_params.get("study"))
        return principal.name

    async def application(self, request: Request) -> str:
        """Check that the key is that of the study's application, or of one who may do more."""
        principal = await self.principal(request)
        if not principal.plays(text_in(request.path_params, "study")):
            raise Refusal(
                403, f"the key of {principal.name!r} is not for the application of this study; ask an operator"
            )
        return principal.name

    async def reader(self, request: Request) -> str:
        """Check that the caller may read the decision in force: with a key, or as anyone if the study says so."""
        study, key = text_in(request.path_params, "study"), None
        if "authorization" in request.headers:
            key = await bearer(request)
        if await run_in_threadpool(self.coordinator.may_read, study, key):
            return ""
        if key is None:
            raise Refusal(401, f"only who has a key may read the decisions of {study!r}: an application, or a device")
        principal = await run_in_threadpool(operators.principal_of, self.database, key)
        if principal is None:
            raise Refusal(401, "this is nobody's key; a device registers first, and an application asks an operator")
        if not principal.sees(study) and not principal.plays(study):
            require_seen(principal, study)
        return principal.name

    async def viewer(self, request: Request) -> str:
        """Check that the key is that of an operator, or of a viewer of this study."""
        principal = await self.principal(request)
        require_seen(principal, text_in(request.path_params, "study"))
        return principal.name

    async def principal(self, request: Request) -> Principal:
        """Return whose key it is; refuse nobody's."""
        principal = await run_in_threadpool(operators.principal_of, self.database, await bearer(request))
        if principal is None:
            raise Refusal(
                401, "this is nobody's key, or it was revoked; make one with: voxpop keys operator (or viewer)"
            )
        return principal

    # -- for people

    @upload(STUDY + "/waves/{wave}/report", body=bodies.Report)
    async def upload_report(self, request: Request, study: str, wave: int, caller: str) -> Response:
        """Upload the report for an invitation; repeating the same report is fine, a different one is refused."""
        body = body_of(request)
        most = most_bytes_of(self._known_numbers(study))
        if body.announced is None or body.announced > most:  # another coordinator may just have opened a wave
            with suppress(Refusal):  # the upload itself will be refused
                await run_in_threadpool(self.coordinator.snapshots.current, study)
            most = most_bytes_of(self._known_numbers(study))
        body.limit(most)
        raw = request.headers.get("content-type", "").startswith(OCTETS)
        report = await body.read() if raw else decode(await body.read())
        new = accepted(await self.uploads.put(inbox.Upload((study, wave), caller, report), len(report)))
        if new:
            self.telemetry.reports.inc()
            self.scheduler.count(study)
        return COUNTED if new else COUNTED_BEFORE

    def _known_numbers(self, study: str) -> int:
        """Return how many numbers a report of the study has at most, in any wave that is known here."""
        snapshot = self.coordinator.snapshots.known(study)
        return 0 if snapshot is None else snapshot.most_words

    @upload(STUDY + "/participant", role="participant", reply=bodies.Registered, headers=ENROLMENT)
    async def register(self, request: Request, study: str, caller: str, body: bodies.Registration) -> Response:
        """Register as a participant; repeating the request changes nothing."""
        code = request.headers.get("x-voxpop-enrolment")
        address = caller_of(request.client.host) if request.client else ""
        if (wait := self.newcomers.take(address)) > 0:
            raise Refusal(429, "too many people registered from this address; wait, or ask the operator", wait)
        new = accepted(await self.registrations.put(participants.Newcomer(study, caller, code, body.stratum)))
        if new:
            self.scheduler.nudge(study)
        else:
            self.newcomers.give(address)
        return JSONResponse({"status": "registered"}, 201 if new else 200)

    @route("GET", STUDY + "/participant", "participant", participants.OwnData, (404,), for_devices=True)
    def own_data(self, study: str, caller: str) -> participants.OwnData:
        """Get all that is kept of this participant."""
        return participants.own_data(self.context, study, caller)

    @route("DELETE", STUDY + "/participant", "participant", bodies.Withdrawn, (404,), for_devices=True)
    def withdraw(self, study: str, caller: str) -> Any:
        """Withdraw: what may be forgotten of this participant is; repeating the request changes nothing."""
        participants.withdraw(self.context, study, caller)
        self.nudge(study)
        return {"status": "withdrawn"}

    @route("GET", STUDY + "/checkin", "participant", bodies.CheckIn, (404,), for_devices=True)
    async def check_in(self, study: str, caller: str) -> Response:
        """Check whether this participant is invited and, if so, get what the device needs."""
        return Response(accepted(await self.check_ins.put((study, caller))), media_type="application/json")

    # -- for the application

    @route(
        "GET", STUDY + "/decision", "reader", CurrentDecision, (304, 403, 404, 409, 422), for_devices=True, headers=NEWS
    )
    async def decision(self, request: Request, study: str, at: str | None = None, wait: str | None = None) -> Response:
        """Get the decision in force, now or at another time; or wait so many seconds for another one than you know."""
        known = request.headers.get("if-none-match", "")
        if wait is None or at is not None or self._waiting >= MOST_WAITING:
            found = await run_in_threadpool(self.coordinator.decision, study, at)
        else:
            found = await self._another(request, study, known, float(wait))
        headers = {"etag": tag_of(found), "cache-control": "no-cache"}
        if headers["etag"] == known:
            return Response(status_code=304, headers=headers)
        return JSONResponse(msgspec.to_builtins(found), headers=headers)

    async def _another(self, request: Request, study: str, known: str, seconds: float) -> CurrentDecision:
        """Wait for another decision than the known one; all who wait in this process share one look at it a second."""
        look = self.console.hub.look(Feed(f"decision {study}", lambda: self.coordinator.decision(study)))
        until, request.scope[ENDLESS] = time.monotonic() + seconds, True
        self._waiting += 1
        try:
            while await look.refresh():
                found: CurrentDecision | None = cast("CurrentDecision | None", look.view)
                if found is None:
                    raise no_database()
                if tag_of(found) != known or time.monotonic() >= until or STOPPING in request.scope:
                    return found
                await asyncio.sleep(look.pause)
            raise no_study(study)
        finally:
            self._waiting -= 1

    @route("PUT", STUDY + "/public", "operator", bodies.Public, (403, 404))
    def open_decisions(self, study: str, caller: str, body: bodies.Public) -> Any:
        """Let anyone read the decision in force, or only who has a key; repeating the request changes nothing."""
        self.coordinator.open_decisions(study, body.public, caller)
        return {"public": body.public}

    @route("PUT", STUDY + "/rounds/{key}", "application", RoundsCounted, (403, 404, 409))
    def play(self, study: str, key: str, body: bodies.Rounds) -> RoundsCounted:
        """Report rounds that were played; repeating a key changes nothing."""
        done = self.coordinator.play(study, body.wave, key, body.rounds)
        self.nudge(study)
        return done

    # -- for the shuffler

    @route("PUT", TOTAL, "shuffler", bodies.Taken, (404, 409, 410), (201, 200), most_bytes=MOST_STUDY_BYTES)
    def total(self, batch: str, body: bodies.Total) -> Response:
        """Deliver the total of a whole batch."""
        new = self.coordinator.take_total(batch, body.count, body.total, bytes_of(body.tokens))
        self.nudge()
        return JSONResponse({"status": "taken"}, 201 if new else 200)

    # -- for operators and viewers

    @route("PUT", STUDY, "operator", bodies.StudyCreated, (403, 404, 409), (201, 200), most_bytes=MOST_STUDY_BYTES)
    def create_study(self, study: str, caller: str, body: bodies.NewStudy) -> Response:
        """Create a study; repeating the request changes nothing."""
        definition = Definition.decode(body.definition)
        new = self.coordinator.create(study, definition, body.enrolment_code, body.draft, caller, body.public)
        self.nudge(study)
        return JSONResponse({"study": study}, 201 if new else 200)

    @route("PUT", STUDY + "/codes", "operator", participants.CodesAdded, (403, 404))
    def add_codes(self, study: str, caller: str, body: bodies.Codes) -> participants.CodesAdded:
        """Let each of these codes register one person; repeating the request changes nothing."""
        return participants.add_codes(self.context, study, body.codes, caller)

    @route("PUT", STUDY + "/waves/{wave}/note", "operator", bodies.Noted, (403, 404))
    def note(self, study: str, wave: int, caller: str, body: bodies.Noted) -> Any:
        """Write a note on a wave, in place of the one before; an empty one removes it."""
        self.coordinator.note(study, wave, body.text, caller)
        return {"text": body.text}

    @route("PUT", STUDY + "/life", "operator", bodies.LifeChanged, (403, 404, 409))
    def change_life(self, study: str, caller: str, body: bodies.LifeChange) -> Any:
        """Start, pause, resume, end or archive a study; repeating the request changes nothing."""
        changed = life.change(self.context, study, Wanted(body.wanted), caller)
        self.nudge(study)
        return {"study": study, "wanted": body.wanted, "changed": changed}

    @route("PUT", STUDY + "/close", "operator", bodies.WaveClosed, (403, 404, 409))
    def close_wave(self, study: str, caller: str, body: bodies.WaveClose) -> Any:
        """Close a wave that collects with those who answered; the status says what that costs."""
        changed = close_early(self.context, study, body.wave, caller)
        self.nudge(study)
        return {"study": study, "wave": body.wave, "changed": changed}

    @route("DELETE", STUDY, "operator", bodies.Deleted, (403, 404, 409))
    def delete_study(self, study: str, caller: str) -> Any:
        """Delete a draft or a finished study, with its people and its log."""
        life.delete(self.context, study, caller)
        return {"study": study, "status": "deleted"}

    @route("GET", "/v2/keys", "operator", bodies.Keys, (403,))
    def keys(self) -> Any:
        """List all keys."""
        return {"keys": operators.list_keys(self.database)}

    @route("PUT", "/v2/keys/{name}", "operator", bodies.KeyMade, (403, 404, 409), (201,))
    def add_key(self, name: str, caller: str, body: bodies.NewKey) -> Response:
        """Make a key, or an account for an e-mail address; it replaces what there is under the same name."""
        key, now = None if body.email else new_key(), self.context.clock()
        operators.add_key(self.database, name, key, now, body.role, body.study, caller, email=body.email)
        return JSONResponse({"name": name, "key": key}, 201)

    @route("PUT", "/v2/keys/{name}/studies/{study}", "operator", bodies.Granted, (403, 404, 409))
    def grant(self, name: str, study: str, caller: str, body: bodies.Granted) -> Any:
        """Give a member a role in one more study, another role, or none."""
        operators.grant(self.database, name, study, body.role, self.context.clock(), caller)
        return {"role": body.role}

    @route("DELETE", "/v2/keys/{name}", "operator", bodies.Revoked, (403, 404, 409))
    def revoke_key(self, name: str, caller: str) -> Any:
        """Revoke a key, unless it is the last operator's, and end its sessions; repeating it changes nothing."""
        operators.revoke_key(self.database, name, self.context.clock(), caller)
        return {"name": name, "status": "revoked"}

    @route("GET", "/v2/audit", "operator", bodies.Audit, (403, 404))
    def audit(
        self, study: str | None = None, before: str | None = None, actor: str | None = None, action: str | None = None
    ) -> Any:
        """Get who did what, the newest first: to one study, by one actor, of one kind, before a number."""
        last = None if before is None else int(before)
        return {"entries": audit.trail(self.database, study, last, actor=actor, action=action)}

    @route("GET", "/v2/studies", "operator", bodies.StudyNames)
    async def studies(self, request: Request) -> Any:
        """List all studies."""
        known = "authorization" in request.headers
        drafts = not self._open or (known and (await self.principal(request)).operates)
        found = await run_in_threadpool(overview.look, self.context)
        shown = [glance for glance in found if drafts or glance.life != Life.DRAFT]
        return {"studies": [glance.study for glance in shown], "glances": list(map(overview.StudyGlance.of, shown))}

    @route("GET", STUDY, "viewer", Status, (403, 404))
    def status(self, study: str) -> Status:
        """Get how far a study is."""
        return status_of(self.context, study)

    @route("GET", STUDY + "/log", "viewer", bodies.Log, (403, 404))
    def log(self, study: str) -> Any:
        """Get a study's log."""
        return {"events": self.coordinator.log(study)}

    @route("GET", STUDY + "/watch", "viewer", Watch, (403, 404))
    async def watch(self, request: Request, study: str) -> Watch:
        """Get a study's estimates."""
        if self._open and await run_in_threadpool(life.is_draft, self.database, study):
            if "authorization" not in request.headers:
                raise no_study(study)
            await self.viewer(request)
        return await run_in_threadpool(watched, self.context, study)

    # -- webhooks

    @route("GET", HOOKS, "operator", bodies.Hooks, (403,))
    def webhooks(self) -> Any:
        """List who is told what happens."""
        return {"webhooks": receivers.list_hooks(self.database, self.context.secrets)}

    @route("PUT", HOOKS + "/{name}", "operator", Hook, (403, 404, 409))
    def set_webhook(self, name: str, caller: str, body: bodies.NewHook) -> Hook:
        """Tell somebody what happens from now on; it replaces the receiver of this name."""
        new = Hook(name, body.address, body.format, body.study, body.events)
        receivers.set_hook(self.database, new, self.context.clock(), self.courier.outside, caller)
        found = receivers.list_hooks(self.database, self.context.secrets)
        return next(hook for hook in found if hook.name == require_holder(name))

    @route("DELETE", HOOKS + "/{name}", "operator", bodies.Done, (403,))
    def remove_webhook(self, name: str, caller: str) -> Any:
        """Tell somebody nothing any more; repeating the request changes nothing."""
        return {"done": receivers.remove_hook(self.database, name, self.context.clock(), caller)}

    @route("POST", HOOKS + "/{name}/test", "operator", bodies.Done, (403, 404))
    def test_webhook(self, name: str) -> Any:
        """Send a receiver a message that says nothing but that it arrives."""
        receivers.send_test(self.database, name, self.context.clock())
        return {"done": True}

    @route("GET", "/v2/deliveries", "operator", bodies.Deliveries, (403, 404))
    def deliveries(self, study: str | None = None) -> Any:
        """List what was told, of all studies or of one, and whether it arrived."""
        return {"deliveries": receivers.list_deliveries(self.database, study)}

    @route("POST", "/v2/deliveries/{number}/again", "operator", bodies.Done, (403, 404, 409))
    def send_again(self, number: str, caller: str) -> Any:
        """Send a delivery again."""
        receivers.send_again(self.database, int(number), self.context.clock(), caller)
        return {"done": True}

    # -- the service

    @route("GET", "/metrics", "anyone", None, (401,), media_type="text/plain")
    async def metrics(self, request: Request) -> Response:
        """Get Prometheus metrics; with an operator's or a viewer's key, also those of studies."""
        return await super().metrics(request)

    async def more_metrics(self, request: Request) -> bytes:
        """Return the metrics of the studies that the caller may see, if there is a key."""
        if "authorization" not in request.headers:
            return b""
        return await run_in_threadpool(self._study_metrics.text, await self.principal(request))

    async def problem(self) -> str | None:
        """Return in one sentence what keeps the service from working, or None."""
        stopped = None if self.scheduler.alive else "the scheduler has stopped; restart the service"
        return await super().problem() or stopped

    def routes(self) -> list[Route]:
        """Return every route; of an open service, anyone may call two of them."""
        free = ("studies", "watch") if self._open else ()
        routes = [replace(one, role="anyone") if one.name in free else one for one in routes_of(self)]
        return [*routes, *self.pages()]

    def pages(self) -> list[Route]:
        """Return every page, form and stream of the console, and the files that pages load."""
        return [route for screen in (self.sign_in, *self.screens) for route in routes_of(screen)]

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncIterator[None]:
        """Run the scheduler and the courier."""
        async with self.scheduler, self.courier:
            yield
        for group in (self.registrations, self.check_ins, self.uploads):
            await group.close()
