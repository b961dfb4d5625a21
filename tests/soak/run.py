"""A soak: start everything, let it run while things break, watch, and check what is left."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from signal import SIGTERM
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sa

from tests.service.chaos import Lossy
from tests.service.postgres import Server, with_name
from tests.soak.accounts import Account, audit, stored
from tests.soak.application import Application
from tests.soak.disks import small_disk
from tests.soak.faults import Breaker, plan
from tests.soak.fleets import Fleet
from tests.soak.logs import read_log
from tests.soak.meters import EVERY, Meters, children
from tests.soak.scale import Scale
from tests.soak.services import Service, make_services
from tests.soak.studies import define, kind_of
from voxpop.service.keys import new_key
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.events import Kind as Entry
from voxpop.service.study.stages import Stage
from voxpop.stores.database import Database
from voxpop.stores.migrate import open_store
from voxpop.stores.schema import invitations, people, receipts, studies, tokens

PAUSE = 0.004  # seconds between two check-ins of one study's devices
CALL = 1.0  # seconds between two calls on people to look at their devices
LOGS = 10.0  # seconds between two readings of all logs
MEGABYTES = {"shuffler": 32, "PostgreSQL": 448}
SMALL_WAL = ("--min_wal_size=32MB", "--max_wal_size=96MB")

Answer = TypeVar("Answer")


@dataclass
class Soak:
    """Everything that is known about a running soak, and at its end."""

    scale: Scale
    seed: int
    application: Application
    database: Database
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

    # -- studies

    def begin_study(self) -> None:
        """Create the next study, and give it devices."""
        number = len(self.accounts)
        kind, name = kind_of(number), f"study-{number}"
        self.application.create(name, define(kind, self.scale))
        self.accounts[name] = Account(name, kind, number, moved=time.monotonic())
        task = {"study": name, "number": number, "devices": self.scale.devices, "promise": asdict(kind.promise)}
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
        while not self.ended.is_set():
            with suppress(sa.exc.OperationalError):
                self._call(calls(self.database))
            self.ended.wait(CALL)

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
        for sentence in audit(account, patiently(lambda: stored(self.database, account.name)), self._in_batch):
            self.fault(sentence)
        print(  # noqa: T201
            f"{self.clock():7.1f} s  {account.name} ({account.kind.model}): {account.phases} phases,"
            f" {account.acknowledged} acknowledged",
            file=sys.stderr,
            flush=True,
        )

    def _in_batch(self, batch: str) -> int:
        """Count the reports of an open batch that the shuffler holds."""
        there = self.services[-1].arguments
        store = open_store(there[there.index("--database") + 1], "shuffler")
        wanted = sa.select(sa.func.count()).select_from(tokens)
        try:
            with store.read() as connection:
                held = connection.execute(wanted.where(tokens.c.batch == batch, tokens.c.digest.is_not(None)))
                return int(held.scalar_one())
        finally:
            store.close()

    # -- the end

    def drain(self) -> None:
        """Let open phases close: nothing breaks any more, and no rounds are played."""
        end = time.monotonic() + self.scale.drain
        while time.monotonic() < end:
            found = calls(self.database)
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


def calls(database: Database) -> dict[str, dict[str, Any]]:
    """Find out who is invited in each study and has not answered, as far as the coordinators know."""
    phases = sa.select(studies.c.id, studies.c.phase, studies.c.stage)
    asked = (invitations.c.study == studies.c.id) & (invitations.c.phase == studies.c.phase)
    joined = studies.join(invitations, asked).join(people, people.c.id == invitations.c.person)
    joined = joined.outerjoin(receipts, receipts.c.invitation == invitations.c.id)
    waiting = sa.select(studies.c.id, people.c.key_hash).select_from(joined)
    waiting = waiting.where(studies.c.stage == Stage.COLLECTING, invitations.c.ready, ~invitations.c.expired)
    with database.read() as connection:
        rows = list(connection.execute(phases))
        found = {r.id: {"phase": r.phase, "invited": [], "finished": r.stage == Stage.FINISHED} for r in rows}
        for study, key in connection.execute(waiting.where(receipts.c.invitation.is_(None))):
            found[study]["invited"].append(key.hex())
    return found


def patiently(call: Callable[[], Answer]) -> Answer:
    """Repeat a call that needs the database until the database is there."""
    while True:
        try:
            return call()
        except sa.exc.OperationalError:
            time.sleep(0.5)


@contextmanager
def running(scale: Scale, seed: int, folder: Path | None = None) -> Iterator[Soak]:
    """Start the database and the services, and end and remove everything afterwards."""
    base = Path(tempfile.mkdtemp(prefix="voxpop-soak-"))
    base.chmod(0o755)  # PostgreSQL may run as another user
    notes: list[str] = []
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, base, ignore_errors=True)
        (base / "postgres").mkdir()
        places = {"shuffler": base / "shuffler", "PostgreSQL": base / "postgres" / "data"}
        disks = {name: stack.enter_context(small_disk(place, MEGABYTES[name])) for name, place in places.items()}
        postgres = Server(base / "postgres", True, *SMALL_WAL)
        postgres.start()
        stack.callback(lambda: postgres.stop() if postgres.process.poll() is None else None)
        with psycopg.connect(postgres.address, autocommit=True) as connection:
            connection.execute("CREATE DATABASE voxpop")
        address, key = with_name(postgres.address, "voxpop"), new_key()
        database = open_store(address, "coordinator")
        stack.callback(database.close)
        Coordinator(database, b"").add_operator("soak", key)
        services = make_services(base, address, places["shuffler"] / "shuffler.db", notes.append)
        application = Application([one.url for one in services[:2]], key, Lossy(scale.cut, seed, 60.0))
        stack.callback(application.close)
        breaker = Breaker(scale, services, postgres, disks, lambda: 0.0)
        soak = Soak(scale, seed, application, database, services, breaker, faults=notes)
        breaker.clock = soak.clock
        for service in services:
            service.note = soak.fault
            service.start()
            stack.callback(service.end)
        while not all(service.ready() for service in services):
            time.sleep(0.05)
        settings = {"urls": application.urls, "seed": seed, "pause": PAUSE, "folder": str(base / "devices")}
        settings |= {name: getattr(scale, name) for name in ("cut", "in_files", "curious", "absent")}
        (base / "devices").mkdir()
        for _ in range(scale.fleets):
            soak.fleets.append(Fleet(settings, soak.hear))
            stack.callback(soak.fleets[-1].process.kill)
        yield soak
        if folder is not None:
            for service in services:
                shutil.copy(service.log, folder)


def run(scale: Scale, seed: int, folder: Path | None = None) -> Soak:
    """Run a whole soak; what is wrong is in its `faults`."""
    with running(scale, seed, folder) as soak:
        soak.began = time.monotonic()
        for _ in range(scale.studies):
            soak.begin_study()
        threads = [Thread(target=call, daemon=True) for call in (soak.play, soak.call, soak.measure, soak.watch)]
        for thread in threads:
            thread.start()
        soak.breaker.run(plan(scale, seed))
        while not soak.faults and (soak.clock() < scale.seconds or soak.counted < scale.reports):
            time.sleep(0.1)
        soak.ended.set()
        for thread in threads:
            thread.join()
        soak.drain()
        soak.finish()
    return soak
