"""`voxpop calibrate --epsilon`: a pilot whose people are promised privacy."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers_cli import Outcome, main_of, pilot_csv
from voxpop.errors import InputError
from voxpop.io import pilots
from voxpop.privacy.sources import Secure

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
    refused = main("calibrate", "pilot.csv", "--out", "open.toml")
    assert refused.code == 2
    assert "line 2, column 3 (reward)" in refused.err
    assert main("calibrate", "pilot.csv", "--kernel", "matern-5/2", "--epsilon", 5, *RANGE).err == ""


def averages(path: str) -> list[float]:
    (table,) = tomllib.loads(Path(path).read_text())["pilot"]
    return [*table["averages"], table["noise_std"]]


def test_calibrating_again_draws_no_noise(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    first = main("calibrate", "pilot.csv", "--kernel", "matern-5/2", "--epsilon", 5, *RANGE)
    assert "\npilot.csv.released keeps what was released, for later runs\n" in first.out

    def draw(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(Secure, "gaussian", draw)
    other = ("--kernel", "matern-3/2", "--points", 11, "--margin", 2, "--out", "other.toml")
    again = main("calibrate", "pilot.csv", *other, "--epsilon", 5, *RANGE)
    assert (again.code, again.err) == (0, "")
    assert "\npilot.csv.released was used again: no noise was drawn\n" in again.out
    assert averages("other.toml") == averages("study.toml")


def test_the_noise_is_from_the_operating_system(main: Main) -> None:
    for out in ("one.toml", "other.toml"):
        assert main("calibrate", "pilot.csv", "--kernel", "matern-5/2", "--out", out, "--epsilon", 5, *RANGE).code == 0
        Path("pilot.csv.released").unlink()
    assert averages("one.toml") != averages("other.toml")


def test_what_was_released_is_kept_although_the_run_failed(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object, **__: object) -> None:
        raise InputError("killed")

    with monkeypatch.context() as context:
        context.setattr(pilots, "calibrate", killed)
        assert "killed" in main("calibrate", "pilot.csv", "--epsilon", 5, *RANGE).err
    assert not Path("study.toml").exists()
    done = main("calibrate", "pilot.csv", "--kernel", "matern-5/2", "--epsilon", 5, *RANGE)
    assert "was used again" in done.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--epsilon", 4, *RANGE), "--epsilon 5.0 --delta 1e-06 --low-reward -2.0 --high-reward 2.0; give the same"),
        (("--epsilon", 5, "--low-reward", -2, "--high-reward", 3), "the epsilons of both releases add up"),
        ((), "without --epsilon nobody is protected"),
    ],
)
def test_another_promise_is_refused(main: Main, options: tuple[object, ...], said: str) -> None:
    main("calibrate", "pilot.csv", "--kernel", "matern-5/2", "--epsilon", 5, *RANGE)
    done = main("calibrate", "pilot.csv", "--out", "other.toml", *options)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "pilot.csv.released" in done.err
    assert said in done.err
    assert not Path("other.toml").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--kernel", "matern"), "kernel"),
        (("--margin", 0.5), "margin"),
        (("--out", "pilot.csv", "--force"), "pilot.csv belongs to the pilot; choose another --out"),
        (("--out", "./pilot.csv.released", "--force"), "belongs to the pilot"),
    ],
)
def test_nothing_is_released_for_a_run_that_is_refused(main: Main, options: tuple[object, ...], said: str) -> None:
    before = Path("pilot.csv").read_bytes()
    done = main("calibrate", "pilot.csv", "--epsilon", 5, *RANGE, *options)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err
    assert [path.name for path in Path().iterdir()] == ["pilot.csv"]
    assert Path("pilot.csv").read_bytes() == before


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
