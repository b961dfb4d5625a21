"""Processes that are killed at any moment, a network that loses replies, and people who carry on regardless."""

import http.client
import multiprocessing
import os
import random
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier, Thread, get_ident
from typing import Any

import httpx

from tests.helpers_cli import ENVIRONMENT
from tests.helpers_waiting import HANGING, until
from tests.service.world import STUDY
from voxpop.cli import main
from voxpop.client import Device, Memory, Outcome, Promise
from voxpop.client.storage import Outgoing

# Every start is a fork of one process that has imported everything: seconds faster than a new interpreter.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "tests.service.chaos",
        "voxpop.service.serve",
        "voxpop.service.web.coordinator_app",
        "voxpop.service.web.shuffler_app",
        "dp_accounting.pld.privacy_loss_distribution",
        "opendp.prelude",
    ]
)


def _voxpop(arguments: list[str], environment: dict[str, str], log: str) -> None:
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(handle, stream)
    os.environ.update(environment)
    sys.argv = ["voxpop", *arguments]
    main()


class Victim:
    """A service in a process that is killed and started again."""

    def __init__(self, folder: Path, name: str, arguments: list[str], port: int, **environment: str) -> None:
        self.port, self.url, self.log = port, f"http://127.0.0.1:{port}", str(folder / f"{name}.log")
        secret = folder / "secret"
        secret.write_text("s" * 40)
        secret.chmod(0o600)
        settings = {**ENVIRONMENT, "VOXPOP_SECRET_FILE": str(secret), "VOXPOP_RATE": "0", **environment}
        self.target = ([name, "--port", str(port), *arguments], settings, self.log)
        self.process = self._start()

    def _start(self) -> Any:
        process = FORKS.Process(target=_voxpop, args=self.target, daemon=True)
        process.start()
        until(lambda: self._ready() or not process.is_alive(), "a start")
        assert process.is_alive(), f"it does not start: {Path(self.log).read_text()}"
        return process

    def _ready(self) -> bool:
        with suppress(httpx.TransportError), httpx.Client(transport=Lossy(0.0)) as http:
            return http.get(f"{self.url}/readyz").status_code == 200
        return False

    def kill(self) -> None:
        self.close()
        self.process = self._start()

    def close(self) -> None:
        self.process.kill()  # SIGKILL
        self.process.join()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Lossy(httpx.BaseTransport):
    """Real requests over real connections; a share of the replies is lost after the server has sent them."""

    def __init__(self, cut: float, seed: int = 0, patience: float = HANGING) -> None:
        self.cut, self.rng, self.dropped, self.patience = cut, random.Random(seed), 0, patience
        self._kept: dict[tuple[int, str, int | None], http.client.HTTPConnection] = {}  # one per thread and address

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        host, port = request.url.host, request.url.port
        place = (get_ident(), host, port)
        connection = self._kept.pop(place, None) or http.client.HTTPConnection(host, port, timeout=self.patience)
        try:
            headers = {name: value for name, value in request.headers.items() if name != "connection"}
            connection.request(request.method, request.url.raw_path.decode(), request.content, headers)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise httpx.ReadError(str(error)) from None
        if self.rng.random() < self.cut:
            self.dropped += 1
            connection.close()
            raise httpx.ReadError("the reply was lost")
        self._kept[place] = connection
        return httpx.Response(answer.status, headers=answer.getheaders(), content=body)

    def close(self) -> None:
        for connection in self._kept.values():
            connection.close()


class Noting(Memory):
    """A memory that exposes the report it keeps, so that the arithmetic can be checked."""

    kept: Outgoing | None = None

    def keep(self, outgoing: Outgoing) -> None:
        super().keep(outgoing)
        self.kept = outgoing


@dataclass
class Crowd:
    """People with devices, who record a reward for every decision and check in until the study is over."""

    urls: list[str]  # of the coordinators
    promise: Promise
    size: int
    threads: int = 8
    lossy: Lossy = field(default_factory=lambda: Lossy(0.05))
    reports: dict[int, list[list[float]]] = field(default_factory=dict)  # those that were acknowledged, by wave
    tokens: list[str] = field(default_factory=list)  # under which they were sent
    late: int = 0
    faults: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ready = Barrier(self.threads + 1)  # nothing is played before everyone is registered

    @property
    def counted(self) -> int:
        """The number of people who were told that their report was counted."""
        return sum(map(len, list(self.reports.values())))

    def live(self, number: int) -> None:
        """Run one thread's share of the devices."""
        url, http = self.urls[number % len(self.urls)], httpx.Client(transport=self.lossy)
        devices = [
            Device(url, STUDY, self.promise, http=http, attempts=3, sleep=lambda _: time.sleep(0.05))
            for _ in range(number, self.size, self.threads)
        ]
        for device in devices:
            device.memory = Noting()
            for wave in range(1, 6):
                for arm in range(6):
                    device.record(wave, arm, 0.3)
            while not device.memory.registered:
                with suppress(httpx.TransportError):
                    device.register()
        self.ready.wait()
        passed: dict[int, int] = {}  # the last wave in which a device was not drawn
        key = devices[0].memory.key  # of one that may have answered
        while (now := decision(http, url, key))["stage"] != "finished":
            awake = [d for d in devices if passed.get(id(d)) != now["wave"]] if now["stage"] == "collecting" else []
            for device in awake:
                outcome = device.check_in()
                if outcome is Outcome.ANSWERED:
                    self.note(device.memory)
                    devices.remove(device)
                elif outcome is Outcome.WAITING and self.promise.second is None:
                    passed[id(device)] = now["wave"]  # with a second server, people are told a moment later
                self.late += outcome is Outcome.TOO_LATE
            time.sleep(0.02 if awake else 0.05)

    def note(self, memory: Memory) -> None:
        """Keep a report whose device was told that it was counted: it must be in the log."""
        assert isinstance(memory, Noting)
        assert memory.kept is not None
        self.reports.setdefault(memory.kept.wave, []).append(memory.kept.report)
        self.tokens.append(memory.kept.token)

    def guarded(self, call: Callable[..., None], *arguments: Any) -> Thread:
        def run() -> None:
            try:
                call(*arguments)
            except BaseException as error:
                self.faults.append(error)

        thread = Thread(target=run, daemon=True)
        thread.start()
        return thread

    def play(self, key: str) -> None:
        """Act as the application: play the decision in force, although processes are killed meanwhile."""
        http, number = httpx.Client(transport=self.lossy), 0
        self.ready.wait()
        while (now := decision(http, url := self.urls[number % len(self.urls)], key))["stage"] != "finished":
            if now["rounds"]:
                body = {"wave": now["wave"], "rounds": now["rounds"]}
                place = f"{url}/v2/studies/{STUDY}/rounds/{now['wave']}-{now['index']}-{number}"
                with suppress(httpx.TransportError):
                    http.put(place, json=body, headers={"authorization": f"Bearer {key}"})
            number += 1
            time.sleep(0.05)

    def through(self, key: str, killings: dict[int, Victim]) -> None:
        """Run the whole study; kill a process each time that the given number of reports was acknowledged."""
        running = [self.guarded(self.live, number) for number in range(self.threads)]
        running.append(self.guarded(self.play, key))
        for many, victim in sorted(killings.items()):
            until(lambda many=many: self.counted >= many or self.faults, f"report {many}", 0.005)  # type: ignore[misc]
            victim.kill()
        until(lambda: self.faults or not any(thread.is_alive() for thread in running), "the end of the study")
        self.lossy.close()
        assert not self.faults, self.faults


def decision(http: httpx.Client, url: str, key: str) -> Any:
    """Ask for the decision in force until someone answers."""
    end = time.monotonic() + HANGING
    while time.monotonic() < end:
        with suppress(httpx.TransportError):
            head = {"authorization": f"Bearer {key}"}
            return http.get(f"{url}/v2/studies/{STUDY}/decision", headers=head).json()
        time.sleep(0.05)
    raise AssertionError("nobody answers")


@contextmanager
def victims(*makers: Callable[[], Victim]) -> Iterator[list[Victim]]:
    with ExitStack() as stack:
        started = []
        for make in makers:
            started.append(make())
            stack.callback(started[-1].close)
        yield started
