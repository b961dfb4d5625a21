"""Simulated people: what they gain, as the study's model or a formula says, and their devices at any coordinator.

Also the replay of a service's reports in the simulator, whose plans and state must be the same, and the servers of a
demonstration.
"""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from voxpop.client import Device, Outcome, Promise
from voxpop.client.storage import Outgoing
from voxpop.errors import Array, InputError
from voxpop.gp.belief import believe
from voxpop.io.schema import asked_of_device
from voxpop.journal import replay
from voxpop.model.problem import Problem
from voxpop.model.strata import Strata
from voxpop.model.waves import Plan
from voxpop.privacy import NoPrivacy
from voxpop.privacy.models import release_type_of
from voxpop.runtime.machine import end_with_parent
from voxpop.service.keys import new_key, write_key
from voxpop.service.operators import add_key
from voxpop.service.stores.migrate import open_store
from voxpop.service.study.definition import Definition
from voxpop.service.study.log import Record, fold
from voxpop.simulation.people import people_of
from voxpop.simulation.rehearsals import MOST_DRAWN, truth_of

HEIGHT = 0.7  # of the best decision above what was expected, as a share of what the norm bound allows


@dataclass(frozen=True, eq=False)
class Tastes:
    """The tastes of people who are known by their numbers."""

    mean: Array  # what people gain on average from each decision
    origin: str  # where these tastes come from, for people to read
    draw: Callable[[int, Plan, np.random.Generator], Array]  # a person's averages
    seed: int = 0

    def averages(self, person: int, plan: Plan) -> Array:
        """Draw a person's average reward from each arm of a wave, which is the same if it is drawn again."""
        return np.asarray(self.draw(person, plan, np.random.default_rng([self.seed, person, plan.wave])))


def model_tastes(problem: Problem, seed: int = 0) -> Tastes:
    """Return people as the study's model describes them, around a truth that is drawn at random.

    If the study has a pilot, the truth is drawn from what the pilot says: people who contradict it would rightly fail
    the model check. Otherwise it is a smooth function with one best decision, whose norm is within the study's bound.
    """
    truths = [_truth(metric, seed + place) for place, metric in enumerate(problem.metrics)]
    people = people_of(problem, truths)
    drawn = "what the study's pilot says" if problem.pilot else "the study's assumptions, as it has no pilot"
    origin = f"around a truth drawn from {drawn} (seed {seed})"
    limits = np.transpose([metric.limits for metric in problem.metrics])  # (2, metrics); others are refused

    def draw(_: int, plan: Plan, rng: np.random.Generator) -> Array:
        return np.asarray(np.clip(people.observe(plan, 1, rng)[0], *np.repeat(limits, len(plan.arms), axis=1)))

    return Tastes(truths[0], origin, draw, seed)


def _truth(problem: Problem, seed: int) -> Array:
    """Draw what people gain on average."""
    if problem.pilot:
        too_many = problem.size > MOST_DRAWN  # to draw from; the estimate itself is as plausible
        return believe(problem).mean if too_many else truth_of(problem, seed)
    best = problem.decisions.points[[np.random.default_rng(seed).integers(problem.size)]]
    height = HEIGHT * problem.norm_bound / np.sqrt(problem.kernel.diagonal(best)[0])
    return np.asarray(problem.prior_mean + height * problem.kernel(problem.decisions.points, best)[:, 0])


def listed_tastes(rewards: Array, noise_std: float = 0.0, seed: int = 0) -> Tastes:
    """Return people of whom it is known what each gains from each decision, (people, decisions); a round adds noise."""

    def draw(person: int, plan: Plan, rng: np.random.Generator) -> Array:
        noise = noise_std * rng.standard_normal(len(plan.arms)) / np.sqrt(plan.pulls)
        return np.asarray(rewards[person, plan.arms] + noise)

    return Tastes(rewards.mean(axis=0), f"of {len(rewards):,} people in a file, by a formula", draw, seed)


THREADS = 8  # devices that talk at the same time
AT_ONCE = 200  # devices that check in before somebody looks at the study again
BETWEEN = 1.0  # seconds between check-ins of a device, unless the coordinator names a time


class SimulatedDevice(Device):
    """A device whose person makes up what they gained when they are asked, as if they had lived through the wave."""

    tick = 0.0  # nobody's noise is to be hidden
    person: int
    tastes: Tastes
    made: Outgoing | None = None  # the last report, so that the arithmetic can be checked
    block: int = 1  # of the wave, to which it belongs
    answers: float = 1.0  # the share of the waves in which the person answers

    def _answer(self, found: dict[str, Any], since: float) -> Outcome:
        draw = np.random.default_rng([self.tastes.seed, self.person, found["wave"]["wave"], 1])
        return super()._answer(found, since) if draw.random() < self.answers else Outcome.WAITING

    def _report(self, invitation: dict[str, Any]) -> Outgoing | None:
        told = invitation["wave"]
        arms, rounds = (np.array(told[name], dtype=np.intp) for name in ("arms", "rounds"))
        plan = Plan(told["wave"], arms, rounds, 1)
        gained, self.block = self.tastes.averages(self.person, plan), told.get("block", 1)
        known = asked_of_device(told, len(gained), len(arms))
        rows = [towards.turn(part) for (_, towards), part in zip(known, np.split(gained, len(known)), strict=True)]
        self.memory.forget(plan.wave)  # what was made up before, if the report could not be made then
        for arm, (reward, *others), count in zip(arms, np.transpose(rows).tolist(), rounds, strict=True):
            metrics = {name: value for (name, _), value in zip(known[1:], others, strict=True)}
            self.record(plan.wave, int(arm), reward, int(count), self.block, metrics)
        self.made = super()._report(invitation)
        return self.made


def simulated(
    tastes: Tastes, people: Sequence[int], *given: Any, strata: Strata | None = None, **named: Any
) -> list[SimulatedDevice]:
    """Make a device for each of these people; the rest is as for any device. People's tastes know no strata."""
    shares = {} if strata is None else strata.allocate(len(people))
    belongs = [stratum for stratum, count in shares.items() for _ in range(count)]
    np.random.default_rng(tastes.seed).shuffle(belongs)
    made = []
    for place, person in enumerate(people):
        device = SimulatedDevice(*given, stratum=belongs[place] if belongs else None, **named)
        device.person, device.tastes = person, tastes
        made.append(device)
    return made


@dataclass
class Crowd:
    """Devices that register and check in, several at a time."""

    devices: list[SimulatedDevice]
    pool: ThreadPoolExecutor
    longest: float = math.inf  # seconds between check-ins at most, whatever the coordinator wishes
    clock: Callable[[], float] = time.monotonic
    reports: dict[int, list[list[float]]] = field(default_factory=lambda: defaultdict(list))  # counted, by wave
    blocks: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))  # of these reports
    _due: dict[int, float] = field(default_factory=dict)  # by place in the list: when a device checks in next

    def register(self) -> None:
        """Register every device."""
        list(self.pool.map(Device.register, self.devices))

    def check_in(self) -> None:
        """Let those devices check in whose time has come; of many, those that have waited longest."""
        now = self.clock()
        waiting = sorted(range(len(self.devices)), key=lambda place: self._due.get(place, 0.0))
        due = [place for place in waiting[:AT_ONCE] if self._due.get(place, 0.0) <= now]
        chosen = [self.devices[place] for place in due]
        for place, device, outcome in zip(due, chosen, self.pool.map(Device.check_in, chosen), strict=True):
            wished = BETWEEN if device.next_check_in is None else device.next_check_in
            self._due[place] = now + min(wished, self.longest)
            if outcome is Outcome.ANSWERED and device.made is not None:
                self.reports[device.made.wave].append(device.made.report)
                self.blocks[device.made.wave].append(device.block)
                device.made = None


def promise_of(definition: Definition, second: str | None = None, **otherwise: Any) -> Promise:
    """Return the promise that a study keeps with its shuffler or helper at this address, or one that differs."""
    budget, cost = definition.privacy.budget, definition.privacy.cost
    kept: dict[str, Any] = {"participations": definition.rules.participations}
    if budget is not None and cost is not None:
        kept |= {"model": cost.model, "epsilon": budget.epsilon, "delta": budget.delta, "honest": cost.honest}
    kept |= otherwise
    role = release_type_of(kept.get("model", NoPrivacy.model)).second
    return Promise(**(kept if role is None else {**kept, role: second}))


def disagreements(
    events: list[Record], reports: replay.Reports, own_noise: bool = False, blocks: replay.Blocks | None = None
) -> list[str]:
    """Return the differences between the service's log and the simulator's run on the same reports, ideally none."""
    served = fold(events)
    return replay.disagreements(served, reports, own_noise, served.early, blocks)


# A coordinator and a shuffler of one's own, in processes that are connected by HTTP and end with this one


QUIET = 300.0  # seconds without any progress before giving up; the whole study may take longer


@dataclass
class Patience:
    """Gives up on what has stopped, but not on what is merely slow."""

    name: str
    _seen: object = None
    _since: float = field(default_factory=lambda: time.monotonic())

    def see(self, progress: object) -> None:
        """Note the progress; raise an error if it has been the same for too long."""
        now = time.monotonic()
        if progress != self._seen:
            self._seen, self._since = progress, now
        elif now - self._since > QUIET:
            raise InputError(f"{self.name} made no progress for {QUIET:g} s; is the machine very busy?")


@contextmanager
def running(folder: Path, port: int = 0) -> Iterator[tuple[str, str, str]]:
    """Start both, and end them afterwards; yield the coordinator's address, the shuffler's, and an operator's key.

    Each must know the other's address, so free ports are chosen here, unless the coordinator's is given.
    """
    key_file, key = folder / "shuffler.key", new_key()
    write_key(key_file, new_key())
    usual = {name: value for name, value in os.environ.items() if not name.startswith("VOXPOP_")}
    unlimited = {"VOXPOP_RATE": "0", "VOXPOP_CONNECTIONS": "0"}  # all devices have the same address
    environment = {**usual, **unlimited, "VOXPOP_SHUFFLER_KEY_FILE": str(key_file), "OMP_NUM_THREADS": "1"}
    with closing(open_store(str(folder / "coordinator.db"), "coordinator")) as store:
        add_key(store, "demo", key, time.time())
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        own, second = port or one.getsockname()[1], other.getsockname()[1]
    coordinator, shuffler = (f"http://127.0.0.1:{number}" for number in (own, second))
    commands = {
        "coordinator": ["serve", "--port", str(own), "--shuffler-url", shuffler, "--open-dashboard"],
        "shuffler": ["shuffler", "--port", str(second), "--coordinator-url", coordinator],
    }
    with ExitStack() as stack:
        started = {
            name: stack.enter_context(_process(name, said, folder, environment)) for name, said in commands.items()
        }
        for name, process in started.items():
            _wait(name, process, folder / f"{name}.log")
        yield coordinator, shuffler, key


@contextmanager
def _process(
    name: str, arguments: list[str], folder: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "voxpop", *arguments, "--database", str(folder / f"{name}.db")]
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stderr=log, preexec_fn=end_with_parent()
        )
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()


def _wait(name: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a service has logged its address and is ready; another process might answer at its port."""
    url, patience = None, Patience(f"the start of the {name}")
    while True:
        lines = log.read_text().strip().splitlines()
        if process.poll() is not None:
            said = lines or ["it said nothing"]
            raise InputError(f"the {name} did not start: {said[-1].removeprefix('error: ')}")
        for line in lines:
            with suppress(ValueError):
                event = json.loads(line)
                url = str(event["url"]) if event.get("event") == "listening" else url
        if url is not None:
            with suppress(httpx.TransportError):
                if httpx.get(url + "/readyz", timeout=5).status_code == 200:
                    return
        patience.see((url, len(lines)))
        time.sleep(0.05)
