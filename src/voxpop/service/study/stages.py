"""The stages of a study."""

from enum import StrEnum


class Stage(StrEnum):
    """The stages of a study in order; OPEN to CLOSED repeat in every phase."""

    NEW = "new"
    OPEN = "open"  # the phase is planned; the application plays its rounds and reports them
    PLAYING = "playing"  # some rounds have been played, or a clock plays them
    COLLECTING = "collecting"  # people are invited and send their reports
    CLOSED = "closed"  # the phase is released; the next one is not planned yet
    FINISHED = "finished"


IN_PLAY = (Stage.OPEN, Stage.PLAYING)
