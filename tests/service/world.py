"""A coordinator with a clock that the test turns, and people who answer."""

import json
from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from voxpop.errors import Array
from voxpop.io.schema import asked_of_device, decode_release
from voxpop.model.guardrails import Guardrail, Rule
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.policies import Policy, make_policy
from voxpop.privacy import NoPrivacy, Privacy, Private, Simulated
from voxpop.privacy.release import Batch
from voxpop.service import operators
from voxpop.service.keys import new_key
from voxpop.service.refusals import Refusal, accepted
from voxpop.service.reports import Verdict
from voxpop.service.shuffler.batches import BatchProgress, CheckedShares, EncodedReport, SealedBatch, Shuffler
from voxpop.service.stores.migrate import open_store
from voxpop.service.study import participants, steps
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.definition import Definition, Rules
from voxpop.service.study.inbox import Upload, store
from voxpop.service.study.participants import Newcomer
from voxpop.service.study.status import Status, status_of
from voxpop.service.web.bodies import Total, bytes_of
from voxpop.simulation.people import people_of

SECRET = b"s" * 32
STUDY = "tea"


def problem(horizon: int = 31) -> Problem:
    return Problem(np.linspace(0, 1, 6), SquaredExponential(0.3), 0.05, 0.1, norm_bound=1.0, horizon=horizon)


def guarded(horizon: int = 31) -> Problem:
    """Return the problem with a guardrail, of which less is better, and which some decisions break."""
    rail = Guardrail(Rule.of("complaints <= 0.3"), problem(horizon), (0.4,))
    return replace(problem(horizon), guardrails=(rail,), today=0)


def definition(
    privacy: Privacy | None = None, horizon: int = 31, policy: Policy | None = None, rails: bool = False, **rules: Any
) -> Definition:
    """Define a study, of dpbe unless another policy is given: its waves are known in advance."""
    policy, rules = policy or make_policy("dpbe", alpha=0.7), {"most_invited": 1, **rules}
    made = guarded(horizon) if rails else problem(horizon)
    return Definition(made, policy, privacy or NoPrivacy(), rules=Rules(**rules))


def private(model: str, floor: int = 12) -> Private:
    return Private(model, 5.0, 1e-6, "exact", floor)


@dataclass
class Clock:
    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class DirectShuffler:
    """The shuffler, called directly instead of over the network."""

    shuffler: Shuffler

    def announce(
        self, name: str, batch: Batch, tokens: list[bytes], overdue: list[bytes], forget: Sequence[bytes] = ()
    ) -> BatchProgress:
        return self.shuffler.announce(name, batch, tokens, overdue, forget)

    def verify(self, name: str, key: bytes, verifiers: Mapping[bytes, bytes]) -> CheckedShares:
        return self.shuffler.verify(name, key, verifiers)

    def seal(self, name: str, tokens: list[bytes]) -> SealedBatch:
        return self.shuffler.seal(name, tokens)

    def call_off(self, name: str) -> None:
        self.shuffler.call_off(name)

    def upload_address(self, name: str) -> str:
        return f"https://shuffler.example/{name}"


def quiet(kind: str, **values: Any) -> None: ...


def encoded(batch: str, invitation: dict[str, Any], report: Array, **others: Any) -> EncodedReport:
    """Encode a report for the shuffler, with the batch that the device was told of."""
    release = decode_release(invitation["wave"]["release"])
    assert release.batch is not None
    return EncodedReport(batch, invitation["token"], report.tobytes(), replace(release.batch, **others))


@dataclass
class World:
    """One study, its people and its time."""

    coordinator: Coordinator
    clock: Clock
    shuffler: Shuffler | None = None
    keys: list[str] = field(default_factory=list)
    reports: dict[int, list[list[float]]] = field(default_factory=lambda: defaultdict(list))
    blocks: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))  # of these reports
    asked: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))  # waves, by key
    plays: int = 0
    halves: dict[tuple[str, bytes], tuple[Array, Array]] = field(default_factory=dict)  # by token and report
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def register(self, people: int) -> None:
        new = [new_key() for _ in range(people)]
        assert participants.register(self.coordinator.context, [Newcomer(STUDY, key) for key in new]) == [True] * people
        self.keys += new

    @property
    def status(self) -> Status:
        return status_of(self.coordinator.context, STUDY)

    def settle(self) -> None:
        """Take steps until there is nothing to do."""
        for _ in range(100):
            if not take_step(self.coordinator, STUDY):
                return
        raise AssertionError("the study does not come to rest")

    def play_all(self) -> None:
        """Play the whole wave."""
        while self.status.stage in ("open", "playing"):
            now = self.coordinator.decision(STUDY)
            if not now.rounds:
                return
            self.plays += 1
            self.coordinator.play(STUDY, now.wave, f"play-{self.plays}", now.rounds)

    def invitation(self, key: str) -> dict[str, Any] | None:
        found: dict[str, Any] = json.loads(check_in_as(self.coordinator, STUDY, key))
        return found if found["invited"] else None

    def invited(self) -> Iterator[tuple[str, dict[str, Any]]]:
        told = participants.check_in(self.coordinator.context, [(STUDY, key) for key in self.keys])
        for key, text in zip(self.keys, told, strict=True):
            found = json.loads(accepted(text))
            if found["invited"]:
                yield key, found

    def answer(self, key: str, invitation: dict[str, Any], averages: Array | None = None) -> Verdict:
        """Act as the device of this person."""
        told, report = invitation["wave"], self.report_of(invitation, averages)
        verdict = self.upload(invitation, report)
        if verdict is True:
            self.reports[told["wave"]].append(report[0].tolist())
            self.blocks[told["wave"]].append(told.get("block", 1))
            self.asked[key].append(told["wave"])
        return verdict

    def report_of(self, invitation: dict[str, Any], averages: Array | None = None) -> Array:
        """Make a report, of averages that are drawn unless they are given."""
        told = invitation["wave"]
        plan = Plan(told["wave"], np.array(told["arms"]), np.array(told["rounds"]), 1)
        if averages is None:
            f, rails = np.sin(3 * np.linspace(0, 1, 6)), self.coordinator.snapshots.current(STUDY).problem.guardrails
            people = people_of(replace(problem(), guardrails=rails), [f, *(0.5 - f / 2 for _ in rails)])
            averages = people.observe(plan, 1, self.rng)
        release = decode_release(told["release"])
        known = asked_of_device(told, release.arms, len(plan.arms))
        parts = [way.turn(part) for (_, way), part in zip(known, np.split(averages, len(known), axis=1), strict=True)]
        return np.asarray(release.randomize(np.concatenate(parts, axis=1), Simulated(self.rng)), dtype=float)

    def upload(self, invitation: dict[str, Any], report: Array) -> Verdict:
        if invitation["upload"].startswith("https://shuffler.example/"):
            assert self.shuffler is not None
            batch = invitation["upload"].rsplit("/", 1)[1]
            return self.shuffler.store([encoded(batch, invitation, report)])[0]
        if "helper" in invitation:
            theirs, report = self.shares(invitation, report)
            verdict = self.help(invitation, theirs)
            if isinstance(verdict, Refusal):
                return verdict
        return self.coordinate(invitation, report)

    def coordinate(self, invitation: dict[str, Any], report: Array) -> Verdict:
        """Send a report, or a share, to the coordinator."""
        wave = invitation["wave"]["wave"]
        return store(self.coordinator.context, [Upload((STUDY, wave), invitation["token"], report.tobytes())])[0]

    def shares(self, invitation: dict[str, Any], report: Array) -> tuple[Array, Array]:
        """Split a report as a device does, once: into the helper's share and the coordinator's, as words."""
        known = invitation["token"], report.tobytes()
        if known not in self.halves:
            parts = decode_release(invitation["wave"]["release"]).parts(report.ravel(), Simulated(self.rng))
            assert parts.helper is not None
            assert isinstance(parts.coordinator, bytes)
            halves = b64decode(parts.helper["report"]), parts.coordinator
            theirs, ours = (np.frombuffer(half, dtype="<f8") for half in halves)
            self.halves[known] = theirs, ours
        return self.halves[known]

    def help(self, invitation: dict[str, Any], share: Array) -> Verdict:
        """Send a share to the helper."""
        assert self.shuffler is not None
        return self.shuffler.store([encoded(invitation["helper"].rsplit("/", 1)[1], invitation, share)])[0]

    def forward(self) -> None:
        """Act as the shuffler's process."""
        assert self.shuffler is not None
        for batch, total in self.shuffler.sealed():
            take_total(self.coordinator, batch, total)
            self.shuffler.taken(batch)

    def answer_all(self) -> None:
        for key, invitation in list(self.invited()):
            if invitation["wave"]["wave"] not in self.asked.get(key, []):  # only the shuffler knows who has answered
                assert self.answer(key, invitation) is True
        if self.shuffler is not None:
            self.forward()

    def run(self) -> None:
        """Run the whole study without faults."""
        before = None
        for _ in range(200):
            self.settle()
            if self.status.stage == "finished":
                return
            self.play_all()
            self.settle()
            self.answer_all()
            now = self.status, self.plays, {wave: len(rows) for wave, rows in self.reports.items()}
            if self.status.short or now == before:  # the clock stands still, so nothing will happen any more
                break
            before = now
        raise AssertionError(f"the study does not end: {self.status}")


def take_step(coordinator: Coordinator, study: str) -> bool:
    """Take the next step of a study if one is due; return True if anything changed."""
    return steps.step(coordinator.context, study).moved


def enrol(
    coordinator: Coordinator, study: str, key: str, enrolment: str | None = None, stratum: str | None = None
) -> bool:
    """Register a participant; return False if the key is already registered."""
    return accepted(participants.register(coordinator.context, [Newcomer(study, key, enrolment, stratum)])[0])


def check_in_as(coordinator: Coordinator, study: str, key: str) -> bytes:
    """Return as JSON whether a participant is invited and, if so, everything the device needs."""
    return accepted(participants.check_in(coordinator.context, [(study, key)])[0])


def take_total(coordinator: Coordinator, batch: str, body: Any) -> bool:
    """Deliver a total as it comes over HTTP: what is no total at all is refused before the coordinator sees it."""
    try:
        said = msgspec.convert(body, Total)
    except msgspec.ValidationError as error:
        raise Refusal(422, str(error)) from None
    return coordinator.take_total(batch, said.count, said.total, bytes_of(said.tokens))


def add_operator(coordinator: Coordinator, name: str, key: str) -> None:
    """Give an operator a key."""
    operators.add_key(coordinator.database, name, key, coordinator.context.clock())


@contextmanager
def world(
    address: str, made: Definition, people: int = 0, shuffler: Shuffler | None = None, **named: Any
) -> Iterator[World]:
    clock = Clock()
    database = open_store(address, "coordinator")
    link = None if shuffler is None else DirectShuffler(shuffler)
    coordinator = Coordinator(database, SECRET, link, clock=clock, **named)
    coordinator.create(STUDY, made)
    it = World(coordinator, clock, shuffler)
    it.register(people)
    try:
        yield it
    finally:
        database.close()
        it.coordinator.database.close()  # another may have taken over


@contextmanager
def own_shuffler(address: str) -> Iterator[Shuffler]:
    database = open_store(address, "shuffler")
    try:
        yield Shuffler(database, quiet)
    finally:
        database.close()


Make = Callable[[], str]
