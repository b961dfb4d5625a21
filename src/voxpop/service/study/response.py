"""How many people to invite so that a wave has its answers by the deadline, from how people have answered so far.

Everything here depends on who answered and when, never on what.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

TOLD = 0.25  # the part of a deadline after which the pace of the answers tells something
LATELY = 0.1  # the part of a deadline in which answers came lately
PACED = 0.05  # the part of a deadline after which it is looked at again
SURE = 2.0  # standard deviations of the number of answers to come, by which more people are invited
GUESSED = 0.5  # the least rate that is counted on before a deadline has ever passed
PRIOR = 10  # people of whom it is assumed that they would answer


@dataclass
class Pace:
    """How many answers of a wave were in when this process looked; for one deadline at most."""

    wave: int
    again: float  # when to look again
    looks: deque[tuple[float, int]] = field(default_factory=deque)

    def of_late(self, now: float, answered: int, span: float) -> tuple[int, float] | None:
        """Note what is in, and return how many answers came since a look some time ago, and how many deadlines ago."""
        self.again = now + PACED * span
        self.looks.append((now, answered))
        while len(self.looks) > 1 and self.looks[1][0] <= now - LATELY * span:
            self.looks.popleft()
        then, before = self.looks[0]
        return (answered - before, (now - then) / span) if now - then >= LATELY * span else None


@dataclass(frozen=True)
class Response:
    """How the people of a wave, and of those before it, have answered so far.

    >>> Response(people=270).missing, Response(people=270, before=(189.0, 270.0)).missing
    (270, 422)
    """

    people: int  # whose answers the wave needs
    most: float = 3.0  # people invited for each answer that lacks
    answered: int = 0  # of this wave
    held: int = 0  # invitations that were answered or still can be
    fresh: int = 0  # those that can be, and are so new that they tell nothing
    older: int = 0  # the others, also those that were answered
    left: float = 0.0  # the part of the deadline that these have still got, on average
    late: float = 0.0  # invitations of this wave that ran out
    before: tuple[float, float] = (0.0, 0.0)  # answers in earlier waves, and invitations
    lately: tuple[int, float] | None = None  # answers since so many deadlines ago; None: not known

    @property
    def pace(self) -> tuple[float, float]:
        """How many answers may still come to the older invitations if they come as fast as lately, and the doubt."""
        if not self.older:
            return 0.0, 0.0
        gained, ago = (self.answered, 1 - self.left) if self.lately is None else self.lately
        gained = max(0, gained)  # answers are withdrawn, too
        ahead, most = self.left / ago, float(max(0, self.older - self.answered))
        return min(most, gained * ahead), math.sqrt(gained + 1) * ahead

    @property
    def rate(self) -> float:
        """The share of those invited who answer; everybody, as long as nothing is known."""
        seen, asked = self.before
        if self.older or self.late:
            seen, asked = seen + self.answered + self.pace[0], asked + self.older + self.late
        passed = self.late or self.before[1]
        least = 1 / self.most if passed else max(GUESSED, 1 / self.most)
        return min(1.0, max(least, (seen + PRIOR) / (asked + PRIOR)))

    @property
    def missing(self) -> int:
        """How many more people to invite now."""
        replaced, rate, (coming, doubt) = max(0, self.people - self.held), self.rate, self.pace
        lacking = self.people - self.answered - coming
        if self.most <= 1 or (not replaced and lacking - rate * self.fresh <= SURE * doubt):
            return replaced
        known = self.before[1] + self.older + self.late + PRIOR
        invited = lacking / rate
        for _ in range(8):  # of so many, enough answer almost surely; the rate itself is only known from some
            spread = math.sqrt(max(0.0, invited) * rate * (1 - rate) * (1 + invited / known))
            invited = min(lacking + SURE * spread, self.most * lacking * rate) / rate
        return max(math.ceil(invited - self.fresh), replaced)
