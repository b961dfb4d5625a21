"""The demonstration cleans up after itself, however it ends, and does not mistake another service for its own."""

import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, count, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers_cli import ENVIRONMENT
from tests.helpers_waiting import HANGING, until
from tests.service.world import Clock
from voxpop.cli import demo
from voxpop.client import Device, Outcome
from voxpop.errors import InputError
from voxpop.service.demo import crowd
from voxpop.service.demo.crowd import QUIET


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
    # A coordinator and a shuffler.
    until(lambda: process.poll() is not None or len(children(process.pid)) >= 2, "the start of the processes", 0.1)
    started = children(process.pid)
    process.send_signal(number)  # if it has ended already, what it said will show below
    _, said = process.communicate(timeout=HANGING)
    until(lambda: not any(map(lives, started)), "the end of every process", 0.1)
    assert len(started) == 2, said
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


def pretend(monkeypatch: pytest.MonkeyPatch, stages: list[str], clock: Slow) -> None:
    """Take part in a study that is at these stages in turn, and at the last one from then on."""
    said, seen = chain(stages, repeat(stages[-1])), count()
    monkeypatch.setattr(crowd, "time", SimpleNamespace(monotonic=clock))
    monkeypatch.setattr(demo, "time", SimpleNamespace(sleep=clock.sleep))
    device: Any = SimpleNamespace(decision=lambda: {"stage": next(said), "wave": 1, "rounds": 0})
    people: Any = SimpleNamespace(devices=[device], register=lambda: None, check_in=lambda: None)
    demo._live(people, None, lambda now: (now["stage"], min(next(seen), 10)), "the demonstration")


def test_it_may_take_any_time_while_something_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Slow(now=0.0, step=0.9 * QUIET)
    pretend(monkeypatch, ["collecting"] * 10 + ["finished"], clock)
    assert clock.now > 8 * QUIET


def test_it_is_given_up_when_nothing_happens_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Slow(now=0.0, step=0.3 * QUIET)
    with pytest.raises(InputError, match=f"the demonstration made no progress for {QUIET:g} s"):
        pretend(monkeypatch, ["collecting"], clock)
    assert clock.now < 6 * QUIET


def test_reports_that_were_counted_are_noted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = SimpleNamespace(wave=1, report=[0.5])
    device: Any = SimpleNamespace(made=made, block=2, next_check_in=None)
    monkeypatch.setattr(Device, "check_in", lambda _: Outcome.ANSWERED)
    with ThreadPoolExecutor(1) as pool:
        people = crowd.Crowd([device], pool, clock=count(step=10).__next__)
        people.check_in()
        people.check_in()
    assert (people.reports, people.blocks) == ({1: [[0.5]]}, {1: [2]})
