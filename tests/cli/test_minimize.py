"""Costs from the command line: a pilot of costs, its study file, and what is asked and said."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers_cli import Outcome, main_of
from tests.study.test_opening import TABLE
from voxpop.model.direction import Direction
from voxpop.service.study.definition import Definition, read_definition

Main = Callable[..., Outcome]


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    monkeypatch.chdir(tmp_path)
    call = main_of(monkeypatch)
    TABLE.assign(cost=10 - TABLE["reward"]).drop(columns="reward").to_csv(tmp_path / "pilot.csv", index=False)
    done = call("calibrate", "pilot.csv", "--minimize")
    assert done.code == 0, done.err
    return call


def test_a_study_of_costs_from_pilot_to_decision(main: Main) -> None:
    assert 'direction = "minimize"' in Path("study.toml").read_text()
    asked = main("ask", "study.toml")
    assert "for their average cost of each" in asked.out
    assert "the columns person, block, price, cost" in " ".join(asked.out.split())
    question = json.loads(main("ask", "study.toml", "--json").out)
    with Path("answers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["person", "block", "price", "cost"])
        for person in range(question["people"]):
            for decision in question["decisions"]:
                writer.writerow([person, 1 + person % 2, decision["price"], 8 + (decision["price"] - 4.2) ** 2 / 8])
    told = main("tell", "study.toml", "answers.csv")
    assert told.code == 0, told.err
    assert "expect: 8 (cost; likely 7." in told.out
    again = main("undo", "study.toml")
    assert again.code == 0, again.err
    best = json.loads(main("tell", "study.toml", "answers.csv", "--json").out)
    assert 3.5 < best["decision"]["price"] < 5
    assert 7 < best["low"] < best["high"] < 9


def test_a_rehearsal_of_costs_speaks_of_costs(main: Main) -> None:
    done = main("run", "study.toml", "--no-report")
    assert done.code == 0, done.err
    assert "cost; " in done.out
    assert "simulated truth 8." in done.out


def test_the_service_takes_costs(main: Main) -> None:
    definition = read_definition(Path("study.toml"))[1]
    assert (definition.direction, definition.reward) == (Direction.MINIMIZE, "cost")
    assert definition.problem.pilot[0].mean.max() < 0  # inside, everything is maximised
    assert Definition.decode(json.loads(json.dumps(definition.encode()))).encode() == definition.encode()


def test_an_unknown_direction_names_the_file(main: Main) -> None:
    path = Path("study.toml")
    path.write_text(path.read_text().replace('"minimize"', '"less"'))
    done = main("ask", "study.toml")
    assert done.code == 2
    assert "study.toml: unknown direction 'less'" in done.err


def test_a_pilot_of_costs_without_minimize_is_refused(main: Main) -> None:
    done = main("calibrate", "pilot.csv", "--out", "other.toml")
    assert done.code == 2
    assert "none called reward; add --minimize" in done.err
