"""Bad input on the command line: one sentence, exit code 2, no traceback, and every file as it was."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers_cli import STUDY, Outcome, main_of, pilot_csv, study_file, voxpop

Main = Callable[..., Outcome]
PILOT = "person,price,reward\na,1,0.5\na,2,0.7\nb,1,0.3\nb,2,0.9\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one of everything, good and bad."""
    study_file(tmp_path / "tea.toml")
    study_file(tmp_path / "syntax.toml", STUDY.replace("horizon = 500", "horizon = = 500"))
    study_file(tmp_path / "unknown.toml", STUDY.replace("horizon = 500", "horizonn = 500"))
    study_file(tmp_path / "silent.toml", STUDY[: STUDY.index("[rehearsal]")])
    study_file(tmp_path / "asked.toml")
    study_file(tmp_path / "damaged.toml")
    study_file(tmp_path / "newer.toml")
    (tmp_path / "damaged.json").write_text('{"format": "voxpop study", "version": 1, "chec')
    (tmp_path / "newer.json").write_text('{"format": "voxpop study", "version": 99}')
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)))
    pilot_csv(tmp_path / "pilot.csv")
    for name, text in {
        "word": PILOT.replace("0.3", "cheap"),
        "short": PILOT.replace("b,2,0.9", "b,2"),
        "one": "person,price,reward\na,1,0.5\na,2,0.7\n",
        "single": "person,price,reward\na,1,0.5\nb,1,0.7\n",
        "constant": "person,price,reward\na,1,0.5\nb,2,0.5\n",
        "empty": "",
    }.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Main:
    monkeypatch.chdir(folder)
    return main_of(monkeypatch)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_refused(main: Main, folder: Path, command: list[Any], said: list[str]) -> None:
    before = contents(folder)
    done = main(*command)
    lines = done.err.splitlines()
    assert done.code == 2, done
    assert len(lines) == 1, done.err
    assert lines[0].startswith("error: ")
    assert [part for part in said if part not in lines[0]] == [], lines[0]
    assert contents(folder) == before


SIMULATE: dict[str, list[str]] = {
    "synthetc": ["'synthetc'", "did you mean 'synthetic'?"],
    "sphere --policy dpeb": ["'dpeb'", "did you mean 'dpbe'?"],
    "sphere --policy dpbe --alpha 0": ["alpha", "above 0", "0"],
    "sphere --policy dpbe --alpha -0.3": ["alpha", "above 0", "-0.3"],
    "sphere --policy dpbe --alpha 2.5": ["alpha", "at most 2", "2.5"],
    "sphere --policy dpbe --alpha nan": ["alpha", "nan"],
    "sphere --policy dpbe --ratio 1": ["ratio", "above 1", "1"],
    "sphere --policy dpbe --ratio inf": ["ratio", "inf"],
    "sphere --calibration paper": ["calibration 'paper'", "--privacy central"],
    "sphere --policy bbkb --bonus free": ["bonus", "safe", "published", "'free'"],
    "sphere --policy bbkb --switch 1": ["switch", "above 1", "1"],
    "sphere --policy dpbe --oversampling 2": ["'dpbe'", "does not take oversampling", "bbkb"],
    "sphere --alpha 0.5": ["'waves'", "does not take alpha", "leave it out", "dpbe"],
    "sphere --policy dpbe --tolerance 0.1": ["'dpbe'", "does not take tolerance", "waves"],
    "sphere --policy halving --most-people 5": ["'halving'", "does not take most_people", "waves"],
    "sphere --answer-cost -1": ["answer_cost", "at least 0", "-1"],
    "sphere --tolerance 0": ["tolerance", "above 0", "0"],
    "sphere --most-people 0": ["most_people", "at least 1", "0"],
    "sphere --most-numbers 0": ["most_numbers", "at least 1", "0"],
    "sphere --most-waves 0": ["most_waves", "at least 1", "0"],
    "sphere --population 0": ["population", "at least 1", "0"],
    "sphere --answer-delay -1": ["answer_delay", "at least 0", "-1"],
    "sphere --confidence 1": ["confidence", "below 1", "1"],
    "sphere --confidence 95": ["confidence", "below 1", "95"],
    "sphere --horizon 0": ["horizon", "at least 1", "0"],
    "sphere --horizon -5": ["horizon", "at least 1", "-5"],
    "sphere --size 0": ["size", "at least 1", "0"],
    "sphere --size -1": ["size", "at least 1", "-1"],
    "sphere --seed -1": ["seed", "at least 0", "-1"],
    "sphere --runs 0": ["runs", "at least 1", "0"],
    "light --data nowhere": ["'nowhere'", "light_train_601x41.csv"],
    "light --data tea.toml": ["'tea.toml'", "light_train_601x41.csv"],
    "light --size 5": ["size of 5"],
    "pricing --size 5": ["size", "at least 12", "5"],
}


@pytest.mark.parametrize("arguments", SIMULATE)
@pytest.mark.parametrize("json_too", [False, True])
def test_simulate_refuses(main: Main, folder: Path, arguments: str, json_too: bool) -> None:
    command = ["simulate", *arguments.split(), *(["--json"] if json_too else [])]
    assert_refused(main, folder, command, SIMULATE[arguments])


OTHERS: dict[str, list[str]] = {
    "run none.toml": ["none.toml", "No such file", "check the path"],
    "run syntax.toml": ["syntax.toml", "line 2", "column 11"],
    "run unknown.toml": ["unknown.toml", "'horizonn'", "did you mean 'horizon'?"],
    "run silent.toml": ["silent.toml", "[rehearsal]", "voxpop ask"],
    "run pilot.csv": ["pilot.csv", "not valid TOML", "line 1"],
    "run binary.csv": ["binary.csv", "UTF-8"],
    "run .": ["directory"],
    "run tea.toml --seed -1": ["seed", "-1"],
    "run tea.toml --tolerance 0.1": ["'dpbe'", "does not take tolerance", "waves"],
    "run --most-waves 0": ["most_waves", "at least 1", "0"],
    "run tea.toml --out pilot.csv": ["pilot.csv"],
    "run tea.toml --out pilot.csv/report": ["pilot.csv"],
    "calibrate none.csv": ["none.csv", "No such file", "check the path"],
    "calibrate .": ["directory"],
    "calibrate binary.csv": ["binary.csv", "UTF-8"],
    "calibrate empty.csv": ["empty.csv", "is empty"],
    "calibrate word.csv": ["word.csv", "line 4", "column 3", "'cheap'"],
    "calibrate short.csv": ["short.csv", "line 5", "2 cells for 3 columns"],
    "calibrate one.csv": ["one.csv", "at least two people, got 1"],
    "calibrate single.csv": ["single.csv", "price", "always '1'"],
    "calibrate constant.csv": ["constant.csv", "every reward in the pilot is 0.5"],
    "calibrate pilot.csv --out tea.toml": ["tea.toml", "exists already", "--force"],
    "calibrate pilot.csv --out nowhere/tea.toml": ["nowhere/tea.toml", "No such file"],
    "calibrate pilot.csv --out pilot.csv/tea.toml": ["pilot.csv/tea.toml", "Not a directory"],
    "calibrate pilot.csv --horizon 0": ["horizon", "at least 1", "0"],
    "calibrate pilot.csv --points 1": ["points", "at least 2", "1"],
    "calibrate pilot.csv --margin 0.5": ["margin", "at least 1", "0.5"],
    "calibrate pilot.csv --kernel matren-5/2": ["'matren-5/2'", "did you mean 'matern-5/2'?"],
    "ask none.toml": ["none.toml", "No such file"],
    "ask syntax.toml": ["syntax.toml", "line 2", "column 11"],
    "ask damaged.toml": ["damaged.json", "damaged", "line 1", "restore it from a copy"],
    "ask newer.toml": ["newer.json", "version 99", "upgrade voxpop"],
    "tell damaged.toml pilot.csv": ["damaged.json", "damaged"],
}


@pytest.mark.parametrize("arguments", OTHERS)
def test_the_other_commands_refuse(main: Main, folder: Path, arguments: str) -> None:
    assert_refused(main, folder, arguments.split(), OTHERS[arguments])


def asked(main: Main) -> dict[str, Any]:
    """Ask the first question of the study asked.toml, which has one decision."""
    question = json.loads(main("ask", "asked.toml", "--json").out)
    assert isinstance(question, dict)
    return question


ANSWERS: dict[str, tuple[list[Any], str, list[str]]] = {
    "another wave": (["--wave", 2], "a,{0},0.5\n", ["wave 2", "wave 1"]),
    "wave zero": (["--wave", 0], "a,{0},0.5\n", ["wave 0"]),
    "another decision": ([], "a,2.7,0.5\n", ["2.7", "not in the decision set"]),
    "not asked": ([], "a,{1},0.5\n", ["{1}", "wave 1 did not ask"]),
    "twice": ([], "a,{0},0.5\na,{0},0.6\n", ["'a'", "answered twice"]),
    "a word": ([], "a,{0},fine\n", ["line 2", "column 3", "'fine'"]),
    "infinite": ([], "a,{0},inf\n", ["line 2", "column 3", "'inf'"]),
    "no rows": ([], "", ["no rows"]),
    "missing cell": ([], "a,{0}\n", ["line 2", "2 cells for 3 columns"]),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_tell_refuses_and_the_question_stays_open(main: Main, folder: Path, case: str) -> None:
    question = asked(main)
    played = question["decisions"][0]["price"]
    other = next(price for price in (1.0, 1.5, 2.0, 2.5, 3.0) if {"price": price} not in question["decisions"])
    options, rows, said = ANSWERS[case]
    (folder / "answers.csv").write_text("person,price,reward\n" + rows.format(played, other))
    command = ["tell", "asked.toml", "answers.csv", *options]
    assert_refused(main, folder, command, [part.format(played, other) for part in said])
    assert asked(main) == question


def test_tell_names_a_missing_file(main: Main, folder: Path) -> None:
    asked(main)
    assert_refused(main, folder, ["tell", "asked.toml", "none.csv"], ["none.csv", "No such file"])


def test_a_person_with_missing_answers_is_named(main: Main, folder: Path) -> None:
    question = asked(main)
    while len(question["decisions"]) < 2:
        rows = "".join(f"u{u},{question['decisions'][0]['price']},0.5\n" for u in range(question["people"]))
        (folder / "answers.csv").write_text("person,price,reward\n" + rows)
        assert main("tell", "asked.toml", "answers.csv").code == 0
        question = asked(main)
    (folder / "answers.csv").write_text(f"person,price,reward\nann,{question['decisions'][0]['price']},0.5\n")
    missing = str(question["decisions"][1]["price"])
    assert_refused(main, folder, ["tell", "asked.toml", "answers.csv"], ["'ann'", missing, "no answer"])


USAGE = ["simulate sphere --alpha much", "simulate sphere --colour red", "conquer", "tell tea.toml"]


@pytest.mark.parametrize("arguments", USAGE)
def test_a_wrong_command_gets_a_usage_error(main: Main, folder: Path, arguments: str) -> None:
    before = contents(folder)
    done = main(*arguments.split())
    assert done.code == 2
    assert "Usage: voxpop" in done.err
    assert "Traceback" not in done.err
    assert contents(folder) == before


@pytest.mark.parametrize("arguments", ["run syntax.toml", "calibrate word.csv", "ask damaged.toml"])
def test_the_installed_command_says_the_same(folder: Path, arguments: str) -> None:
    before = contents(folder)
    done = voxpop(*arguments.split(), cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert contents(folder) == before
