"""A coordinator and a shuffler of one's own, in processes that are connected by HTTP and end with this one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from voxpop.errors import InputError
from voxpop.runtime.machine import end_with_parent
from voxpop.service.keys import new_key, write_key
from voxpop.service.operators import add_key
from voxpop.service.stores.migrate import open_store

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
