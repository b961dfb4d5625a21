"""Several workers behind one port: one that is killed is replaced, and what was acknowledged is counted once."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.helpers_waiting import until
from tests.service.chaos import Crowd, Victim, free_port, victims
from tests.service.test_kill import KEY, check, study
from voxpop.client import Promise
from voxpop.errors import InputError
from voxpop.service import workers
from voxpop.service.serve import Settings

Make = Callable[[], str]


def children(parent: int) -> list[int]:
    """Return the processes that a process has started and that live."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(number) for number in found if "voxpop.service.workers" in command_of(number)]


def command_of(number: str) -> str:
    try:
        return Path(f"/proc/{number}/cmdline").read_text()
    except OSError:
        return ""


class Company(Victim):
    """A service of two workers; what is killed is one of the workers."""

    killed = 0

    def kill(self) -> None:
        os.kill(children(self.process.pid)[0], signal.SIGKILL)
        self.killed += 1

    @contextmanager
    def until_stopped(self) -> Iterator[list[int]]:
        """Yield the workers, then ask the parent to stop, and wait for it."""
        yield children(self.process.pid)
        self.process.terminate()
        self.process.join()


def test_a_worker_that_is_killed_loses_nothing_and_is_replaced(tmp_path: Path, new_postgres: Make) -> None:
    database, floor = new_postgres(), 38
    coordinator = study(database, "central", floor)
    make = partial(Company, tmp_path, "serve", ["--database", database, "--workers", "2"])
    with victims(partial(make, free_port())) as (it,):
        assert isinstance(it, Company)
        until(lambda: len(children(it.process.pid)) == 2, "two workers")
        crowd = Crowd([it.url], Promise("central", 5.0), 200)
        crowd.through(KEY, {20: it, floor: it, 100: it})
        assert it.killed == 3
        until(lambda: len(children(it.process.pid)) == 2, "a worker in place of the last that was killed")
        text = httpx.get(f"{it.url}/metrics").text
        with it.until_stopped() as served:
            assert len(served) == 2
        assert it.process.exitcode == 0
        assert [number for number in served if Path(f"/proc/{number}").exists()] == []
    check(coordinator, crowd, floor)
    (counted,) = re.findall(r"^voxpop_reports_total (\S+)$", text, re.MULTILINE)
    assert float(counted) >= 0.9 * 5 * floor  # of all workers; those that were killed may not have counted their last
    coordinator.database.close()


def test_sqlite_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="2 workers need PostgreSQL"):
        workers.serve_with_workers(Settings(database=str(tmp_path / "c.db"), port=0, workers=2))


@pytest.mark.parametrize("count", [0, 65])
def test_a_number_of_workers_that_makes_no_sense_is_refused(count: int) -> None:
    with pytest.raises(InputError, match="workers must"):
        Settings(database="postgresql://nobody@/nothing", workers=count)


def test_workers_that_cannot_start_end_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda command, **named: real(["false"], **named))
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        with pytest.raises(InputError, match="the workers ended before they could serve"), suppress(BrokenPipeError):
            workers.keep(Settings(workers=2), "http://127.0.0.1:1", lambda *_, **__: None)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_worker_that_ended_is_started_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """All were killed, and the database is just being started again."""
    real, noted = subprocess.Popen, list[tuple[str, float]]()
    monkeypatch.setattr(subprocess, "Popen", lambda command, **named: real(["false"], **named))
    monkeypatch.setattr(workers, "BACKOFF", 0.01)
    worker = workers.Worker(Settings())
    while len(noted) < 3:
        worker.look(lambda event, **said: noted.append((event, said["again_in"])))
        time.sleep(0.005)
    assert noted == [("worker_ended", 0.01), ("worker_ended", 0.02), ("worker_ended", 0.04)]
    worker.end(0.0)


def test_limits_hold_for_all_workers_together() -> None:
    shared = workers.share_of(Settings(rate=100, burst=10, connections=7, workers=2))
    assert (shared.rate, shared.burst, shared.connections) == (50, 5, 4)
