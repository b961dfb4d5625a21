"""A study that is over goes on as a watch: how long its decision stands, and when a standing wave is due."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from voxpop.errors import InputError, require_integer
from voxpop.journal.journal import Course
from voxpop.model.waves import End
from voxpop.model.words import certified, counted, describe, number


@dataclass(frozen=True)
class Watched:
    """What a watch has to say about the decision in force.

    >>> print(Watched({"price": 4.7}, 130, 0.12, 0.2, 40, None, None, ""))
    price = 4.7: nothing is better by more than 0.12 in round 130; certified within 0.2 for 40 more rounds
    """

    decision: Any
    round: int  # that is over
    certified: float | None  # by how much any decision can be better now; None: nothing is certified
    tolerance: float | None
    stands: int | None  # rounds for which it stays certified within the tolerance; None: without one, or no longer
    until: str | None  # the date of the last of them
    wave: int | None  # that is to be asked now
    alert: str  # that another decision is the best now; empty if none is

    def __str__(self) -> str:
        """Say how long the decision stands, and what to do."""
        said = [f"{describe(self.decision)}: {certified(self.certified, False)} in round {self.round:,}"]
        if self.stands is not None and self.tolerance is not None:
            within = f"certified within {number(self.tolerance)} for {counted(self.stands, 'more round')}"
            said.append(within + (f", until {self.until}" if self.until else ""))
        if self.wave is not None:
            said.append(f"wave {self.wave} is due")
        return "; ".join(said)


def watched(course: Course) -> Watched:
    """Say how long the decision of a study that is watched stands."""
    rate = course.watching.ageing(course.problem, course.answer.index)
    tolerance = course.policy.settings().get("tolerance")
    known, due = course.concluded.state.certificate, not isinstance(course.following, End)
    stands, until = None, None
    if tolerance is not None and known <= tolerance and rate:
        stands = min(math.floor((tolerance - known) / rate), course.problem.horizon - course.rounds)
        if course.calendar is not None and stands:
            until = course.calendar.until(course.rounds + stands)
    return Watched(
        course.answer.decision,
        course.rounds,
        known if math.isfinite(known) else None,
        tolerance,
        stands,
        until,
        len(course.closed) + 1 if due else None,
        course.alert,
    )


def rounds_passed(course: Course, rounds: int | None, now: datetime) -> int:
    """Return how many rounds have passed since the last wave or watch: by the calendar, or as the owner says."""
    _ = course.watching
    waiting = bool(course.passed) and course.passed[-1][0] == len(course.closed)
    if course.wave is not None or (not waiting and not isinstance(course.following, End)):
        if course.passed and rounds is None:  # a standing wave is under way, and its owner only looks
            return 0
        which = len(course.closed) + 1
        raise InputError(f"the study has not ended, as wave {which} is to be asked and answered; watch it afterwards")
    if course.calendar is None:
        count = 0 if rounds is None else require_integer("rounds", rounds, least=1)
    elif rounds is not None:
        raise InputError(f"the calendar says how many rounds have passed, and not {rounds:,}; leave out the rounds")
    else:
        count = max(0, course.calendar.begun(now) - 1 - course.rounds)
    if course.rounds + count >= course.problem.horizon:
        raise InputError(
            f"with {counted(count, 'more round')} the study reaches its horizon of {course.problem.horizon:,} rounds, "
            "after which nothing can be asked; raise the horizon, or give fewer rounds"
        )
    return count
