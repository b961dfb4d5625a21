"""How far a study is: its stage, and where it stands in its life, which operators decide."""

from enum import StrEnum
from typing import Any


class Stage(StrEnum):
    """The stages of a study in order; OPEN to CLOSED repeat in every wave."""

    NEW = "new"
    OPEN = "open"  # the wave is planned; the application plays its rounds and reports them
    PLAYING = "playing"  # some rounds have been played, or a clock plays them
    COLLECTING = "collecting"  # people are invited and send their reports
    CLOSED = "closed"  # the wave is released; the next one is not planned yet
    FINISHED = "finished"


IN_PLAY = (Stage.OPEN, Stage.PLAYING)


class Life(StrEnum):
    """Where a study stands in its life. What is finished stays as it is; its `Stage` says that it is."""

    DRAFT = "draft"  # may still be changed; nobody but operators sees it
    RUNNING = "running"
    PAUSED = "paused"  # nothing is played, nobody is invited and nothing is released; reports are still taken
    ARCHIVED = "archived"  # finished, and no longer listed


def time_of(study: Any, now: float) -> float:
    """Return the time by a study's own clock, which stands still while it is paused: of its rounds and deadlines."""
    return float(study.life_since) if study.life == Life.PAUSED else now
