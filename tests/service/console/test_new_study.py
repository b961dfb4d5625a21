"""A new study from the browser: what is uploaded, what is refused with which words, and what is stored."""

import asyncio
import csv
import html
import io
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.helpers_waiting import until
from tests.service.console.browser import Browser, Desk
from tests.service.test_guardrails import of_pilot
from tests.service.world import STUDY, enrol
from voxpop.errors import InputError
from voxpop.io.studyfile import parse_study
from voxpop.model.calendar import Calendar
from voxpop.model.direction import Direction
from voxpop.service import audit
from voxpop.service.console import new_study
from voxpop.service.console.computations import MOST_WAITING, Computations, calibrated, read
from voxpop.service.console.screen import FieldRefusal
from voxpop.service.keys import Keyring
from voxpop.service.refusals import Refusal
from voxpop.service.shuffler.signed_http import HttpShuffler
from voxpop.service.study.definition import read_definition, study_text
from voxpop.service.study.status import status_of

FILE = """name = "Tea & milk"
horizon = 400
[parameters.price]
type = "float"
low = 1.0
high = 3.0
points = 5
[kernel]
type = "matern"
nu = 1.5
length_scale = [0.4]
[model]
noise_std = 0.2
bias_std = 0.2
norm_bound = 2.0
"""
SECRET_ANSWER = "7.654321"
DATED = {"calendar_round": "day", "calendar_start": "2026-03-02", "calendar_zone": "Europe/Berlin"}


def pilot_rows() -> list[list[object]]:
    rng = np.random.default_rng(0)
    rows: list[list[object]] = [["person", "price", "reward"]]
    for person in range(12):
        rows += [[f"p{person}", price, round(float(rng.normal() - (price - 3) ** 2), 3)] for price in (1, 2, 3, 4, 5)]
    rows[1][2] = SECRET_ANSWER
    return rows


def as_csv(rows: list[list[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def upload(browser: Browser, kind: str, name: str, content: bytes, **fields: str) -> httpx.Response:
    return browser.client.post("/new", data={"csrf": browser.csrf, **fields}, files={kind: (name, content)})


def sent(browser: Browser, address: str, **fields: str) -> httpx.Response:
    """Send the form of a plan, as browsers do: with the study file in it."""
    usual = {"file": "tea.toml", "text": FILE, "privacy_model": "none", "name": "milk-tea"}
    parts = {name: (None, value) for name, value in {"csrf": browser.csrf, **usual, **fields}.items()}
    return browser.client.post(address, files=parts)


def drafted(browser: Browser, step: str, text: str = FILE, name: str = "milk-tea") -> str:
    """Save a study file as a draft, and return a step of its plan."""
    fields = {"csrf": browser.csrf, "file": "tea.toml", "text": text, "name": name, "then": step}
    answer = browser.client.post("/new/study", files={key: (None, value) for key, value in fields.items()})
    assert answer.headers["location"] == f"/studies/{name}/plan/{step}"
    return browser.get(answer.headers["location"]).text


def studies(desk: Desk) -> list[str]:
    return [name for name in desk.coordinator.studies() if name not in (STUDY, "coffee")]


def test_a_pilot_is_read_and_explained_and_nothing_of_it_is_stored(
    desk: Desk, operator: Browser, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = " ".join(operator.get("/new").text.split())
    assert "a pilot that is read here promises its people nothing" in asked
    page = upload(operator, "pilot", "pilot.csv", as_csv(pilot_rows()))
    assert page.status_code == 200
    assert "12 people tried 5 decisions" in page.text
    assert "price: number from 1 to 5" in page.text
    assert "personal deviation v" in page.text
    assert studies(desk) == []
    said = "".join(capfd.readouterr())
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert SECRET_ANSWER not in said + page.text
    assert SECRET_ANSWER.encode() not in stored


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.csv", b"", "is empty"),
        ("blank.csv", b"\n\n", "is empty"),
        ("noise.csv", bytes(range(256)) * 20, "is no CSV file"),
        ("table.xlsx", b"PK\x03\x04" + b"x" * 100, "save the table as CSV"),
        ("words.csv", b"hello", "begins with one column"),
        ("few.csv", b"person,price\na,1\n", "has no column"),
        ("text.csv", b"person,price,reward\na,1,good\na,2,bad\n", "good"),
        ("../../etc/p.csv", b"hello", "p.csv begins"),
    ],
)
def test_what_is_no_pilot_is_refused_with_a_reason(name: str, content: bytes, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        calibrated(name, content, {})


def test_what_is_no_pilot_is_said_on_the_page(desk: Desk, operator: Browser) -> None:
    page = upload(operator, "pilot", "<b>.csv", b"hello", history_column="shop")
    assert page.status_code == 422
    assert "&lt;b&gt;.csv begins with one column" in page.text
    assert "Nothing was stored" in page.text
    assert 'value="shop"' in page.text  # what was typed is still there
    assert "<b>" not in page.text
    assert studies(desk) == []


def test_columns_are_read_as_the_operator_says() -> None:
    rows = pilot_rows()
    shops = as_csv([[*row, f"s{place % 3}" if place else "shop"] for place, row in enumerate(rows)])
    roles = {"role person": "person", "role price": "integer", "role reward": "reward"}
    found = read("p.csv", shops, {**roles, "role shop": "ignore"})
    assert found.roles == (("person", "person"), ("price", "integer"), ("reward", "reward"), ("shop", "ignore"))
    assert "ignored: shop" in found.columns
    assert "price: whole number from 1 to 5" in found.columns
    typed = new_study.typed_of(found.file, parse_study(Path(found.file), found.text))
    assert new_study.plan_of(found.file, found.text, {**typed, "points_price": "3"})[1].problem.size == 3
    other = read(
        "p.csv", as_csv(rows), {**roles, "role shop": "ignore"}
    )  # what was said of the columns of another file
    assert other.roles == (("person", "person"), ("price", "number"), ("reward", "reward"))


def test_what_cannot_be_read_is_said_with_the_roles_of_its_columns() -> None:
    named = as_csv([["who", "price", "profit"], *pilot_rows()[1:]])
    found = read("p.csv", named, {})
    assert found.roles == (("who", "number"), ("price", "number"), ("profit", "number"))
    assert "choose “people” and “answers” for those that hold it" in found.error
    roles = {"role who": "person", "role price": "log", "role profit": "reward"}
    found = read("p.csv", named, roles)
    assert (found.error, parse_study(Path(found.file), found.text)["reward"]) == ("", "profit")
    twice = read("p.csv", named, {**roles, "role price": "person"})
    assert "who and price are both “people”" in twice.error
    assert twice.blamed in ("role who", "role price")
    assert read("p.csv", b"hello", {}).blamed == "pilot"


def test_advice_names_the_form_s_fields_and_not_the_command_line_s(operator: Browser) -> None:
    found = calibrated("p.csv", as_csv(pilot_rows()), {})
    assert found.columns[-1] == "decisions: 5; price is one of 1, 2, 3, 4, 5"
    with pytest.raises(InputError, match="“leave out” for shop") as refused:
        calibrated("p.csv", as_csv([[*row, "same" if at else "shop"] for at, row in enumerate(pilot_rows())]), {})
    page = operator.get("/new").text
    assert "--" not in str(refused.value) + re.sub(r"<!--|-->|voxpop calibrate --epsilon", "", page)


def test_limits_of_the_reward_are_found_said_and_may_be_changed(desk: Desk, operator: Browser) -> None:
    yes_or_no = [[*row[:2], int(float(str(row[2])) > -2)] for row in pilot_rows()[1:]]
    table = as_csv([["person", "price", "reward"], *yes_or_no])
    found = calibrated("p.csv", table, {})
    assert found.sentences[2].endswith("If that is not so, write : under “Limits of the reward” (no limits).")
    page = upload(operator, "pilot", "p.csv", table).text
    assert "All answers are yes or no (1 or 0): no reward is below 0 or above 1" in page
    assert re.search(
        r'name="model_reward_range"[^>]* value="0:1"', drafted(operator, "decisions", found.text, "limits")
    )
    for typed, limits in (("0:1", (0.0, 1.0)), ("-1:2", (-1.0, 2.0)), (":", (-math.inf, math.inf)), ("", None)):
        name = f"tea-{len(studies(desk)) - 1}"
        fields = {"text": found.text, "horizon": "400", "name": name, "model_reward_range": typed}
        assert sent(operator, "/new/study", then="draft", **fields).status_code == 303
        problem = desk.coordinator.snapshots.current(name).definition.problem
        assert problem.limits == (limits or (-math.inf, math.inf))


def test_a_pilot_of_costs_makes_a_study_that_minimises(desk: Desk, operator: Browser) -> None:
    rows: list[list[object]] = [["person", "price", "cost"], *pilot_rows()[1:]]
    with pytest.raises(InputError, match="choose “minimize” if less of it is better"):
        calibrated("p.csv", as_csv(rows), {})
    page = upload(operator, "pilot", "p.csv", as_csv(rows), minimize="minimize").text
    assert "with a cost of about" in page
    assert '<option value="minimize" selected>' in page
    found = calibrated("p.csv", as_csv(rows), {"minimize": "minimize"})
    assert "<option selected>minimize</option>" in drafted(operator, "decisions", found.text, "tea-1")
    assert sent(operator, "/new/study", then="draft", text=found.text, horizon="400").status_code == 303
    made = desk.coordinator.snapshots.current("milk-tea").definition
    assert (made.direction, made.reward) == (Direction.MINIMIZE, "cost")
    turned = sent(operator, "/new/study", then="draft", text=found.text, direction="maximize", name="tea-2")
    assert turned.status_code == 303
    assert desk.coordinator.snapshots.current("tea-2").definition.direction is Direction.MAXIMIZE


def test_a_pilot_that_is_too_small_is_called_so() -> None:
    rows: list[list[object]] = [
        ["person", "price", "reward"],
        ["a", 1, 0.1],
        ["a", 2, 0.4],
        ["b", 1, 0.3],
        ["b", 2, 0.2],
    ]
    assert "too small: 2 people and 2 decisions" in calibrated("p.csv", as_csv(rows), {}).few
    assert calibrated("p.csv", as_csv(pilot_rows()), {}).few == ""


@pytest.mark.parametrize(
    ("typed", "prices"),
    [
        ({"values_price": "1.5, 2.5, 3.5", "decisions_only": "price < 3"}, [1.5, 2.5]),
        ({"values_price": "1,5, 2,5"}, [1.5, 2.5]),
        ({"step_price": "2"}, [1.0, 3.0, 5.0]),
        ({"points_price": "3"}, [1.0, 3.0, 5.0]),
        ({"decisions_only": "price != 2"}, [1.0, 3.0, 4.0, 5.0]),
        ({}, [1.0, 2.0, 3.0, 4.0, 5.0]),
    ],
)
def test_the_operator_says_which_decisions_exist(typed: dict[str, str], prices: list[float]) -> None:
    found = calibrated("p.csv", as_csv(pilot_rows()), {})
    shown = new_study.typed_of(found.file, parse_study(Path(found.file), found.text))
    made = new_study.plan_of(found.file, found.text, {**shown, **typed})[1]
    assert [label["price"] for label in made.problem.decisions] == prices
    text = study_text("p", made)  # a draft shows them again, and saying nothing new changes nothing
    again = new_study.typed_of("p.toml", parse_study(Path("p.toml"), text))
    assert new_study.plan_of("p.toml", text, again)[1].problem.decisions.labels == made.problem.decisions.labels


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"values_price": "1, 9"}, "values_price"),
        ({"values_price": "1, x"}, "values_price"),
        ({"values_price": "2, 2"}, "values_price"),
        ({"step_price": "-1"}, "step_price"),
        ({"step_price": "77"}, "step_price"),
        ({"points_price": "many"}, "points_price"),
        ({"decisions_only": "price > 99"}, "decisions_only"),
        ({"decisions_only": "price >"}, "decisions_only"),
        ({"decisions_only": "size > 3"}, "decisions_only"),
    ],
)
def test_a_mistake_about_decisions_is_blamed_on_its_field(typed: dict[str, str], field: str) -> None:
    found = calibrated("p.csv", as_csv(pilot_rows()), {})
    shown = new_study.typed_of(found.file, parse_study(Path(found.file), found.text))
    with pytest.raises(FieldRefusal) as refused:
        new_study.plan_of(found.file, found.text, {**shown, **typed})
    assert refused.value.field == field


def test_nothing_chosen_is_said(operator: Browser) -> None:
    assert "no file was chosen" in upload(operator, "other", "x", b"x").text


@pytest.mark.parametrize("announced", [True, False])
def test_a_file_of_200_mb_is_refused_before_it_is_read(desk: Desk, operator: Browser, announced: bool) -> None:
    token = operator.csrf
    size, part = 200 * 2**20, b"x" * 2**16
    read = 0

    def body() -> Iterator[bytes]:
        nonlocal read
        yield b'--b\r\ncontent-disposition: form-data; name="pilot"; filename="p.csv"\r\n\r\n'
        while read < size:
            read += len(part)
            yield part

    headers = {"content-type": "multipart/form-data; boundary=b", "x-voxpop-csrf": token, "accept": "text/html"}
    if announced:
        headers["content-length"] = str(size)
    try:
        answer = operator.client.post("/new", content=body(), headers=headers)
    except httpx.TransportError:  # the server may hang up while the client still sends
        pass
    else:
        assert answer.status_code == 413
        assert "larger than" in answer.text
    assert read < 2 * new_study.MOST_BODY
    assert operator.get("/new").status_code == 200
    assert studies(desk) == []


def test_a_study_file_fills_in_the_form(operator: Browser) -> None:
    more = FILE + '[policy]\ntolerance = 0.25\ndelta = 0.1\n[privacy]\nmodel = "central"\nepsilon = 2\n'
    more += "[service]\ndeadline = 7200\n"
    page = upload(operator, "pilot", "tea.toml", more.encode()).text
    page += drafted(operator, "decisions", more) + drafted(operator, "people", more, "milk-2")
    for name, value in (
        ("name", "tea-milk"),
        ("policy_tolerance", "0.25"),
        ("policy_delta", "0.1"),
        ("service_deadline", "7200"),
        ("privacy_epsilon", "2"),
        ("horizon", "400"),
    ):
        assert re.search(rf'name="{name}"[^>]* value="{re.escape(value)}"', page), name
    assert re.search(r'value="central"[^>]* checked', page)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"name = ", "not valid TOML"),
        (b"horizon = " + b"9" * 5000, "not valid TOML"),
        (b".".join([b"a"] * 3000) + b" = 1", "nested more than 20 deep"),
        (b"\xff\xfe\x00", "is no text"),
        (b"horizon = 3", "parameters"),
        (FILE.replace("noise_std = 0.2", "noise_std = -1").encode(), "noise_std"),
        (f'{FILE}[calendar]\nround = "day"\nstart = 2026-03-02\nzone = "UTC"\nshut = 1\n'.encode(), "[calendar]"),
        (f'{FILE}[calendar]\nround = "day"\nzone = "UTC"\n'.encode(), "a calendar needs it"),
    ],
)
def test_what_is_no_study_file_is_refused_on_the_page(counter: tuple[Desk, Browser], content: bytes, said: str) -> None:
    page = upload(counter[1], "pilot", "tea.toml", content)
    assert page.status_code == 422
    assert said in page.text


def test_a_study_is_saved_as_the_command_line_would_and_started_later(
    desk: Desk, operator: Browser, tmp_path: Path
) -> None:
    answer = sent(operator, "/new/study", then="draft", enrolment="come-in-please")
    assert (answer.status_code, answer.headers["location"]) == (303, "/studies/milk-tea")
    assert status_of(desk.coordinator.context, "milk-tea").life == "draft"
    file = tmp_path / "tea.toml"
    file.write_text(FILE)
    stored = desk.coordinator.log("milk-tea")[0].body
    assert stored == read_definition(file)[1].encode()
    assert operator.send("/studies/milk-tea/life", wanted="running").status_code == 303
    assert status_of(desk.coordinator.context, "milk-tea").life == "running"
    trail = [(entry.actor, entry.action) for entry in audit.trail(desk.coordinator.database, "milk-tea")]
    assert trail == [("me", "started"), ("me", "created")]
    with pytest.raises(Exception, match="enrolment"):
        enrol(desk.coordinator, "milk-tea", "k" * 40)
    assert enrol(desk.coordinator, "milk-tea", "k" * 40, "come-in-please")


def test_sending_the_form_twice_makes_one_study(desk: Desk, operator: Browser) -> None:
    for _ in range(2):
        assert sent(operator, "/new/study", then="start").status_code == 303
    assert studies(desk) == ["milk-tea"]
    changed = sent(operator, "/new/study", then="start", horizon="500")
    assert changed.status_code == 409
    assert "choose another name" in changed.text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "<script>alert(1)</script>"}, "a study&#39;s name has"),
        ({"name": ""}, "a study&#39;s name has"),
        ({"horizon": "many"}, "Rounds must be a whole number"),
        ({"horizon": "0"}, "Rounds must be"),
        ({"direction": "sideways"}, "sideways"),
        ({"model_reward_range": "1:0"}, "reward_range must be two rising numbers such as 0:1 or 0:, got &#39;1:0&#39;"),
        ({"model_reward_range": "5:9"}, "prior_mean is 0, outside of the reward_range 5:9"),
        ({"model_reward_range": "0:1", "policy_tolerance": "1"}, "a tolerance of 1 asks for nothing"),
        ({"policy_most_people": "1,5"}, "Most people must be a whole number"),
        ({"policy_most_people": "1 5"}, "Most people must be a whole number"),
        ({"policy_most_people": "20.000"}, "Most people must be a whole number"),
        ({"policy_tolerance": "1,000"}, "write 1000 or 1.000"),
        ({"policy_tolerance": "1 5"}, "such as 0.5"),
        ({"policy_tolerance": "-1"}, "Good enough must be"),
        ({"policy_delta": "1"}, "Chance of error must be"),
        ({"policy_most_numbers": "0"}, "Most numbers must be"),
        ({"policy_answer_delay": "-1"}, "Answer delay must be"),
        ({"privacy_floor": "-1"}, "Fewest people in a wave must be"),
        ({"service_deadline": "0"}, "Seconds to answer must be"),
        ({"service_rounds_per_second": "nan"}, "Rounds per second"),
        ({"privacy_model": "trustme"}, "trust model"),
        ({"privacy_model": "central", "privacy_epsilon": "0"}, "Epsilon must be"),
        ({"privacy_model": "none", "privacy_epsilon": "abc"}, "Epsilon must be a number"),
        ({"privacy_model": "shuffle"}, "no shuffler"),
        ({"privacy_model": "aggregate"}, "no helper"),
        ({"service_budget": "3"}, "needs a trust model"),
        ({"enrolment": "short"}, "8 to 128 characters"),
        ({"enrolment": "grüne-äpfel"}, "letters without accents"),
        ({"text": ""}, "there is no study"),
        ({"calendar_round": "week"}, "“It starts on” is empty; a calendar needs it, such as 2026-03-02"),
        ({**DATED, "calendar_round": "fortnight"}, "unknown calendar.round"),
        ({**DATED, "calendar_start": "2 March"}, "calendar.start must be a date such as 2026-03-02"),
        ({**DATED, "calendar_zone": "Europe/Berln"}, "did you mean &#39;Europe/Berlin&#39;?"),
        ({**DATED, "calendar_closed": "sunday, 2026-13-01"}, "calendar.closed must be a weekday or a date"),
        ({**DATED, "service_rounds_per_second": "1"}, "leave one of them out"),
    ],
)
def test_what_cannot_be_a_study_is_refused_with_a_reason(
    counter: tuple[Desk, Browser], fields: dict[str, str], said: str
) -> None:
    desk, operator = counter
    answer = sent(operator, "/new/study", then="start", **fields)
    assert 400 <= answer.status_code < 500
    assert said.lower() in answer.text.lower()
    assert "<script>alert" not in answer.text
    assert studies(desk) == []


@pytest.mark.parametrize(("model", "second"), [("shuffle", "shuffler"), ("aggregate", "helper")])
def test_a_model_with_a_second_server_can_be_chosen_where_there_is_one(
    desk: Desk, operator: Browser, model: str, second: str
) -> None:
    choice = re.compile(rf'value="{model}"[^>]* disabled')
    page = drafted(operator, "people", name="milk-1")
    assert choice.search(page)
    assert f"This service has no {second}." in page
    desk.coordinator.context.shuffler = HttpShuffler("http://127.0.0.1:1", Keyring.of(b""), "http://127.0.0.1:1")
    assert not choice.search(operator.get("/studies/milk-1/plan/people").text)
    assert sent(operator, "/new/study", then="draft", privacy_model=model, privacy_epsilon="5").status_code == 303
    assert desk.coordinator.snapshots.current("milk-tea").definition.privacy.model == model


def test_a_study_that_would_ask_nobody_is_not_started_but_can_be_saved(desk: Desk, operator: Browser) -> None:
    answer = sent(operator, "/new/study", then="start", policy_answer_cost="1000000")
    assert answer.status_code == 422
    assert "Nobody would be asked, and the study would end at once: asking people does not pay" in answer.text
    assert studies(desk) == []
    assert sent(operator, "/new/study", then="draft", policy_answer_cost="1000000").status_code == 303
    assert studies(desk) == ["milk-tea"]


def test_what_is_typed_takes_the_place_of_what_the_file_says(desk: Desk, operator: Browser) -> None:
    fields = {
        "policy_tolerance": "0,5",
        "policy_most_people": "1,000",
        "policy_most_numbers": "9 000",
        "policy_answer_delay": "20",
        "policy_delta": "0.1",
        "service_deadline": "7200",
        "privacy_model": "central",
        "privacy_epsilon": "2",
        "reward": "profit",
    }
    assert sent(operator, "/new/study", then="draft", **fields).status_code == 303
    made = desk.coordinator.snapshots.current("milk-tea").definition
    settings = made.policy.settings()
    assert (settings["tolerance"], settings["most_people"], settings["delta"]) == (0.5, 1000, 0.1)
    assert (settings["most_numbers"], settings["answer_delay"]) == (9000, 20)
    assert (made.rules.deadline, made.reward) == (7200.0, "profit")
    assert made.privacy.budget is not None
    assert made.privacy.budget.epsilon == 2


def test_a_plan_that_is_read_and_not_changed_stays_the_same() -> None:
    full = FILE + '[policy]\nname = "waves"\nmost_numbers = 77\ntolerance = 0.25\n[service]\nbudget = 5.0\n'
    full += '[calendar]\nround = "week"\nstart = "2026-03-02"\nzone = "UTC"\nclosed = ["sunday", "2026-12-24"]\n'
    full += '[privacy]\nmodel = "central"\nepsilon = 5.0\ndelta = 1e-07\nfloor = 9\n'
    tables = parse_study(Path("tea.toml"), full)
    assert new_study.entered(tables, new_study.typed_of("tea.toml", tables)) == tables


def test_a_calendar_is_typed_and_may_be_emptied(desk: Desk, operator: Browser) -> None:
    assert sent(operator, "/new/study", then="draft", **DATED, calendar_closed="Sunday, 2026-12-24").status_code == 303
    made = desk.coordinator.snapshots.current("milk-tea").calendar
    assert made == Calendar("day", "2026-03-02", "Europe/Berlin", ("sunday", "2026-12-24"))
    dated = FILE + '[calendar]\nround = "week"\nstart = 2026-03-02\nzone = "UTC"\n'  # a date, and no text
    page = drafted(operator, "decisions", dated, "dated")
    assert re.search(r'name="calendar_start" value="2026-03-02"', page)
    assert '<option value="Europe/Berlin">' in page
    empty = dict.fromkeys((*DATED, "calendar_closed"), "")
    assert sent(operator, "/new/study", then="draft", text=dated, **empty).status_code == 303
    assert desk.coordinator.snapshots.current("milk-tea").calendar is None


def test_a_mistake_in_the_calendar_is_shown_at_its_field(operator: Browser) -> None:
    drafted(operator, "decisions")
    for fields, blamed in (({"calendar_zone": "UTC"}, "round"), ({**DATED, "calendar_zone": "Mars"}, "zone")):
        files = {name: (None, value) for name, value in {"text": FILE, "privacy_model": "none", **fields}.items()}
        headers = {"hx-request": "true", "x-voxpop-csrf": operator.csrf}
        part = operator.client.post("/studies/milk-tea/rehearsal", files=files, headers=headers)
        assert f'data-field="calendar_{blamed}"' in part.text


def history(days: int = 70) -> bytes:
    """Write the profit of days with a weekly cycle and shocks of about 0.3."""
    rng, first = np.random.default_rng(2), date(2026, 1, 5)
    told = -2 + 0.5 * np.sin(2 * np.pi * np.arange(days) / 7) + rng.normal(0, 0.3, days)
    rows = [[str(first + timedelta(day)), round(value, 3)] for day, value in enumerate(told.tolist())]
    return as_csv([["date", "profit"], *rows])


def uploaded(browser: Browser, told: bytes, **fields: str) -> httpx.Response:
    files = {"pilot": ("pilot.csv", as_csv(pilot_rows()[:1] + pilot_rows()[2:])), "history": ("metric.csv", told)}
    return browser.client.post("/new", data={"csrf": browser.csrf, **fields}, files=files)


def test_a_history_says_how_much_a_round_moves_everybody(desk: Desk, operator: Browser) -> None:
    page = uploaded(operator, history())
    assert page.status_code == 200
    assert "among 10 rounds in a row" in page.text
    assert "play blocks of whole weeks" in page.text
    assert "rounds of each decision make shocks as small as people&#39;s differences" in page.text
    drawn, chart = (json.loads(html.unescape(each)) for each in re.findall(r'data-chart="([^"]*)"', page.text))
    assert drawn["title"] == "What people answered along price"
    assert drawn["x"] == [1, 2, 3, 4, 5]
    assert [each["role"] for each in chart["series"]] == ["likely", "likely", "estimate", "loss"]
    assert len(chart["x"]) == len(chart["series"][2]["values"]) == 70
    text = html.unescape(re.findall(r"<textarea[^>]*>([^<]*)", page.text)[0])
    model = parse_study(Path("pilot.toml"), text)["model"]
    assert 0.2 < model["shock_std"] < 0.6
    assert model["shock_freedom"] > 10
    without = upload(operator, "pilot", "pilot.csv", as_csv(pilot_rows())).text
    assert "a history of the metric shows them" in without
    assert "--history" not in without
    assert without.count("data-chart") == 1
    for told, said in (
        (b"day,profit\n1,2\n", "metric.csv: a history needs"),
        (b"1" * (2**20 + 1), "larger than 1 MiB"),
    ):
        refused = uploaded(operator, told)
        assert (refused.status_code, said in refused.text) == (422, True)


@pytest.mark.parametrize(
    ("file", "told", "column", "said"),
    [
        ("../metric.csv", b"day,profit\n1,2\n", "", "metric.csv: a history needs at least 14 rounds"),
        ("metric.csv", b"", "", "metric.csv is empty"),
        ("metric.csv", bytes(range(256)) * 20, "", "metric.csv: byte 0 is not text, so it is no CSV file"),
        ("metric.csv", b"date,profit,visits\n2026-01-01,1,2\n", "", "write one under “Column of the history”"),
        ("", b"", "profit", "“Column of the history” is about a history; choose its file, or leave it empty"),
        ("metric.csv", history().replace(b"-", b"-9000"), "", "metric.csv"),
    ],
)
def test_a_history_that_cannot_be_used_is_refused(file: str, told: bytes, column: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        calibrated("pilot.csv", as_csv(pilot_rows()), {"history_column": column}, (file, told))


def test_a_policy_of_the_file_keeps_its_own_rules(operator: Browser) -> None:
    other = FILE + '[policy]\nname = "dpbe"\nalpha = 0.7\n'
    page = drafted(operator, "people", other)
    assert "rules of its own" in page
    assert 'name="policy_tolerance"' not in page
    tables = parse_study(Path("tea.toml"), other)
    typed = {**new_study.typed_of("tea.toml", tables), "policy_tolerance": "0.5"}
    assert new_study.entered(tables, typed)["policy"] == {"name": "dpbe", "alpha": 0.7}


def test_only_operators_make_studies(desk: Desk, viewer: Browser, stranger: Browser) -> None:
    assert viewer.get("/new").status_code == 403
    assert stranger.get("/new").headers["location"].startswith("/sign-in")
    for address in ("/new", "/new/study", f"/studies/{STUDY}/plan", f"/studies/{STUDY}/rehearsal"):
        token = re.search(r'name="csrf" value="([0-9a-f]{64})"', viewer.get("/").text)
        assert token is not None
        assert viewer.client.post(address, data={"csrf": token[1]}).status_code == 403
    assert studies(desk) == []


@pytest.mark.parametrize("address", ["/new", "/new/study", f"/studies/{STUDY}/plan", f"/studies/{STUDY}/rehearsal"])
def test_a_form_from_elsewhere_makes_nothing(desk: Desk, operator: Browser, address: str) -> None:
    parts = {"text": (None, FILE), "name": (None, "milk-tea"), "privacy_model": (None, "none")}
    assert operator.client.post(address, files=parts).status_code == 403
    assert operator.client.post(address, content=b"{}", headers={"content-type": "text/plain"}).status_code in (
        403,
        415,
    )
    assert studies(desk) == []


def test_reloading_the_address_of_a_form_leads_to_the_beginning(operator: Browser) -> None:
    assert operator.get("/new/study").headers["location"] == "/new"
    assert operator.get("/studies/coffee/plan").headers["location"] == "/studies/coffee/plan/decisions"


def rehearse(browser: Browser, **fields: str) -> str:
    """Ask for a rehearsal as scripts do, until it is over; return what is shown then."""
    usual = {"text": FILE, "privacy_model": "none", "name": "milk-tea", **fields}
    headers = {"hx-request": "true", "x-voxpop-csrf": browser.csrf}
    shown: list[str] = []

    def over() -> bool:
        files = {name: (None, value) for name, value in usual.items()}
        shown.append(browser.client.post("/studies/milk-tea/rehearsal", files=files, headers=headers).text)
        usual["poll"] = "yes"
        return "Rehearsing:" not in shown[-1]

    until(over, "the end of the rehearsal", pause=0.1)
    return shown[-1]


def test_a_rehearsal_says_what_to_expect(desk: Desk, operator: Browser) -> None:
    drafted(operator, "rehearsal")
    part = rehearse(operator, policy_tolerance="0.75")
    assert "nothing promised" in part
    assert "What to expect" in part
    assert "Rounds of waves" in part
    assert "Asked until" not in part
    dated = rehearse(operator, policy_tolerance="0.75", **DATED)
    assert re.search(r"<td>[0-9]+ (March|April|May) 2026</td>", dated)
    assert 'data-field=""' in rehearse(operator, privacy_model="trustme")
    assert "trustme" in rehearse(operator, privacy_model="trustme")


def test_a_rehearsal_survives_leaving_the_page_and_no_error_replaces_it(
    desk: Desk, operator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 'hx-trigger="click, load"' in drafted(operator, "rehearsal")  # nobody has asked for it yet
    answer = sent(operator, "/studies/milk-tea/rehearsal", text="")  # of the draft, without scripts
    assert answer.headers["location"] == "/studies/milk-tea/plan/rehearsal"
    until(lambda: "means of" in operator.get(answer.headers["location"]).text, "the end of the rehearsal", pause=0.1)
    assert 'hx-trigger="click"' in operator.get(answer.headers["location"]).text
    changed = sent(operator, "/studies/milk-tea/plan", text="", then="rehearsal", horizon="900")
    assert "This is about earlier settings." in operator.get(changed.headers["location"]).text
    monkeypatch.setattr(new_study, "SECONDS", 0.0)
    failed = rehearse(operator, text="", horizon="900")
    assert "There was no time to rehearse" in failed
    assert "What was found before is below." in failed
    assert "means of" in failed


def test_a_draft_is_planned_step_by_step_and_a_mistake_stays_at_its_field(desk: Desk, operator: Browser) -> None:
    page = drafted(operator, "decisions")
    assert "5 decisions" in page
    wrong = sent(
        operator, "/studies/milk-tea/plan", text="", step="decisions", then="people", horizon="abc", reward="profit"
    )
    assert wrong.status_code == 422
    field = re.search(r'<input id="horizon"[^>]*>', wrong.text)
    assert field is not None
    assert 'value="abc"' in field[0]
    assert 'aria-invalid="true"' in field[0]
    assert 'value="profit"' in wrong.text  # what was right is kept, too
    assert desk.coordinator.snapshots.current("milk-tea").definition.reward == "reward"
    right = sent(
        operator,
        "/studies/milk-tea/plan",
        text="",
        step="decisions",
        then="people",
        reward="profit",
        values_price="1, 3",
    )
    assert right.headers["location"] == "/studies/milk-tea/plan/people"
    made = desk.coordinator.snapshots.current("milk-tea").definition
    assert (made.reward, made.problem.size) == ("profit", 2)
    assert sent(operator, "/studies/milk-tea/plan", text="", step="rehearsal", then="start").status_code == 303
    assert status_of(desk.coordinator.context, "milk-tea").life == "running"
    assert operator.get("/studies/milk-tea/plan/people").headers["location"] == "/studies/milk-tea"
    assert operator.get("/studies/nothing/plan/people").status_code == 404


def test_a_study_can_be_taken_as_a_file_and_copied(desk: Desk, operator: Browser) -> None:
    drafted(operator, "people")
    text = operator.get("/studies/milk-tea/export/study.toml").text
    made = new_study.plan_of("x.toml", text, {"privacy_model": "none", "name": "x"})[1]
    assert made.encode() == desk.coordinator.snapshots.current("milk-tea").definition.encode()
    assert 'value="milk-tea-2"' in operator.get("/new?from=milk-tea").text
    for name, status in (("milk-tea", 422), ("copy", 303)):
        fields = {"text": text, "then": "decisions", "step": "pilot", "name": name, "horizon": "500"}
        assert sent(operator, "/new/study", **fields).status_code == status
    assert operator.get("/new?from=nothing").status_code == 404
    nameless = operator.get(f"/studies/{STUDY}/export/study.toml")
    assert (nameless.status_code, "no study file" in nameless.text) == (422, True)


def test_a_computation_that_takes_too_long_is_ended() -> None:
    with pytest.raises(Refusal, match="takes longer than 0 s"):
        asyncio.run(Computations(0.0).run("calibrate", file="p.csv", content="", typed={}))


def test_too_many_computations_at_once_are_refused() -> None:
    async def crowd() -> list[object]:
        busy = Computations(0.0)
        tasks = (busy.run("calibrate", file="p.csv", content="", typed={}) for _ in range(MOST_WAITING + 1))
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    found = asyncio.run(crowd())
    assert [error.status for error in found if isinstance(error, Refusal)] == [422] * MOST_WAITING + [503]


def test_a_computation_knows_no_secret_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOXPOP_SECRET", "s" * 40)
    given: dict[str, object] = {}

    async def start(*command: str, env: dict[str, str], **others: object) -> object:
        given.update(env)
        raise OSError("not now")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    with pytest.raises(OSError, match="not now"):
        asyncio.run(Computations().run("calibrate"))
    assert given
    assert not [name for name in given if name.startswith("VOXPOP_")]


def test_uploads_get_onto_no_disk(operator: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    rolled: list[object] = []
    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", rolled.append)
    page = upload(operator, "pilot", "tea.toml", FILE.encode() + b"#" * (3 * 2**20))
    assert page.status_code == 200
    assert rolled == []


def test_a_computation_ends_with_its_service_however_that_ends(tmp_path: Path) -> None:
    child, number = tmp_path / "child", tmp_path / "number"
    child.write_text(f"#!/bin/sh\necho $$ > {number}.part\nmv {number}.part {number}\nexec sleep 900\n")
    child.chmod(0o700)
    text = "import asyncio, sys; from voxpop.service.console import computations; sys.executable = sys.argv[1]; "
    text += "asyncio.run(computations.Computations(900.0).run('calibrate'))"
    service = subprocess.Popen([sys.executable, "-c", text, str(child)])
    until(number.exists, "the computation")
    service.kill()
    service.wait()
    place = Path("/proc") / number.read_text().strip() / "stat"
    until(lambda: not place.exists() or place.read_text().rpartition(")")[2].split()[0] in "ZX", "its end")


def test_a_study_file_with_guardrails_becomes_a_draft_and_its_page_says_what_is_kept(operator: Browser) -> None:
    text = study_text("tea", of_pilot())
    page = upload(operator, "pilot", "tea.toml", text.encode())
    assert page.status_code == 200
    for step in ("decisions", "people", "rehearsal"):
        assert "Save as a draft" in drafted(operator, step, text, f"tea-{step}")
    part = " ".join(html.unescape(operator.get("/studies/tea-people").text).split())
    assert "Guardrail: keeps retention at most 5 % below today's with" in part
    assert "keeps complaints at most 0.5 with" in " ".join(html.unescape(operator.get("/").text).split())
    assert operator.get("/studies/tea-people/export/study.toml").text.count("[[guardrail]]") == 2
