"""Sweeps on a cluster: the same as on this machine, and clear about backends that are missing."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import distributed
import pytest

import voxpop_dask
from tests.helpers_cli import ENVIRONMENT, refusal
from tests.helpers_sweep import PID, REFUSE, TRIALS, TWO, alone, by_trial, facts
from tests.reproduction.helpers_command import NAME, one_line, python
from voxpop.errors import InputError
from voxpop.simulation.sweep import Backend, sweep
from voxpop.simulation.trials import Trial

# Unusable backends


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"name": "desk"}, "unknown backend 'desk'; known: local, dask; dask comes with: pip install voxpop-dask"),
    "no name": ({"name": None}, "unknown backend None"),
    "no jobs": ({"jobs": 0}, "jobs must be a whole number, at least 1, got 0"),
    "negative jobs": ({"jobs": -1}, "jobs must be a whole number, at least 1, got -1"),
    "half a job": ({"jobs": 1.5}, "jobs must be a whole number, at least 1, got 1.5"),
    "true jobs": ({"jobs": True}, "jobs must be a whole number"),
    "an address without a cluster": ({"address": "tcp://h:1"}, "address 'tcp://h:1' needs a cluster"),
    "dask without an address": ({"name": "dask"}, "the dask backend needs its cluster's address"),
    "no jobs on a cluster": ({"name": "dask", "address": "tcp://h:1", "jobs": 0}, "jobs must be"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_unusable_backend_is_refused(name: str) -> None:
    chosen, said = BAD[name]
    with pytest.raises(InputError) as refused:
        Backend(**chosen)
    assert said in refusal(refused)


@pytest.fixture
def free_port() -> Iterator[int]:
    """Return a port at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])


# Dask, for real


def test_a_scheduler_out_of_reach_is_one_sentence_and_is_not_even_asked(
    monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(voxpop_dask, "Client", lambda *given, **_: asked.append(given))
    address = f"tcp://127.0.0.1:{free_port}"
    with pytest.raises(InputError, match="no Dask scheduler at") as refused:
        list(sweep(abs, [1], Backend("dask", address)))
    assert address in refusal(refused)
    assert asked == []


Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start a part of Dask; all parts are stopped at the end."""
    folder, parts = tmp_path_factory.mktemp("dask"), list[subprocess.Popen[bytes]]()

    def begin(*arguments: object) -> subprocess.Popen[bytes]:
        command = [str(Path(sys.executable).parent / "dask"), *map(str, arguments)]
        with (folder / f"{len(parts)}.log").open("wb") as log:
            part = subprocess.Popen(command, stdout=log, stderr=log, env=ENVIRONMENT, cwd=folder)
        parts.append(part)
        return part

    yield begin
    for part in reversed(parts):  # workers before their scheduler, or they wait for it
        part.terminate()
        try:
            part.wait(5)
        except subprocess.TimeoutExpired:
            part.kill()
            part.wait()


def scheduler(start: Start, folder: Path) -> str:
    """The address of a new scheduler on this machine, on a port of its choice."""
    file = folder / "scheduler.json"
    part = start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", file)
    while part.poll() is None:
        try:
            return str(json.loads(file.read_text())["address"])
        except (OSError, ValueError):  # not there yet, or half written
            time.sleep(0.02)
    pytest.fail("the scheduler did not start")


def worker(start: Start, address: str, threads: int) -> None:
    start("worker", address, "--host", "127.0.0.1", "--nthreads", threads, "--no-nanny", "--no-dashboard")


@pytest.fixture(scope="module")
def cluster(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Backend:
    """A scheduler and a worker of two threads."""
    address = scheduler(start, tmp_path_factory.mktemp("cluster"))
    worker(start, address, 2)
    return Backend("dask", address)


def test_trials_on_a_dask_cluster_are_those_of_this_machine(cluster: Backend) -> None:
    assert by_trial(sweep(Trial.run, TRIALS, cluster)) == {trial: facts(trial.run()) for trial in TRIALS}


def test_a_dask_cluster_does_the_work_and_reports_what_fails(cluster: Backend) -> None:
    items = [PID, "1 / 0", REFUSE, "2"]
    found = {done.item: (done.result, done.error) for done in sweep(eval, items, cluster)}
    result, error = found.pop(PID)
    assert (type(result), error) == (int, "")
    assert result != os.getpid()
    assert found == {
        "1 / 0": (None, "ZeroDivisionError: division by zero"),
        REFUSE: (None, "too much"),
        "2": (2, ""),
    }


def test_a_dask_cluster_is_used_again_after_nothing_and_after_much(cluster: Backend) -> None:
    assert list(sweep(abs, [], cluster)) == []
    assert sorted(done.result or 0 for done in sweep(abs, list(range(-100, 0)), cluster)) == list(range(1, 101))


def test_a_sweep_on_this_machine_stays_here_while_another_is_on_a_cluster(cluster: Backend) -> None:
    for there in sweep(eval, [PID], cluster):
        here = {done.result for done in sweep(eval, [PID] * 4, TWO)}
        assert there.result not in here


def test_one_job_on_a_dask_cluster_is_still_done_there(cluster: Backend) -> None:
    found = list(sweep(eval, [PID], Backend("dask", cluster.address, jobs=1)))
    assert os.getpid() not in [done.result for done in found]


def test_without_workers_a_scheduler_is_refused_and_with_one_thread_it_does_the_work(
    monkeypatch: pytest.MonkeyPatch, start: Start, tmp_path: Path
) -> None:
    address, wait = scheduler(start, tmp_path), distributed.Client.wait_for_workers
    with monkeypatch.context() as patched:
        # There are no workers, so there is no need to wait long for one.
        patched.setattr(distributed.Client, "wait_for_workers", lambda self, count, timeout: wait(self, count, 0.1))
        with pytest.raises(InputError, match="has no workers; start one: dask worker tcp://") as refused:
            list(sweep(abs, [1], Backend("dask", address)))
    assert address in refusal(refused)
    worker(start, address, 1)
    found = [done.result for done in sweep(eval, [PID, "1"], Backend("dask", address))]
    assert 1 in found
    assert os.getpid() not in found


CLUSTER = """
try:
    print([done.error or done.result for done in sweep({function}, [-1, -2], Backend("dask", {address!r}))])
except InputError as error:
    print(error)
"""


@pytest.mark.parametrize("address", ["tcp://127.0.0.1", "nonsense://127.0.0.1:{}", "tls://127.0.0.1:{}"])
def test_an_unusable_address_is_one_sentence_and_leaves_nothing_behind(cluster: Backend, address: str) -> None:
    address = address.format(str(cluster.address).rpartition(":")[2])  # somebody listens, but does not speak this
    ended = alone(CLUSTER.format(function="abs", address=address))
    assert repr(address) in ended.stdout
    assert ended.stdout.count("\n") == 1
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_function_that_the_workers_do_not_have_does_not_hold_up_the_sweep(cluster: Backend, tmp_path: Path) -> None:
    (tmp_path / "only_here.py").write_text("def double(x):\n    return 2 * x\n")
    function = f"(sys.path.insert(0, {str(tmp_path)!r}), __import__('only_here').double)[1]"
    ended = alone(CLUSTER.format(function=function, address=cluster.address))
    assert "only_here" in ended.stdout or "deserialization" in ended.stdout


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense"])
def test_an_unreachable_cluster_is_one_sentence(tmp_path: Path, address: str) -> None:
    impatient = "import voxpop_dask\nvoxpop_dask.PATIENCE = 1"
    done = python(impatient, NAME, "--quick", "--backend", "dask", "--address", address, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert address in one_line(done.stderr)
    written = {path.name: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
    assert written in ({}, {"runs.jsonl": 0})
