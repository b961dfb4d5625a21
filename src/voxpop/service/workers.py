"""Several processes that serve as one coordinator: all listen on one port, and the kernel shares out connections.

The parent starts the workers, starts one again that ends, and stops them all when it is told to stop. The workers know
nothing of each other: they are coordinators on one PostgreSQL. What they count for `/metrics` is kept in files of a
folder that they share, so that each of them can tell the sum.
"""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

from voxpop.errors import InputError, require_integer
from voxpop.runtime.machine import end_with_parent
from voxpop.service import logs
from voxpop.service.serve import coordinator_of, listen, run
from voxpop.service.settings import Settings
from voxpop.service.stores.database import file_of
from voxpop.service.web.metrics import SHARED

MOST = 64  # workers
READY = b"ready\n"
BACKOFF, MOST_BACKOFF = 0.5, 15.0  # seconds before a worker that ended is started again; they double each time
STEADY = 60.0  # seconds after which a worker's end does not count as another failure in a row
GRACE = 20.0  # seconds that workers have to end by themselves
LOOK = 0.5  # seconds between looks at signals


@dataclass
class Worker:
    """One process, and how often it has ended in a row."""

    process: subprocess.Popen[bytes]
    began: float
    failures: int = 0
    ready: bool = False
    again: float | None = None  # when it is started again; None while it runs


@dataclass
class Parent:
    """Keeps a number of workers running."""

    settings: Settings
    count: int
    note: Callable[..., None] = field(default_factory=lambda: logs.event_logger("coordinator"))
    workers: list[Worker] = field(default_factory=list)
    stopping: bool = False
    served: bool = False  # a worker was ready once: what ends them now may pass, such as a database that restarts

    def run(self, url: str) -> None:
        """Serve until a signal says to stop; refuse if workers end before any of them was ready."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)
        self.workers = [self._start() for _ in range(self.count)]
        told = False
        try:
            while not self.stopping:
                self._look()
                if not told and all(worker.ready for worker in self.workers):
                    told = True
                    self.note("listening", url=url, workers=self.count)
        finally:
            self._end()

    def _stop(self, number: int, _: FrameType | None) -> None:
        self.stopping = True

    def _start(self, failures: int = 0) -> Worker:
        process = subprocess.Popen(
            [sys.executable, "-m", "voxpop.service.workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=end_with_parent(),
        )
        assert process.stdin is not None
        try:
            pickle.dump(self.settings, process.stdin)  # not in the environment: it holds secrets
            process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended already, as the next look finds
        return Worker(process, time.monotonic(), failures)

    def _look(self) -> None:
        """Wait a moment for news of the workers, and start those again that have ended."""
        with selectors.DefaultSelector() as news:
            for worker in self.workers:
                if worker.again is None and not worker.ready:
                    news.register(worker.process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]
            if news.get_map():
                for key, _ in news.select(LOOK):
                    key.data.ready = key.data.process.stdout.readline() == READY
            else:
                time.sleep(LOOK)
        for place, worker in enumerate(self.workers):
            if worker.again is not None and time.monotonic() >= worker.again:
                self.workers[place] = self._start(worker.failures)
            elif worker.again is None and worker.process.poll() is not None and not self.stopping:
                self._note_end(worker)

    def _note_end(self, worker: Worker) -> None:
        lasted = time.monotonic() - worker.began
        _close(worker.process)
        self.served = self.served or any(other.ready for other in self.workers)
        if not self.served:
            raise InputError("the workers ended before they could serve; the log says why")
        worker.ready = False
        worker.failures = 1 if lasted > STEADY else worker.failures + 1
        wait = min(MOST_BACKOFF, BACKOFF * 2 ** (worker.failures - 1))
        worker.again = time.monotonic() + wait
        self.note("worker_ended", status=worker.process.returncode, again_in=wait)

    def _end(self) -> None:
        """Tell every worker to finish what it has begun, and wait; those that hang are killed."""
        alive = [worker.process for worker in self.workers if worker.process.poll() is None]
        for process in alive:
            process.terminate()
        until = time.monotonic() + GRACE
        for process in alive:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for worker in self.workers:
            _close(worker.process)


def _close(process: subprocess.Popen[bytes]) -> None:
    """Close the pipe from a process that has ended."""
    assert process.stdout is not None
    process.stdout.close()


def serve_with(settings: Settings, workers: int, migrate: bool = False) -> None:
    """Serve with several processes until stopped."""
    require_integer("workers", workers, least=1, most=MOST)
    if file_of(settings.database) is not None:
        raise InputError(
            f"{workers} workers need PostgreSQL, as SQLite has one writer; give --database postgresql://..."
        )
    coordinator_of(settings, migrate).coordinator.database.close()  # whatever is wrong is said once, and here
    with _reserved(settings) as port, tempfile.TemporaryDirectory(prefix="voxpop-metrics-") as folder:
        os.environ[SHARED] = folder
        scheme = "http" if settings.tls_cert is None else "https"
        shared = replace(settings, port=port, **_share(settings, workers))
        Parent(shared, workers).run(f"{scheme}://{settings.host}:{port}")


def _share(settings: Settings, workers: int) -> dict[str, Any]:
    """Divide the limits on one address among the workers, so that they hold for all of them together."""
    return {
        "rate": settings.rate / workers,
        "burst": max(1.0, settings.burst / workers),
        "connections": -(-settings.connections // workers),
    }


@contextmanager
def _reserved(settings: Settings) -> Iterator[int]:
    """Make sure that nobody else listens on the port, and keep it while workers come and go; yield its number."""
    port = require_integer("port", settings.port, least=0, most=65535)
    with listen(settings.host, port) as alone:
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
