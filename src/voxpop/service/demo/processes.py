"""A whole study on one machine: coordinator, shuffler and hundreds of devices in processes connected by HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import IO, Any

import httpx

from voxpop.errors import InputError
from voxpop.runtime.machine import end_with_parent
from voxpop.service.demo.crowd import disagreements, play_wave, promise_of
from voxpop.service.keys import new_key, write_key
from voxpop.service.stores.migrate import open_store
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.definition import Definition
from voxpop.service.study.log import Record
from voxpop.simulation.runs import Scenario

STUDY = "pricing"
QUIET = 300.0  # seconds without any progress before giving up; the whole study may take longer
ATTEMPTS = 5  # at finding free ports
FLEET = (sys.executable, "-m", "voxpop.service.demo.fleet")


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


@dataclass
class Demo:
    """A running demonstration."""

    url: str
    key: str
    definition: Definition
    fleets: list[subprocess.Popen[str]]
    reports: dict[int, list[list[float]]] = field(default_factory=lambda: defaultdict(list))
    registered: int = 0
    finished: int = 0  # fleets that have no more reports to send
    _lock: Lock = field(default_factory=Lock)  # guards what the fleets have reported
    _http: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=QUIET))

    def get(self, path: str) -> Any:
        """Send a GET request to the coordinator as its operator."""
        return self._request("GET", path)

    def play(self, watch: Callable[[dict[str, Any]], None]) -> None:
        """Act as the application: play the decisions in force until the study is over."""
        place, patience = f"/v2/studies/{STUDY}", Patience("the demonstration")
        while True:
            seen = self.get(place + "/watch")
            watch(seen)
            status = seen["status"]
            if status["stage"] == "finished" and self.finished == len(self.fleets):
                return
            if status["stage"] in ("open", "playing"):
                self._play_wave(place, status["wave"])
            if any(fleet.poll() not in (None, 0) for fleet in self.fleets):
                raise InputError("a process of simulated devices ended before the study did; run the command again")
            patience.see((status, self.finished, sum(map(len, list(self.reports.values())))))
            time.sleep(0.2)

    def _play_wave(self, place: str, wave: int) -> None:
        def report(rounds: int, number: int) -> None:
            self._request("PUT", f"{place}/rounds/{wave}-{number}", {"wave": wave, "rounds": rounds})

        arms, pulls = play_wave(wave, lambda: self.get(place + "/decision"), report)
        if not arms:  # the rounds have not begun
            return
        line = json.dumps({"wave": wave, "arms": arms, "pulls": pulls}) + "\n"
        for fleet in self.fleets:
            assert fleet.stdin is not None
            fleet.stdin.write(line)
            fleet.stdin.flush()

    def check(self) -> list[str]:
        """Return the differences between the service and the simulator on the same reports."""
        events = [Record(**event) for event in self.get(f"/v2/studies/{STUDY}/log")["events"]]
        return disagreements(events, self.reports, own_noise=True)

    def listen(self, stream: IO[str]) -> None:
        """Collect what a fleet writes to its standard output."""
        with stream:
            for line in stream:
                said = json.loads(line)
                with self._lock:
                    if "report" in said:
                        self.reports[said["wave"]].append(said["report"])
                    self.registered += said.get("registered", 0)
                    self.finished += "finished" in said

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Bearer {self.key}"}
        answer = self._http.request(method, self.url + path, json=body, headers=headers)
        answer.raise_for_status()
        return answer.json()

    def close(self) -> None:
        """Close the connections to the coordinator."""
        self._http.close()

    def create(self) -> None:
        """Create the study."""
        self._request("PUT", f"/v2/studies/{STUDY}", {"definition": self.definition.encode()})


@contextmanager
def running(
    scenario: Scenario,
    definition: Definition,
    devices: int,
    folder: Path,
    port: int = 0,
    fleets: Sequence[Sequence[str]] = (FLEET, FLEET),
) -> Iterator[Demo]:
    """Start all processes, and end them afterwards; `fleets` are the programs between which the devices are divided."""
    key_file = folder / "shuffler.key"
    write_key(key_file, new_key())
    usual = {name: value for name, value in os.environ.items() if not name.startswith("VOXPOP_")}
    unlimited = {"VOXPOP_RATE": "0", "VOXPOP_CONNECTIONS": "0"}  # all devices have the same address
    environment = {**usual, **unlimited, "VOXPOP_SHUFFLER_KEY_FILE": str(key_file), "OMP_NUM_THREADS": "1"}
    database, key = str(folder / "coordinator.db"), new_key()
    with closing(open_store(database, "coordinator")) as store:
        Coordinator(store, b"").add_operator("demo", key)
    with ExitStack() as services, ExitStack() as stack:
        coordinator = _start_services(services, folder, environment, port)
        demo = Demo(coordinator, key, definition, [])
        stack.callback(demo.close)
        demo.create()
        for number, command in enumerate(fleets):
            settings = {
                "url": coordinator,
                "study": STUDY,
                "promise": asdict(promise_of(definition)),
                "devices": devices // len(fleets) + (devices % len(fleets) if number == 0 else 0),
                "prices": [label["price"] for label in scenario.problem.decisions],
                "seed": number,
            }
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            fleet = stack.enter_context(_process([*command], env=environment, preexec_fn=end_with_parent(), **pipes))
            assert fleet.stdin is not None
            assert fleet.stdout is not None
            fleet.stdin.write(json.dumps(settings) + "\n")
            fleet.stdin.flush()
            Thread(target=demo.listen, args=[fleet.stdout], daemon=True).start()
            demo.fleets.append(fleet)
        yield demo


def _start_services(stack: ExitStack, folder: Path, environment: dict[str, str], port: int) -> str:
    """Start coordinator and shuffler, which end with the stack; return the coordinator's address.

    Each must know the other's address, so the ports are chosen here, unless the coordinator's is given. Another program
    may take a port between the choice and the start; then both are started again elsewhere.
    """
    for _ in range(ATTEMPTS):
        own, other = _free_ports()
        try:
            return _start_pair(stack, folder, environment, port or own, other)
        except InputError as error:
            if port or "cannot listen" not in str(error):
                raise
            stack.close()
    raise InputError(f"other programs took {ATTEMPTS} ports in a row; choose one with --port")


def _start_pair(stack: ExitStack, folder: Path, environment: dict[str, str], own: int, other: int) -> str:
    coordinator, shuffler = (f"http://127.0.0.1:{number}" for number in (own, other))
    serve = ["serve", "--port", str(own), "--shuffler-url", shuffler, "--open-dashboard"]
    shuffle = ["shuffler", "--port", str(other), "--coordinator-url", coordinator]
    services = []
    for name, arguments in (("coordinator", serve), ("shuffler", shuffle)):
        path = folder / f"{name}.log"
        log = stack.enter_context(path.open("w"))
        command = [sys.executable, "-m", "voxpop", *arguments, "--database", str(folder / f"{name}.db")]
        pipes = {"stdin": subprocess.DEVNULL, "stderr": log, "preexec_fn": end_with_parent()}
        services.append(_Service(name, stack.enter_context(_process([*command], env=environment, **pipes)), path))
    for service in services:
        service.wait()
    return coordinator


@contextmanager
def _process(command: list[str], **named: Any) -> Iterator[subprocess.Popen[str]]:
    process: subprocess.Popen[str] = subprocess.Popen(command, **named)
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()


@dataclass(frozen=True)
class _Service:
    """A process that logs the address at which it listens."""

    name: str
    process: subprocess.Popen[str]
    log: Path

    def wait(self) -> None:
        """Wait until it has logged its address and is ready; another process might answer at its port."""
        url, patience = None, Patience(f"the start of the {self.name}")
        while True:
            if self.process.poll() is not None:
                said = self.log.read_text().strip().splitlines() or ["it said nothing"]
                raise InputError(f"the {self.name} did not start: {said[-1].removeprefix('error: ')}")
            url = url or self._listening()
            if url is not None:
                with suppress(httpx.TransportError):
                    if httpx.get(url + "/readyz", timeout=5).status_code == 200:
                        return
            patience.see((url, self.log.stat().st_size))
            time.sleep(0.05)

    def _listening(self) -> str | None:
        for line in self.log.read_text().splitlines():
            with suppress(ValueError):
                said = json.loads(line)
                if said.get("event") == "listening":
                    return str(said["url"])
        return None


def _free_ports() -> tuple[int, int]:
    """Find two ports on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return int(one.getsockname()[1]), int(other.getsockname()[1])
