"""A real study whose devices are half Python's and half Node's: its plans are the simulator's on the same reports."""

import json
import subprocess
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from tests.clients_js.npm import NODE, SDK
from voxpop.cli.demo import _Application, _live
from voxpop.client.storage import Outgoing
from voxpop.policies import make_policy
from voxpop.privacy import Private
from voxpop.service.demo.crowd import BETWEEN, QUIET, Crowd, disagreements, model_tastes, promise_of, running, simulated
from voxpop.service.study.definition import Definition, Rules
from voxpop.service.study.log import Record
from voxpop.simulation.scenarios import Options, make_scenario

HALF = 22


@pytest.mark.parametrize("model", ["local", "aggregate"])
def test_plans_are_the_simulator_s(tmp_path: Path, model: str) -> None:
    scenario = make_scenario("pricing", Options(horizon=6, size=12))
    privacy = Private(model, 5.0, floor=12)
    definition = Definition(scenario.problem, make_policy("dpbe", alpha=0.7), privacy, rules=Rules(deadline=QUIET))
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        running(tmp_path) as (url, second, key),
        httpx.Client(timeout=30) as http,
        ThreadPoolExecutor(4) as pool,
        subprocess.Popen([str(NODE), str(SDK / "test/fleet.ts")], **pipes) as fleet,
    ):
        promise = promise_of(definition, second)
        application = _Application(url, key, "pricing", by_clock=False)
        application.send("PUT", "", {"definition": definition.encode()})
        named: dict[str, Any] = {"url": url, "study": "pricing", "promise": promise, "http": http}
        ours = simulated(model_tastes(scenario.problem), range(HALF), **named)
        crowd, registered, lived = Crowd(ours, pool, longest=BETWEEN), list[int](), set[int]()
        assert fleet.stdin is not None
        tell, heard = fleet.stdin, fleet.stdout
        assert heard is not None

        def listen() -> None:
            for line in heard:
                said = json.loads(line)
                registered.append(said.get("registered", 0))
                if "sent" in said:
                    *twin, own = said["sent"]
                    body = b64decode(own) if twin else own.encode()
                    sent = Outgoing(said["wave"], "", "", body, ("", twin[0].encode()) if twin else None)
                    crowd.reports[sent.wave].append(sent.report)

        def live(now: dict[str, Any]) -> object:
            """Tell the other devices what they live through, once."""
            if now["rounds"] and now["wave"] not in lived:
                lived.add(now["wave"])
                events = application.send("GET", "/log")["events"]
                plan = [event["body"]["plan"] for event in events if event["kind"] == "opened"][-1]
                print(
                    json.dumps({"wave": now["wave"], "arms": plan["arms"], "pulls": plan["pulls"]}),
                    file=tell,
                    flush=True,
                )
            return now, sum(map(len, crowd.reports.values()))

        prices = [label["price"] for label in scenario.problem.decisions]
        settings = {"url": url, "study": "pricing", "promise": asdict(promise), "devices": HALF, "prices": prices}
        print(json.dumps(settings), file=tell, flush=True)
        listener = Thread(target=listen)
        listener.start()
        _live(crowd, application, live)
        tell.close()
        listener.join()
        events = [Record(**event) for event in application.send("GET", "/log")["events"]]
        assert disagreements(events, crowd.reports, own_noise=True) == []
    assert sum(registered) == HALF
    assert sum(map(len, crowd.reports.values())) == 36
