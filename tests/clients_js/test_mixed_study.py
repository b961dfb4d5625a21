"""A real study whose devices are half Python's and half Node's: its plans are the simulator's on the same reports."""

from pathlib import Path

import pytest

from tests.clients_js.npm import NODE, SDK
from voxpop.policies import make_policy
from voxpop.privacy import Private
from voxpop.service.demo.processes import FLEET, QUIET, running
from voxpop.service.study.definition import Definition, Rules
from voxpop.simulation.scenarios import Options, make_scenario

DEVICES = 44


@pytest.mark.parametrize("model", ["local", "aggregate"])
def test_plans_are_the_simulator_s(tmp_path: Path, model: str) -> None:
    scenario = make_scenario("pricing", Options(horizon=6, size=12))
    privacy = Private(model, 5.0, floor=12)
    definition = Definition(scenario.problem, make_policy("dpbe", alpha=0.7), privacy, rules=Rules(deadline=QUIET))
    foreign = (str(NODE), str(SDK / "test/fleet.ts"))
    with running(scenario, definition, DEVICES, tmp_path, fleets=(FLEET, foreign)) as study:
        study.play(lambda _: None)
        assert study.check() == []
    assert study.registered == DEVICES
    assert sum(map(len, study.reports.values())) == 36
