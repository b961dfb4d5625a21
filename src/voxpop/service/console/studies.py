"""The screen with all studies."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from voxpop.service.console.live import Feed
from voxpop.service.console.shared import Console, page, session_of
from voxpop.service.operators import Principal
from voxpop.service.web.routes import Route


def routes(console: Console) -> list[Route]:
    """Declare the list of studies."""

    def view(principal: Principal) -> tuple[str, ...]:
        return tuple(study for study in console.coordinator.studies() if principal.sees(study))

    async def show(request: Request, _: str) -> Response:
        found = await run_in_threadpool(view, session_of(request).principal)
        return console.show(request, "studies", studies=found)

    async def live(request: Request, _: str) -> Response:
        principal = session_of(request).principal
        feed = Feed(f"studies {principal.study}", lambda: view(principal), lambda: view(principal))
        return console.live(request, feed, {"studies": "studies"})

    return [
        page("/", "session", show, "Show all studies."),
        page("/live", "live", live, "Keep the list of studies up to date."),
    ]
