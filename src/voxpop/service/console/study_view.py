"""The view of one study: the answer first, then how far it is, and everything that it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from voxpop.model.words import counted
from voxpop.report.summary import Line, expectation, summarise
from voxpop.service import audit
from voxpop.service.console.estimates import Estimates, estimates_of
from voxpop.service.console.happened import Deed, Happening, deeds, happenings
from voxpop.service.console.history import History, Ledger, history_of, ledger_of
from voxpop.service.console.words import in_waves
from voxpop.service.stores.schema import invitations
from voxpop.service.study import log
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.life import Wanted
from voxpop.service.study.snapshot import Snapshot
from voxpop.service.study.stages import IN_PLAY, LACKS_PEOPLE, Life, Stage

KNOWN = 16  # studies whose findings are kept, until something is released
MOST_DEEDS = 50


@dataclass(frozen=True)
class Button:
    """What an operator can do now; `warning` says what cannot be undone about it, and empty means that nothing is."""

    wanted: str  # a `Wanted`, or "deleted"
    label: str
    warning: str = ""


@dataclass(frozen=True)
class Funnel:
    """The people of the open wave, and when it will be over."""

    wave: str
    people: int  # who must answer
    asked: int
    answered: int
    lapsed: int  # invitations that ran out
    refused: int
    missing: int
    rounds: int
    played: int
    until: float | None  # when the last open invitation runs out
    sentence: str  # what it waits for
    forecast: str


@dataclass(frozen=True)
class Findings:
    """What follows from the log alone."""

    first: tuple[Line, ...]  # for whoever has ten seconds
    others: tuple[Line, ...]
    warning: str  # of the model check
    estimates: Estimates
    history: History
    ledger: Ledger | None
    log: tuple[Happening, ...]


@dataclass(frozen=True)
class StudyView:
    """One study, as its page shows it."""

    study: str
    life: str
    stage: str
    badge: str  # one word
    state: str  # a sentence
    alerts: tuple[str, ...]  # why it stands still, if it does
    registered: int
    withdrawn: int
    buttons: tuple[Button, ...]
    findings: Findings
    funnel: Funnel | None
    trail: tuple[Deed, ...]


def study_view(coordinator: Coordinator, study: str) -> StudyView:
    """Look at a study."""
    status = coordinator.status(study)
    with coordinator.database.read() as connection:
        row = log.row_of(connection, study)
        snapshot = coordinator.snapshots.current(study, connection)
        until = _last_deadline(connection, study, row.wave) if row.stage == Stage.COLLECTING else None
    trail = audit.trail(coordinator.database, study, most=MOST_DEEDS)
    return StudyView(
        study,
        status["life"],
        status["stage"],
        badge_of(status),
        state_of(status),
        tuple(hold["sentence"] for hold in status["holds"]),
        status["registered"],
        status["withdrawn"],
        buttons_of(study, status),
        findings_of(coordinator, study, snapshot),
        funnel_of(status, snapshot, until),
        deeds(trail),
    )


def _last_deadline(connection: sa.Connection, study: str, wave: int) -> float | None:
    """Return when the last invitation that is still open runs out."""
    table = invitations
    ours = sa.select(sa.func.max(table.c.deadline)).where(table.c.study == study, table.c.wave == wave)
    found: float | None = connection.execute(ours.where(~table.c.expired)).scalar_one_or_none()
    return found


@lru_cache(KNOWN)
def findings_of(coordinator: Coordinator, study: str, snapshot: Snapshot) -> Findings:
    """Say what a study has found; this is kept, since it changes only with the log, which may be large."""
    events = [event for event in coordinator.log(study) if event.seq <= snapshot.seq]
    course = replace(snapshot.course, name=study)
    lines = [_in_waves(line) for line in summarise(course)]
    return Findings(
        tuple(line for line in lines if line.first),
        tuple(line for line in lines if not line.first and line.name != "Model check"),
        course.warning,
        estimates_of(course),
        history_of(snapshot),
        ledger_of(snapshot),
        happenings(snapshot, events),
    )


def _in_waves(line: Line) -> Line:
    """Say wave for wave, but not in the name of a decision."""
    return replace(line, value=in_waves(line.value)) if line.name in ("Asked", "Open", "Stopped because") else line


def badge_of(status: Mapping[str, Any]) -> str:
    """Say in one word where a study stands."""
    if status["life"] in (Life.DRAFT, Life.PAUSED, Life.ARCHIVED):
        return str(status["life"])
    if status["stage"] == Stage.FINISHED:
        return "finished"
    return "waiting for people" if _lacks_people(status) else "running"


def _lacks_people(status: Mapping[str, Any]) -> bool:
    return any(hold["cause"] in LACKS_PEOPLE for hold in status["holds"])


def state_of(status: Mapping[str, Any]) -> str:
    """Say in a sentence where a study stands."""
    life, stage, wave = status["life"], status["stage"], status["wave"]
    if life == Life.DRAFT:
        return "This is a draft: nobody else sees it, and nobody is asked before it is started."
    if life == Life.PAUSED:
        return (
            "It is paused: nothing is played, nobody is invited and nothing is released. Answers of those who are "
            "invited are still counted, and the time of the pause is added to their deadlines."
        )
    if stage == Stage.FINISHED:
        over = f"It is finished: {in_waves(status['reason'] or 'no further wave is planned')}."
        return f"{over} It is archived, and not listed any more." if life == Life.ARCHIVED else over
    if _lacks_people(status):
        return "It goes on when more people have registered."
    if stage == Stage.COLLECTING:
        return f"People are asked: {status['answered']:,} of {status['people']:,} have answered in wave {wave}."
    if stage in IN_PLAY:
        return f"Wave {wave} is played: {status['played']:,} of {counted(status['rounds'], 'round')}."
    return "The next wave is being planned."


def buttons_of(study: str, status: Mapping[str, Any]) -> tuple[Button, ...]:
    """Return what an operator can do with a study now."""
    life = status["life"]
    start, resume = Button(Wanted.RUNNING, "Start"), Button(Wanted.RUNNING, "Resume")
    pause, archive = Button(Wanted.PAUSED, "Pause"), Button(Wanted.ARCHIVED, "Archive")
    restore = Button(Wanted.RUNNING, "List it again")
    end = Button(
        Wanted.ENDED,
        "End now",
        "The study ends with what is known now and cannot go on. Answers of the open wave are deleted unread.",
    )
    delete = Button(
        "deleted", "Delete", f"Everything about {study} is deleted for good: its log, its people and what it found."
    )
    if life == Life.DRAFT:
        return start, delete
    if status["stage"] == Stage.FINISHED:
        return restore if life == Life.ARCHIVED else archive, delete
    return resume if life == Life.PAUSED else pause, end


def funnel_of(status: Mapping[str, Any], snapshot: Snapshot, until: float | None) -> Funnel | None:
    """Say who is missing in the open wave; None if no wave is open."""
    wave = snapshot.current
    if wave is None:
        return None
    plan = wave.plan
    told = status["funnel"]
    missing = max(0, plan.people - status["answered"])
    return Funnel(
        wave=f"wave {plan.wave}",
        people=plan.people,
        asked=told["asked"],
        answered=status["answered"],
        lapsed=told["lapsed"],
        refused=told["refused"],
        missing=missing,
        rounds=plan.asked,
        played=status["played"],
        until=until,
        sentence=_waits_for(status, missing, until is not None),
        forecast="" if plan.forecast is None else f"It is {expectation(plan.forecast)}.",
    )


def _waits_for(status: Mapping[str, Any], missing: int, invited: bool) -> str:
    if _lacks_people(status):
        return "More people must register first; then its rounds are played."
    if status["stage"] != Stage.COLLECTING:
        return "People are invited as soon as its rounds are played."
    if not missing:
        return "Everyone has answered; it is being released."
    more = counted(missing, "answer is", "answers are")
    over = "whoever has not answered by then is replaced by somebody else" if invited else "more people are invited"
    return f"{more} missing; it closes with the last of them, and {over}."
