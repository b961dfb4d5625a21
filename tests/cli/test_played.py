"""`voxpop played`: rounds that were played otherwise, from a corrected schedule."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers_cli import Outcome, main_of
from voxpop.study.study import Study

Main = Callable[..., Outcome]
TEA = """
horizon = 5000
parameters.price = {type = "float", low = 1.0, high = 3.0, points = 9}
parameters.block = {type = "choice", options = ["a", "b"]}
kernel = {type = "squared-exponential", length_scale = 0.3}
model = {noise_std = 0.1, bias_std = 0.3, norm_bound = 1.0, shock_std = 0.2}
"""


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    monkeypatch.chdir(tmp_path)
    Path("tea.toml").write_text(TEA.replace('parameters.block = {type = "choice", options = ["a", "b"]}\n', ""))
    Path("named.toml").write_text(TEA)
    return main_of(monkeypatch)


def scheduled(main: Main, study: str = "tea.toml") -> list[dict[str, str]]:
    assert main("ask", study, "--schedule", "order.csv", "--force").code == 0
    return list(csv.DictReader(Path("order.csv").read_text().splitlines()))


def written(rows: list[dict[str, Any]]) -> str:
    with Path("played.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    return "played.csv"


def test_a_corrected_schedule_says_what_was_in_force(main: Main) -> None:
    rows = scheduled(main)
    before = json.loads(main("ask", "tea.toml", "--json").out)
    assert before["blocks"] == 2
    lost = [{**row, "price": ""} if row["block"] == "1" else row for row in rows]
    done = main("played", "tea.toml", written(lost))
    assert (done.code, done.err) == (0, "")
    after = json.loads(main("ask", "tea.toml", "--json").out)
    assert (after["over"], after["numbered"], after["people"]) == (True, [2], before["people"] // 2)
    again = scheduled(main)
    assert again[0]["price"] == ""
    assert main("ask", "tea.toml", "--template", "answers.csv").code == 0
    text = Path("answers.csv").read_text().replace(",\n", ",0.5\n")
    Path("answers.csv").write_text(text)
    assert {line.split(",")[1] for line in text.splitlines()[1:]} == {"2"}
    said = " ".join(main("status", "tea.toml").out.split())
    assert f"Played otherwise {len(rows) // 2} rounds of wave 1" in said
    assert main("tell", "tea.toml", "answers.csv").code == 0
    assert Study.load("tea.json").closed[0].people == after["people"]


def test_the_schedule_itself_changes_nothing_and_undoes_what_was_said(main: Main) -> None:
    rows = scheduled(main)
    before = main("ask", "tea.toml", "--json").out
    main("played", "tea.toml", written([{**rows[0], "price": ""}, *rows[1:]]))
    assert main("ask", "tea.toml", "--json").out != before
    assert main("played", "tea.toml", written(rows)).code == 0
    assert main("ask", "tea.toml", "--json").out == before


def test_parameters_that_are_called_like_columns_are_found(main: Main) -> None:
    rows = scheduled(main, "named.toml")
    assert "decision_block" in rows[0]
    done = main("played", "named.toml", written([{**rows[0], "price": "", "decision_block": ""}, *rows[1:]]))
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    ("correct", "said"),
    [
        (lambda rows: rows[:-1], "does not say what was in force in round"),
        (lambda rows: [*rows, rows[0]], "(round): '1' stands twice; say once what was in force"),
        (lambda rows: [{**rows[0], "price": "1.33"}, *rows[1:]], "round 1: {'price': 1.33} is not in the decision set"),
        (lambda rows: [{**row, "round": "x"} for row in rows], "(round): 'x' is not the number of a round"),
        (lambda rows: [{**row, "round": "1.5"} for row in rows], "(round): '1.5' is not the number of a round"),
        (
            lambda rows: [{**row, "price": row["price"], "round": ""} for row in rows],
            "(round) is empty; write the number of the round",
        ),
        (
            lambda rows: [{"round": row["round"], "block": "1"} for row in rows],
            "has no column price; it has round, block",
        ),
        (lambda rows: [{**row, "price": ""} for row in rows], "no cell of the column price is a number"),
        (lambda rows: [{**row, "price": "1.0"} for row in rows], "no two decisions of wave 1 were played"),
        (lambda rows: [{**rows[0], "price": "dear"}, *rows[1:]], "round 1: {'price': nan} is not in the decision set"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(main: Main, correct: Callable[[Any], Any], said: str) -> None:
    rows = scheduled(main)
    before = Path("tea.json").read_bytes()
    done = main("played", "tea.toml", written(correct(rows)))
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert said in done.err
    assert Path("tea.json").read_bytes() == before


def test_without_an_open_wave_nothing_was_played(main: Main) -> None:
    done = main("played", "tea.toml", "order.csv")
    assert (done.code, "no wave is open" in done.err) == (2, True)
