"""The list of studies, and the people of one: numbers only, because nobody needs to know who takes part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request

from voxpop.model.words import counted, number
from voxpop.service.console.pages import duration, moment
from voxpop.service.console.screen import Console, Feed, Screens, live_page
from voxpop.service.operators import Principal
from voxpop.service.refusals import no_study
from voxpop.service.study import overview
from voxpop.service.study.overview import Glance, Summary
from voxpop.service.study.released import LastRelease
from voxpop.service.study.stages import UNRELEASED, Cause, Hold, Life, Lost, Stage, State
from voxpop.service.study.status import said_of
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
