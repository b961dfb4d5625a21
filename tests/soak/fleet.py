"""Devices of several studies in a process of their own; each study has a thread, and each device a key and a memory.

Standard input brings the studies to take part in, one JSON object a line, and at the end a line that says stop.
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
CHUNK = 20  # devices that check in before the study is looked at again
LOOK = 0.5  # seconds between looks at a study that does not collect
AGAIN = 2.0  # seconds before everyone who was not invited asks again
SETTLE = 90.0  # seconds to learn what became of a report when its study is over

VERDICTS = (Outcome.ANSWERED, Outcome.TOO_LATE, Outcome.ANOTHER, Outcome.REFUSED)

said, lock, stopping = Counter[str](), Lock(), Event()


def say(**document: Any) -> None:
    """Write one line to the program that started this one."""
    with lock:
        sys.stdout.write(json.dumps(document) + "\n")
        sys.stdout.flush()


class Witnessed(Memory):
    """A memory that shows each report that is kept in it to someone who outlives it."""

    def __init__(self, path: Path | None, seen: list[Outgoing]) -> None:
        super().__init__(path)
        self._seen = seen

    def keep(self, outgoing: Outgoing) -> None:
        super().keep(outgoing)
        self._seen.append(outgoing)


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
    seen: list[Outgoing] = field(default_factory=list)  # reports that were made
    lived: int = 0  # the last phase whose rewards were recorded
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

    def check_in(self, phase: int, rng: np.random.Generator) -> Outcome:
        """Live through the phase, if that is still to come, and check in."""
        with self.device() as device:
            if self.lived < phase:
                for arm, reward in enumerate(rewards(rng)):
                    device.record(phase, arm, reward)
                self.lived = phase
            outcome = device.check_in()
        if outcome in VERDICTS and self.verdict is not Outcome.ANSWERED:
            self.verdict = outcome
        return outcome

    def waits(self) -> bool:
        """Return True if the device still asks what became of its report."""
        with self.device() as device:
            return device.memory.outgoing() is not None


@dataclass
class Crowd:
    """The people of one study."""

    name: str
    http: httpx.Client
    url: str
    people: list[Person]
    pause: float
    rng: np.random.Generator

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
        while not stopping.is_set():
            with suppress(httpx.TransportError, StudyOverError), person.device() as device:
                device.register()
                return
            time.sleep(self.pause)

    def _take_part(self) -> None:
        queue: list[Person] = []
        phase, left = 0, [person for person in self.people if not person.absent]
        while not stopping.is_set():
            stage, current = self._look()
            if stage == "finished":
                return
            if stage != "collecting":
                stopping.wait(LOOK)
                continue
            if not queue or current != phase:
                if current == phase:
                    stopping.wait(AGAIN)
                phase, queue = current, [left[index] for index in self.rng.permutation(len(left))]
            for person in queue[:CHUNK]:
                if person.check_in(phase, self.rng) is Outcome.ANSWERED:
                    self._tell(person)
                    left.remove(person)
                time.sleep(self.pause)
            del queue[:CHUNK]

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
        with person.device() as device:
            key = hash_key(device.memory.key).hex()
        reports = [(report.phase, json.loads(report.body)["report"]) for report in person.seen]
        verdict = None if person.verdict is None else person.verdict.name
        say(study=self.name, person=person.number, key=key, verdict=verdict, reports=reports)

    def _look(self) -> tuple[str, int]:
        with suppress(httpx.TransportError):
            answer = self.http.get(f"{self.url}/v1/studies/{self.name}/decision")
            if answer.status_code == 200:
                found = answer.json()
                return found["stage"], found["phase"]
        return "unknown", 0


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
    return Crowd(task["study"], http, urls[task["number"] % len(urls)], people, settings["pause"], rng)


def main() -> None:
    """Read the settings, then studies, until told to stop; wait for the devices to settle."""
    settings = json.loads(sys.stdin.readline())
    running: list[Thread] = []
    for line in sys.stdin:
        task = json.loads(line)
        if "stop" in task:
            break
        running = [thread for thread in running if thread.is_alive()]
        running.append(Thread(target=crowd_of(task, settings).run, daemon=True))
        running[-1].start()
    stopping.set()
    for thread in running:
        thread.join()
    say(statuses=said)


if __name__ == "__main__":
    main()
