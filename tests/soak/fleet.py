"""Devices of several studies in a process of their own; each study has a thread, and each device a key and a memory.

Standard input brings the studies to take part in, then calls that make people look at their devices, one JSON object a
line, and at the end a line that says stop.
Standard output returns what the devices were told: which reports were counted, refused, or never heard of again.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import httpx
import numpy as np

from tests.service.chaos import Lossy
from tests.soak.studies import rewards
from voxpop.client import Device, Memory, Outcome, Promise, StudyOverError
from voxpop.client.storage import Outgoing
from voxpop.service.keys import hash_key

PATIENCE = 60.0  # seconds for which a device waits for a reply
CHUNK = 20  # uninvited devices that check in before those who are invited check in again
LOOK = 0.5  # seconds between two looks of the same people
SETTLE = 90.0  # seconds to learn what became of a report when its study is over

VERDICTS = (Outcome.ANSWERED, Outcome.TOO_LATE, Outcome.ANOTHER, Outcome.REFUSED)

said, lock, stopping = Counter[str](), Lock(), Event()


def say(**document: Any) -> None:
    """Write one line to the program that started this one."""
    with lock:
        sys.stdout.write(json.dumps(document) + "\n")
        sys.stdout.flush()


class Witnessed(Memory):
    """A memory that shows each report that is kept in it, with its block, to someone who outlives it."""

    def __init__(self, path: Path | None, seen: list[tuple[Outgoing, int]]) -> None:
        super().__init__(path)
        self._seen, self._block = seen, 1

    def averages(self, wave: int, arms: list[int], block: int = 1, metric: str = "") -> list[float]:
        self._block = block
        return super().averages(wave, arms, block, metric)

    def keep(self, outgoing: Outgoing) -> None:
        super().keep(outgoing)
        self._seen.append((outgoing, self._block))


class Network(Lossy):
    """Loses replies, and counts what the others say."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        with lock:
            said[str(answer.status_code)] += 1
        return answer


@dataclass
class Person:
    """Someone with a device, which may keep its memory in a file and then ends after each use."""

    number: int
    path: Path | None
    absent: bool  # registers, and is never seen again
    make: Callable[[], Device]
    seen: list[tuple[Outgoing, int]] = field(default_factory=list)  # reports that were made, with their blocks
    key: str = ""  # the hash of the device's key
    lived: int = 0  # the last wave whose rewards were recorded
    verdict: Outcome | None = None  # on the report
    _device: Device | None = None

    @contextmanager
    def device(self) -> Iterator[Device]:
        """Start the device if it is not running."""
        if self._device is None:
            self._device = self.make()
            self._device.memory.close()
            self._device.memory = Witnessed(self.path, self.seen)
        yield self._device
        if self.path is not None:
            self.end()

    def end(self) -> None:
        """End the device; only what is in its file is left."""
        if self._device is not None:
            self._device.memory.close()
            self._device = None

    def check_in(self, wave: int, rng: np.random.Generator) -> Outcome:
        """Live through the wave, if that is still to come, and check in."""
        with self.device() as device:
            if self.lived < wave:
                for block in (1, 2):
                    for arm, reward in enumerate(rewards(rng)):
                        device.record(wave, arm, reward, block=block)
                self.lived = wave
            outcome = device.check_in()
        if outcome in VERDICTS and self.verdict is not Outcome.ANSWERED:
            self.verdict = outcome
        return outcome

    def waits(self) -> bool:
        """Return True if the device still asks what became of its report."""
        with self.device() as device:
            return device.memory.outgoing() is not None


@dataclass(frozen=True)
class Call:
    """What makes people look at their devices: the study collects, and these are invited."""

    wave: int = 0
    invited: tuple[str, ...] = ()  # hashes of keys
    finished: bool = False


@dataclass
class Crowd:
    """The people of one study."""

    name: str
    http: httpx.Client
    people: list[Person]
    curious: float  # share of the others who look in a wave as well
    pause: float
    rng: np.random.Generator
    call: Call = field(default_factory=Call)  # the last one

    def run(self) -> None:
        """Register everyone, answer until the study is over or it is time to stop, and learn what is still unknown."""
        try:
            for person in self.people:
                self._register(person)
            say(study=self.name, registered=len(self.people))
            self._take_part()
            self._settle()
        except Exception as error:  # a device may not fail, whatever happens to the services
            say(study=self.name, fault=f"a device of {self.name} failed: {type(error).__name__}: {error}")
        for person in self.people:
            person.end()
        self.http.close()
        say(study=self.name, over=True)

    def _register(self, person: Person) -> None:
        with person.device() as device:
            person.key = hash_key(device.memory.key).hex()
        while not stopping.is_set():
            with suppress(httpx.TransportError, StudyOverError), person.device() as device:
                device.register()
                return
            time.sleep(self.pause)

    def _take_part(self) -> None:
        left = {person.key: person for person in self.people if not person.absent}
        wave, looking, spent = 0, list[Person](), set[str]()
        while not stopping.is_set() and not (call := self.call).finished:
            if call.wave != wave:
                wave, looking = call.wave, [one for one in left.values() if self.rng.random() < self.curious]
            invited = [left[key] for key in call.invited if key in left and key not in spent]
            for person in [*invited, *looking[:CHUNK]]:
                outcome = person.check_in(wave, self.rng)
                if outcome is Outcome.ANSWERED and person.key in left:
                    self._tell(left.pop(person.key))
                    person.end()
                if outcome is Outcome.SPENT:  # invited again after a report that came too late
                    spent.add(person.key)
                time.sleep(self.pause)
            del looking[:CHUNK]
            if not looking:
                stopping.wait(LOOK)

    def _settle(self) -> None:
        """Let devices with an unanswered report ask until they know; tell what became of it, if anybody knows."""
        end = time.monotonic() + SETTLE
        for person in self.people:
            if person.seen and person.verdict is not Outcome.ANSWERED:
                while person.waits() and time.monotonic() < end:
                    person.check_in(person.lived, self.rng)
                    time.sleep(self.pause)
                self._tell(person)

    def _tell(self, person: Person) -> None:
        reports = [(report.wave, report.report, block) for report, block in person.seen]
        verdict = None if person.verdict is None else person.verdict.name
        say(study=self.name, person=person.number, key=person.key, verdict=verdict, reports=reports)


def crowd_of(task: dict[str, Any], settings: dict[str, Any]) -> Crowd:
    """Make the devices of a study; each uses one of the coordinators for all its life."""
    rng = np.random.default_rng([settings["seed"], task["number"]])
    network = Network(settings["cut"], random.Random(task["number"]).randrange(2**32), PATIENCE)
    http, promise, urls = httpx.Client(transport=network), Promise(**task["promise"]), settings["urls"]
    people = []
    for number in range(task["devices"]):
        absent, stored = rng.random(2) < (settings["absent"], settings["in_files"])
        path = Path(settings["folder"]) / f"{task['study']}-{number}.db" if stored else None
        url = urls[number % len(urls)]

        def make(url: str = url) -> Device:
            return Device(url, task["study"], promise, http=http, attempts=3, sleep=lambda s: time.sleep(min(s, 1.0)))

        people.append(Person(number, path, bool(absent), make))
    return Crowd(task["study"], http, people, settings["curious"], settings["pause"], rng)


def main() -> None:
    """Read the settings, then new studies and calls, until told to stop; wait for the devices to settle."""
    settings = json.loads(sys.stdin.readline())
    crowds: dict[str, Crowd] = {}
    running: list[Thread] = []
    for line in sys.stdin:
        task = json.loads(line)
        if "stop" in task:
            break
        if "call" in task:
            if task["study"] in crowds:
                crowds[task["study"]].call = Call(**task["call"])
                if task["call"]["finished"]:
                    del crowds[task["study"]]
            continue
        crowds[task["study"]] = crowd_of(task, settings)
        running = [thread for thread in running if thread.is_alive()]
        running.append(Thread(target=crowds[task["study"]].run, daemon=True))
        running[-1].start()
    stopping.set()
    for thread in running:
        thread.join()
    say(statuses=said)


if __name__ == "__main__":
    main()
