"""When a device should check in again: soon enough to notice an invitation, but so seldom that waiting costs little.

All devices of a service together check in about `CHECK_INS` times a second, however many they are; a few devices check
in every second. But whoever is invited must notice in time, so nobody waits for longer than a third of the deadline.
"""

from __future__ import annotations

import math
import time
from secrets import SystemRandom
from typing import Any

import sqlalchemy as sa

from voxpop.service.stores.schema import counts, studies
from voxpop.service.study.snapshot import Snapshot
from voxpop.service.study.stages import Life, Stage

CHECK_INS = 30.0  # a second, of all devices of a service
SHARE = 1 / 3  # of a deadline, within which an invitation is noticed
LEAST, MOST = 1.0, 86_400.0  # seconds
SPREAD = 0.2  # by how much a pause is longer or shorter at random, so that devices do not come at once
RECOUNT = 10.0  # seconds for which a count of all people holds


class Crowd:
    """How many people may be asked, in all studies that go on."""

    def __init__(self) -> None:
        self.size, self._until = 0, -math.inf

    def look(self, connection: sa.Connection) -> None:
        """Count again, unless that was done a moment ago; the counters of the studies are added up."""
        if time.monotonic() < self._until:
            return
        going = (studies.c.stage != Stage.FINISHED, studies.c.life.in_((Life.RUNNING, Life.PAUSED)))
        wanted = sa.select(sa.func.coalesce(sa.func.sum(counts.c.registered), 0))
        wanted = wanted.join(studies, studies.c.id == counts.c.study).where(*going)
        self.size, self._until = int(connection.execute(wanted).scalar_one()), time.monotonic() + RECOUNT


def next_check_in(crowd: int, snapshot: Snapshot, row: Any, participations: int, now: float) -> float:
    """Return after how many seconds a device should check in again, given the study's row and how it took part."""
    rules = snapshot.definition.rules
    most = min(MOST, rules.deadline * SHARE)
    if participations >= rules.participations:  # it is never asked again, and only hears of the end
        return spread(MOST)
    if row.life == Life.PAUSED:
        return spread(most)
    wait = 0.0
    if row.stage == Stage.PLAYING and rules.rounds_per_second is not None and snapshot.current is not None:
        end = row.opened_at + snapshot.current.plan.asked / rules.rounds_per_second
        wait = min(max(0.0, end - now), MOST)  # nobody is invited before
    return round(wait + spread(min(crowd / CHECK_INS, most)), 1)  # only the rest is spread, or the deadline would pass


def spread(seconds: float) -> float:
    """Return about this many seconds, a little more or less at random, and not less than a second."""
    return round(max(LEAST, seconds * SystemRandom().uniform(1 - SPREAD, 1 + SPREAD)), 1)
