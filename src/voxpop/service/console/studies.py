"""The screen with all studies."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from voxpop.service.console.live import Feed
from voxpop.service.console.shared import Console, page, session_of
from voxpop.service.console.study_lines import StudyLine, line_of
from voxpop.service.operators import Principal
from voxpop.service.study import overview
from voxpop.service.study.stages import Life
from voxpop.service.web.routes import Route

MOST_SHOWN = 200  # studies on one page; a search finds the others


@dataclass(frozen=True)
class Search:
    """What is looked for."""

    text: str = ""
    archived: bool = False  # these, too

    @classmethod
    def of(cls, request: Request) -> Search:
        """Read it from the address."""
        given = request.query_params
        return cls(given.get("q", "").strip()[:64], "archived" in given)

    @property
    def query(self) -> str:
        """How an address says it."""
        parts = {"q": self.text} if self.text else {}
        return urlencode(parts | ({"archived": "1"} if self.archived else {}))


@dataclass(frozen=True)
class StudyList:
    """What the screen shows."""

    lines: tuple[StudyLine, ...]
    found: int
    all: int  # studies that there are
    archived: int
    search: Search = Search()

    def narrowed(self, search: Search) -> StudyList:
        """Return what a search finds."""
        wanted = search.text.lower()
        lines = [line for line in self.lines if wanted in line.study and (search.archived or not line.archived)]
        return StudyList(tuple(lines[:MOST_SHOWN]), len(lines), self.all, self.archived, search)


def view_of(console: Console, principal: Principal) -> StudyList:
    """Look at all studies that somebody may see."""
    context, now = console.coordinator.context, console.now
    lines = []
    for glance in overview.look(context, principal.study):
        if glance.life == Life.DRAFT and not principal.sees_drafts:
            continue
        collecting = context.released is not None and glance.closes_at is not None
        last = context.released.of(glance.study) if collecting and context.released else None
        lines.append(line_of(glance, now, last))
    return StudyList(tuple(lines), len(lines), len(lines), sum(line.archived for line in lines))


def routes(console: Console) -> list[Route]:
    """Declare the list of studies."""

    async def show(request: Request, _: str) -> Response:
        search = Search.of(request)
        view = await run_in_threadpool(view_of, console, session_of(request).principal)
        return console.show(request, "studies", studies=view.narrowed(search))

    async def live(request: Request, _: str) -> Response:
        search, principal = Search.of(request), session_of(request).principal
        same = f"studies {principal.study or ''} {principal.sees_drafts}"
        feed = Feed(same, lambda: view_of(console, principal))
        return console.live(request, feed, {"studies": "studies"}, lambda view: view.narrowed(search))

    return [
        page("/", "session", show, "Show all studies."),
        page("/live", "live", live, "Keep the list of studies up to date."),
    ]
