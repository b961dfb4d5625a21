"""Flower as it is run: a SuperLink and 150 SuperNodes, each a process, and `flwr run` on the example's folder.

The reports that the server receives are written down on the way, and the simulator is told the same ones.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.flower.farm import connected
from tests.flower.helper import helper_in
from voxpop.client.storage import Memory, Outgoing
from voxpop.journal.replay import disagreements
from voxpop.service.shuffler.signed_http import HttpShuffler
from voxpop_flower.study import DeviceStudy

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "integrations/flower/example"
BIN = Path(sys.executable).parent
NODES = 150
KILLED, BROKEN, SPENT = range(3), range(3, 6), range(6, 9)
HANGING = 1800.0  # seconds after which something hangs

CONFIG = """\
[superlink]
default = "here"

[superlink.here]
address = "{address}"
insecure = true
"""

# The example's server, but what arrives is written down.
RECORDING = """\
import json
from pathlib import Path
from flwr.serverapp import ServerApp
from commuting.study import study
from voxpop_flower import Rules, conduct, helper_at

app = ServerApp()


class Recording:
    def __init__(self, grid, path):
        self.grid, self.path = grid, path

    def __getattr__(self, name):
        return getattr(self.grid, name)

    def pull_messages(self, names):
        found = list(self.grid.pull_messages(names))
        with self.path.open("a") as file:
            for reply in found:
                said = {"error": reply.error.reason} if reply.has_error() else dict(reply.content["voxpop"])
                place = {"node": reply.metadata.src_node_id, "wave": reply.metadata.group_id}
                file.write(json.dumps(place | said) + "\\n")
        return found


@app.main()
def main(grid, context):
    config = context.run_config
    recording = Recording(grid, Path(config["saved"]).with_suffix(".jsonl"))
    helper = helper_at(config["helper"], config["helper-key"]) if config["helper"] else None
    conduct(recording, study(config), Rules(seconds=float(config["seconds"]), patience=60.0), helper)
"""


def until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANGING
    while not ready():
        assert time.monotonic() < deadline, "this hangs"
        time.sleep(0.5)


def free_ports(count: int) -> int:
    """Return the first of some ports in a row that nobody uses."""
    for first in range(20_000, 30_000, count):
        try:
            for port in range(first, first + count):
                with closing(socket.socket()) as taken:
                    taken.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise AssertionError("no ports are free")


@dataclass
class Federation:
    folder: Path
    environment: dict[str, str]
    helper: str

    def superlink_log(self) -> str:
        return (self.folder / "superlink.log").read_text(encoding="utf-8")

    @property
    def key(self) -> Path:
        return self.folder / "helper.key"

    def memory(self, number: int) -> Path:
        return self.folder / f"{number}.db"

    def run(self, **config: Any) -> None:
        """Run the app, as its users do, and wait for its end."""
        said = " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())
        command = [str(BIN / "flwr"), "run", str(self.folder / "app"), "here", "--run-config", said]
        before = self.superlink_log().count("Finished task")
        subprocess.run(command, env=self.environment, check=True, capture_output=True, timeout=HANGING)
        until(lambda: self.superlink_log().count("Finished task") > before)


@pytest.fixture(scope="module")
def helper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpShuffler]:
    with helper_in(tmp_path_factory.mktemp("helper")) as found:
        yield found


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory, helper: HttpShuffler) -> Iterator[Federation]:
    """A SuperLink, and SuperNodes that are connected to it."""
    folder = tmp_path_factory.mktemp("flower")
    shutil.copytree(EXAMPLE, folder / "app")
    (folder / "app/commuting/server.py").write_text(RECORDING, encoding="utf-8")
    (folder / "helper.key").write_bytes(helper.keys.in_use)
    (folder / "home").mkdir()
    first = free_ports(NODES + 1)
    address = f"127.0.0.1:{first}"
    (folder / "home/config.toml").write_text(CONFIG.format(address=address), encoding="utf-8")
    environment = os.environ | {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "FLWR_HOME": str(folder / "home"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "20",  # 150 that look every second would have both cores to themselves
        "OMP_NUM_THREADS": "1",
    }
    found = Federation(folder, environment, helper.url)
    superlink = ["flower-superlink", "--insecure", "--port", str(first), "--disable-runtime-dependency-installation"]
    farm = [sys.executable, "-m", "tests.flower.farm", str(folder), address, str(NODES), str(first + 1), helper.url]
    started = list[subprocess.Popen[bytes]]()
    try:
        for name, command in (("superlink", [str(BIN / superlink[0]), *superlink[1:]]), ("farm", farm)):
            with (folder / f"{name}.log").open("wb") as log:
                started.append(subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log))
            until(lambda: "Uvicorn running" in found.superlink_log())
        until(lambda: all(connected(folder, number) for number in range(NODES)))
        yield found
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(timeout=HANGING)


@pytest.fixture
def new_people(federation: Federation) -> None:
    """Other people have the devices now."""
    for number in range(NODES):
        federation.memory(number).unlink(missing_ok=True)


def outcome(
    federation: Federation, model: str, nodes: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[DeviceStudy, list[Any]]:
    """Run a study; return it as it was saved, and what arrived."""
    saved = federation.folder / f"{model}.json"
    config = {"model": model, "nodes": nodes, "saved": str(saved), "seconds": 150.0, "epsilon": 5.0}
    if model == "aggregate":
        config |= {"helper": federation.helper, "helper-key": str(federation.key)}
    federation.run(**config)
    monkeypatch.syspath_prepend(str(EXAMPLE))
    made: DeviceStudy = import_module("commuting.study").study(config)
    lines = saved.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
    return made, [json.loads(line) for line in lines]


def check_as_simulated(done: DeviceStudy, arrived: list[Any]) -> None:
    reports = {(int(each["wave"]), each["node"]): each["report"] for each in arrived if "report" in each}
    counted = {entry.wave: [reports[entry.wave, int(name)] for name in entry.names] for entry in done.ledger.entries}
    assert [len(rows) for rows in counted.values()] == [wave.plan.people for wave in done.closed]
    assert disagreements(done.course, counted, own_noise=True) == []
    if done.privacy.model != "central":  # where the server draws no noise of its own
        assert disagreements(done.course, counted) == []


@pytest.mark.usefixtures("new_people")
@pytest.mark.parametrize("model", ["none", "central"])
def test_a_study_on_real_processes_is_the_simulator_s(
    federation: Federation, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, arrived = outcome(federation, model, 60, monkeypatch)
    assert done.ended
    check_as_simulated(done, arrived)


@pytest.mark.usefixtures("new_people")
def test_a_helper_beside_flower_holds_the_other_half(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server alone has numbers that mean nothing: were they reports, their total would be the release's."""
    done, arrived = outcome(federation, "aggregate", 60, monkeypatch)
    assert done.ended
    assert len({name for entry in done.ledger.entries for name in entry.names}) == sum(
        wave.plan.people for wave in done.closed
    )
    first = done.closed[0]
    batch = first.release.batch
    assert batch is not None
    shares = np.array([each["report"] for each in arrived if each.get("wave") == "1" and "report" in each])
    assert shares.max() > batch.bits  # a report is far below the modulus, and a share anywhere


@pytest.mark.usefixtures("new_people")
def test_nodes_that_die_break_or_are_spent_are_replaced_and_nobody_takes_part_twice(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in KILLED:
        os.kill(int((federation.folder / f"{number}.pid").read_text(encoding="ascii")), signal.SIGKILL)
    for number in BROKEN:
        federation.memory(number).mkdir()  # the node cannot count, and must not answer
    for number in SPENT:
        Memory(federation.memory(number)).keep(Outgoing(1, "", "", b""))
    done, arrived = outcome(federation, "local", 140, monkeypatch)
    assert done.ended == "all 140 people of the population were asked"
    check_as_simulated(done, arrived)
    failed = [each for each in arrived if "error" in each]
    declined = [each for each in arrived if "declined" in each]
    names = [name for entry in done.ledger.entries for name in entry.names]
    assert len(names) == len(set(names)) == 140
    assert len(failed) <= len(BROKEN)
    assert len(declined) <= len(SPENT)
    assert len(failed) + len(declined) + len(KILLED) <= NODES - 140
    made = [Memory(path).reports for number in range(NODES) if (path := federation.memory(number)).is_file()]
    assert set(made) <= {0, 1}
    assert sum(made) >= 140 + len(SPENT)
