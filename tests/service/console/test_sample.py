"""The empty list, the sample study that runs by itself, and what the list and the system page say of every day."""

import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.helpers_waiting import until
from tests.service.console.browser import OTHER, Browser, Desk
from tests.service.world import STUDY, Clock, definition
from voxpop.cli import app
from voxpop.service import logs
from voxpop.service.console import sample
from voxpop.service.study.status import status_of


def test_a_sample_study_runs_by_itself_until_it_is_finished(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "PAUSE", 0.05)
    monkeypatch.setattr(Clock, "__call__", lambda self: time.time())
    with desk.served(lifespan="on") as url, Browser(url) as browser:
        browser.sign_in()
        assert browser.send("/sample").headers["location"] == "/studies/sample-1"
        until(lambda: status_of(desk.coordinator.context, "sample-1").stage == "finished", "the end of the sample")
        page = browser.get("/studies/sample-1").text
    assert "Use price = " in page
    assert "This study, in all" in page


def test_a_sample_is_for_operators(viewer: Browser) -> None:
    assert viewer.send("/sample").status_code == 403


def test_the_list_says_who_made_a_study_and_is_ordered(desk: Desk, operator: Browser) -> None:
    desk.coordinator.create("a-draft", definition(), draft=True, actor="ada")
    desk.register(3)

    def order(sort: str) -> list[int]:
        page = operator.get(f"/?sort={sort}").text
        return [page.index(f'id="line-{name}"') for name in ("a-draft", OTHER, STUDY)]

    assert "ada" in operator.get("/").text
    assert order("name") == sorted(order("name"))
    assert order("nonsense") == sorted(order("nonsense"))
    people = order("people")
    assert people[2] < min(people[:2])


def test_the_system_page_says_when_the_last_backup_was_made_and_what_went_wrong(
    desk: Desk, operator: Browser, tmp_path: Path
) -> None:
    assert "none yet" in operator.get("/system").text
    out = tmp_path / "kept.backup"
    done = CliRunner().invoke(app, ["backup", "--database", str(tmp_path / "c.db"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "kept.backup" in operator.get("/system").text
    logs.fault("step", ValueError("secret"), study=STUDY)
    page = operator.get("/system").text
    assert f"step of {STUDY}: ValueError" in page
    assert "secret" not in page
