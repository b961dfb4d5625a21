"""A whole service in one thread, under one seeded scheduler: coordinators, second server, devices, network and disks.

The code of the service is the real one, with its databases. Everything that is not in it comes from the seed: whose
turn it is, what becomes of messages, where a process is killed, when a disk is full, and how far a clock jumps. So a
seed and a commit replay a run exactly. Another process may run between any two transactions of a step, and a process
may die before any statement and before and after any commit.
"""

import hashlib
import json
import os
import random
import sqlite3
import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import msgspec
import numpy as np
import sqlalchemy as sa

from tests.service.chaos import Noting
from tests.service.world import SECRET, STUDY, definition, private
from voxpop.client import Device, Outcome
from voxpop.client.device import OCTETS
from voxpop.client.storage import Outgoing
from voxpop.errors import InputError
from voxpop.privacy import Simulated
from voxpop.service.demo.crowd import promise_of
from voxpop.service.keys import Keyring, hash_key
from voxpop.service.refusals import DATABASE_AWAY, Refusal, accepted
from voxpop.service.reports import decode
from voxpop.service.serve import require_newest
from voxpop.service.shuffler.batches import EncodedReport, Shuffler
from voxpop.service.stores.database import Database, open_database
from voxpop.service.stores.migrate import open_store
from voxpop.service.study import inbox, life, participants, released, steps
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.released import ReleaseRecord
from voxpop.service.study.status import status_of
from voxpop.service.web.bodies import ShuffledReport, bytes_of

HERE, THERE = "https://coordinator.example", "https://shuffler.example"
MODELS = ("none", "central", "local", "shuffle", "aggregate")
HORIZON, WAVES, FLOOR, SPARE = 4, 3, 4, 3
TICKS = 260  # while things break
HEALING = 400  # rounds after which a study that does not end is stuck
DEADLINE = 100.0


class Lying(Noting):
    """The memory of a device that changes its share, so that its proof is wrong."""

    def keep_within(self, outgoing: Outgoing, most: int) -> Outgoing | None:
        changed = outgoing.body[:-1] + bytes([outgoing.body[-1] ^ 1])
        return super().keep_within(replace(outgoing, body=changed), most)


class Killed(BaseException):
    """A process ends here."""


class FullError(sa.exc.OperationalError):
    """A disk is full."""

    def __init__(self) -> None:
        super().__init__("COMMIT", {}, sqlite3.OperationalError("database or disk is full"))


@dataclass
class Chances:
    """How often things break; each seed has its own, so that some are calm and some are wild."""

    lose: float  # a message, or its reply
    double: float
    delay: float  # a message comes later, when its sender has given it up
    kill: float  # at a statement
    full: float  # at a statement that writes
    preempt: float  # before a transaction

    @classmethod
    def of(cls, rng: random.Random) -> "Chances":
        calm = rng.choice([0.0, 0.3, 1.0, 1.0, 2.0])
        return cls(*(calm * rng.random() * most for most in (0.25, 0.15, 0.15, 0.004, 0.01, 0.5)))


@dataclass(eq=False)
class Process:
    """A process that is killed and started again; `start` makes what it does from its database."""

    simulation: "Simulation"
    name: str
    path: Path
    start: Callable[["Process", Database], Any]
    offset: float = 0.0  # of its clock
    does: Any = None  # None: it is down
    life: int = 0  # how often it was started
    writing: int = 0

    def clock(self) -> float:
        return self.simulation.now + self.offset

    def up(self) -> None:
        """Start it; a start may be killed, too."""
        self.life += 1
        database, mine = open_database(str(self.path)), self.life
        sa.event.listen(database.engine, "before_cursor_execute", lambda *given: self.point(mine, given[2]))
        sa.event.listen(database.engine, "commit", lambda _: self.point(mine, "COMMIT"))
        database.write = self.hooked(database.write, mine, writes=True)  # type: ignore[method-assign]
        database.read = self.hooked(database.read, mine)  # type: ignore[method-assign]
        self.database = database
        try:
            self.does = self.start(self, database)
        except (Killed, *DATABASE_AWAY, InputError) as error:
            self.down(type(error).__name__)

    def down(self, why: str) -> None:
        self.simulation.trace("down", self.name, why)
        self.does, self.writing, self.life = None, 0, self.life + 1  # whatever of it still runs ends at its next point
        self.database.close()

    def hooked(self, made: Callable[[], Any], mine: int, writes: bool = False) -> Callable[[], Any]:
        @contextmanager
        def transaction() -> Iterator[Any]:
            self.point(mine)
            self.simulation.preempt(self)
            self.point(mine)
            with made() as connection:
                self.writing += writes
                try:
                    yield connection
                finally:
                    self.writing -= writes and self.writing > 0
            self.point(mine, "committed" if writes else "")

        return transaction

    def point(self, mine: int, statement: str = "") -> None:
        """Die or fail here, if that is the seed's will."""
        if mine != self.life:
            raise Killed
        chances, rng = self.simulation.chances, self.simulation.rng
        if not self.simulation.breaking or not statement or statement == "ROLLBACK":
            return
        if rng.random() < chances.kill:
            self.simulation.counts["killed"] += 1
            self.down(f"at {statement.split()[0]}")
            raise Killed
        if statement.split()[0] in ("INSERT", "UPDATE", "DELETE", "COMMIT") and rng.random() < chances.full:
            self.simulation.counts["full"] += 1
            raise FullError

    def run(self, work: Callable[[Any], Any]) -> Any:
        """Let the process do something; raise a network error if it is down, or dies."""
        if self.does is None:
            raise httpx.ConnectError("nobody answers")
        try:
            return work(self.does)
        except Killed:
            raise httpx.ReadError("the connection ended") from None


@dataclass
class Link:
    """The second server as a coordinator sees it, over the same network."""

    simulation: "Simulation"

    def _ask(self, name: str, *given: Any) -> Any:
        def work() -> Any:
            return self.simulation.second.run(lambda shuffler: getattr(shuffler, name)(*given))

        return self.simulation.carried(f"second {name}", work)

    def announce(self, *given: Any) -> Any:
        return self._ask("announce", *given)

    def verify(self, *given: Any) -> Any:
        return self._ask("verify", *given)

    def seal(self, name: str, tokens: list[bytes]) -> Any:
        return self._ask("seal", name, tokens)

    def call_off(self, name: str) -> None:
        self._ask("call_off", name)

    def upload_address(self, name: str) -> str:
        return f"{THERE}/v2/batches/{name}/report"


class Network(httpx.BaseTransport):
    """What devices send, to whichever coordinator answers, or to the second server."""

    def __init__(self, simulation: "Simulation") -> None:
        self.simulation = simulation

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        method, path, body = request.method, request.url.path, request.read()
        shared = request.headers.get("content-type") == OCTETS
        key = request.headers["authorization"].removeprefix("Bearer ")

        def work() -> httpx.Response:
            there = request.url.host == httpx.URL(THERE).host
            process = self.simulation.second if there else self.simulation.rng.choice(self.simulation.coordinators)
            try:
                status, said = process.run(lambda does: answer(does, method, path, key, body, shared))
            except Refusal as refusal:
                status, said = refusal.status, {"error": refusal.sentence}
            except InputError as error:
                status, said = 422, {"error": str(error)}
            except DATABASE_AWAY:
                status, said = 503, {"error": "the database is away"}
            return httpx.Response(status, json=said)

        response: httpx.Response = self.simulation.carried(f"{method} {path.rsplit('/', 1)[1]}", work)
        return response


def answer(does: Any, method: str, path: str, key: str, body: bytes, shared: bool = False) -> tuple[int, Any]:
    """Answer a request as the routes of the two services do."""
    parts = path.split("/")
    if isinstance(does, Shuffler):
        said = msgspec.json.decode(body, type=ShuffledReport)
        new = accepted(does.store([EncodedReport(parts[3], key, said.stored, said.batch)])[0])
        return (201, {"status": "counted"}) if new else (200, {"status": "counted before"})
    context, place = does.context, parts[4]
    if (method, place) == ("PUT", "participant"):
        new = accepted(participants.register(context, [participants.Newcomer(STUDY, key)])[0])
        return 201 if new else 200, {"status": "registered"}
    if method == "DELETE":
        participants.withdraw(context, STUDY, key)
        return 200, {"status": "withdrawn"}
    if place == "checkin":
        return 200, json.loads(accepted(participants.check_in(context, [(STUDY, key)])[0]))
    upload = inbox.Upload((STUDY, int(parts[5])), key, body if shared else decode(body))
    new = accepted(inbox.store(context, [upload])[0])
    return (201, {"status": "counted"}) if new else (200, {"status": "counted before"})


@dataclass(eq=False)
class Simulation:
    """One run of one seed, in a folder of its own."""

    seed: int
    folder: Path
    now: float = 1_000_000.0
    breaking: bool = True
    depth: int = 0  # of processes that run between the transactions of others
    digest: Any = field(default_factory=hashlib.sha256)
    log: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    late: list[tuple[str, Callable[[], Any]]] = field(default_factory=list)  # messages that are on their way
    acknowledged: set[bytes] = field(default_factory=set)  # the hashes of the tokens whose devices were told so
    lies: set[bytes] = field(default_factory=set)  # the same of devices whose proofs are wrong
    plays: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(f"faults {self.seed}")
        self.chances = Chances.of(self.rng)
        self.model = self.rng.choice(MODELS)
        self.liars = self.rng.choice([0.0, 0.0, 0.2]) if self.model == "aggregate" else 0.0
        shared = self.model in ("shuffle", "aggregate")
        self.floor = 12 if shared else FLOOR
        trust = None if self.model == "none" else private(self.model, self.floor)
        self.definition = definition(trust, HORIZON, deadline=DEADLINE)
        self.record = ReleaseRecord(self.folder / "released")
        self.record.prepare()
        count = self.rng.choice([1, 1, 2])
        self.coordinators = [
            Process(self, f"coordinator {place}", self.folder / "c.db", self._coordinator) for place in range(count)
        ]
        self.second = Process(self, "second", self.folder / "s.db", lambda _, database: Shuffler(database, self.note))
        self.processes = [*self.coordinators, *([self.second] if shared else [])]
        self.http, self.promise = httpx.Client(transport=Network(self)), promise_of(self.definition, THERE)
        self.devices: list[Device] = []
        self.left: set[int] = set()  # the devices that withdrew
        self.busy: list[Device] = []  # those that check in, while others go first

    # -- what the seed decides

    def trace(self, *said: object) -> None:
        line = " ".join(map(str, said))
        self.log.append(line)
        self.digest.update(line.encode() + b"\n")

    def note(self, kind: str, **values: Any) -> None:
        self.counts[kind] += 1
        self.trace("note", kind, sorted(values.items()))

    def preempt(self, process: Process) -> None:
        """Let somebody else go first, unless a transaction is open that would make them wait."""
        busy = any(one.writing for one in self.processes)
        if not self.breaking or busy or self.depth >= 2 or self.rng.random() >= self.chances.preempt:
            return
        self.depth += 1
        try:
            self.turn()
        finally:
            self.depth -= 1

    def carried(self, what: str, work: Callable[[], Any]) -> Any:
        """Carry a message and its reply over the network."""
        chance, chances = self.rng.random(), self.chances
        if not self.breaking:
            return work()
        for fate, share in (("lost", chances.lose), ("delayed", chances.delay), ("doubled", chances.double)):
            if chance < share:
                self.counts[fate] += 1
                self.trace(fate, what)
                if fate == "delayed":
                    self.late.append((what, work))
                elif fate == "doubled":
                    with suppress(httpx.HTTPError, Refusal, InputError, *DATABASE_AWAY):
                        work()
                    return work()
                elif self.rng.random() < 0.5:  # only the reply is lost
                    with suppress(httpx.HTTPError, Refusal, InputError, *DATABASE_AWAY):
                        work()
                raise httpx.ReadError("nothing came back")
            chance -= share
        return work()

    # -- the service

    def _coordinator(self, process: Process, database: Database) -> Coordinator:
        link = Link(self) if self.second in self.processes else None
        noise = Simulated(np.random.default_rng([self.seed, process.life]))
        named = {"noise": noise, "clock": process.clock, "note": self.note, "released": self.record}
        made = Coordinator(database, Keyring.of(SECRET), link, **named)
        made.context.writer = f"{process.name}-{process.life}"
        require_newest(database, self.record)
        life.delete_again(made.context)
        participants.forget_again(made.context)
        return made

    def begin(self) -> None:
        """Start everything, and create the study, in peace."""
        self.breaking = False
        for process in self.processes:
            process.up()
        self.coordinators[0].does.create(STUDY, self.definition)
        for _ in range(self.rng.choice([1, WAVES, WAVES]) * (self.floor + 1) + SPARE):
            self.new_device()
        self.breaking = True

    def new_device(self) -> None:
        source = Simulated(np.random.default_rng([self.seed, 9, len(self.devices)]))
        named: dict[str, Any] = {"attempts": 1, "sleep": lambda _: None, "clock": lambda: 0.0}  # no time passes
        device = Device(HERE, STUDY, self.promise, http=self.http, source=source, **named)
        device.memory.close()
        device.memory = Lying() if self.rng.random() < self.liars else Noting()
        with device.memory._transaction():  # one transaction for all is much faster
            for wave in range(1, HORIZON + 1):
                for arm in range(6):
                    device.record(wave, arm, 0.3 + 0.1 * arm + 0.01 * len(self.devices))
        self.devices.append(device)

    def check_in(self, device: Device) -> None:
        if device in self.busy:  # it does one thing at a time
            return
        kept = device.memory.outgoing()
        self.busy.append(device)
        try:
            outcome = device.check_in()
        finally:
            self.busy.remove(device)
        self.trace("device", self.devices.index(device), outcome)
        if outcome is Outcome.ANSWERED:
            assert isinstance(device.memory, Noting)
            self.counts["lied"] += isinstance(device.memory, Lying)
            made = kept or device.memory.kept
            assert made is not None
            (self.lies if isinstance(device.memory, Lying) else self.acknowledged).add(hash_key(made.token))

    @property
    def made(self) -> dict[bytes, tuple[int, list[float]]]:
        """Every report that a device made, by the hash of its token, with its wave."""
        kept = [memory.kept for device in self.devices if isinstance(memory := device.memory, Noting)]
        return {hash_key(one.token): (one.wave, one.report) for one in kept if one is not None}

    def step(self, process: Process) -> bool:
        try:
            return bool(process.run(lambda coordinator: steps.step(coordinator.context, STUDY).moved))
        except (httpx.HTTPError, Refusal, InputError, *DATABASE_AWAY) as error:
            self.trace("step failed", process.name, type(error).__name__)
            return False

    def play(self) -> None:
        """Act as the application, which reports rounds until they are counted."""

        def work(coordinator: Coordinator) -> None:
            now = coordinator.decision(STUDY)
            if now.rounds:
                self.plays += 1
                coordinator.play(STUDY, now.wave, f"play-{self.plays}", now.rounds)

        with suppress(httpx.HTTPError, Refusal, InputError, *DATABASE_AWAY):
            self.carried("play", lambda: self.rng.choice(self.coordinators).run(work))

    def forward(self) -> None:
        """Act as the shuffler's task."""
        if self.second not in self.processes:
            return
        with suppress(httpx.HTTPError, InputError, *DATABASE_AWAY):
            for batch, total in self.second.run(lambda shuffler: shuffler.sealed()):
                given = batch, total["count"], total["total"], bytes_of(total["tokens"])

                def work(given: Any = given) -> Any:
                    return self.rng.choice(self.coordinators).run(lambda coordinator: coordinator.take_total(*given))

                try:
                    self.carried("total", work)
                except Refusal as refusal:
                    if refusal.status != 410:
                        continue
                self.second.run(partial(Shuffler.taken, batch=batch))

    def withdraw(self) -> None:
        """Let somebody leave who has not answered: what becomes of an answer is then not the device's to know."""
        place = self.rng.randrange(len(self.devices))
        device = self.devices[place]
        may = device.memory.registered and not device.memory.reports and device not in self.busy
        if may and place not in self.left and len(self.left) < 3:
            self.left.add(place)
            self.trace("withdraw", place, device.withdraw())

    def turn(self) -> None:
        """Let somebody do something."""
        rng = self.rng
        doing = rng.choices(
            ("device", "step", "play", "forward", "late", "time", "jump", "kill", "start", "new", "leave"),
            (30, 20, 6, 4, 6, 8, 1, 0.5, 6, 0.5, 0.7),
        )[0]
        if doing == "device":
            self.check_in(rng.choice(self.devices))
        elif doing == "step":
            self.step(rng.choice(self.coordinators))
        elif doing == "play":
            self.play()
        elif doing == "forward":
            self.forward()
        elif doing == "late" and self.late:
            what, work = self.late.pop(rng.randrange(len(self.late)))
            self.trace("late", what)
            with suppress(httpx.HTTPError, Refusal, InputError, *DATABASE_AWAY):
                work()
        elif doing == "time":
            self.now += rng.expovariate(1 / 15)
        elif doing == "jump":
            process = rng.choice(self.processes)
            process.offset = rng.choice([0.0, rng.uniform(-300, 300)])
            self.trace("jump", process.name, process.offset)
        elif doing == "kill" and self.depth == 0:
            process = rng.choice(self.processes)
            if process.does is not None and rng.random() < 50 * self.chances.kill:
                process.down("killed")
        elif doing == "start":
            for process in self.processes:
                if process.does is None:
                    process.up()
        elif doing == "new":
            self.new_device()
        elif doing == "leave":
            self.withdraw()

    def heal(self) -> bool:
        """Let nothing break any more, and everybody carry on; return True if the study comes to its end."""
        self.breaking = False
        self.trace("healing")
        for process in self.processes:
            process.offset = 0.0
            if process.does is None:
                process.up()
        for _ in range(HEALING):
            for process in self.coordinators:
                while self.step(process):
                    pass
            self.forward()
            self.all_check_in()
            if self.coordinators[0].does.decision(STUDY).stage == "finished" and not self.late:
                return True
            self.play()
            while self.late:
                _, work = self.late.pop(0)
                with suppress(httpx.HTTPError, Refusal, InputError, *DATABASE_AWAY):
                    work()
            self.now += DEADLINE / 3
            short = status_of(self.coordinators[0].does.context, STUDY)
            for _ in range(self.floor if short.short or short.stage == "open" else 0):
                self.new_device()
        return False

    def run(self) -> "Simulation":
        """Run the whole study."""
        self.begin()
        for _ in range(TICKS):
            self.turn()
        self.finished = self.heal()
        self.all_check_in()  # also those whose last reply was lost
        return self

    def all_check_in(self) -> None:
        """Let every device check in that is not done."""
        for device in self.devices:
            done = device.memory.reports and device.memory.outgoing() is None
            if not done and not device.memory.forgotten:
                with suppress(InputError):
                    self.check_in(device)

    def close(self) -> None:
        self.http.close()
        for device in self.devices:
            device.memory.close()
        for process in self.processes:
            process.database.close()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from the seed all that the operating system would give, and read no clock."""
    rng, state = random.Random(f"system {seed}"), random.getstate()
    random.seed(seed)
    shim = types.SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: None)
    try:
        with (
            patch.object(os, "urandom", rng.randbytes),
            patch.object(random, "_urandom", rng.randbytes),
            patch.object(participants, "time", shim),
        ):
            yield
    finally:
        random.setstate(state)


TEMPLATES: dict[str, bytes] = {}


@contextmanager
def simulated(seed: int, folder: Path) -> Iterator[Simulation]:
    """Run a seed in an empty folder, which is left as it is at the end."""
    for name, kind in (("c.db", "coordinator"), ("s.db", "shuffler")):
        if name not in TEMPLATES:  # setting a database up takes longer than half of a run
            made = folder / "template.db"
            open_store(str(made), kind).close()  # type: ignore[arg-type]
            TEMPLATES[name] = made.read_bytes()
            made.unlink()
        (folder / name).write_bytes(TEMPLATES[name])
    write = vars(released)["write_durably"]
    with seeded(seed):
        simulation = Simulation(seed, folder)

        def durably(path: Path, content: Any, *rest: Any) -> None:
            """Write a file of the record, on a disk that may be full."""
            if simulation.breaking and simulation.rng.random() < simulation.chances.full:
                raise InputError("cannot write the record: no space left on device")
            write(path, content, *rest)

        with patch.object(released, "write_durably", durably):
            try:
                yield simulation.run()
            finally:
                simulation.close()
