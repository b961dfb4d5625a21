"""`voxpop status`, `report` and `export` at every stage of a study that is being conducted; they change nothing."""

import csv
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import STUDY, Outcome, main_of, study_file
from voxpop.cli import study as commands
from voxpop.journal.tables import answer_rows, decision_rows
from voxpop.study.study import Study

Main = Callable[..., Outcome]
WAVES = 'name = "green tea"\nreward = "profit"\n' + STUDY.replace('name = "tea"\n', "").replace(
    'name = "dpbe"\nalpha = 0.6', 'name = "waves"'
)
PILOT = """
[[pilot]]
people = 12
at = [{price = 1.0}, {price = 2.0}, {price = 3.0}]
rounds = [20, 20, 20]
averages = [0.2, 1.1, 0.4]
"""
PRIVATE = WAVES + '\n[privacy]\nmodel = "central"\nepsilon = 5.0\n'


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VOXPOP_KEY", raising=False)
    study_file(tmp_path / "tea.toml", WAVES)
    study_file(tmp_path / "private.toml", PRIVATE)
    return main_of(monkeypatch)


def ask(main: Main, study: str) -> dict[str, Any]:
    question = json.loads(main("ask", study, "--json").out)
    assert isinstance(question, dict)
    return question


def tell(main: Main, study: str, people: int | None = None, prefix: str = "p", *options: str) -> Outcome:
    """Ask, and tell the answers of people who like a price of 2."""
    question = ask(main, study)
    rng = np.random.default_rng(question["wave"])
    with Path("answers.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["person", "block", "price", "reward"])
        for person in range(people or question["people"]):
            taste = rng.normal(2.0, 0.1)
            name, block = f"{prefix}{question['wave']}-{person}", 1 + person % question["blocks"]
            for decision in question["decisions"]:
                rows.writerow([name, block, decision["price"], 1 - (decision["price"] - taste) ** 2])
    done = main("tell", study, "answers.csv", *options)
    assert done.code == 0, done.err
    return done


def contents() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}


def shown(main: Main, *arguments: object) -> str:
    """Return what a command prints that must change no file."""
    before = contents()
    done = main(*arguments)
    assert done.code == 0, done.err
    assert contents() == before
    return done.out


def stages(main: Main) -> Iterator[tuple[str, str]]:
    """Conduct two studies, one of them privately; yield every stage with the study's file."""
    yield "new", "tea.toml"
    ask(main, "tea.toml")
    yield "open", "tea.toml"
    tell(main, "tea.toml", 5, "q", "--partial")
    yield "partial", "tea.toml"
    assert main("undo", "tea.toml").code == 0
    yield "undone", "tea.toml"
    while ask(main, "tea.toml")["wave"] is not None:
        tell(main, "tea.toml")
    yield "ended", "tea.toml"
    yield "new", "private.toml"
    ask(main, "private.toml")
    tell(main, "private.toml")
    yield "told", "private.toml"
    assert main("undo", "private.toml").code == 0
    yield "undone", "private.toml"


def test_every_stage_is_shown_and_nothing_is_changed(main: Main) -> None:
    seen = []
    for stage, file in stages(main):
        text, data = shown(main, "status", file), json.loads(shown(main, "status", file, "--json"))
        waves, summary = data["waves"], data["summary"]
        assert "green tea" in text
        assert summary["study"] == "green tea"
        assert summary["reward"] == "profit"
        assert ("nobody has answered yet" in text) == (summary["waves"] == 0)
        assert (f"voxpop tell {file} ANSWERS.csv" in text) == (data["question"] is not None)
        assert ("opens wave" in text) == (data["question"] is None and summary["ended"] is None)
        assert ("Stopped because" in text) == (summary["ended"] is not None) == (stage == "ended")
        assert ("ledger: " in text) == (file == "private.toml")
        answered = [wave["people"] for wave in waves if wave["status"] == "answered"]
        assert sum(answered) == summary["people"]
        assert len(list(csv.DictReader(shown(main, "export", file).splitlines()))) == 5
        seen.append((stage, len(answered), data["question"] is not None, (summary["ledger"] or {}).get("releases")))
    *_, ended, new, told, undone = seen
    assert seen[:4] == [
        ("new", 0, False, None),
        ("open", 0, True, None),
        ("partial", 1, False, None),
        ("undone", 0, True, None),
    ]
    assert ended[1] >= 1
    assert (new[1:], told[1:]) == ((0, False, 0), (1, False, 1))
    assert undone[1:] == (0, True, 1)  # what was released stays charged


def test_a_page_is_written_before_the_first_wave_and_at_the_end_and_knows_no_truth(main: Main) -> None:
    study_file(Path("tea.toml"), WAVES + PILOT)
    for stage, file in stages(main):
        if stage not in ("new", "ended"):
            continue
        done = shown(main, "report", file, "--out", f"out/{stage}")
        page, picture = (Path(line.split(": ")[1]) for line in done.splitlines())
        assert (page.name, picture.name) == ("green-tea-results.html", "green-tea-results.png")
        text = page.read_text(encoding="utf-8")
        assert "price = " in text
        assert "profit" in text
        assert not re.search("truth|truly", text, re.IGNORECASE)
        assert picture.read_bytes().startswith(b"\x89PNG")
        if stage == "ended":
            return
    raise AssertionError("the study did not end")


def test_the_status_agrees_with_the_study(main: Main) -> None:
    tell(main, "tea.toml")
    data, study = json.loads(main("status", "tea.toml", "--json").out), Study.load("tea.json")
    assert data["summary"]["decision"] == study.best.decision
    assert data["summary"]["certified"] == study.best.regret
    assert data["summary"]["confidence"] == 0.95
    leading = [row["estimate"] for row in data["leading"]]
    assert leading == sorted(leading, reverse=True)
    assert {row["price"] for row in data["leading"]} == {
        study.problem.decisions[index]["price"] for index in study.state.active.tolist()
    }
    assert json.loads(main("status", "tea.json", "--json").out)["waves"] == data["waves"]


def test_without_answers_the_pilot_is_named(main: Main) -> None:
    assert "nobody has answered yet, and this rests on the study's assumptions alone" in main("status", "tea.toml").out
    study_file(Path("tea.toml"), WAVES + PILOT)
    assert "nobody has answered yet, and this rests on the pilot of 12 people" in main("status", "tea.toml").out


def test_a_study_that_ends_unasked_does_not_speak_of_the_best(main: Main) -> None:
    study_file(Path("tea.toml"), (WAVES + PILOT).replace("horizon = 500", "horizon = 5"))
    said = main("ask", "tea.toml").out
    assert said.startswith("use: price = 2")
    assert "note: nobody has answered yet, and this rests on the pilot of 12 people" in said
    assert "nothing is left to ask: asking people does not pay" in said
    assert "best: " not in said
    assert "best so far" not in said
    assert "certified: not certified yet (nobody was asked)" in said


@pytest.mark.parametrize("command", [("tell", "tea.toml", "tea.toml"), ("undo", "tea.toml"), ("status", "tea.toml")])
def test_only_asking_begins_a_study(main: Main, command: tuple[str, ...]) -> None:
    main(*command)
    assert not Path("tea.json").exists()


def test_a_changed_horizon_is_noted_and_left_to_the_next_question(main: Main) -> None:
    ask(main, "tea.toml")
    study_file(Path("tea.toml"), WAVES.replace("horizon = 500", "horizon = 700"))
    shown(main, "status", "tea.toml")
    assert (
        main("status", "tea.toml").err == "note: tea.toml now has 700 rounds instead of 500; the next ask takes that\n"
    )
    assert "the study now has 700 rounds instead of 500" in main("ask", "tea.toml").err
    assert main("status", "tea.toml").err == ""


def test_the_strata_of_an_open_question_are_shown(main: Main) -> None:
    study_file(Path("tea.toml"), WAVES + "\n[strata]\nyoung = 0.4\nold = 0.6\n")
    question = ask(main, "tea.toml")
    assert json.loads(shown(main, "status", "tea.toml", "--json"))["question"] == question
    assert set(question["strata"]) == {"young", "old"}
    assert f"{question['strata']['young']} of young" in shown(main, "status", "tea.toml")


def test_exports_hold_the_tables(main: Main) -> None:
    tell(main, "tea.toml")
    course = Study.load("tea.json").course
    for table, rows in (("decisions", decision_rows(course)), ("answers", answer_rows(course))):
        assert main("export", "tea.toml", "--table", table, "--out", f"{table}-of-tea.csv").code == 0
        with Path(f"{table}-of-tea.csv").open(newline="") as file:
            read = list(csv.DictReader(file))
        assert [list(row) for row in read] == [list(row) for row in rows]
        assert [row["price"] for row in read] == [str(row["price"]) for row in rows]
    main("export", "tea.toml", "--out", "all.json")
    data = json.loads(Path("all.json").read_text())
    assert list(data) == ["summary", "decisions", "waves", "answers"]
    assert data["answers"] == answer_rows(course)


def test_nobody_s_name_is_exported(main: Main) -> None:
    tell(main, "private.toml")
    assert "p1-3" in Path("private.json").read_text()
    main("export", "private.toml", "--out", "all.json")
    assert "p1-3" not in Path("all.json").read_text() + main("status", "private.toml", "--json").out


def test_a_file_is_replaced_only_on_request(main: Main) -> None:
    Path("x.csv").write_text("mine")
    done = main("export", "tea.toml", "--out", "x.csv")
    assert (done.code, "--force" in done.err, Path("x.csv").read_text()) == (2, True, "mine")
    assert main("export", "tea.toml", "--out", "x.csv", "--force").code == 0
    assert Path("x.csv").read_text().startswith("price,estimate")


@pytest.mark.parametrize("begun", [False, True])
def test_an_export_never_replaces_the_study_itself(main: Main, begun: bool) -> None:
    if begun:
        ask(main, "tea.toml")
    before = contents()
    done = main("export", "tea.toml", "--out", "./tea.json", "--force")
    assert (done.code, "where the study is kept" in done.err) == (2, True)
    assert contents() == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["export", "tea.toml", "--out", "x.xlsx"], "must end in .csv, .json or .parquet"),
        (["export", "tea.toml", "--out", "x.json", "--table", "waves"], "leave out --table waves"),
        (["export", "tea.toml", "--table", "people"], "unknown table 'people'"),
        (["export", "tea.toml", "--out", "no/where.csv"], "nothing was changed"),
        (["status", "tea"], "name tea.toml, or give --key-file"),
        (["status", "coffee"], "check the path, or give --key-file"),
        (["report", "coffee.toml"], "cannot read 'coffee.toml'"),
        (["status", "tea.toml", "--key-file", "my.key"], "give the study's name"),
    ],
)
def test_unusable_commands_are_refused_in_one_sentence(main: Main, arguments: list[str], sentence: str) -> None:
    before = contents()
    done = main(*arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert sentence in done.err
    assert contents() == before


def test_parquet_without_pyarrow_is_refused_with_the_remedy(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = main("export", "tea.toml", "--out", "x.parquet")
    assert (done.code, "pip install 'voxpop[tables]'" in done.err) == (2, True)
    assert not Path("x.parquet").exists()


@pytest.mark.parametrize("log", [{}, {"events": [{}]}, {"events": 3}, {"events": []}])
def test_a_log_of_another_version_is_refused(main: Main, monkeypatch: pytest.MonkeyPatch, log: object) -> None:
    monkeypatch.setenv("VOXPOP_KEY", "k" * 40)
    monkeypatch.setattr(commands, "request", lambda url, key_file, method, path: log)
    done = main("status", "coffee")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "use the version that the coordinator" in done.err


def test_names_are_shown_as_they_are(main: Main) -> None:
    study_file(
        Path("tea.toml"),
        WAVES.replace("green tea", "[bold]tea[/bold]").replace("parameters.price", 'parameters."[x] price"'),
    )
    text = re.sub(r"\s+", " ", main("status", "tea.toml").out.split("[rehearsal]")[0])
    assert "[bold]tea[/bold]" in text
    assert "[x] price estimate" in text
