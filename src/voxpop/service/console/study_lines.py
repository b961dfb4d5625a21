"""One line about a study: its state in words, what it waits for, when its wave closes, and what is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from voxpop.model.words import counted
from voxpop.report.summary import number
from voxpop.service.console.words import duration, moment
from voxpop.service.study.overview import Glance, Summary
from voxpop.service.study.released import LastRelease
from voxpop.service.study.stages import IN_PLAY, Life, Stage
from voxpop.service.study.steps import LEAST_JUMP

OVERDUE_SECONDS = 60.0  # after the last deadline, until which a coordinator should have acted


@dataclass(frozen=True)
class StudyLine:
    """What the list says of one study."""

    study: str
    state: str
    waits: bool  # for people or an operator
    moves: bool  # something goes on in it
    wave: int
    registered: int
    wanted: int  # people whom the wave needs; 0 if none is open
    answered: int
    closes: str  # when the wave closes, or goes on
    best: str
    certified: str
    rests: str  # on what the best decision rests as long as nobody has answered
    alerts: tuple[str, ...]
    archived: bool


def line_of(glance: Glance, now: float, last: LastRelease | None = None) -> StudyLine:
    """Say in words what a glance shows; `last` is the last release that the record outside the database knows."""
    state, summary = state_of(glance), glance.summary
    return StudyLine(
        study=glance.study,
        state=state,
        waits=state in ("waiting for people", "paused", "draft"),
        moves=state in ("planning", "playing", "collecting"),
        wave=glance.wave,
        registered=glance.registered,
        wanted=summary.people if summary is not None and glance.stage != Stage.FINISHED else 0,
        answered=glance.funnel.answered if glance.stage == Stage.COLLECTING else 0,
        closes=_closes(glance, state, now),
        best=summary.best if summary is not None and (summary.answered or summary.pilot) else "",
        certified=_certified(summary),
        rests=_rests(glance),
        alerts=tuple(_alerts(glance, state, now, last)),
        archived=glance.life == Life.ARCHIVED,
    )


def state_of(glance: Glance) -> str:
    """Say in a word or three where a study is."""
    if glance.life in (Life.DRAFT, Life.ARCHIVED):
        return glance.life
    if glance.stage == Stage.FINISHED:
        return "finished"
    if glance.life == Life.PAUSED:
        return "paused"
    if glance.short or (glance.stage in IN_PLAY and not glance.begun):
        return "waiting for people"
    if glance.stage in IN_PLAY:
        return "playing"
    return "collecting" if glance.stage == Stage.COLLECTING else "planning"


def _certified(summary: Summary | None) -> str:
    if summary is None or not summary.answered or summary.certified is None:
        return ""
    return (
        "nothing is better" if summary.certified <= 0 else f"nothing is better by more than {number(summary.certified)}"
    )


def _rests(glance: Glance) -> str:
    if glance.summary is None or glance.summary.answered:
        return ""
    nobody = "nobody was asked" if glance.stage == Stage.FINISHED else "nobody has answered yet"
    return "from the pilot" if glance.summary.pilot else nobody


def _closes(glance: Glance, state: str, now: float) -> str:
    """Say when the wave closes at the latest, or when its rounds end, if a clock knows."""
    if state == "collecting" and glance.closes_at is not None:
        left = glance.closes_at - now
        return f"in {duration(left)}, by {moment(glance.closes_at)}" if left > 0 else f"since {duration(-left)}"
    summary = glance.summary
    if state == "playing" and summary is not None and summary.rate is not None:
        return f"people are asked in {duration(glance.opened_at + summary.rounds / summary.rate - now)}"
    return ""


def _alerts(glance: Glance, state: str, now: float, last: LastRelease | None) -> list[str]:
    """Say what an operator should know."""
    said, summary = [], glance.summary
    if state == "waiting for people":
        said.append(_lacking(glance))
    if state == "collecting" and glance.closes_at is not None and now > glance.closes_at + OVERDUE_SECONDS:
        said.append("Overdue: the last deadline is over, and nobody was asked instead; look at the service's log.")
    if state == "playing" and summary is not None and summary.rate and glance.opened_at - now > LEAST_JUMP:
        said.append("Stopped: the coordinator's clock was set back; set it right.")
    if _is_lost(glance, last):
        said.append("Stopped: more was released than the database knows; restore the newer database.")
    if summary is not None and summary.warning:
        said.append(f"Model check: {summary.warning}")
    return said


def _lacking(glance: Glance) -> str:
    if glance.short:
        return f"{counted(glance.short, 'more person', 'more people')} must register before the wave can go on."
    needed = glance.summary.people if glance.summary is not None else 0
    return f"The wave begins when {counted(needed, 'person', 'people')} who can be asked are registered."


def _is_lost(glance: Glance, last: LastRelease | None) -> bool:
    """Return True if the record knows a release of this study that the database does not."""
    if last is None or glance.summary is None or glance.summary.created != last.created:
        return False
    closed = glance.wave - (1 if glance.stage in (*IN_PLAY, Stage.COLLECTING) else 0)
    return closed < last.wave and (glance.wave, glance.attempt) != (last.wave, last.attempt)
