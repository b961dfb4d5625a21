"""How large a soak is, and how often things break in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

LONG = 1800.0  # seconds: long enough for everyone to have registered when the first calm spell begins


@dataclass(frozen=True)
class Scale:
    """The size of a soak: what runs, for how long, and how often each kind of fault happens."""

    seconds: float
    studies: int  # at any time: when one is finished, another begins
    devices: int  # of each study
    floor: int  # people of a wave in the private models
    horizon: int  # rounds of a study
    kills: int
    restarts: int  # of PostgreSQL
    fills: int  # of the disk of the shuffler, and as often of that of PostgreSQL
    jumps: int  # of the services' clocks
    reports: int = 0  # it also goes on until this many were acknowledged
    fleets: int = 2  # processes of devices
    cut: float = 0.05  # share of the replies that are lost
    in_files: float = 0.05  # share of the devices that keep their memory in a file
    curious: float = 0.1  # share of the devices that check in in a wave without being invited
    absent: float = 0.003  # share of the devices that never check in
    deadline: float = 120.0  # seconds to answer an invitation
    far: float = 240.0  # seconds by which a clock jumps forward at most
    back: float = 90.0  # seconds by which it jumps backward at most
    full: float = 12.0  # seconds for which a disk is full
    drain: float = 180.0  # seconds for open waves to close at the end
    patience: float = 420.0  # seconds without progress of a study that are a fault

    @property
    def calm(self) -> tuple[tuple[float, float], ...]:
        """Spells, early and late, with no fault but lost replies, in which memory is compared; none in a short soak."""
        early, late = (0.14, 0.26), (0.84, 0.96)
        long = self.seconds >= LONG
        return tuple((start * self.seconds, end * self.seconds) for start, end in (early, late) if long)


def of_minutes(minutes: float) -> Scale:
    """Return the full size for ten minutes and more, and a small one that fits into less."""
    seconds, share = 60 * minutes, minutes / 60
    if minutes < 10:
        small = Scale(seconds, 8, 120, 12, 200, kills=max(4, round(10 * minutes)), restarts=1, fills=1, jumps=2)
        return replace(small, reports=200, deadline=15.0, far=30.0, back=5.0, full=3.0, drain=20.0)
    kills, restarts, jumps = (max(4, round(each * share)) for each in (200, 8, 12))
    return Scale(seconds, 20, 1000, 45, 100_000, kills, restarts, fills=2, jumps=jumps)
