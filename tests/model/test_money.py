"""Money and people: totals for all people, what answers cost in the same money, and per year."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers_cli import STUDY, main_of, refusal, study_file
from voxpop import Calendar, Float, InputError, Money, Problem, Space, SquaredExponential, Study
from voxpop.io.schema import Definition
from voxpop.io.studyfile import read_study_file
from voxpop.report.stakes import stakes_of
from voxpop.report.summary import expectation, summarise
from voxpop.report.tables import wave_table
from voxpop.report.view import View
from voxpop.service.study.definition import Definition as Served
from voxpop.service.study.definition import definition_of

SHOP = Money("EUR", people=40_000, answer=0.5)
WEEKS = Calendar("week", "2026-03-02", "Europe/Berlin")


def problem(horizon: int = 104) -> Problem:
    decisions = Space(price=Float(1.0, 3.0)).grid(5)
    return Problem(decisions, SquaredExponential(0.3), noise_std=0.5, bias_std=0.3, norm_bound=1.5, horizon=horizon)


def conducted(**said: Any) -> Study:
    study = Study(problem(), **said)
    question = study.ask()
    assert question is not None
    rows = [
        [1 - (d["price"] - 2) ** 2 / 4 + 0.1 * (n % 5 - 2) for d in question.decisions] for n in range(question.people)
    ]
    study.tell(question.wave, rows)
    return study


def test_two_years_of_weeks_do_not_pay_for_one_person_and_do_for_many() -> None:
    """A gain is that of the average person and an answer is paid once."""
    assert Study(problem(8), answer_cost=0.5).ask() is None
    asked = Study(problem(8), money=SHOP)
    assert asked.ask() is not None
    assert asked.policy.settings()["answer_cost"] == pytest.approx(0.5 / 40_000)
    assert asked.policy.settings()["population"] == 40_000


def test_gains_costs_and_losses_are_those_of_all_people() -> None:
    study = conducted(money=SHOP, calendar=WEEKS)
    course, plan = study.course, study.closed[0].plan
    assert plan.forecast is not None
    priced = course.forecast(plan)
    assert priced is not None
    assert priced.gain == 40_000 * plan.forecast.gain
    assert priced.answers == 0.5 * plan.numbers  # what is paid, not what the policy counts
    plain, shown = stakes_of(course), View(course).stakes
    assert plain is not None
    assert shown is not None
    assert shown.trying == 40_000 * plain.trying
    assert shown.answers == 0.5 * course.numbers
    lines = {line.name: line for line in summarise(course)}
    loss = study.best.expected_loss
    assert loss is not None
    assert lines["Expected loss"].value == f"{SHOP.total(loss * WEEKS.yearly(104))} a year"
    assert lines["Asking cost"].value == SHOP.said(shown.asking)
    assert "EUR" in lines["Guessing would cost"].value
    assert "expected gain (EUR)" in wave_table(course).headings
    assert " EUR over the rounds left" in expectation(priced, SHOP)
    assert course.unit == "EUR"
    for name in ("cost", "stakes"):
        assert "EUR" in str([ax.get_xlabel() + ax.get_ylabel() for ax in study.plot(name).axes])


def test_without_a_calendar_a_loss_is_per_round_and_without_a_price_the_policy_s() -> None:
    study = conducted(money=Money("EUR", 40_000))
    lines = {line.name: line.value for line in summarise(study.course)}
    assert lines["Expected loss"].endswith(" EUR per round")
    plan = study.closed[0].plan
    priced = study.course.forecast(plan)
    assert plan.forecast is not None
    assert priced is not None
    assert priced.answers == 40_000 * plan.forecast.answers


def test_a_study_without_money_says_what_it_said() -> None:
    study = conducted()
    assert study.money is None
    assert study.unit == study.reward
    assert all("EUR" not in line.value + line.note for line in summarise(study.course))


def test_money_is_kept(tmp_path: Path) -> None:
    Study(problem(), path=tmp_path / "study.json", money=SHOP)
    assert Study.load(tmp_path / "study.json").money == SHOP
    plain = Study(problem()).definition
    assert "money" not in plain.encode()
    assert Definition.decode(json.loads(json.dumps(Study(problem(), money=SHOP).definition.encode()))).money == SHOP


MONEY = (
    STUDY.replace('name = "dpbe"\nalpha = 0.6', 'name = "waves"')
    + '\n[money]\nunit = "EUR"\npeople = 500\nanswer = 2.0\n'
)


def test_a_study_file_may_say_it_and_the_service_keeps_it(tmp_path: Path) -> None:
    file = study_file(tmp_path / "tea.toml", MONEY)
    definition, _ = read_study_file(file)
    assert definition.money == Money("EUR", 500, 2.0)
    assert definition.policy.settings()["answer_cost"] == 2.0 / 500
    import tomllib

    served = definition_of(file, tomllib.loads(MONEY))[1]
    assert Served.decode(json.loads(json.dumps(served.encode()))).money == Money("EUR", 500, 2.0)


REFUSED = {
    "no people": ("people = 500\n", "", "lacks people; add it, such as people = 40000"),
    "no unit": ('unit = "EUR"\n', "", "lacks unit"),
    "nobody": ("people = 500", "people = 0", "money.people must be a whole number, at least 1"),
    "a blank": ('"EUR"', '" "', "money.unit must be a name"),
    "paid to ask": ("answer = 2.0", "answer = -1", "money.answer"),
    "another entry": ("answer = 2.0", "anwser = 2.0", "did you mean 'answer'"),
    "two prices": ('name = "waves"', 'name = "waves"\nanswer_cost = 0.1', "leave one of them out"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(case: str, tmp_path: Path) -> None:
    before, after, said = REFUSED[case]
    assert before in MONEY
    with pytest.raises(InputError, match=said) as caught:
        read_study_file(study_file(tmp_path / "tea.toml", MONEY.replace(before, after)))
    refusal(caught)


def test_the_command_line_writes_it_and_speaks_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    main = main_of(monkeypatch)
    study_file(tmp_path / "tea.toml", MONEY)
    asked = main("ask", "tea.toml")
    assert (asked.code, " EUR over the rounds left; answers cost " in asked.out) == (0, True), asked.err
    done = main("calibrate", "pilot.csv", "--unit", "EUR")
    assert (done.code, "money needs --unit EUR and --people N" in done.err) == (2, True)
