"""The list of studies, the people of one, and one study.

Of people there are numbers only, because nobody needs to know who takes part. The page of a study has the answer first,
then how far it is, everything that it rests on, and the buttons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from voxpop.errors import require_choice
from voxpop.journal.schedule import dated_turns, scheduled
from voxpop.model.calendar import Calendar
from voxpop.model.words import counted
from voxpop.report.tables import exported
from voxpop.service import audit
from voxpop.service.console import sample
from voxpop.service.console.computations import Computations
from voxpop.service.console.findings import Findings, findings_of
from voxpop.service.console.pages import PAGE_HEADERS, duration, moment
from voxpop.service.console.screen import Console, Feed, Form, Screens, form, live_page, page
from voxpop.service.operators import Principal
from voxpop.service.refusals import Refusal, no_study
from voxpop.service.study import life, log, overview
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.definition import last_round, study_text
from voxpop.service.study.invitations import Invitations
from voxpop.service.study.life import Wanted
from voxpop.service.study.log import Snapshot
from voxpop.service.study.overview import Glance
from voxpop.service.study.released import LastRelease
from voxpop.service.study.stages import UNRELEASED, Cause, Hold, Life, Lost, Stage, State
from voxpop.service.study.status import Note, Status, collected, dated, notes_of, said_of, status_of
from voxpop.service.study.steps import LEAST_JUMP, close_early

MOST_SHOWN = 200  # studies on one page; a search finds the others
OVERDUE_SECONDS = 60.0  # after the last deadline, until which a coordinator should have acted


@dataclass(frozen=True)
class StudyLine:
    """What the list says of one study."""

    glance: Glance
    closes: str  # when the wave closes, or goes on
    alerts: tuple[str, ...]
    owner: str = ""  # who made it


def line_of(glance: Glance, now: float, last: LastRelease | None = None, owner: str = "") -> StudyLine:
    """Say in words what a glance shows; `last` is the last release that the record outside the database knows."""
    return StudyLine(glance, _closes(glance, now), tuple(_alerts(glance, now, last)), owner)


def _closes(glance: Glance, now: float) -> str:
    """Say when the wave closes at the latest, or when its rounds end, if a clock knows."""
    state, summary = glance.state, glance.summary
    if state == State.COLLECTING and glance.closes_at is not None:
        left = glance.closes_at - now
        return f"in {duration(left)}, by {moment(glance.closes_at)}" if left > 0 else f"since {duration(-left)}"
    if state == State.PLAYING and summary is not None and summary.rate is not None:
        return f"people are asked in {duration(glance.opened_at + summary.rounds / summary.rate - now)}"
    if state == State.PLAYING and summary is not None and summary.calendar is not None:
        calendar = Calendar(**summary.calendar)
        ends = last_round(calendar, glance.opened_at, summary.rounds).ends
        return f"people are asked in {duration(ends.timestamp() - now)}, after {calendar.written(ends, last=True)}"
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


def list_view(console: Console, principal: Principal) -> tuple[StudyLine, ...]:
    """Look at all studies that somebody may see."""
    context, lines = console.coordinator.context, []
    owners = audit.creators(console.coordinator.database) if principal.operates else {}
    for glance in overview.look(context):
        if principal.sees(glance.study) and (glance.life != Life.DRAFT or principal.sees_drafts):
            asks = context.released is not None and glance.closes_at is not None
            last = context.released.of(glance.study) if asks and context.released else None
            lines.append(line_of(glance, console.now, last, owners.get(glance.study, "")))
    return tuple(lines)


SORTS: dict[str, Callable[[StudyLine], Any]] = {  # what the list can be ordered by, beside the name
    "state": lambda line: [*State].index(line.glance.state),
    "people": lambda line: -line.glance.registered,
    "deadline": lambda line: line.glance.closes_at or float("inf"),
    "made by": lambda line: line.owner,
}


def found_in(lines: Sequence[StudyLine], request: Request) -> dict[str, Any]:
    """Return those of the studies that an address asks for, and how many there are."""
    text, archived = request.query_params.get("q", "").strip()[:64], "archived" in request.query_params
    old = {line.glance.study for line in lines if line.glance.state == State.ARCHIVED}
    found = [one for one in lines if text.lower() in one.glance.study and (archived or one.glance.study not in old)]
    order = request.query_params.get("sort", "")
    if order in SORTS:
        found.sort(key=SORTS[order])
    return {
        "sort": order if order in SORTS else "name",
        "lines": found[:MOST_SHOWN],
        "found": len(found),
        "all": len(lines),
        "archived": len(old),
        "text": text,
        "with_archived": archived,
        "query": request.url.query,
    }


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
        principal = request.state.session.principal
        same = f"studies {principal.operates or sorted(principal.studies)} {principal.sees_drafts}"
        return Feed(same, lambda: list_view(self.console, principal), narrow=lambda lines: found_in(lines, request))

    @form("/sample", "manager")
    def watch_sample(self, request: Request, caller: str, sent: Form) -> Response:
        """Begin a sample study in which simulated people take part."""
        study = sample.begin(self.coordinator, caller)
        self.console.nudge(study)
        return self.console.moved(request, f"/studies/{study}")

    @live_page("/studies/{study}/people", "session", "people")
    def people(self, request: Request, study: str) -> Feed:
        """Show how many people take part."""
        return Feed(f"people {study}", lambda: people_view(self.console, study))


PARTS = ("answer", "actions", "wave", "estimate", "figures", "waves", "privacy", "log")
KNOWN = 16  # studies whose findings are kept, until something is released
MOST_ENTRIES = 50  # of the audit trail
MOST_TURNS = 12  # of the open wave that are part of the page
MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "toml": "application/toml",
    "html": "text/html; charset=utf-8",
    "ics": "text/calendar; charset=utf-8",
}
SCHEDULES = ("schedule.csv", "schedule.ics")  # of the open wave
FILES = {  # that can be taken, and what they hold
    "decisions.csv": "every decision with its estimate and bounds",
    "waves.csv": "every wave: what it asked, brought and cost",
    "answers.csv": "the average answers; nothing about single people",
    "study.json": "all tables and the summary",
    "study.toml": "the study file, which makes the same study again",
    "report.html": "a page with pictures that needs nothing else, to read and to send",
}


@dataclass(frozen=True)
class StudyView:
    """One study, as its page shows it."""

    study: str
    status: Status  # as the API tells it
    findings: Findings
    notes: Sequence[Note]  # on its waves
    until: float | None  # when the last open invitation runs out
    audit: tuple[audit.AuditEntry, ...]
    turns: Sequence[tuple[str, str, str, str]]  # of the open wave, by the calendar: the first
    more_turns: int

    @property
    def collected(self) -> str:
        """How many answers of the open wave are in, in the words of the API."""
        return collected(self.status)

    @property
    def named(self) -> bool:
        """True if its decisions have named parameters, so that there is a study file of it."""
        return isinstance(self.findings.view.course.problem.decisions[0], Mapping)

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
    question = dated(snapshot, row, coordinator.context.clock())
    turns = () if question is None else _turns(snapshot, question.first)
    return StudyView(
        study,
        status,
        _findings(coordinator, study, snapshot),
        notes_of(coordinator.context, study),
        until,
        tuple(audit.trail(coordinator.database, study, most=MOST_ENTRIES)),
        turns[:MOST_TURNS],
        len(turns[MOST_TURNS:]),
    )


@lru_cache(KNOWN)
def _turns(snapshot: Snapshot, first: int) -> Sequence[tuple[str, str, str, str]]:
    """Write what is played when in the open wave; this is kept, since a wave may have very many rounds."""
    return () if (question := snapshot.question) is None else dated_turns(replace(question, first=first))


@lru_cache(KNOWN)
def _findings(coordinator: Coordinator, study: str, snapshot: Snapshot) -> Findings:
    """Say what a study has found; this is kept, since it changes only with the log, which may be large."""
    return findings_of(snapshot.undated, [event for event in coordinator.log(study) if event.seq <= snapshot.seq])


def _schedule(coordinator: Coordinator, study: str, ending: str) -> bytes:
    """Write which decision is played when in the open wave, as `voxpop ask --schedule` does."""
    now = coordinator.context.clock()
    with coordinator.database.read() as connection:
        row = log.row_of(connection, study)
        snapshot = coordinator.snapshots.current(study, connection)
    if (question := dated(snapshot, row, now)) is None:
        raise Refusal(409, f"the study {study!r} has no open wave with a calendar; reload its page")
    return scheduled(snapshot, f".{ending}", datetime.fromtimestamp(now, UTC), question)


class StudyScreen(Screens):
    """The handlers of the screen."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._computations = Computations()  # each report takes a second or two of a core

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
        """Reply with what a study has found, as the command line writes it; reports are drawn one at a time."""
        if file not in (*FILES, *SCHEDULES):
            raise Refusal(404, f"there is no file {file!r:.60} of this study; take one of those on its page")
        stem, _, ending = file.partition(".")
        content: str | bytes
        if file in SCHEDULES:
            content = await run_in_threadpool(_schedule, self.coordinator, study, ending)
        else:
            course = (await run_in_threadpool(self.coordinator.snapshots.current, study)).undated
            if ending == "toml":
                content = study_text(study, self.coordinator.snapshots.current(study).definition)
            elif ending == "html":
                content = await self._computations.run("report", course=course)
            else:
                content = await run_in_threadpool(exported, course, f".{ending}", stem)
        name = f"{study}.{ending}" if ending in ("json", "toml") else f"{study}-{file}"
        headers = {**PAGE_HEADERS, "content-disposition": f'attachment; filename="{name}"'}
        return Response(content, headers=headers, media_type=MEDIA_TYPES[ending])

    @form("/studies/{study}/life", "manager")
    def change(self, request: Request, study: str, caller: str, sent: Form) -> Response:
        """Do what a button says."""
        wanted = Wanted(require_choice("wish", sent.text("wanted"), [*Wanted]))
        if wanted is Wanted.ENDED and sent.text("name") != study:
            return self._again(request, study, f"the name that was typed is not {study!r}; nothing was ended")
        life.change(self.coordinator.context, study, wanted, caller)
        self.console.nudge(study)
        return self.console.moved(request, f"/studies/{study}")

    @form("/studies/{study}/close", "manager")
    def close(self, request: Request, study: str, caller: str, sent: Form) -> Response:
        """Close the wave that the page showed with those who answered."""
        shown = sent.text("wave")
        if not shown.isdecimal() or len(shown) > 9:
            raise Refusal(422, f"the wave must be a number, got {shown!r:.40}; reload the page")
        close_early(self.coordinator.context, study, int(shown), caller)
        self.console.nudge(study)
        return self.console.moved(request, f"/studies/{study}")

    def _again(self, request: Request, study: str, problem: str) -> Response:
        view = study_view(self.coordinator, study)
        return self.console.show(request, "study", 409, view=view, problem=problem, files=FILES)

    @form("/studies/{study}/delete", "manager")
    def delete(self, request: Request, study: str, caller: str, sent: Form) -> Response:
        """Delete the study whose name was typed."""
        if sent.text("name") != study:
            return self._again(request, study, f"the name that was typed is not {study!r}; nothing was deleted")
        life.delete(self.coordinator.context, study, caller)
        return self.console.moved(request, "/")
