"""The screen of one study: what it says, and the buttons that move it on."""

from __future__ import annotations

import asyncio

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from voxpop.errors import require_choice
from voxpop.service.console.downloads import download, links
from voxpop.service.console.forms import read_form
from voxpop.service.console.live import Feed
from voxpop.service.console.shared import Console, form, page, study_of
from voxpop.service.console.study_view import StudyView, study_view
from voxpop.service.refusals import Refusal
from voxpop.service.study.life import Wanted
from voxpop.service.web.routes import Route

PARTS = ("answer", "actions", "wave", "estimate", "history", "privacy", "log")
MOST_FORM = 4096  # bytes


def routes(console: Console) -> list[Route]:
    """Declare the page of a study, its forms and its downloads."""
    screen, one = StudyScreen(console), "/studies/{study}"
    return [
        page(one, "session", screen.show, "Show a study."),
        page(f"{one}/live", "live", screen.live, "Keep the page of a study up to date."),
        page(f"{one}/events/{{seq}}", "session", screen.event, "Get an event of the log as it is stored."),
        page(f"{one}/export/{{file}}", "session", screen.export, "Get what a study has found as a file."),
        form(f"{one}/life", "manager", screen.change, "Start, pause, resume, end or archive a study.", MOST_FORM),
        form(f"{one}/delete", "manager", screen.delete, "Delete a study.", MOST_FORM),
    ]


class StudyScreen:
    """The handlers of the screen."""

    def __init__(self, console: Console) -> None:
        self.console, self.coordinator = console, console.coordinator
        self._drawing = asyncio.Lock()  # each report takes a second or two of a core

    async def show(self, request: Request, _: str) -> Response:
        """Show everything about a study."""
        return await self._page(request, await self.console.study(request))

    async def _page(self, request: Request, study: str, status: int = 200, problem: str = "") -> Response:
        view = await run_in_threadpool(study_view, self.coordinator, study)
        return self.console.show(request, "study", status, view=view, links=links(study), problem=problem)

    async def live(self, request: Request, _: str) -> Response:
        """Keep the page up to date; what the log says is made anew only when the log has grown."""
        study = await self.console.study(request)

        def look() -> StudyView:
            return study_view(self.coordinator, study)

        feed = Feed(f"study {study}", look, look)
        return self.console.live(request, feed, {f"study-{part}": "view" for part in PARTS})

    async def event(self, request: Request, _: str) -> Response:
        """Reply with one event of the log."""
        study, seq = await self.console.study(request), str(request.path_params["seq"])
        events = await run_in_threadpool(self.coordinator.log, study)
        found = next((event for event in events if str(event.seq) == seq), None)
        if found is None:
            raise Refusal(404, f"the log has no event {seq[:20]!r}; reload the page")
        return JSONResponse({"seq": found.seq, "kind": found.kind, "at": found.at, "body": found.body})

    async def export(self, request: Request, _: str) -> Response:
        """Reply with a file."""
        study = await self.console.study(request)
        snapshot = await run_in_threadpool(self.coordinator.snapshots.current, study)
        return await download(study, snapshot, str(request.path_params["file"]), self._drawing)

    async def change(self, request: Request, actor: str) -> Response:
        """Do what a button says."""
        study, given = study_of(request), await read_form(request)
        wanted = Wanted(require_choice("wish", given.get("wanted", ""), [*Wanted]))
        await run_in_threadpool(self.coordinator.change, study, wanted, actor)
        self.console.nudge(study)
        return self.console.moved(request, f"/studies/{study}")

    async def delete(self, request: Request, actor: str) -> Response:
        """Delete the study whose name was typed."""
        study, typed = study_of(request), str((await read_form(request)).get("name", "")).strip()
        if typed != study:
            return await self._page(
                request, study, 409, f"the name that was typed is not {study!r}; nothing was deleted"
            )
        await run_in_threadpool(self.coordinator.delete, study, actor)
        return self.console.moved(request, "/")
