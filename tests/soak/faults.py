"""What breaks during a soak, and when: drawn from a seed, and done to real processes, disks and clocks."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock

from tests.service.postgres import FAST, IMMEDIATELY, Server
from tests.soak.clocked import set_clock
from tests.soak.disks import SmallDisk
from tests.soak.scale import Scale
from tests.soak.services import Service

KILL, RESTART, FULL, JUMP = "kill", "restart", "full", "jump"


@dataclass(frozen=True)
class Happening:
    """A fault, when it happens, and what exactly."""

    at: float  # seconds since the beginning
    kind: str
    what: str = ""
    size: float = 0.0


def free_spells(scale: Scale) -> list[tuple[float, float]]:
    """Return the spells in which something may break; what lasts a while must be over before a calm one begins."""
    first, last = 0.04 * scale.seconds, 0.97 * scale.seconds
    begins = [first, *(end for _, end in scale.calm)]
    ends = [*(start - scale.full - 8 for start, _ in scale.calm), last]
    return list(zip(begins, ends, strict=True))


def plan(scale: Scale, seed: int) -> list[Happening]:
    """Draw all faults of a soak, spread over the time outside the calm spells."""
    rng, spells = random.Random(seed), free_spells(scale)

    def moment(start: float = 0.0, end: float = 1.0) -> float:
        """Draw a moment between two shares of the time in which something may break."""
        left = rng.uniform(start, end) * sum(stop - begin for begin, stop in spells)
        for begin, stop in spells:
            if left <= stop - begin:
                return begin + left
            left -= stop - begin
        return spells[-1][1]

    def spread(many: int) -> list[float]:
        """Draw a moment in each of this many equal parts of that time."""
        return [moment(part / many, (part + 1) / many) for part in range(many)]

    services = ("coordinator 1", "coordinator 2", "shuffler")
    found = [
        Happening(moment(), KILL, rng.choice(services)) for _ in range(scale.kills - len(scale.calm) * len(services))
    ]
    # Each calm spell begins with new processes, so that early and late ones are of the same age.
    found += [Happening(start, KILL, name) for start, _ in scale.calm for name in services]
    found += [Happening(at, RESTART, ("fast", "immediate")[n % 2]) for n, at in enumerate(spread(scale.restarts))]
    disks = ("shuffler", "PostgreSQL") * scale.fills
    found += [Happening(at, FULL, disk) for disk, at in zip(disks, spread(len(disks)), strict=True)]
    for number, at in enumerate(spread(scale.jumps)):
        size = rng.uniform(0.2, 1.0) * (scale.far, -scale.back)[number % 2]
        found.append(Happening(at, JUMP, "all", size))
    return sorted(found, key=lambda one: one.at)


@dataclass
class Breaker:
    """Does what was planned, and notes what it did."""

    scale: Scale
    services: list[Service]
    postgres: Server
    disks: dict[str, SmallDisk | None]
    clock: Callable[[], float] = time.monotonic  # seconds since the beginning, once that is known
    done: list[Happening] = field(default_factory=list)
    not_ready: list[str] = field(default_factory=list)  # services that said so while their disk was full
    revived: int = 0  # PostgreSQL ended by itself on a full disk, and was started again
    offset: float = 0.0
    _database: Lock = field(default_factory=Lock)
    # Its threads live as long as this object: a process that a thread has started ends with that thread.
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8))

    def run(self, happenings: list[Happening]) -> None:
        """Do everything in its time; what takes a while is left to a thread."""
        running = []
        for one in happenings:
            time.sleep(max(0.0, one.at - self.clock()))
            running.append(self._pool.submit(self._do, one))
        for future in running:
            future.result()

    def _do(self, one: Happening) -> None:
        {KILL: self._kill, RESTART: self._restart, FULL: self._fill, JUMP: self._jump}[one.kind](one)

    def _note(self, one: Happening) -> None:
        self.done.append(Happening(self.clock(), one.kind, one.what, one.size))

    def _kill(self, one: Happening) -> None:
        self._note(one)
        next(service for service in self.services if service.name == one.what).kill()

    def _restart(self, one: Happening) -> None:
        with self._database:
            self._note(one)
            self.postgres.stop(FAST if one.what == "fast" else IMMEDIATELY)
            self.postgres.start()

    def _fill(self, one: Happening) -> None:
        disk = self.disks[one.what]
        if disk is None:
            return
        with self._database:
            self._note(one)
            disk.fill()
            try:
                self._wait(one.what)
            finally:
                disk.clear()
            if one.what == "PostgreSQL" and self.postgres.process.poll() is not None:
                self.revived += 1
                self.postgres.start()

    def _wait(self, disk: str) -> None:
        """Wait while the disk is full, and ask those that need it whether they are ready."""
        mine = [service for service in self.services if (service.name == "shuffler") == (disk == "shuffler")]
        end = time.monotonic() + self.scale.full
        while time.monotonic() < end:
            self.not_ready += [service.name for service in mine if not service.ready()]
            time.sleep(0.5)

    def _jump(self, one: Happening) -> None:
        """Set the clocks of all services by the same amount, and each a little wrong, as clocks are."""
        self._note(one)
        self.offset += one.size
        for number, service in enumerate(self.services):
            set_clock(service.clock, self.offset + number * 0.7)
