"""Where a study is, and why it does not go on, as values; `status.py` makes sentences of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """The kinds of record in a study's log, in the order in which they occur."""

    CREATED = "created"  # with the definition
    OPENED = "opened"
    CLOSED = "closed"
    FINISHED = "finished"


class Stage(StrEnum):
    """The stages of a study in order; OPEN to CLOSED repeat in every wave."""

    NEW = "new"
    OPEN = "open"  # the wave is planned; the application plays its rounds and reports them
    PLAYING = "playing"  # some rounds have been played, or a clock plays them
    COLLECTING = "collecting"  # people are invited and send their reports
    CLOSED = "closed"  # the wave is released; the next one is not planned yet
    FINISHED = "finished"


IN_PLAY = (Stage.OPEN, Stage.PLAYING)
UNRELEASED = (*IN_PLAY, Stage.COLLECTING)  # the stages of a wave that is open


class Life(StrEnum):
    """Where a study stands in its life. What is finished stays as it is; its `Stage` says that it is."""

    DRAFT = "draft"  # may still be changed; nobody but operators sees it
    RUNNING = "running"
    PAUSED = "paused"  # nothing is played, nobody is invited and nothing is released; reports are still taken
    ARCHIVED = "archived"  # finished, and no longer listed


class State(StrEnum):
    """Where a study is, in the words of lists: its life and its stage together, and whether it waits for people."""

    DRAFT = "draft"
    PLANNING = "planning"
    WAITING = "waiting for people"
    PLAYING = "playing"
    COLLECTING = "collecting"
    PAUSED = "paused"
    FINISHED = "finished"
    ARCHIVED = "archived"


def state_of(life: str, stage: str, short: int, begun: bool) -> State:
    """Return the state of a study that lacks `short` people, and whose wave's rounds have `begun` or not."""
    if life in (Life.DRAFT, Life.ARCHIVED):
        return State(life)
    if stage == Stage.FINISHED:
        return State.FINISHED
    if life == Life.PAUSED:
        return State.PAUSED
    if short or (stage in IN_PLAY and not begun):
        return State.WAITING
    if stage in IN_PLAY:
        return State.PLAYING
    return State.COLLECTING if stage == Stage.COLLECTING else State.PLANNING


class Cause(StrEnum):
    """Why a study stands still."""

    FEW_PEOPLE = "few people"  # the rounds of its wave begin when more have registered
    NOBODY_LEFT = "nobody left"  # of those who were there for the rounds; they are played again for new people
    CLOCK_BACK = "clock back"  # the coordinator's clock was set back, and the rounds go by it
    OLD_DATABASE = "old database"  # more was released than the database knows


@dataclass(frozen=True)
class Hold:
    """A reason why a study stands still, with the figures that its sentence needs."""

    cause: Cause
    wave: int
    people: int = 0  # whom the wave needs, or lacks if nobody is left
    askable: int = 0  # people who can be asked, of those
    lacking: Mapping[str | None, int] = field(default_factory=dict)  # how many more of each stratum must register
    seconds: float = 0.0  # until the clock has caught up
    lost: Lost | None = None


@dataclass(frozen=True)
class Lost:
    """Waves that were released and that the database does not know.

    >>> str(Lost("tea", 2, 3)), str(Lost("tea", 3, 3))
    ("waves 2 to 3 of study 'tea'", "wave 3 of study 'tea'")
    """

    study: str
    first: int
    last: int

    def __str__(self) -> str:
        waves = f"wave {self.last}" if self.first == self.last else f"waves {self.first} to {self.last}"
        return f"{waves} of study {self.study!r}"


def time_of(study: Any, now: float) -> float:
    """Return the time by a study's own clock, which stands still while it is paused: of its rounds and deadlines."""
    return float(study.life_since) if study.life == Life.PAUSED else now
