"""Memory and descriptors of every process, read at regular intervals, and whether they stay flat."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

EVERY = 5.0  # seconds between readings
SETTLED = 20.0  # seconds after which a process has imported what it needs and answers its first requests
MORE = 1.25  # how much larger the later median of memory may be
MORE_DESCRIPTORS = 1.25
FEW = 10  # descriptors: connections come and go with the traffic
ENOUGH = 6  # readings to compare


@dataclass(frozen=True)
class Reading:
    """One look at one process, or at all processes of PostgreSQL together."""

    at: float  # seconds since the beginning
    age: float  # seconds since the process began
    megabytes: float
    descriptors: int


@dataclass
class Meters:
    """The readings of all processes, by name."""

    clock: Callable[[], float]
    readings: dict[str, list[Reading]] = field(default_factory=lambda: defaultdict(list))

    def read(self, name: str, pids: Iterable[int], born: float) -> None:
        """Read the processes with these numbers as one; skip those that have just ended."""
        kilobytes, descriptors, alive = 0.0, 0, 0
        several = list(pids)
        for pid in several:
            try:
                kilobytes += _kilobytes(pid, shared=len(several) > 1)
                descriptors += len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208
                alive += 1
            except (OSError, ValueError):
                continue
        if alive:
            age = time.monotonic() - born
            self.readings[name].append(Reading(self.clock(), age, kilobytes / 1024, descriptors))

    def growth(self, early: tuple[float, float], late: tuple[float, float]) -> list[Growth]:
        """Compare two times; in each only readings of processes that have settled count."""
        found = []
        for name, readings in self.readings.items():
            first, last = (
                [it for it in readings if start <= it.at < end and it.age > SETTLED] for start, end in (early, late)
            )
            if min(len(first), len(last)) >= ENOUGH:
                found.append(Growth(name, _middle(first), _middle(last)))
        return found


@dataclass(frozen=True)
class Growth:
    """Medians of memory and descriptors of a process, early and late."""

    name: str
    early: tuple[float, float]  # megabytes, descriptors
    late: tuple[float, float]

    @property
    def fault(self) -> str | None:
        """What has grown too much, or None."""
        (memory, descriptors), (more, many) = self.early, self.late
        if more > MORE * memory:
            return f"the memory of {self.name} grew from {memory:.0f} to {more:.0f} MB"
        if many > MORE_DESCRIPTORS * descriptors + FEW:
            return f"the descriptors of {self.name} grew from {descriptors:.0f} to {many:.0f}"
        return None


def children(pid: int) -> list[int]:
    """Return the processes that a process has started itself."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(word) for word in text.split()]


def _middle(readings: list[Reading]) -> tuple[float, float]:
    return median(it.megabytes for it in readings), float(median(it.descriptors for it in readings))


def _kilobytes(pid: int, shared: bool) -> float:
    """Read the memory of a process: all that is resident, or what it has allocated itself where several are one.

    PostgreSQL's processes share a cache of pages, whose size is a setting and which fills as the database grows.
    """
    file, label = ("smaps_rollup", "Pss_Anon:") if shared else ("status", "VmRSS:")
    for line in Path(f"/proc/{pid}/{file}").read_text(encoding="ascii").splitlines():
        if line.startswith(label):
            return float(line.split()[1])
    raise ValueError(f"no {label} of process {pid}")
