"""A coordinator with a handful of studies, each at another point of its life, and the people who take part in them.

Everything follows from seeds and from a clock that stands still, so that pages and their pictures look alike each time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.helpers_randomness import scripted
from tests.service.served import served
from tests.service.world import take_step
from voxpop.errors import Array
from voxpop.io.schema import decode_release
from voxpop.privacy import Simulated
from voxpop.service.console.computations import Pilot, calibrated
from voxpop.service.console.new_study import plan_of
from voxpop.service.keys import new_key
from voxpop.service.refusals import accepted
from voxpop.service.stores.migrate import open_store
from voxpop.service.study import life, participants
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.inbox import Upload, store
from voxpop.service.study.life import Wanted
from voxpop.service.study.participants import Newcomer
from voxpop.service.study.status import status_of
from voxpop.service.web.connections import Connections
from voxpop.service.web.coordinator_app import CoordinatorApp
from voxpop.service.web.limits import RateLimit

BEGIN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC).timestamp()
SECRET = b"s" * 32
MINUTE, HOUR = 60.0, 3600.0

Taste = Callable[[Mapping[str, Any], float], float]  # what a person with this leaning gets from a decision


def of_price(label: Mapping[str, Any], leaning: float) -> float:
    """Return the reward of a price: each person has a favourite one."""
    return 2.4 - (float(label["price"]) - 3.1 - 0.5 * leaning) ** 2 / 3


def of_two(label: Mapping[str, Any], leaning: float) -> float:
    """Return the reward of a price and a number of reminders."""
    return of_price(label, leaning) - (float(label["reminders"]) - 3) ** 2 / 20


def pilot_of(taste: Taste, seed: int, people: int = 24, **parameters: list[float]) -> bytes:
    """Write a pilot in which people have tried the same decisions."""
    rng = np.random.default_rng(seed)
    names = list(parameters)
    grid = np.array(np.meshgrid(*parameters.values())).reshape(len(names), -1).T
    lines = [",".join(["person", *names, "reward", "rounds"])]
    for person in range(people):
        leaning = rng.normal()
        for values in grid.tolist():
            told = taste(dict(zip(names, values, strict=True)), leaning) + 0.35 * rng.normal()
            lines.append(",".join([f"p{person}", *(f"{value:g}" for value in values), f"{told:.4f}", "7"]))
    return ("\n".join(lines) + "\n").encode()


PRICES = [1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0]
FEW = pilot_of(of_price, 3, people=8, price=PRICES[::2])
MANY = pilot_of(of_price, 1, price=PRICES[:-1])
TWO = pilot_of(of_two, 2, price=PRICES[::2], reminders=[0, 2, 4, 6])
READ = {"horizon": "4000", "points": "31", "integer": "reminders"}  # from 1.5 to 4.5 in steps of 0.1


@cache
def calibrated_once(pilot: bytes) -> Pilot:
    """Calibrate a pilot; several studies may begin with the same."""
    return calibrated("pilot.csv", pilot, READ if b"reminders" in pilot else {**READ, "integer": ""})


@dataclass
class Clock:
    """A clock that moves only when it is told to."""

    now: float = BEGIN

    def __call__(self) -> float:
        return self.now


@dataclass
class Town:
    """The coordinator, its clock, and the people of each study."""

    coordinator: Coordinator
    clock: Clock
    keys: dict[str, list[str]] = field(default_factory=dict)
    tastes: dict[str, Taste] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))

    def create(
        self, study: str, taste: Taste, pilot: bytes, people: int = 0, draft: bool = False, **typed: str
    ) -> None:
        """Create a study from a pilot, as the console does, and register people for it."""
        found = calibrated_once(pilot)
        name, definition = plan_of(found.file, found.text, {"name": study, "privacy_model": "none", **typed})
        self.coordinator.create(name, definition, None, draft, "ada")
        self._begin(study, taste, people)

    def define(self, study: str, text: str, people: int = 0, draft: bool = False) -> None:
        """Create a study from a study file, which is quicker, and register people for it."""
        _, definition = plan_of("study.toml", text, {"name": study, "privacy_model": "none"})
        self.coordinator.create(study, definition, None, draft, "ada")
        self._begin(study, of_price, people)

    def _begin(self, study: str, taste: Taste, people: int) -> None:
        self.tastes[study] = taste
        self.settle(study)
        self.clock.now += 5 * MINUTE
        if people:
            self.join(study, people)

    def join(self, study: str, people: int) -> None:
        """Register people."""
        self.keys[study] = [new_key() for _ in range(people)]
        participants.register(self.coordinator.context, [Newcomer(study, key) for key in self.keys[study]])

    def settle(self, study: str) -> None:
        """Take steps until there is nothing to do."""
        while take_step(self.coordinator, study):
            pass

    def play(self, study: str) -> None:
        """Play the open wave, and invite people."""
        self.settle(study)
        if self.coordinator.decision(study).rounds:
            plan = self.coordinator.snapshots.current(study).open_wave.plan
            self.clock.now += len(plan.arms) * MINUTE
            self.coordinator.play(study, plan.wave, f"wave {plan.wave}", plan.asked)
        self.settle(study)

    def answer(self, study: str, most: int | None = None) -> int:
        """Let the people who are invited answer, or some of them; return how many did."""
        context, keys = self.coordinator.context, self.keys[study]
        told = [json.loads(accepted(text)) for text in participants.check_in(context, [(study, key) for key in keys])]
        invited = [each for each in told if each["invited"]][:most]
        labels = list(self.coordinator.snapshots.current(study).problem.decisions)
        reports = [self._report(study, labels, each) for each in invited]
        verdicts = store(context, reports) if reports else []
        assert verdicts == [True] * len(reports)
        self.clock.now += HOUR
        self.settle(study)
        return len(reports)

    def _report(self, study: str, labels: list[Mapping[str, Any]], invitation: dict[str, Any]) -> Upload:
        wave = invitation["wave"]
        release = decode_release(wave["release"])
        leaning, rounds = self.rng.normal(), np.array(wave["rounds"], dtype=float)
        means = [self.tastes[study](labels[arm], leaning) for arm in wave["arms"]]
        averages: Array = np.array([means]) + self.rng.normal(size=(1, len(means))) * 0.35 / np.sqrt(rounds)
        report = np.asarray(release.randomize(averages, Simulated(self.rng)), dtype=float)
        return Upload((study, wave["wave"]), invitation["token"], report.tobytes())

    def waves(self, study: str, most: int = 100) -> None:
        """Play whole waves until there are so many, or the study is finished."""
        for _ in range(most):
            self.play(study)
            if status_of(self.coordinator.context, study).stage == "finished" or not self.answer(study):
                return


def espresso(town: Town) -> None:
    """A study that collects answers in its third wave."""
    town.create("espresso", of_price, FEW, people=1000, policy_tolerance="0.15")
    town.waves("espresso", 2)
    town.play("espresso")
    town.answer("espresso", 23)


def croissant(town: Town) -> None:
    """A study that is finished."""
    town.create("croissant", of_price, FEW, people=600, policy_most_waves="2")
    town.waves("croissant")


def loyalty_card(town: Town) -> None:
    """A draft."""
    town.create("loyalty-card", of_price, MANY, draft=True, privacy_model="central", privacy_epsilon="2")


def reminders(town: Town) -> None:
    """A study of two parameters, which is paused while people answer."""
    town.create("reminders", of_two, TWO, people=1000, policy_tolerance="0.2")
    town.waves("reminders", 1)
    town.play("reminders")
    town.answer("reminders", 9)
    life.change(town.coordinator.context, "reminders", Wanted.PAUSED, "grace")


def rent_survey(town: Town) -> None:
    """A private study, whose ledger was charged."""
    town.create(
        "rent-survey",
        of_price,
        FEW,
        people=1500,
        privacy_model="central",
        privacy_epsilon="3",
        policy_tolerance="0.2",
    )
    town.waves("rent-survey", 2)


def opening_hours(town: Town) -> None:
    """A study that waits for people to register."""
    town.create("opening-hours", of_price, MANY, people=3, policy_tolerance="0.01")


def tea_house(town: Town) -> None:
    """A study whose third round of days is played; it is closed on Sundays."""
    town.create(
        "tea-house",
        of_price,
        FEW,
        people=1000,
        horizon="365",
        policy_tolerance="0.15",
        calendar_round="day",
        calendar_start="2026-03-02",
        calendar_zone="Europe/Berlin",
        calendar_closed="sunday",
    )
    town.settle("tea-house")
    town.clock.now += 3 * 24 * HOUR
    town.settle("tea-house")


HISTORY_DAYS = 84


def history() -> bytes:
    """Write what the days before brought per person: a weekly cycle, and shocks that come in runs."""
    rng, shock, lines = np.random.default_rng(4), 0.0, ["date,profit"]
    for day in range(HISTORY_DAYS):
        shock = 0.5 * shock + 0.12 * rng.normal()
        told = 2.1 + 0.25 * np.sin(2 * np.pi * day / 7) + shock
        lines.append(f"{date(2025, 12, 8) + timedelta(day)},{told:.3f}")
    return ("\n".join(lines) + "\n").encode()


@contextmanager
def town(folder: Path) -> Iterator[Town]:
    """Open a coordinator in which nothing has happened yet; the operating system's random bits have a seed, too."""
    database, clock = open_store(str(folder / "voxpop.db"), "coordinator"), Clock()
    coordinator = Coordinator(database, SECRET, clock=clock, noise=Simulated(np.random.default_rng(7)))
    with scripted(11), closing(database):
        yield Town(coordinator, clock)


@contextmanager
def open_doors(it: Town, background: bool = False) -> Iterator[str]:
    """Serve a town over HTTP; in the background nothing happens unless it is asked for."""
    app = CoordinatorApp(it.coordinator).guarded(RateLimit(0, 1), 2**20)
    with served(app, "on" if background else "off", Connections(0), timeout_graceful_shutdown=10) as url:
        yield url
