"""Coordinators and a shuffler as processes that may be killed at any moment and are always started again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import httpx

from tests.service.chaos import free_port
from tests.soak.clocked import CLOCK, set_clock
from voxpop.runtime.machine import end_with_parent
from voxpop.service.keys import new_key

PAUSE = 0.3  # seconds between the end of a process and the next start


@dataclass
class Service:
    """One service, whatever the number of its lives."""

    name: str
    arguments: list[str]
    port: int
    folder: Path
    environment: dict[str, str]
    note: Callable[[str], None] = print  # takes what should not have happened
    kills: int = 0
    failed_starts: int = 0  # while its database was away or its disk full
    born: float = 0.0  # when the current life began, by the monotonic clock
    process: subprocess.Popen[bytes] | None = None
    _killed: bool = False
    _stopping: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self.url, self.log = f"http://127.0.0.1:{self.port}", self.folder / f"{self.name}.log"
        self.clock = self.folder / f"{self.name}.clock"
        set_clock(self.clock, 0.0)
        self._keeper = Thread(target=self._keep, daemon=True, name=f"keeper of {self.name}")

    def start(self) -> None:
        """Keep it running from now on."""
        self._keeper.start()

    def kill(self) -> None:
        """End this life with SIGKILL, whatever it is doing; it may also be starting."""
        process = self.process
        if process is not None:
            self._killed = True
            self.kills += 1
            process.kill()

    def stop(self) -> int:
        """End it in an orderly way; return its exit code."""
        self._stopping.set()
        if self.process is None:
            return 0
        self.process.terminate()
        self._keeper.join()
        return self.process.wait()

    def end(self) -> None:
        """End it for good, if that has not happened yet."""
        self._stopping.set()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()

    def ready(self) -> bool:
        """Ask whether it is ready."""
        with suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/readyz", timeout=10).status_code == 200
        return False

    def _keep(self) -> None:
        while not self._stopping.is_set():
            process = self._begin()
            began = False
            while not began and process.poll() is None:
                began = self.ready()
                time.sleep(0.05)
            process.wait()
            if self._killed or self._stopping.is_set():
                self._killed = False
            elif began:
                self.note(f"the {self.name} ended by itself with code {process.returncode}")
            else:
                self.failed_starts += 1
            time.sleep(PAUSE)

    def _begin(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.soak.clocked", *self.arguments, "--port", str(self.port)]
        environment = {**self.environment, CLOCK: str(self.clock)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent(),
            )
        self.born = time.monotonic()
        return self.process


def make_services(folder: Path, database: str, shuffled: str) -> list[Service]:
    """Describe two coordinators on one PostgreSQL and a shuffler with a database of its own."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith("VOXPOP_")}
    keys = {"VOXPOP_SECRET_FILE": folder / "secret.key", "VOXPOP_SHUFFLER_KEY_FILE": folder / "shuffler.key"}
    for file in keys.values():
        file.write_text(new_key())
        file.chmod(0o600)
    environment = {**usual, **{name: str(file) for name, file in keys.items()}}
    environment |= {"VOXPOP_RATE": "0", "VOXPOP_CONNECTIONS": "0", "OMP_NUM_THREADS": "1"}  # all have one address
    ports = [free_port() for _ in range(3)]
    first, shuffler = (f"http://127.0.0.1:{port}" for port in (ports[0], ports[2]))
    serve = ["serve", "--database", database, "--shuffler-url", shuffler]
    shuffle = ["shuffler", "--database", shuffled, "--coordinator-url", first]
    made = zip(("coordinator 1", "coordinator 2", "shuffler"), (serve, serve, shuffle), ports, strict=True)
    return [Service(name, arguments, port, folder, environment) for name, arguments, port in made]
