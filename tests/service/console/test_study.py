"""The page of a study over HTTP: who sees and does what, and files that equal those of the command line."""

import html
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.service.console.browser import KEY, OTHER, Browser, Desk
from tests.service.world import STUDY, World, definition, take_step
from voxpop import Choice, Problem, Space, SquaredExponential
from voxpop.cli import app
from voxpop.model.calendar import Calendar
from voxpop.policies import make_policy
from voxpop.privacy import NoPrivacy
from voxpop.service import audit
from voxpop.service.keys import new_key
from voxpop.service.study import life, participants
from voxpop.service.study.definition import Definition
from voxpop.service.study.life import Wanted
from voxpop.service.study.participants import Newcomer
from voxpop.service.study.status import status_of

PAGE = f"/studies/{STUDY}"


def deeds(desk: Desk, study: str = STUDY) -> list[tuple[str, str]]:
    return [(entry.actor, entry.action) for entry in audit.trail(desk.coordinator.database, study)]


def life_of(desk: Desk, study: str = STUDY) -> tuple[str, str]:
    status = status_of(desk.coordinator.context, study)
    return status.life, status.stage


def test_the_page_has_every_section_to_link_to(operator: Browser) -> None:
    text = operator.get(PAGE).text
    for section in ("answer", "wave", "estimate", "figures", "waves", "privacy", "log", "export"):
        assert f'id="{section}"' in text


def test_a_viewer_sees_the_study_and_no_button(operator: Browser, viewer: Browser) -> None:
    assert 'name="wanted"' in operator.get(PAGE).text
    page = viewer.get(PAGE)
    assert page.status_code == 200
    assert 'name="wanted"' not in page.text
    assert "/delete" not in page.text
    for address in ("", "/live", "/export/decisions.csv", "/events/0"):
        assert viewer.get(f"/studies/{OTHER}{address}").status_code == 403


def test_a_viewer_changes_nothing(desk: Desk, viewer: Browser) -> None:
    token = re.search(r'name="csrf" value="([0-9a-f]{64})"', viewer.get("/").text)
    assert token is not None
    for wanted in ("paused", "ended", "running", "archived"):
        assert viewer.post(f"{PAGE}/life", csrf=token[1], wanted=wanted).status_code == 403
    assert viewer.post(f"{PAGE}/delete", csrf=token[1], name=STUDY).status_code == 403
    assert life_of(desk) == ("running", "new")


@pytest.mark.parametrize("address", [f"{PAGE}/life", f"{PAGE}/delete"])
def test_a_form_without_its_token_changes_nothing(desk: Desk, operator: Browser, address: str) -> None:
    fields = {"wanted": "ended", "name": STUDY}
    assert operator.client.post(address, data=fields).status_code == 403
    assert operator.client.post(address, data={"csrf": "0" * 64, **fields}).status_code == 403
    elsewhere = {"origin": "https://evil.example"}
    with_token = {"csrf": operator.csrf, **fields}
    assert operator.client.post(address, data=with_token, headers=elsewhere).status_code == 403
    assert life_of(desk) == ("running", "new")


def test_every_button_does_what_it_says(desk: Desk, operator: Browser) -> None:
    for wanted, found in (
        ("paused", ("paused", "new")),
        ("running", ("running", "new")),
        ("ended", ("running", "finished")),
        ("archived", ("archived", "finished")),
        ("running", ("running", "finished")),
    ):
        answer = operator.send(f"{PAGE}/life", wanted=wanted, name=STUDY)
        assert (answer.status_code, answer.headers["location"]) == (303, PAGE)
        assert life_of(desk) == found
    assert operator.send(f"{PAGE}/delete", name=STUDY).headers["location"] == "/"
    assert STUDY not in desk.coordinator.studies()
    done = ["deleted", "key revoked", "unarchived", "archived", "ended", "resumed", "paused"]  # of its viewer
    assert deeds(desk)[:7] == [("me", action) for action in done]


def test_a_draft_is_started_once_by_two_operators_at_once(desk: Desk, url: str) -> None:
    desk.coordinator.create("later", definition(), draft=True)

    def press(_: int) -> int:
        with Browser(url) as browser:
            browser.sign_in(KEY)
            return browser.send("/studies/later/life", wanted="running").status_code

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(press, range(2))) == [303, 303]
    assert life_of(desk, "later") == ("running", "new")
    assert deeds(desk, "later") == [("me", "started"), ("command line", "created")]


def test_a_study_is_deleted_only_by_its_name_and_never_while_it_runs(desk: Desk, operator: Browser) -> None:
    desk.register(40)
    under_way = operator.send(f"{PAGE}/delete", name=STUDY)
    assert under_way.status_code == 409
    assert "end it first" in under_way.text
    life.change(desk.coordinator.context, STUDY, Wanted.ENDED, "me")
    for name in ("", OTHER, STUDY.upper()):
        refused = operator.send(f"{PAGE}/delete", name=name)
        assert refused.status_code == 409
        assert "nothing was deleted" in refused.text
        assert f'action="{PAGE}/delete"' in refused.text  # the form is still there
    assert STUDY in desk.coordinator.studies()


def test_what_nobody_can_want_is_refused(desk: Desk, operator: Browser) -> None:
    for wanted in ("", "gone", "<b>"):
        answer = operator.send(f"{PAGE}/life", wanted=wanted, name=STUDY)
        assert answer.status_code == 422
        assert "<b>" not in answer.text.partition("<main")[2]
    assert life_of(desk) == ("running", "new")


def test_what_is_not_there_is_said_to_be_missing(operator: Browser) -> None:
    for address in ("/studies/none", f"{PAGE}/events/77", f"{PAGE}/events/x", f"{PAGE}/export/people.csv"):
        answer = operator.get(address)
        assert (answer.status_code, "<h1>There is no such page</h1>" in answer.text) == (404, True)
    assert "openapi.json" not in operator.get("/nowhere").text


def test_names_with_markup_stay_text_and_charts_stay_json(desk: Desk, operator: Browser) -> None:
    space = Space(kind=Choice(("</script><b>x", "'\"><i>")))
    made = Problem(space.grid(), SquaredExponential(0.4), 0.2, 0.2, norm_bound=3.0, horizon=500)
    odd = Definition(made, make_policy("waves"), NoPrivacy(), reward="<em>'\" & profit")
    desk.coordinator.create("odd", odd)
    text = operator.get("/studies/odd").text
    for markup in ("</script><b>", "<i>", "<em>"):
        assert markup not in text
    assert "&lt;/script&gt;&lt;b&gt;x" in text


def test_the_numbers_of_a_chart_survive_the_page(desk: Desk, operator: Browser) -> None:
    desk.coordinator.create("odd", replace(definition(), reward="</script>'\"<i>"))
    run_wave(desk, "odd")
    text = operator.get("/studies/odd").text
    charts = [json.loads(html.unescape(found)) for found in re.findall(r'data-chart="([^"]*)"', text)]
    assert charts[0]["y_label"] == "</script>'\"<i>"
    assert all(len(series["values"]) == len(chart["x"]) for chart in charts for series in chart["series"])
    assert "<i>" not in text


def run_wave(desk: Desk, study: str = STUDY) -> None:
    """Conduct one wave of a study."""
    from tests.service import world as worlds

    it = worlds.World(desk.coordinator, desk.clock)
    known, worlds.STUDY = worlds.STUDY, study
    try:
        it.register(200)
        it.settle()
        it.play_all()
        it.settle()
        it.answer_all()
        it.settle()
    finally:
        worlds.STUDY = known


def test_a_page_calls_a_wave_a_wave_whatever_the_policy(desk: Desk, operator: Browser) -> None:
    it, said = World(desk.coordinator, desk.clock), list[str]()

    def look() -> None:
        said.extend(operator.get(place).text for place in ("/", PAGE, f"{PAGE}/people"))

    look()
    it.settle()
    look()  # it waits for people
    it.register(200)
    it.settle()
    look()
    it.play_all()
    it.settle()
    look()
    it.answer_all()
    it.settle()
    look()
    life.change(desk.coordinator.context, STUDY, Wanted.ENDED, "me")
    look()
    for text in said:
        shown = re.sub(r"<pre.*?</pre>", "", text, flags=re.DOTALL)  # the log as it is stored has names of its own
        assert not re.search("phase", shown, re.IGNORECASE)
    assert any("Waiting: wave 1 needs" in text for text in said)


def test_files_equal_those_of_the_command_line(
    desk: Desk, operator: Browser, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_wave(desk)
    monkeypatch.setenv("VOXPOP_KEY", KEY)
    for table in ("decisions", "waves", "answers"):
        out = tmp_path / f"{table}.csv"
        told = CliRunner().invoke(app, ["export", STUDY, "--url", url, "--table", table, "--out", str(out)])
        assert told.exit_code == 0, told.output
        found = operator.get(f"{PAGE}/export/{table}.csv")
        assert found.content == out.read_bytes()
        assert found.headers["content-disposition"] == f'attachment; filename="{STUDY}-{table}.csv"'
    out = tmp_path / "all.json"
    assert CliRunner().invoke(app, ["export", STUDY, "--url", url, "--out", str(out)]).exit_code == 0
    assert operator.get(f"{PAGE}/export/study.json").content == out.read_bytes()


def test_the_schedule_of_the_open_wave_is_on_the_page_and_in_two_files(desk: Desk, operator: Browser) -> None:
    made = definition(horizon=400)
    late = Calendar("day", "1970-01-10", "UTC", ["sunday"])  # a Saturday; the desk's clock stands on Monday
    desk.coordinator.create("dated", replace(made, calendar=late))
    new = [Newcomer("dated", new_key()) for _ in range(200)]
    participants.register(desk.coordinator.context, new)
    while take_step(desk.coordinator, "dated"):
        pass
    assert "people are asked in 1 day 10 hours, after 13 January 1970" in operator.get("/").text
    page = html.unescape(operator.get("/studies/dated").text)
    assert "it is played on 13 January 1970" in page
    assert '<th scope="row">3</th><td>13 January 1970</td><td>' in page
    plan = desk.coordinator.snapshots.current("dated").open_wave.plan
    told = operator.get("/studies/dated/export/schedule.csv")
    assert told.headers["content-disposition"] == 'attachment; filename="dated-schedule.csv"'
    rows = told.text.splitlines()
    assert len(rows) == plan.length + 1
    assert rows[1].startswith("3,1970-01-13T00:00:00+00:00,1970-01-14T00:00:00+00:00,")
    events = operator.get("/studies/dated/export/schedule.ics")
    assert events.headers["content-type"] == "text/calendar; charset=utf-8"
    assert "DTSTART:19700113T000000Z" in events.text
    for ending in ("csv", "ics"):
        refused = operator.get(f"{PAGE}/export/schedule.{ending}")
        assert (refused.status_code, "no open wave with a calendar" in refused.text) == (409, True)
    assert "schedule.ics" not in operator.get(PAGE).text


def test_the_report_is_one_page_about_this_study(desk: Desk, operator: Browser) -> None:
    run_wave(desk)
    found = operator.get(f"{PAGE}/export/report.html")
    assert found.status_code == 200
    assert found.headers["content-disposition"].startswith("attachment")
    assert f"<title>{STUDY}: " in found.text


def test_a_service_that_cannot_draw_says_why_there_is_no_report(
    operator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 'export/report.html" download>Report (HTML)</a>' in operator.get(PAGE).text
    monkeypatch.setattr("voxpop.service.console.studies.find_spec", lambda name: None)
    page = operator.get(PAGE).text
    assert "report.html" not in page
    assert "it needs voxpop[report]" in page


def test_an_event_is_handed_out_as_it_is_stored(desk: Desk, operator: Browser) -> None:
    found = operator.get(f"{PAGE}/events/0").json()
    assert (found["kind"], found["body"]) == ("created", desk.coordinator.log(STUDY)[0].body)


def test_the_page_is_kept_up_to_date_part_by_part(desk: Desk, operator: Browser) -> None:
    with operator.client.stream("GET", f"{PAGE}/live") as stream:
        lines = stream.iter_lines()
        first = next_message(lines)
        assert all(f'id="study-{part}"' in first for part in ("answer", "actions", "wave", "log"))
        life.change(desk.coordinator.context, STUDY, Wanted.PAUSED, "somebody else")
        second = next_message(lines)
    assert "Resume" in second
    assert "somebody else: paused" in second
    assert 'id="study-estimate"' not in second  # it looks as before, and is left alone


def next_message(lines: Iterator[str]) -> str:
    """Return the text of the next event."""
    found: list[str] = []
    for line in lines:
        if line.startswith("data:"):
            found.append(line)
        elif not line and found:
            break
    return "\n".join(found)


def test_a_study_is_ended_only_with_its_name_and_no_wave_is_closed_that_does_not_collect(
    desk: Desk, operator: Browser
) -> None:
    answer = operator.send(f"{PAGE}/life", wanted="ended", name="another")
    assert answer.status_code == 409
    assert "nothing was ended" in answer.text
    assert life_of(desk) == ("running", "new")
    for wave, status in (("1", 409), ("x", 422), ("9" * 30, 422)):
        assert operator.send(f"{PAGE}/close", wave=wave).status_code == status
