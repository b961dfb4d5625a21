"""Simulated people: what they gain, as the study's model or a formula says, and their devices at any coordinator.

Also the application that plays a study's rounds, and the replay of a service's reports in the simulator, whose plans
and state must be the same.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from voxpop.client import Device, Outcome, Promise
from voxpop.client.storage import Outgoing
from voxpop.errors import Array
from voxpop.gp.belief import believe
from voxpop.journal import replay
from voxpop.model.direction import Direction
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.service.study.definition import Definition
from voxpop.service.study.log import Record, fold
from voxpop.simulation.people import GPPeople
from voxpop.simulation.rehearsals import MOST_DRAWN, truth_of

HEIGHT = 0.7  # of the best decision above what was expected, as a share of what the norm bound allows


class Tastes(Protocol):
    """The tastes of people who are known by their numbers."""

    @property
    def mean(self) -> Array:
        """What people gain on average from each decision."""

    @property
    def origin(self) -> str:
        """Where these tastes come from, for people to read."""

    def averages(self, person: int, plan: Plan) -> Array:
        """Return a person's average reward from each arm of a wave."""


@dataclass(frozen=True, eq=False)
class ModelTastes:
    """People as the study's model describes them, around a truth that is drawn at random.

    If the study has a pilot, the truth is drawn from what the pilot says: people who contradict it would rightly fail
    the model check. Otherwise it is a smooth function with one best decision.
    """

    problem: Problem
    seed: int = 0

    @cached_property
    def mean(self) -> Array:
        """What people gain on average; without a pilot its norm is within the study's bound."""
        problem = self.problem
        if problem.pilot:
            too_many = problem.size > MOST_DRAWN  # to draw from; the estimate itself is as plausible
            return believe(problem).mean if too_many else truth_of(problem, self.seed)
        best = problem.decisions.points[[np.random.default_rng(self.seed).integers(problem.size)]]
        height = HEIGHT * problem.norm_bound / np.sqrt(problem.kernel.diagonal(best)[0])
        return np.asarray(problem.prior_mean + height * problem.kernel(problem.decisions.points, best)[:, 0])

    @property
    def origin(self) -> str:
        """What the truth was drawn from."""
        drawn = "what the study's pilot says" if self.problem.pilot else "the study's assumptions, as it has no pilot"
        return f"around a truth drawn from {drawn} (seed {self.seed})"

    def averages(self, person: int, plan: Plan) -> Array:
        """Draw a person's averages, which are the same if they are drawn again."""
        rng = np.random.default_rng([self.seed, person, plan.wave])
        return np.asarray(GPPeople(self.problem, self.mean).observe(plan, 1, rng)[0])


@dataclass(frozen=True, eq=False)
class ListedTastes:
    """People of whom it is known what each gains from each decision; a round adds noise."""

    rewards: Array  # (people, decisions)
    noise_std: float = 0.0
    seed: int = 0

    @cached_property
    def mean(self) -> Array:
        """What people gain on average."""
        return np.asarray(self.rewards.mean(axis=0))

    @property
    def origin(self) -> str:
        """Who these people are."""
        return f"of {len(self.rewards):,} people in a file, by a formula"

    def averages(self, person: int, plan: Plan) -> Array:
        """Draw a person's averages, which are the same if they are drawn again."""
        rng = np.random.default_rng([self.seed, person, plan.wave])
        return np.asarray(
            self.rewards[person, plan.arms] + self.noise_std * rng.standard_normal(len(plan.arms)) / np.sqrt(plan.pulls)
        )


THREADS = 8  # devices that talk at the same time
BETWEEN = 1.0  # seconds between check-ins of a device, unless the coordinator names a time


class SimulatedDevice(Device):
    """A device whose person makes up what they gained when they are asked, as if they had lived through the wave."""

    person: int
    tastes: Tastes
    direction: Direction

    def _report(self, invitation: dict[str, Any]) -> Outgoing | None:
        told = invitation["wave"]
        arms, rounds = (np.array(told[name], dtype=np.intp) for name in ("arms", "rounds"))
        plan = Plan(told["wave"], arms, rounds, 1)
        gained = self.tastes.averages(self.person, plan)
        self.memory.forget(plan.wave)  # what was made up before, if the report could not be made then
        for arm, reward, count in zip(arms, self.direction.turn(gained), rounds, strict=True):
            self.record(plan.wave, int(arm), float(reward), int(count))
        return super()._report(invitation)


def simulated(tastes: Tastes, people: Iterable[int], direction: Direction, *given: Any, **named: Any) -> list[Device]:
    """Make a device for each of these people; the rest is as for any device."""
    made: list[Device] = []
    for person in people:
        device = SimulatedDevice(*given, **named)
        device.person, device.tastes, device.direction = person, tastes, direction
        made.append(device)
    return made


@dataclass
class Crowd:
    """Devices that register and check in, several at a time."""

    devices: list[Device]
    pool: ThreadPoolExecutor
    clock: Callable[[], float] = time.monotonic
    outcomes: Counter[Outcome] = field(default_factory=Counter)  # of all check-ins so far
    _due: dict[int, float] = field(default_factory=dict)  # by place in the list: when a device checks in next

    def register(self) -> None:
        """Register every device."""
        list(self.pool.map(Device.register, self.devices))

    def check_in(self) -> list[Outcome]:
        """Let every device check in whose time has come; return how that ended."""
        now = self.clock()
        due = [place for place in range(len(self.devices)) if self._due.get(place, 0.0) <= now]
        found = list(self.pool.map(Device.check_in, [self.devices[place] for place in due]))
        for place in due:
            self._due[place] = now + _pause(self.devices[place])
        self.outcomes.update(found)
        return found


def _pause(device: Device) -> float:
    """Return how long a device waits before it checks in again, as the coordinator wishes."""
    wished = getattr(device, "next_check_in", None)
    return BETWEEN if wished is None else float(wished)


def promise_of(definition: Definition) -> Promise:
    """Return the promise that a study keeps."""
    budget, cost, times = definition.privacy.budget, definition.privacy.cost, definition.rules.participations
    if budget is None or cost is None:
        return Promise(participations=times)
    return Promise(definition.privacy.model, budget.epsilon, budget.delta, times, cost.honest)


def play_wave(
    wave: int, decide: Callable[[], dict[str, Any]], report: Callable[[int, int], object]
) -> tuple[list[int], list[int]]:
    """Play the rounds of a wave as an application does; return the arms, and for how many rounds each was in force.

    `decide` asks for the decision in force, and `report` says how many rounds it was used for, with a number that is
    another one for each report of the wave.
    """
    arms: list[int] = []
    rounds: list[int] = []
    while (now := decide())["wave"] == wave and now["rounds"]:
        arms.append(now["index"])
        rounds.append(now["rounds"])
        report(now["rounds"], len(arms))
    return arms, rounds


def disagreements(events: list[Record], reports: replay.Reports, own_noise: bool = False) -> list[str]:
    """Return the differences between the service's log and the simulator's run on the same reports, ideally none."""
    served = fold(events)
    return replay.disagreements(served, reports, own_noise, served.early)
