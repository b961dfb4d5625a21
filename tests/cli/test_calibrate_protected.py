"""`voxpop calibrate --epsilon`: a pilot whose people are promised privacy."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers_cli import Outcome, main_of, pilot_csv

Main = Callable[..., Outcome]
RANGE = ("--low-reward", -2, "--high-reward", 2)


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    monkeypatch.chdir(tmp_path)
    pilot_csv(tmp_path / "pilot.csv", people=200)
    return main_of(monkeypatch)


def test_the_cost_is_said_and_written(main: Main) -> None:
    done = main("calibrate", "pilot.csv", "--kernel", "matern-5/2", "--epsilon", 5, *RANGE)
    assert (done.code, done.err) == (0, "")
    assert "the pilot costs its people epsilon 5 at delta 1e-06; its averages have errors at least " in done.out
    assert "skewness" not in done.out
    (table,) = tomllib.loads(Path("study.toml").read_text())["pilot"]
    assert (table["epsilon"], table["delta"]) == (5.0, 1e-6)
    assert table["noise_std"] > 0
    assert main("ask", "study.toml").code == 0


@pytest.mark.parametrize("reward", ["", "nan", "inf", "1e999"])
def test_no_reward_is_refused_for_its_value(main: Main, reward: str) -> None:
    lines = Path("pilot.csv").read_text().splitlines()
    person, price, _, rounds = lines[1].split(",")
    Path("pilot.csv").write_text("\n".join([lines[0], f"{person},{price},{reward},{rounds}", *lines[2:]]))
    assert main("calibrate", "pilot.csv", "--kernel", "matern-5/2", "--epsilon", 5, *RANGE).err == ""
    assert main("calibrate", "pilot.csv", "--out", "open.toml").code == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--epsilon", 1), "--low-reward and --high-reward"),
        (("--epsilon", 1, "--low-reward", 0), "known beforehand"),
        (RANGE, "add --epsilon"),
        (("--epsilon", 1, "--low-reward", 2, "--high-reward", 1), "the highest reward must be a number above 2"),
        (("--epsilon", -1, *RANGE), "epsilon must be a number above 0"),
    ],
)
def test_what_does_not_protect_is_refused(main: Main, options: tuple[object, ...], said: str) -> None:
    done = main("calibrate", "pilot.csv", *options)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err
    assert not Path("study.toml").exists()
