"""The demonstration cleans up after itself, however it ends, and does not mistake another service for its own."""

import io
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import ENVIRONMENT
from tests.helpers_waiting import HANGING, until
from tests.service.world import Clock, definition
from voxpop.errors import InputError
from voxpop.service.demo import processes
from voxpop.service.demo.fleet import Fleet
from voxpop.service.demo.processes import QUIET, Demo
from voxpop.simulation.pricing import Customers


def children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue  # it ended meanwhile
        if int(text.rsplit(")", 1)[1].split()[1]) == pid:
            found.append(int(path.parent.name))
    return found


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_is_left_when_it_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "voxpop", "demo", "--devices", "300"]
    environment = {**ENVIRONMENT, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # even if this process ignores it (nohup)
    )
    # A coordinator, a shuffler and two fleets.
    until(lambda: process.poll() is not None or len(children(process.pid)) >= 4, "the start of the processes", 0.1)
    started = children(process.pid)
    process.send_signal(number)  # if it has ended already, what it said will show below
    _, said = process.communicate(timeout=HANGING)
    until(lambda: not any(map(lives, started)), "the end of every process", 0.1)
    assert len(started) == 4, said
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number, said
        assert list(tmp_path.glob("voxpop-demo-*")) == []


def test_a_port_that_someone_else_has_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        command = [sys.executable, "-m", "voxpop", "demo", "--devices", "20", "--port", str(port)]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=HANGING, check=False)
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert done.stderr.count("error:") == 1


@dataclass
class Slow(Clock):
    """A clock that moves while the demonstration sleeps, by far more than it asked for."""

    step: float = 0.0

    def sleep(self, _: float) -> None:
        self.now += self.step


def pretend(monkeypatch: pytest.MonkeyPatch, statuses: list[dict[str, Any]], sleep: Any, clock: Clock) -> Demo:
    """Make a demonstration whose coordinator reports these statuses in turn, and the last one from then on."""
    said = chain(statuses, repeat(statuses[-1]))
    monkeypatch.setattr(Demo, "get", lambda *_: {"status": next(said)})
    monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=clock, sleep=sleep))
    return Demo("http://nowhere", "key", definition(), [])


ANSWERS = [{"stage": "collecting", "wave": 1, "answered": number} for number in range(10)]
FINISHED = {"stage": "finished"}


def test_it_may_take_any_time_while_something_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Slow(now=0.0, step=0.9 * QUIET)
    pretend(monkeypatch, [*ANSWERS, FINISHED], clock.sleep, clock).play(lambda _: None)
    assert clock.now > 8 * QUIET


def test_it_is_given_up_when_nothing_happens_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Slow(now=0.0, step=0.3 * QUIET)
    stuck = pretend(monkeypatch, ANSWERS, clock.sleep, clock)
    with pytest.raises(InputError, match=f"the demonstration made no progress for {QUIET:g} s"):
        stuck.play(lambda _: None)
    assert clock.now < 5 * QUIET


def test_it_ends_when_the_devices_have_said_all_that_they_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The study is over when the last report is counted; its device tells what it sent a moment later."""
    said = iter(['{"wave": 1, "report": [0.5]}', '{"finished": true}'])

    def sleep(_: float) -> None:
        demo.listen(io.StringIO(next(said)))

    demo = pretend(monkeypatch, [FINISHED], sleep, Clock())
    demo.fleets.append(SimpleNamespace(poll=lambda: None))  # type: ignore[arg-type]
    demo.play(lambda _: None)
    assert dict(demo.reports) == {1: [[0.5]]}


def test_devices_that_have_all_answered_have_no_more_to_say() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert not Fleet([], Customers(np.ones(2)), np.random.default_rng(0), pool).sweep()
