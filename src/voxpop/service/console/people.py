"""The screen with the people of a study: numbers only, because nobody needs to know who takes part."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from voxpop.service.console.live import Feed
from voxpop.service.console.shared import Console, page
from voxpop.service.console.study_lines import StudyLine, line_of
from voxpop.service.refusals import no_study
from voxpop.service.study import overview
from voxpop.service.study.invitations import Funnel
from voxpop.service.study.stages import Stage
from voxpop.service.web.routes import Route


@dataclass(frozen=True)
class People:
    """What the screen shows."""

    line: StudyLine
    registered: int
    never_asked: int
    withdrawn: int
    has_code: bool
    collecting: bool
    funnel: Funnel  # of the open wave
    open: int  # invitations that can still be answered

    @property
    def took_part(self) -> int:
        """People whose answers are in a wave that was released."""
        return max(0, self.registered - self.never_asked)


def view_of(console: Console, study: str) -> People:
    """Count the people of a study."""
    found = overview.look(console.coordinator.context, study)
    if not found:
        raise no_study(study)
    (glance,) = found
    funnel = glance.funnel
    return People(
        line_of(glance, console.now),
        glance.registered,
        glance.never_asked,
        glance.withdrawn,
        glance.has_code,
        glance.stage == Stage.COLLECTING,
        funnel,
        max(0, funnel.asked - funnel.answered - funnel.lapsed),
    )


def routes(console: Console) -> list[Route]:
    """Declare the screen."""

    async def show(request: Request, _: str) -> Response:
        study = await console.study(request)
        view = await run_in_threadpool(view_of, console, study)
        return console.show(request, "people", study=study, people=view)

    async def live(request: Request, _: str) -> Response:
        study = await console.study(request)
        await run_in_threadpool(view_of, console, study)  # refuses a study that does not exist
        return console.live(request, Feed(f"people {study}", lambda: view_of(console, study)), {"people": "people"})

    return [
        page("/studies/{study}/people", "session", show, "Show how many people take part."),
        page("/studies/{study}/people/live", "live", live, "Keep the numbers of people up to date."),
    ]
