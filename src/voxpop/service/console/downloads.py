"""Files to take away: a study's tables as CSV, everything as JSON, and the report as one page."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from importlib.util import find_spec

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from voxpop.journal.course import Course
from voxpop.journal.tables import TABLES
from voxpop.report.export import exported
from voxpop.service.console.pages import PAGE_HEADERS
from voxpop.service.refusals import Refusal
from voxpop.service.study.snapshot import Snapshot

REPORT = "report.html"
EVERYTHING = "study.json"
MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "json": "application/json", "html": "text/html; charset=utf-8"}
ABOUT = {
    "decisions": "every decision with its estimate and bounds",
    "waves": "every wave: what it asked, brought and cost",
    "answers": "the average answers; nothing about single people",
}
ABOUT_REPORT = "a page with pictures that needs nothing else, to read and to send"
NO_REPORT = (
    "not from this service, which cannot draw pictures: it needs voxpop[report]. With an operator's key, voxpop report "
    "makes the same page elsewhere"
)


@dataclass(frozen=True)
class Link:
    """A file that can be taken."""

    address: str  # empty if it cannot be made here
    label: str
    about: str


def links(study: str) -> tuple[Link, ...]:
    """Return what can be taken of a study, and why the report cannot if no pictures can be drawn here."""
    folder = f"/studies/{study}/export/"
    made = [Link(f"{folder}{name}.csv", f"{name.capitalize()} (CSV)", ABOUT[name]) for name in TABLES]
    made.append(Link(f"{folder}{EVERYTHING}", "Everything (JSON)", "all tables and the summary"))
    drawn = find_spec("matplotlib") is not None
    made.append(Link(f"{folder}{REPORT}" if drawn else "", "Report (HTML)", ABOUT_REPORT if drawn else NO_REPORT))
    return tuple(made)


async def download(study: str, snapshot: Snapshot, file: str, drawing: asyncio.Lock) -> Response:
    """Make a file, with the same content as the command line's; reports are drawn one at a time."""
    stem, _, ending = file.rpartition(".")
    course = replace(snapshot.course, name=study)
    if file == REPORT:
        async with drawing:
            content = await run_in_threadpool(_report, course)
    elif file == EVERYTHING or (ending == "csv" and stem in TABLES):
        content = await run_in_threadpool(exported, course, f".{ending}", stem)
    else:
        raise Refusal(404, f"there is no file {file!r:.60} of this study; take one of those on its page")
    name = f"{study}.json" if file == EVERYTHING else f"{study}-{file}"
    headers = {**PAGE_HEADERS, "content-disposition": f'attachment; filename="{name}"'}
    return Response(content, headers=headers, media_type=MEDIA_TYPES[ending])


def _report(course: Course) -> bytes:
    from voxpop.report.page import render

    return render(course).encode()
