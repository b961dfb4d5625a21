"""Several processes that serve as one coordinator: all listen on one port, and the kernel shares out connections.

The parent starts the workers, starts one again that ends, and stops them all when it is told to stop. The workers know
nothing of each other: they are coordinators on one PostgreSQL. What they count for `/metrics` is kept in files of a
folder that they share, so that each of them can tell the sum.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from voxpop.errors import InputError
from voxpop.runtime.machine import end_with_parent
from voxpop.service import logs
from voxpop.service.serve import Settings, coordinator_of, listen, run
from voxpop.service.stores.database import file_of
from voxpop.service.web.metrics import SHARED

READY = b"ready\n"
BACKOFF, MOST_BACKOFF = 0.5, 15.0  # seconds before a worker that ended is started again; they double each time
STEADY = 60.0  # seconds after which a worker's end does not count as another failure in a row
GRACE = 20.0  # seconds that workers have to end by themselves
LOOK = 0.5  # seconds between looks at the workers


@dataclass
class Worker:
    """One process at a time; when it ends, another takes its place."""

    settings: Settings
    failures: int = 0  # in a row
    again: float | None = None  # when it is started again; None while it runs

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start the process."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "voxpop.service.workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=end_with_parent(),
        )
        self.began, self.again = time.monotonic(), None
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended already, as the next look finds
            pickle.dump(self.settings, self.process.stdin)  # not in the environment: it holds secrets
            self.process.stdin.close()

    def is_ready(self) -> bool:
        """Wait until it can serve; return False if it ended before."""
        assert self.process.stdout is not None
        return self.process.stdout.readline() == READY

    def look(self, note: Callable[..., None]) -> None:
        """Start it again a while after it has ended: what ended it may pass, such as a database that restarts."""
        now = time.monotonic()
        if self.again is not None:
            if now >= self.again:
                self.start()
        elif self.process.poll() is not None:
            self.close()
            self.failures = 1 if now - self.began > STEADY else self.failures + 1
            wait = min(MOST_BACKOFF, BACKOFF * 2 ** (self.failures - 1))
            self.again = now + wait
            note("worker_ended", status=self.process.returncode, again_in=wait)

    def end(self, until: float) -> None:
        """Wait until it has finished what it has begun, as it was told to; kill it if it hangs."""
        try:
            self.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.close()

    def close(self) -> None:
        """Close the pipe from a process that has ended."""
        assert self.process.stdout is not None
        self.process.stdout.close()


def keep(settings: Settings, url: str, note: Callable[..., None]) -> None:
    """Keep workers running until a signal says to stop; refuse if one ends before it could serve."""
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def stop(*_: object) -> None:
        for number in signals:
            signal.signal(number, signal.SIG_IGN)  # it is already ending
        raise SystemExit

    for number in signals:
        signal.signal(number, stop)
    workers: list[Worker] = []
    try:
        workers.extend(Worker(settings) for _ in range(settings.workers))
        if not all(worker.is_ready() for worker in workers):
            raise InputError("the workers ended before they could serve; the log says why")
        note("listening", url=url, workers=settings.workers)
        while True:
            time.sleep(LOOK)
            for worker in workers:
                worker.look(note)
    finally:
        for worker in workers:
            worker.process.terminate()
        until = time.monotonic() + GRACE
        for worker in workers:
            worker.end(until)


def serve_with_workers(settings: Settings, migrate: bool = False) -> None:
    """Serve with several processes until stopped."""
    if file_of(settings.database) is not None:
        raise InputError(
            f"{settings.workers} workers need PostgreSQL, as SQLite has one writer; give --database postgresql://..."
        )
    coordinator_of(settings, migrate).coordinator.database.close()  # whatever is wrong is said once, and here
    with _reserved(settings) as port, tempfile.TemporaryDirectory(prefix="voxpop-metrics-") as folder:
        os.environ[SHARED] = folder
        scheme = "http" if settings.tls_cert is None else "https"
        note = logs.event_logger("coordinator")
        keep(replace(share_of(settings), port=port), f"{scheme}://{settings.host}:{port}", note)


def share_of(settings: Settings) -> Settings:
    """Divide the limits on one address among the workers, so that they hold for all of them together."""
    count = settings.workers
    rate, burst = settings.rate / count, max(1.0, settings.burst / count)
    registrations, connections = settings.registrations / count, -(-settings.connections // count)
    return replace(settings, rate=rate, burst=burst, registrations=registrations, connections=connections)


@contextmanager
def _reserved(settings: Settings) -> Iterator[int]:
    """Make sure that nobody else listens on the port, and keep it while workers come and go; yield its number."""
    assert settings.port is not None, "a coordinator has its own"
    with listen(settings.host, settings.port) as alone:
        family, (host, port) = alone.family, alone.getsockname()[:2]
    with socket.socket(family) as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        kept.bind((host, port))
        yield port


def main() -> None:
    """Serve as one of several workers, with the settings that the parent writes to standard input."""
    settings: Settings = pickle.load(sys.stdin.buffer)
    logs.set_up(settings.log_level)

    def ready() -> None:
        sys.stdout.buffer.write(READY)
        sys.stdout.buffer.flush()

    try:
        run(coordinator_of(settings), settings, ready)
    except InputError as error:
        logs.fault("worker", error)
        sys.exit(1)


if __name__ == "__main__":
    main()
