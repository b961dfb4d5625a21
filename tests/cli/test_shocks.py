"""Shocks on the command line: a history for `voxpop calibrate`, and weather for run, simulate and compare."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.helpers_cli import Outcome, main_of, pilot_csv
from voxpop.io.studyfile import read_study
from voxpop.simulation.rehearsals import OwnPeople, Rehearsal
from voxpop.simulation.weather import Weather

Main = Callable[..., Outcome]


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    monkeypatch.chdir(tmp_path)
    pilot_csv(tmp_path / "pilot.csv")
    values = 0.8 + 0.2 * np.random.default_rng(0).standard_normal(40)
    lines = [f"{place},{value:.4f},{100 * value:.0f}" for place, value in enumerate(values)]
    (tmp_path / "metric.csv").write_text("\n".join(["round,reward,visits", *lines]))
    return main_of(monkeypatch)


CALIBRATE = ("calibrate", "pilot.csv", "--kernel", "matern-5/2", "--points", 11, "--horizon", 300)


def test_a_history_is_said_written_and_drawn(main: Main, tmp_path: Path) -> None:
    done = main(*CALIBRATE, "--history", "metric.csv", "--history-column", "reward", "--picture", "history.png")
    assert (done.code, done.err) == (0, "")
    assert "upper estimate" in done.out
    assert "rounds of each decision make shocks as small as people's differences" in done.out
    assert "Nothing is known of shocks" not in done.out
    assert "picture: history.png\n" in done.out
    assert (tmp_path / "history.png").read_bytes().startswith(b"\x89PNG")
    problem, _, _ = read_study(tmp_path / "study.toml")
    assert problem.shock_std == pytest.approx(0.2, rel=0.3)
    assert problem.shock_freedom == pytest.approx(36, rel=0.3)


def test_without_one_the_assumption_is_said(main: Main, tmp_path: Path) -> None:
    done = main(*CALIBRATE)
    problem, _, _ = read_study(tmp_path / "study.toml")
    said = f"a hundredth of people's spread ({problem.shock_std:.3g}) until the first wave shows them"
    assert said in done.out
    assert "--history estimates them" in done.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--history-column", "reward"), "--history-column is about a history; add --history metric.csv"),
        (("--picture", "h.png"), "--picture is about a history"),
        (("--history", "metric.csv"), "reward, visits; say which is meant with --history-column"),
        (
            ("--history", "metric.csv", "--history-column", "visits"),
            "looks like another unit; give the metric per person",
        ),
        (("--history", "nowhere.csv"), "nowhere.csv"),
    ],
)
def test_a_history_that_does_not_fit_is_refused(
    main: Main, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    done = main(*CALIBRATE, *options)
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "study.toml").exists()


WEATHER = ("--shocks", 0.1, "--shocks-persist", 0.5, "--weekly")


def test_weather_is_recorded_and_changes_what_people_say(main: Main) -> None:
    small = ("simulate", "pricing", "--size", 15, "--horizon", 300, "--json")
    calm, stormy = (json.loads(main(*small, *weather).out) for weather in ((), WEATHER))
    assert "weather" not in calm
    others = {"carry_over": 0.0, "drift_rate": 0.0}
    assert stormy["weather"] == {"shocks": pytest.approx(0.13, rel=0.2), "persist": 0.5, "weekly": True, **others}
    assert calm["norm_bound"] != stormy["norm_bound"], "the pilot is hit as well"


def test_policies_are_compared_in_one_weather(main: Main) -> None:
    few = ("--size", 12, "--horizon", 200, "--runs", 1, "--policies", "equal-split,gp-ucb", "--json")
    done = main("compare", "sphere", *few[2:], *WEATHER)
    assert done.code == 0, done.err
    assert json.loads(done.out)["weather"]["persist"] == 0.5


def test_rehearsals_have_weather_in_units_of_the_estimated_rewards(main: Main, tmp_path: Path) -> None:
    assert main(*CALIBRATE).code == 0
    done = main("run", "study.toml", *WEATHER, "--no-report")
    assert done.code == 0, done.err
    scenario = Rehearsal("study.toml", shocks=0.1, weekly=True).scenario()
    assert scenario.weather == Weather(0.1 * float(np.ptp(scenario.f)), 0.0, weekly=True)
    (tmp_path / "people.csv").write_text("person,wtp\n" + "".join(f"u{w},{w / 100}\n" for w in range(200, 900, 7)))
    people = OwnPeople("people.csv", "(price - 1.5) * (wtp >= price)", ("price=2:9:15",))
    calm, stormy = (Rehearsal(people=people, horizon=300, shocks=size).scenario() for size in (0.0, 0.2))
    assert stormy.weather is not None
    assert stormy.weather.shocks == pytest.approx(0.2 * np.ptp(stormy.f))
    assert not np.allclose(calm.problem.pilot[0].mean, stormy.problem.pilot[0].mean), "the pilot is hit as well"


@pytest.mark.parametrize("command", [("simulate", "sphere"), ("compare", "sphere"), ("run",)])
def test_weather_that_cannot_be_is_refused_by_every_command(main: Main, command: tuple[str, ...]) -> None:
    for options, said in (
        (("--shocks", -1), "shocks must be a number at least 0, got -1"),
        (("--shocks", 0.1, "--shocks-persist", 1), "shocks_persist must be a number at least 0 and below 1, got 1"),
        (("--weekly",), "weekly is about shocks, and there are none; add --shocks 0.1, or leave it out"),
    ):
        done = main(*command, *options)
        assert done.code == 2
        assert said in done.err
