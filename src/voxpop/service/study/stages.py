"""How far a study is."""

from enum import StrEnum


class Stage(StrEnum):
    """The stages of a study, in their order; from OPEN to CLOSED they repeat phase after phase."""

    NEW = "new"
    OPEN = "open"  # planned; the application plays the rounds and reports them
    PLAYING = "playing"  # some rounds were played, or a clock plays them
    COLLECTING = "collecting"  # people are invited and answer
    CLOSED = "closed"  # released; the next phase is not planned yet
    FINISHED = "finished"


IN_PLAY = (Stage.OPEN, Stage.PLAYING)
