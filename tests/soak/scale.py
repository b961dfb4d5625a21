"""How large a soak is, and how often things break in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """The size of a soak: what runs, for how long, and how often each kind of fault happens."""

    seconds: float
    studies: int  # at any time: when one is finished, another begins
    devices: int  # of each study
    floor: int  # people of a phase in the private models
    kills: int
    restarts: int  # of PostgreSQL
    fills: int  # of the disk of the shuffler, and as often of that of PostgreSQL
    jumps: int  # of the services' clocks
    reports: int = 0  # it also goes on until this many were acknowledged
    fleets: int = 2  # processes of devices
    cut: float = 0.05  # share of the replies that are lost
    in_files: float = 0.05  # share of the devices that keep their memory in a file
    curious: float = 0.1  # share of the devices that check in in a phase without being invited
    absent: float = 0.003  # share of the devices that never check in
    deadline: float = 120.0  # seconds to answer an invitation
    far: float = 240.0  # seconds by which a clock jumps forward at most
    back: float = 90.0  # seconds by which it jumps backward at most
    full: float = 12.0  # seconds for which a disk is full
    drain: float = 60.0  # seconds for open phases to close at the end
    patience: float = 420.0  # seconds without progress of a study that are a fault

    @property
    def calm(self) -> tuple[tuple[float, float], ...]:
        """Spells, early and late, with no fault but lost replies, in which memory is compared; none in a short soak."""
        early, late = (0.14, 0.26), (0.84, 0.96)
        return tuple((start * self.seconds, end * self.seconds) for start, end in (early, late) if self.long)

    @property
    def long(self) -> bool:
        """True if processes live long enough to say something about their memory."""
        return self.seconds >= 600


def of_minutes(minutes: float) -> Scale:
    """Return the full size for ten minutes and more, and a small one that fits into less."""
    seconds, share = 60 * minutes, minutes / 60
    if minutes < 10:
        return Scale(
            seconds, 8, 120, 12, max(4, round(10 * minutes)), 1, 1, 2, deadline=15, far=30, back=5, full=3, drain=20
        )
    return Scale(seconds, 20, 1000, 45, round(200 * share), max(2, round(8 * share)), 2, max(4, round(12 * share)))
