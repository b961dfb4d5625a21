"""Replaying the reports of a service in the simulator: its plans and state must be the same as the service's."""

from __future__ import annotations

from voxpop.journal import replay
from voxpop.service.study.events import Event
from voxpop.service.study.snapshot import fold


def disagreements(events: list[Event], reports: replay.Reports, own_noise: bool = False) -> list[str]:
    """Return the differences between the service's log and the simulator's run on the same reports, ideally none."""
    served = fold(events)
    return replay.disagreements(served.course, reports, own_noise, served.early)
