"""Simulated devices that talk to any coordinator, and the application that plays a study's rounds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from voxpop.client import Device, Outcome, Promise
from voxpop.client.storage import Outgoing
from voxpop.model.waves import Plan
from voxpop.service.demo.tastes import Tastes
from voxpop.service.study.definition import Definition

THREADS = 8  # devices that talk at the same time
BETWEEN = 1.0  # seconds between check-ins of a device, unless the coordinator names a time


class SimulatedDevice(Device):
    """A device whose person makes up what they gained when they are asked, as if they had lived through the wave."""

    person: int
    tastes: Tastes

    def _report(self, invitation: dict[str, Any]) -> Outgoing | None:
        told = invitation["wave"]
        arms, rounds = (np.array(told[name], dtype=np.intp) for name in ("arms", "rounds"))
        plan = Plan(told["wave"], arms, rounds, 1)
        self.memory.forget(plan.wave)  # what was made up before, if the report could not be made then
        for arm, reward, count in zip(arms, self.tastes.averages(self.person, plan), rounds, strict=True):
            self.record(plan.wave, int(arm), float(reward), int(count))
        return super()._report(invitation)


def simulated(tastes: Tastes, people: Iterable[int], *given: Any, **named: Any) -> list[Device]:
    """Make a device for each of these people; the rest is as for any device."""
    made: list[Device] = []
    for person in people:
        device = SimulatedDevice(*given, **named)
        device.person, device.tastes = person, tastes
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
