"""A soak: let everything run while things break, watch, and check what is left."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from signal import SIGTERM
from threading import Event as Flag
from threading import Lock
from typing import Any

from tests.soak.accounts import Account, audit
from tests.soak.application import Application
from tests.soak.faults import Breaker
from tests.soak.fleets import Fleet
from tests.soak.logs import read_log
from tests.soak.meters import EVERY, Meters, children
from tests.soak.scale import Scale
from tests.soak.services import Service
from tests.soak.stored import calls, held_by_shuffler, patiently, stored
from tests.soak.studies import define, kind_of
from voxpop.service.stores.database import Database
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.stages import Kind as Entry

CALL = 1.0  # seconds between two calls on people to look at their devices
LOGS = 10.0  # seconds between two readings of all logs


@dataclass
class Soak:
    """Everything that is known about a running soak, and at its end."""

    scale: Scale
    seed: int
    application: Application
    database: Database
    shuffler: str  # the path of its database
    services: list[Service]
    breaker: Breaker
    fleets: list[Fleet] = field(default_factory=list)
    accounts: dict[str, Account] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    said: dict[str, Counter[str]] = field(default_factory=dict)  # by service: troubles in its log
    acknowledged: list[tuple[float, int]] = field(default_factory=list)  # (seconds, reports) over time
    began: float = field(default_factory=time.monotonic)
    ended: Flag = field(default_factory=Flag)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.meters = Meters(self.clock)

    def clock(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self.began

    @property
    def counted(self) -> int:
        """The number of reports whose devices were told that they were counted."""
        return sum(account.acknowledged for account in list(self.accounts.values()))

    def fault(self, sentence: str) -> None:
        """Note what should not have happened, once."""
        if sentence not in self.faults:
            self.faults.append(sentence)
            print(f"{self.clock():7.1f} s  FAULT: {sentence}", file=sys.stderr, flush=True)  # noqa: T201

    def guarded(self, task: Callable[[], None]) -> None:
        """Do a task; if it fails, nothing is known any more."""
        try:
            task()
        except Exception as error:
            self.fault(f"the soak itself failed: {type(error).__name__}: {error}")
            raise

    # -- studies

    def begin_study(self) -> None:
        """Create the next study, and give it devices."""
        number = len(self.accounts)
        kind, name = kind_of(number), f"study-{number}"
        self.application.create(name, define(kind, self.scale))
        self.accounts[name] = Account(name, kind, number, moved=time.monotonic())
        promise = kind.promise(self.services[-1].url)
        task = {"study": name, "number": number, "devices": self.scale.devices, "promise": asdict(promise)}
        self.fleets[number % len(self.fleets)].tell(task)

    def hear(self, word: dict[str, Any]) -> None:
        """Take down what a fleet says."""
        with self._lock:
            if "statuses" in word:
                self.statuses += Counter(word["statuses"])
                return
            account = self.accounts[word["study"]]
            account.moved = time.monotonic()
            account.registered = word.get("registered", account.registered)
            account.over = account.over or "over" in word
            if "person" in word:
                account.hear(word)
        if "fault" in word:
            self.fault(word["fault"])

    def play(self) -> None:
        """Act as the application of all studies until the time is up."""
        seen: dict[str, Any] = {}
        while not self.ended.is_set():
            for name, account in list(self.accounts.items()):
                if account.over or not account.registered:
                    continue
                now = self.application.ask("GET", f"/{name}/decision")
                if now is None:
                    continue
                if now != seen.get(name):
                    seen[name], account.moved = now, time.monotonic()
                if now["rounds"] and now["stage"] in ("open", "playing") and not account.kind.by_clock:
                    self.application.play(name, now)
            self.ended.wait(0.5)

    def call(self) -> None:
        """Call on people to look at their devices, as a push message would; without it, all would ask all the time."""
        while not self.ended.wait(CALL):
            self._call(patiently(lambda: calls(self.database)))

    def _call(self, found: dict[str, dict[str, Any]]) -> None:
        for name, call in found.items():
            account = self.accounts.get(name)
            if account is not None and account.registered and not account.over:
                self.fleets[account.number % len(self.fleets)].tell({"study": name, "call": call})

    # -- watching

    def measure(self) -> None:
        """Read memory, descriptors and progress at regular intervals."""
        while not self.ended.wait(min(EVERY, self.scale.seconds / 20)):
            for service in self.services:
                if service.process is not None:
                    self.meters.read(service.name, [service.process.pid], service.born)
            for number, fleet in enumerate(self.fleets, start=1):
                self.meters.read(f"devices {number}", [fleet.process.pid], fleet.born)
            server = self.breaker.postgres.process.pid
            self.meters.read("PostgreSQL", [server, *children(server)], self.began)
            self.acknowledged.append((self.clock(), self.counted))

    def watch(self) -> None:
        """Read the logs, check studies that are over and begin others, until the time is up."""
        while not self.ended.wait(min(LOGS, self.scale.seconds / 10)):
            for account in list(self.accounts.values()):
                if account.checked:
                    continue
                self._read(account)
                quiet = time.monotonic() - account.moved
                if quiet > self.scale.patience:
                    self.fault(f"{account.name} made no progress for {self.scale.patience:g} s")
                if account.over and account.log and account.log[-1].kind == Entry.FINISHED:
                    self._audit(account)
                    if self.clock() < 0.95 * self.scale.seconds:
                        self.begin_study()

    def _read(self, account: Account) -> None:
        log = self.application.log(account.name)
        if log is not None:
            account.read(log)
        for sentence in account.faults:
            self.fault(f"{account.name}: {sentence}")

    def _audit(self, account: Account) -> None:
        account.checked = True
        found = patiently(lambda: stored(self.database, account.name))
        for sentence in audit(account, found, lambda batch: held_by_shuffler(self.shuffler, batch)):
            self.fault(sentence)
        print(  # noqa: T201
            f"{self.clock():7.1f} s  {account.name} ({account.kind.model}): {account.waves} waves,"
            f" {account.acknowledged} acknowledged",
            file=sys.stderr,
            flush=True,
        )

    # -- the end

    def drain(self) -> None:
        """Let open waves close: nothing breaks any more, and no rounds are played."""
        end = time.monotonic() + self.scale.drain
        while time.monotonic() < end:
            found = patiently(lambda: calls(self.database))
            if not any(call["invited"] for call in found.values()):
                return
            self._call(found)
            time.sleep(CALL)

    def finish(self) -> None:
        """End the devices, read the logs for the last time, end the services, and check everything."""
        for fleet in self.fleets:
            fleet.tell({"stop": True})
        for fleet in self.fleets:
            if fleet.end() != 0:
                self.fault(f"a process of devices ended with code {fleet.process.returncode}")
        left = [account for account in self.accounts.values() if not account.checked]
        for service in reversed(self.services):
            if (code := service.stop()) not in (0, -SIGTERM):
                self.fault(f"the {service.name} ended with code {code} when asked to stop")
        coordinator = Coordinator(self.database, b"")
        for account in left:
            account.read(coordinator.log(account.name))
            self._audit(account)
        for service in self.services:
            wrong, self.said[service.name] = read_log(service.log)
            for sentence in wrong:
                self.fault(sentence)
        if self.statuses["500"] or self.application.server_errors:
            self.fault(f"{self.statuses['500'] + self.application.server_errors} replies had status 500")
        if len(self.scale.calm) == 2:
            for growth in self.growth():
                if growth.fault is not None:
                    self.fault(growth.fault)

    def growth(self) -> list[Any]:
        """Compare memory and descriptors of the two calm spells."""
        return self.meters.growth(*self.scale.calm) if len(self.scale.calm) == 2 else []
