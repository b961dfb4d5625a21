"""What operators and viewers ask over HTTP: the check of their keys, their handlers and their routes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from voxpop.service import audit, operators
from voxpop.service.keys import new_key
from voxpop.service.operators import Principal
from voxpop.service.refusals import Refusal, no_study
from voxpop.service.study import life, overview
from voxpop.service.study.context import Context
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.definition import Definition
from voxpop.service.study.life import Wanted
from voxpop.service.study.stages import Life
from voxpop.service.study.status import watched
from voxpop.service.web import bodies
from voxpop.service.web.bodies import MOST_STUDY_BYTES, LifeChange, NewKey, NewStudy
from voxpop.service.web.routes import (
    PARAMETERS,
    STUDY,
    Route,
    bearer,
    path_text,
    query_text,
    read_body,
    route,
    routes_of,
)


class OperatorApi:
    """The operators' part of the API; of an open service anyone may list and watch what is no draft."""

    def __init__(self, coordinator: Coordinator, nudge: Callable[[str], None], open_to_all: bool) -> None:
        self.coordinator, self._nudge, self._open = coordinator, nudge, open_to_all

    # -- roles

    async def operator(self, request: Request) -> str:
        """Check that the key is an operator's, and return the operator's name."""
        principal = await self.principal(request)
        if not principal.operates:
            raise Refusal(403, f"the key of {principal.name!r} is for looking only; ask an operator")
        return principal.name

    async def viewer(self, request: Request) -> str:
        """Check that the key is that of an operator, or of a viewer of this study."""
        principal = await self.principal(request)
        if not principal.sees(path_text(request, "study")):
            raise Refusal(403, f"the key of {principal.name!r} is for another study; ask an operator for the right one")
        return principal.name

    async def principal(self, request: Request) -> Principal:
        """Return whose key it is; refuse nobody's."""
        principal = await run_in_threadpool(self.coordinator.principal, await bearer(request))
        if principal is None:
            raise Refusal(
                401, "this is nobody's key, or it was revoked; make one with: voxpop keys operator (or viewer)"
            )
        return principal

    # -- handlers

    @route(
        "PUT",
        STUDY,
        "operator",
        {201: bodies.StudyCreated, 200: bodies.StudyCreated},
        (403, 404, 409),
        NewStudy,
        most_bytes=MOST_STUDY_BYTES,
    )
    async def create_study(self, request: Request, actor: str) -> Response:
        """Create a study; repeating the request changes nothing."""
        study = path_text(request, "study")
        new = await read_body(request, NewStudy)
        definition = await run_in_threadpool(Definition.decode, new.definition)
        given = (study, definition, new.enrolment_code, new.draft, actor)
        created = await run_in_threadpool(self.coordinator.create, *given)
        self._nudge(study)
        return JSONResponse({"study": study}, 201 if created else 200)

    @route("PUT", STUDY + "/life", "operator", {200: bodies.LifeChanged}, (403, 404, 409), LifeChange)
    async def change_life(self, request: Request, actor: str) -> Response:
        """Start, pause, resume, end or archive a study; repeating the request changes nothing."""
        study = path_text(request, "study")
        wanted = Wanted((await read_body(request, LifeChange)).wanted)
        changed = await run_in_threadpool(self.coordinator.change, study, wanted, actor)
        self._nudge(study)
        return JSONResponse({"study": study, "wanted": wanted, "changed": changed})

    @route("DELETE", STUDY, "operator", {200: bodies.Deleted}, (403, 404, 409))
    async def delete_study(self, request: Request, actor: str) -> Response:
        """Delete a draft or a finished study, with its people and its log."""
        study = path_text(request, "study")
        await run_in_threadpool(self.coordinator.delete, study, actor)
        return JSONResponse({"study": study, "status": "deleted"})

    @route("GET", "/v2/keys", "operator", {200: bodies.Keys}, (403,))
    async def keys(self, request: Request, _: str) -> Response:
        """List all keys."""
        found = await run_in_threadpool(operators.list_keys, self.coordinator.database)
        return JSONResponse({"keys": [asdict(key) for key in found]})

    @route("PUT", "/v2/keys/{name}", "operator", {201: bodies.KeyMade}, (403, 404, 409), NewKey)
    async def add_key(self, request: Request, actor: str) -> Response:
        """Make a key for an operator or a viewer; it replaces the key under the same name."""
        name, new, key = path_text(request, "name"), await read_body(request, NewKey), new_key()
        now = self.coordinator.context.clock()
        given = (self.coordinator.database, name, key, now, new.role, new.study, actor)
        await run_in_threadpool(operators.add_key, *given)
        return JSONResponse({"name": name, "key": key}, 201)

    @route("DELETE", "/v2/keys/{name}", "operator", {200: bodies.Revoked}, (403, 404, 409))
    async def revoke_key(self, request: Request, actor: str) -> Response:
        """Revoke a key, unless it is the last operator's, and end its sessions; repeating it changes nothing."""
        name, now = path_text(request, "name"), self.coordinator.context.clock()
        await run_in_threadpool(operators.revoke_key, self.coordinator.database, name, now, actor)
        return JSONResponse({"name": name, "status": "revoked"})

    @route(
        "GET",
        "/v2/audit",
        "operator",
        {200: bodies.Audit},
        (403, 404),
        query={name: PARAMETERS[name] for name in ("study", "before")},
    )
    async def audit(self, request: Request, _: str) -> Response:
        """Get who did what, the newest first: to one study, or before an entry with this number."""
        study, before = query_text(request, "study"), query_text(request, "before")
        page = (study, None if before is None else int(before))
        entries = await run_in_threadpool(audit.trail, self.coordinator.database, *page)
        return JSONResponse({"entries": [asdict(entry) for entry in entries]})

    @route("GET", "/v2/studies", "operator", {200: bodies.StudyNames})
    async def studies(self, request: Request, _: str) -> Response:
        """List all studies."""
        known = "authorization" in request.headers
        drafts = not self._open or (known and (await self.principal(request)).operates)
        found = await run_in_threadpool(listed, self.coordinator.context, drafts)
        return JSONResponse({"studies": [glance["study"] for glance in found], "glances": found})

    @route("GET", STUDY, "viewer", {200: bodies.Status}, (403, 404))
    async def status(self, request: Request, _: str) -> Response:
        """Get how far a study is."""
        return JSONResponse(await run_in_threadpool(self.coordinator.status, path_text(request, "study")))

    @route("GET", STUDY + "/log", "viewer", {200: bodies.Log}, (403, 404))
    async def log(self, request: Request, _: str) -> Response:
        """Get a study's log."""
        events = await run_in_threadpool(self.coordinator.log, path_text(request, "study"))
        return JSONResponse({"events": [{"seq": e.seq, "kind": e.kind, "at": e.at, "body": e.body} for e in events]})

    @route("GET", STUDY + "/watch", "viewer", {200: bodies.Watch}, (403, 404))
    async def watch(self, request: Request, _: str) -> Response:
        """Get a study's estimates."""
        study = path_text(request, "study")
        if self._open and await run_in_threadpool(life.is_draft, self.coordinator.database, study):
            if "authorization" not in request.headers:
                raise no_study(study)
            await self.viewer(request)
        return JSONResponse(await run_in_threadpool(watched, self.coordinator.context, study))

    def routes(self) -> list[Route]:
        """Declare the routes."""
        return [
            replace(one, role="anyone") if self._open and one.name in ("studies", "watch") else one
            for one in routes_of(self)
        ]


def listed(context: Context, drafts: bool) -> list[dict[str, Any]]:
    """Return where each study is, by name, in a constant number of queries; drafts only if they are wanted."""
    return [
        {
            "study": glance.study,
            "state": glance.state,
            "archived": glance.life == Life.ARCHIVED,
            "wave": glance.wave,
            "registered": glance.registered,
            "people": glance.wanted,
            "answered": glance.answered,
        }
        for glance in overview.look(context)
        if drafts or glance.life != Life.DRAFT
    ]
