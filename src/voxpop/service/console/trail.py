"""The screen with the audit trail: who did what, the newest first."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from voxpop.service import audit
from voxpop.service.console.live import Feed
from voxpop.service.console.shared import Console, page, require_operator
from voxpop.service.web.routes import Route

MOST_SHOWN = 50


@dataclass(frozen=True)
class Trail:
    """What the screen shows."""

    entries: tuple[audit.Entry, ...]
    older: int | None  # the number before which there are more; None: there are none
    newest: bool  # it begins with the newest entry


def view_of(console: Console, before: int | None = None) -> Trail:
    """Read one page of the trail."""
    found = audit.trail(console.coordinator.database, before=before, most=MOST_SHOWN + 1)
    shown = tuple(found[:MOST_SHOWN])
    return Trail(shown, shown[-1].number if len(found) > MOST_SHOWN else None, before is None)


def routes(console: Console) -> list[Route]:
    """Declare the screen."""

    async def show(request: Request, _: str) -> Response:
        given = request.query_params.get("before", "")
        before = int(given) if given.isascii() and given.isdigit() and len(given) < 18 else None
        return console.show(request, "trail", trail=await run_in_threadpool(view_of, console, before))

    async def live(request: Request, _: str) -> Response:
        require_operator(request)
        return console.live(request, Feed("trail", lambda: view_of(console)), {"trail": "trail"})

    return [
        page("/system/audit", "manager", show, "Show who did what."),
        page("/system/audit/live", "live", live, "Keep that up to date."),
    ]
