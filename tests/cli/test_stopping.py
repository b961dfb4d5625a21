"""Stopping as people think of it: a cost, a tolerance, budgets, a confidence, on the command line and in the file."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.helpers_cli import STUDY, Outcome, main_of, study_file
from voxpop.policies import policy_options
from voxpop.policies.waves import Waves

Main = Callable[..., Outcome]
OPTIONS = ["confidence" if one.name == "delta" else one.name for one in policy_options("waves") if one.panel]
WAVES = STUDY.replace('name = "dpbe"\nalpha = 0.6', 'name = "waves"').replace("horizon = 500", "horizon = 20000")
SPHERE = ("simulate", "sphere-minimum", "--size", 15, "--horizon", 4000, "--json")


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    """`voxpop ...` in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return main_of(monkeypatch)


def simulated(main: Main, *options: object) -> dict[str, Any]:
    done = main(*SPHERE, *options)
    assert (done.code, done.err) == (0, "")
    data: dict[str, Any] = json.loads(done.out)
    return data


def test_waves_are_the_default_and_need_no_settings(main: Main) -> None:
    data = simulated(main)
    assert data["policy"] == "waves"
    assert data["settings"].items() >= {"name": "waves", "answer_delay": 0, "delta": 0.05}.items()
    assert not data["settings"].keys() & {"answer_cost", "tolerance", "most_people", "most_waves", "population"}
    assert data["ended"] in ("asking more people no longer pays", "nothing else can be best")


def test_every_option_reaches_the_policy(main: Main) -> None:
    given = {one.name: one.example for one in policy_options("waves") if one.panel and one.name != "delta"}
    given |= {"confidence": 0.9, "tolerance": 0.5}
    assert sorted(given) == sorted(OPTIONS)
    del given["most_loss"]  # against today's decision, which these studies do not know
    options = [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", value)]
    expected = {name: value for name, value in given.items() if name not in ("confidence", "who")} | {"delta": 0.1}
    assert simulated(main, *options)["settings"].items() >= expected.items()
    study_file(Path("tea.toml"), WAVES)
    assert main("run", "tea.toml", "--no-report", *options).code == 0
    alone = main("run", "tea.toml", "--no-report", "--most-loss", 0.5)
    assert (alone.code, "say which decision is in force today" in alone.err) == (2, True)


@pytest.mark.parametrize("command", ["run", "simulate"])
def test_both_commands_explain_the_options(main: Main, command: str) -> None:
    said = main(command, "--help").out
    assert [name for name in OPTIONS if f"--{name.replace('_', '-')}" not in said] == []


def test_budgets_are_kept_and_named_at_the_end(main: Main) -> None:
    few = simulated(main, "--most-waves", 1)
    assert len(few["waves"]) == 1
    assert "budget of 1 wave" in few["ended"]
    poor = simulated(main, "--most-people", 15)
    assert poor["people"] == 15
    assert "15 people" in poor["ended"]
    assert simulated(main, "--most-numbers", 100)["numbers"] <= 100
    assert simulated(main, "--population", 15)["people"] == 15


def test_rounds_that_pass_while_people_answer_are_the_incumbent_s(main: Main) -> None:
    data = simulated(main, "--answer-delay", 40)
    assert {wave["rest"] for wave in data["waves"]} == {40}


def test_an_option_goes_before_the_file(main: Main, tmp_path: Path) -> None:
    study_file(tmp_path / "tea.toml", WAVES.replace('name = "waves"', 'name = "waves"\nmost_people = 15'))
    assert re.search("Asked +15 people", main("run", "tea.toml", "--no-report").out)
    done = main("run", "tea.toml", "--no-report", "--most-people", 10)
    assert re.search("Asked +10 people", done.out)
    for part in ("expected gain", "cost of answers", "Certified", "Expected loss", "95 % confidence"):
        assert part in done.out


def test_a_file_s_setting_may_be_misspelt(main: Main, tmp_path: Path) -> None:
    study_file(tmp_path / "tea.toml", WAVES.replace('name = "waves"', 'name = "waves"\nmost_persons = 60'))
    done = main("run", "tea.toml")
    assert done.code == 2
    assert "tea.toml: policy 'waves' does not take most_persons; it takes answer_cost" in done.err


def answered(tmp_path: Path, question: dict[str, Any], spread: float = 0.2) -> Path:
    """Write the answers of people to whom the price 2 is best."""
    rows = [
        f"p{question['wave']}-{person},{price},{1 - (price - 2) ** 2 + spread * ((3 * person + place) % 5 - 2)}"
        for person in range(question["people"])
        for place, price in enumerate(decision["price"] for decision in question["decisions"])
    ]
    (tmp_path / "answers.csv").write_text("person,price,reward\n" + "\n".join(rows) + "\n")
    return tmp_path / "answers.csv"


def test_ask_says_before_a_wave_what_it_expects_and_what_it_costs(main: Main, tmp_path: Path) -> None:
    study_file(tmp_path / "tea.toml", WAVES.replace('name = "waves"', 'name = "waves"\nanswer_delay = 25'))
    question = json.loads(main("ask", "tea.toml", "--json").out)
    assert question["forecast"]["gain"] > question["forecast"]["answers"] > 0
    assert question["rest"] == 25
    said = main("ask", "tea.toml").out
    assert said.startswith("wave 1: expected to bring ")
    assert " over the rounds left; answers cost " in said
    assert f"until the answers are in, use price = {question['meanwhile']['price']:g}; the study counts 25" in said


def test_tell_names_both_figures_and_says_why_it_stopped(main: Main, tmp_path: Path) -> None:
    study_file(tmp_path / "tea.toml", WAVES.replace('name = "waves"', 'name = "waves"\nmost_waves = 1\ndelta = 0.1'))
    told = main("tell", "tea.toml", answered(tmp_path, json.loads(main("ask", "tea.toml", "--json").out)))
    best, expected, loss, certified, over = told.out.splitlines()
    assert best == "best: price = 2"
    assert expected.startswith("expect: ")
    assert "(reward; likely " in expected
    assert loss.startswith("expected loss: ")
    assert " per round (what the model expects" in loss
    assert certified.startswith("certified: no other price ")
    assert ", with 90 % confidence (30 % of the answers was kept aside to check this; if the model" in certified
    assert over.startswith("nothing is left to ask: the budget of 1 wave")
    assert main("ask", "tea.toml").out == told.out
    over = json.loads(main("ask", "tea.toml", "--json").out)
    assert (over["wave"], over["ended"], over["best"]["decision"]) == (
        None,
        "the budget of 1 wave is used up",
        {"price": 2.0},
    )


def test_tell_can_be_read_by_programs(main: Main, tmp_path: Path) -> None:
    study_file(tmp_path / "tea.toml", WAVES)
    told = main("tell", "tea.toml", answered(tmp_path, json.loads(main("ask", "tea.toml", "--json").out)), "--json")
    data = json.loads(told.out)
    assert data["decision"] == {"price": 2.0}
    assert data.keys() >= {"regret", "expected_loss", "certain", "low", "high", "ended", "warning"}
    question = json.loads(main("ask", "tea.toml", "--json").out)
    assert (data["ended"] is None) == (question is not None)


def test_tell_says_what_the_model_check_found(main: Main, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study_file(tmp_path / "tea.toml", WAVES)
    answers = answered(tmp_path, json.loads(main("ask", "tea.toml", "--json").out))
    advance = Waves.advance

    def warned(*arguments: Any) -> Any:
        state, info = advance(*arguments)
        return state, replace(info, warning="people differ more than [model] says; calibrate again")

    monkeypatch.setattr(Waves, "advance", warned)
    told = main("tell", "tea.toml", answers)
    assert "model check: people differ more than [model] says; calibrate again" in told.out.splitlines()


def test_the_same_people_may_answer_in_every_wave(main: Main, tmp_path: Path) -> None:
    data = simulated(main, "--who", "everybody", "--population", 30, "--answer-cost", 0)
    assert {wave["people"] for wave in data["waves"]} == {30}
    assert len(data["waves"]) > 1
    assert (data["settings"]["who"], data["people"]) == ("everybody", 30)
    assert simulated(main, "--who", "panel", "--population", 30)["certificate_true"]
    refused = main(*SPHERE, "--who", "panel")
    assert refused.code == 2
    assert "give their number as population" in refused.err
    private = main(*SPHERE, "--who", "panel", "--population", 30, "--privacy", "central", "--epsilon", 5)
    assert private.code == 2
    assert "the central model's promise is for one answer" in private.err
    voters = main("simulate", "voters", "--who", "everybody", "--horizon", 500)  # the pilot's people are of them
    said = "944 people could be asked, about 121 decisions; 40 took part in the pilot"
    assert (voters.code, voters.out.splitlines()[0]) == (0, said)
    study_file(
        tmp_path / "tea.toml", WAVES.replace('name = "waves"', 'name = "waves"\nwho = "everybody"\npopulation = 40')
    )
    asked = main("ask", "tea.toml")
    assert asked.code == 0
    assert "then ask the 40 people who answer in every wave, for their average reward of each" in asked.out
    run = main("run", "tea.toml", "--no-report")
    assert run.code == 0
    assert re.search("Asked +40 people", run.out)
    assert "asked twice" not in run.out
    assert re.search("Who answers +the same people in every wave", run.out)
    assert "what is certified is about these very people" in run.out
