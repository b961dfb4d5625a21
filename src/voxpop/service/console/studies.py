"""The list of studies, the people of one, and one study.

Of people there are numbers only, because nobody needs to know who takes part. The page of a study has the answer first,
then how far it is, everything that it rests on, and the buttons.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from voxpop.errors import require_choice
from voxpop.journal.journal import Course
from voxpop.model.words import counted, number
from voxpop.report.summary import expectation
from voxpop.report.tables import exported
from voxpop.service import audit
from voxpop.service.console.findings import Findings, findings_of
from voxpop.service.console.forms import Form
from voxpop.service.console.pages import PAGE_HEADERS, duration, moment
from voxpop.service.console.screen import Console, Feed, Screens, form, live_page, page
from voxpop.service.operators import Principal
from voxpop.service.refusals import Refusal, no_study
from voxpop.service.study import life, log, overview
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.invitations import Invitations
from voxpop.service.study.life import Wanted
from voxpop.service.study.log import Snapshot
from voxpop.service.study.overview import Glance, Summary
from voxpop.service.study.released import LastRelease
from voxpop.service.study.stages import UNRELEASED, Cause, Hold, Life, Lost, Stage, State
from voxpop.service.study.status import Status, said_of, status_of
from voxpop.service.study.steps import LEAST_JUMP

MOST_SHOWN = 200  # studies on one page; a search finds the others
OVERDUE_SECONDS = 60.0  # after the last deadline, until which a coordinator should have acted


@dataclass(frozen=True)
class StudyLine:
    """What the list says of one study."""

    glance: Glance
    closes: str  # when the wave closes, or goes on
    best: str
    certified: str
    rests: str  # on what the best decision rests as long as nobody has answered
    alerts: tuple[str, ...]


def line_of(glance: Glance, now: float, last: LastRelease | None = None) -> StudyLine:
    """Say in words what a glance shows; `last` is the last release that the record outside the database knows."""
    summary = glance.summary
    best = summary.best if summary is not None and (summary.answered or summary.pilot) else ""
    alerts = tuple(_alerts(glance, now, last))
    return StudyLine(glance, _closes(glance, now), best, _certified(summary), _rests(glance), alerts)


def _certified(summary: Summary | None) -> str:
    if summary is None or not summary.answered or summary.certified is None:
        return ""
    return f"nothing is better{f' by more than {number(summary.certified)}' if summary.certified > 0 else ''}"


def _rests(glance: Glance) -> str:
    if glance.summary is None or glance.summary.answered:
        return ""
    nobody = "nobody was asked" if glance.stage == Stage.FINISHED else "nobody has answered yet"
    return "from the pilot" if glance.summary.pilot else nobody


def _closes(glance: Glance, now: float) -> str:
    """Say when the wave closes at the latest, or when its rounds end, if a clock knows."""
    state, summary = glance.state, glance.summary
    if state == State.COLLECTING and glance.closes_at is not None:
        left = glance.closes_at - now
        return f"in {duration(left)}, by {moment(glance.closes_at)}" if left > 0 else f"since {duration(-left)}"
    if state == State.PLAYING and summary is not None and summary.rate is not None:
        return f"people are asked in {duration(glance.opened_at + summary.rounds / summary.rate - now)}"
    return ""


def _alerts(glance: Glance, now: float, last: LastRelease | None) -> Iterator[str]:
    """Say what an operator should know."""
    state, summary = glance.state, glance.summary
    if state == State.WAITING and glance.short:
        yield said_of(Hold(Cause.NOBODY_LEFT, glance.wave, glance.short))
    elif state == State.WAITING:
        needed = counted(glance.wanted, "person", "people")
        yield f"Waiting: wave {glance.wave} begins when {needed} who can be asked are registered."
    if state == State.COLLECTING and glance.closes_at is not None and now > glance.closes_at + OVERDUE_SECONDS:
        yield "Overdue: the last deadline is over, and nobody was asked instead; look at the service's log."
    if state == State.PLAYING and summary is not None and summary.rate and glance.opened_at - now > LEAST_JUMP:
        yield said_of(Hold(Cause.CLOCK_BACK, glance.wave, seconds=glance.opened_at - now))
    if lost := _lost(glance, last):
        yield said_of(Hold(Cause.OLD_DATABASE, glance.wave, lost=lost))
    if summary is not None and summary.warning:
        yield f"Model check: {summary.warning}"


def _lost(glance: Glance, last: LastRelease | None) -> Lost | None:
    """Return the waves of this study that the record knows as released and the database does not."""
    if last is None or glance.summary is None or glance.summary.created != last.created:
        return None
    closed = glance.wave - (1 if glance.stage in UNRELEASED else 0)
    known = closed >= last.wave or (glance.wave, glance.attempt) == (last.wave, last.attempt)
    return None if known else Lost(glance.study, closed + 1, last.wave)


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
    """What the list of studies shows."""

    lines: tuple[StudyLine, ...]
    found: int
    all: int  # studies that there are
    archived: int
    search: Search = Search()

    def narrowed(self, search: Search) -> StudyList:
        """Return what a search finds."""
        wanted = search.text.lower()
        lines = [
            line
            for line in self.lines
            if wanted in line.glance.study and (search.archived or line.glance.state != State.ARCHIVED)
        ]
        return StudyList(tuple(lines[:MOST_SHOWN]), len(lines), self.all, self.archived, search)


def list_view(console: Console, principal: Principal) -> StudyList:
    """Look at all studies that somebody may see."""
    context, lines = console.coordinator.context, []
    for glance in overview.look(context, principal.study):
        if glance.life != Life.DRAFT or principal.sees_drafts:
            asks = context.released is not None and glance.closes_at is not None
            last = context.released.of(glance.study) if asks and context.released else None
            lines.append(line_of(glance, console.now, last))
    return StudyList(tuple(lines), len(lines), len(lines), sum(line.glance.state == State.ARCHIVED for line in lines))


def people_view(console: Console, study: str) -> StudyLine:
    """Count the people of a study."""
    found = overview.look(console.coordinator.context, study)
    if not found:
        raise no_study(study)
    return line_of(found[0], console.now)


class StudiesScreen(Screens):
    """The handlers of the two screens."""

    @live_page("/", "session", "studies")
    def show(self, request: Request) -> Feed:
        """Show all studies."""
        search, principal = Search.of(request), request.state.session.principal
        same = f"studies {principal.study or ''} {principal.sees_drafts}"
        return Feed(same, lambda: list_view(self.console, principal), narrow=lambda view: view.narrowed(search))

    @live_page("/studies/{study}/people", "session", "people")
    def people(self, request: Request, study: str) -> Feed:
        """Show how many people take part."""
        return Feed(f"people {study}", lambda: people_view(self.console, study))


PARTS = ("answer", "actions", "wave", "estimate", "waves", "privacy", "log")
KNOWN = 16  # studies whose findings are kept, until something is released
MOST_ENTRIES = 50  # of the audit trail
MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "json": "application/json", "html": "text/html; charset=utf-8"}
FILES = {  # that can be taken, and what they hold
    "decisions.csv": "every decision with its estimate and bounds",
    "waves.csv": "every wave: what it asked, brought and cost",
    "answers.csv": "the average answers; nothing about single people",
    "study.json": "all tables and the summary",
    "report.html": "a page with pictures that needs nothing else, to read and to send",
}


@dataclass(frozen=True)
class Button:
    """What an operator can do now; `warning` says what cannot be undone about it, and empty means that nothing is."""

    wanted: str  # a `Wanted`, or "deleted"
    label: str
    warning: str = ""


START, RESUME = Button(Wanted.RUNNING, "Start"), Button(Wanted.RUNNING, "Resume")
PAUSE, ARCHIVE = Button(Wanted.PAUSED, "Pause"), Button(Wanted.ARCHIVED, "Archive")
RESTORE = Button(Wanted.RUNNING, "List it again")
END = Button(
    Wanted.ENDED,
    "End now",
    "The study ends with what is known now and cannot go on. Answers of the open wave are deleted unread.",
)
DELETE = Button("deleted", "Delete", "Everything about it is deleted for good: its log, its people and what it found.")
BUTTONS = {
    State.DRAFT: (START, DELETE),
    State.PAUSED: (RESUME, END),
    State.FINISHED: (ARCHIVE, DELETE),
    State.ARCHIVED: (RESTORE, DELETE),
}


@dataclass(frozen=True)
class StudyView:
    """One study, as its page shows it."""

    study: str
    status: Status  # as the API tells it
    sentence: str  # where it is
    buttons: tuple[Button, ...]
    findings: Findings
    until: float | None  # when the last open invitation runs out
    waits_for: str  # what the open wave does; empty if none is open
    audit: tuple[audit.AuditEntry, ...]

    @property
    def draws(self) -> bool:
        """True if this service can draw the pictures of a report."""
        return find_spec("matplotlib") is not None


def study_view(coordinator: Coordinator, study: str) -> StudyView:
    """Look at a study."""
    status = status_of(coordinator.context, study)
    with coordinator.database.read() as connection:
        row = log.row_of(connection, study)
        snapshot = coordinator.snapshots.current(study, connection)
        until = Invitations(connection, study, row.wave).last_deadline if row.stage == Stage.COLLECTING else None
    return StudyView(
        study,
        status,
        sentence_of(status),
        BUTTONS.get(status.state, (PAUSE, END)),
        _findings(coordinator, study, snapshot),
        until,
        _waits_for(status, until),
        tuple(audit.trail(coordinator.database, study, most=MOST_ENTRIES)),
    )


@lru_cache(KNOWN)
def _findings(coordinator: Coordinator, study: str, snapshot: Snapshot) -> Findings:
    """Say what a study has found; this is kept, since it changes only with the log, which may be large."""
    return findings_of(snapshot, [event for event in coordinator.log(study) if event.seq <= snapshot.seq])


def sentence_of(status: Status) -> str:
    """Say in a sentence where a study is."""
    wave, answered = status.wave, status.answered
    over = f"It is finished: {status.reason or 'no further wave is planned'}."
    return {
        State.DRAFT: "This is a draft: nobody else sees it, and nobody is asked before it is started.",
        State.PLANNING: "The next wave is being planned.",
        State.WAITING: "It goes on when more people have registered.",
        State.PLAYING: f"Wave {wave} is played: {status.played:,} of {counted(status.rounds, 'round')}.",
        State.COLLECTING: f"People are asked: {answered:,} of {status.people:,} have answered in wave {wave}.",
        State.PAUSED: (
            "It is paused: nothing is played, nobody is invited and nothing is released. Answers of those who are "
            "invited are still counted, and the time of the pause is added to their deadlines."
        ),
        State.FINISHED: over,
        State.ARCHIVED: f"{over} It is archived, and not listed any more.",
    }[status.state]


def _waits_for(status: Status, until: float | None) -> str:
    """Say what the open wave waits for, and what is expected of it; empty if no wave is open."""
    if not status.people:
        return ""
    missing = max(0, status.people - status.answered)
    over = "whoever has not answered by then is replaced by somebody else" if until else "more people are invited"
    if status.state == State.WAITING:
        said = "More people must register first; then its rounds are played."
    elif status.stage != Stage.COLLECTING:
        said = "People are invited as soon as its rounds are played."
    elif not missing:
        said = "Everyone has answered; it is being released."
    else:
        said = f"{counted(missing, 'answer is', 'answers are')} missing; it closes with the last of them, and {over}."
    return said if status.forecast is None else f"{said} It is {expectation(status.forecast)}."


def _content(course: Course, stem: str, ending: str) -> bytes:
    """Make a file with the same content as the command line's."""
    if ending != "html":
        return exported(course, f".{ending}", stem)
    from voxpop.report.page import render  # which needs what draws pictures

    return render(course).encode()


class StudyScreen(Screens):
    """The handlers of the screen."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._drawing = asyncio.Lock()  # each report takes a second or two of a core

    @live_page("/studies/{study}", "session", "study", "view", [f"study-{part}" for part in PARTS], files=FILES)
    def show(self, request: Request, study: str) -> Feed:
        """Show everything about a study; what the log says is made anew only when the log has grown."""
        return Feed(f"study {study}", lambda: study_view(self.coordinator, study))

    @page("/studies/{study}/events/{seq}", "session")
    def event(self, study: str, seq: str) -> Any:
        """Reply with one event of the log."""
        found = next((event for event in self.coordinator.log(study) if str(event.seq) == seq), None)
        if found is None:
            raise Refusal(404, f"the log has no event {seq[:20]!r}; reload the page")
        return found

    @page("/studies/{study}/export/{file}", "session")
    async def export(self, study: str, file: str) -> Response:
        """Reply with what a study has found as a file; reports are drawn one at a time."""
        if file not in FILES:
            raise Refusal(404, f"there is no file {file!r:.60} of this study; take one of those on its page")
        snapshot = await run_in_threadpool(self.coordinator.snapshots.current, study)
        stem, _, ending = file.partition(".")
        async with self._drawing if ending == "html" else nullcontext():
            content = await run_in_threadpool(_content, snapshot, stem, ending)
        name = f"{study}.json" if ending == "json" else f"{study}-{file}"
        headers = {**PAGE_HEADERS, "content-disposition": f'attachment; filename="{name}"'}
        return Response(content, headers=headers, media_type=MEDIA_TYPES[ending])

    @form("/studies/{study}/life", "manager")
    def change(self, request: Request, study: str, caller: str, sent: Form) -> Response:
        """Do what a button says."""
        wanted = Wanted(require_choice("wish", sent.text("wanted"), [*Wanted]))
        life.change(self.coordinator.context, study, wanted, caller)
        self.console.nudge(study)
        return self.console.moved(request, f"/studies/{study}")

    @form("/studies/{study}/delete", "manager")
    def delete(self, request: Request, study: str, caller: str, sent: Form) -> Response:
        """Delete the study whose name was typed."""
        if sent.text("name") != study:
            problem = f"the name that was typed is not {study!r}; nothing was deleted"
            view = study_view(self.coordinator, study)
            return self.console.show(request, "study", 409, view=view, problem=problem, files=FILES)
        life.delete(self.coordinator.context, study, caller)
        return self.console.moved(request, "/")
