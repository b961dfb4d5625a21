"""The device in a real browser: the same vectors, IndexedDB, several tabs, and a page reloaded while it sends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route as Served

from tests.browser.chromium import Visit, chromium, visit
from tests.clients_js.npm import SDK, bundle
from tests.service import test_http
from tests.service.served import served
from tests.service.world import STUDY, definition, private
from tests.vectors.answers import MODELS
from tests.vectors.running import FOLDER, vectors

URL = "https://app.example"
OPTIONS = {"url": URL, "study": "tea", "promise": {"model": "local", "epsilon": 8, "delta": 1e-5}}
PAGE = "<!doctype html><link rel=icon href=data:><script type=module src=page.js></script>"
NEW = f"new Device({json.dumps(OPTIONS)})"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program of the page, with the package in it, built as it is published."""
    folder = tmp_path_factory.mktemp("page")
    bundle(folder, SDK / "test/page.ts")
    return (folder / "page.js").read_text(encoding="utf-8")


@dataclass
class Site:
    """The page, and a coordinator at the same address; uploads may be left without an answer."""

    script: str
    invitation: dict[str, Any]
    uploads: list[str] = field(default_factory=list)
    registered: list[str] = field(default_factory=list)
    silent: bool = False

    def __call__(self, route: Route) -> None:
        request, name = route.request, route.request.url.rsplit("/", 1)[1]
        if name == "page":
            route.fulfill(content_type="text/html", body=PAGE)
        elif name == "page.js":
            route.fulfill(content_type="text/javascript", body=self.script)
        elif name == "participant":
            self.registered.append(request.headers["authorization"])
            route.fulfill(status=201, json={"status": "registered"})
        elif name == "checkin":
            route.fulfill(json=self.invitation)
        elif name == "report":
            self.uploads.append(str(request.post_data))
            if not self.silent:
                route.fulfill(status=201, json={"status": "counted"})
        else:
            route.fulfill(status=404)


@contextmanager
def opened(browser: Browser, script: str) -> Iterator[tuple[Site, Visit]]:
    site = Site(script, vectors("local")[0]["invitation"])
    with visit(browser, URL) as person:
        person.context.route(f"{URL}/**", site)
        load(person.page)
        yield site, person
        assert person.said == []


def load(page: Page) -> None:
    page.goto(f"{URL}/page")
    page.wait_for_function("globalThis.Device !== undefined")


def check_in(page: Page) -> str:
    return str(page.evaluate(f"{NEW}.checkIn()"))


def state(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(f"{NEW}.memory.read()")
    return found


ANSWERED = "the report was counted"


def test_the_vectors_are_right_in_a_browser(browser: Browser, script: str) -> None:
    with opened(browser, script) as (_, person):
        for model in MODELS:
            assert person.page.evaluate("cases => wrongAnswers(cases)", vectors(model)) == []
        assert person.page.evaluate("cases => wrongRefusals(cases)", vectors("refusals")) == []
        numbers = json.loads((FOLDER / "numbers.json").read_text(encoding="utf-8"))
        assert person.page.evaluate("numbers => wrongNumbers(numbers)", numbers) == []
        spoiled = [{**vectors("central")[0], "outcome": "SPENT"}]
        assert len(person.page.evaluate("cases => wrongAnswers(cases)", spoiled)) == 1


def test_a_page_that_is_reloaded_while_it_sends_makes_no_second_report(browser: Browser, script: str) -> None:
    with opened(browser, script) as (site, person):
        page = person.page
        page.evaluate(f"{NEW}.record(3, 10, 0.5)")
        site.silent = True
        with page.expect_request("**/report"):
            page.evaluate(f"void {NEW}.checkIn()")
        load(page)
        kept = state(page)
        assert kept["made"] == [3]
        assert kept["rewards"] == {"3": {"1": {"10": [1, 0.5]}}}
        assert [upload["body"] for upload in kept["outgoing"]["uploads"]] == site.uploads
        site.silent = False
        assert check_in(page) == ANSWERED
        assert len(site.uploads) == 2
        assert len(set(site.uploads)) == 1
        after = state(page)
        assert (after["made"], after["rewards"], after["outgoing"]) == ([3], {}, None)
        assert "as many reports as its promise allows" in check_in(page)
        assert len(site.uploads) == 2
        assert len(site.registered) == 1


def test_tabs_of_one_browser_are_one_device(browser: Browser, script: str) -> None:
    with opened(browser, script) as (site, person):
        tabs = [person.page, *(person.context.new_page() for _ in range(2))]
        for tab in tabs[1:]:
            load(tab)
        for tab in tabs:
            tab.evaluate(f"globalThis.done = Promise.all([1, 2].map(() => {NEW}.checkIn()))")
        outcomes = [outcome for tab in tabs for outcome in tab.evaluate("globalThis.done")]
        assert ANSWERED in outcomes
        assert len(set(site.uploads)) == 1  # however often it was sent
        assert len(set(site.registered)) == 1  # all have the same key
        assert state(person.page)["made"] == [3]


def test_people_who_clear_their_browser_are_someone_new(browser: Browser, script: str) -> None:
    with opened(browser, script) as (site, person):
        assert check_in(person.page) == ANSWERED
        first = state(person.page)["key"]
        person.page.evaluate("indexedDB.databases().then(all => all.map(({name}) => indexedDB.deleteDatabase(name)))")
        assert check_in(person.page) == ANSWERED
        assert state(person.page)["key"] != first
        assert len(set(site.registered)) == 2


def test_a_browser_without_randomness_or_storage_sends_nothing(browser: Browser, script: str) -> None:
    for missing, words in (("crypto", "no secure randomness"), ("indexedDB", "no IndexedDB")):
        with opened(browser, script) as (site, person):
            hide = f"Object.defineProperty(globalThis, '{missing}', {{ value: undefined }})"
            said = person.page.evaluate(
                f"() => {{ {hide}; try {{ {NEW}; }} catch (error) {{ return error.message; }} }}"
            )
            assert words in said
            assert site.uploads == site.registered == []


CROWD = """async ([url, study, people]) => {
  const promise = { model: "local", epsilon: 5 };
  return Promise.all(Array.from({ length: people }, async (_, number) => {
    const storage = new BrowserStorage(`person ${number}`);
    const device = new Device({ url, study, promise, storage, attempts: 1 });
    await device.record(1, 0, 0.25);
    const outcome = await device.checkIn();
    return Object.keys(Outcome).find((name) => Outcome[name] === outcome);
  }));
}"""


def app_of(script: str) -> Starlette:
    """Return the page as an application: a browser lets only pages of this machine call its servers."""

    def page(_: Request) -> Response:
        return HTMLResponse(PAGE)

    def program(_: Request) -> Response:
        return Response(script, media_type="text/javascript")

    return Starlette(routes=[Served("/page", page), Served("/page.js", program)])


@pytest.mark.parametrize("listed", [True, False])
def test_pages_of_a_listed_origin_take_part_in_a_real_study(
    browser: Browser, script: str, tmp_path: Path, listed: bool
) -> None:
    with served(app_of(script)) as app, visit(browser, app) as person, ExitStack() as stack:
        origins = frozenset([app if listed else "https://app.example"])
        site = stack.enter_context(closing(test_http.Site(tmp_path, model="local", origins=origins)))
        site.people = []
        site.coordinator.create(STUDY, definition(private("local")))
        person.go("/page")
        person.page.wait_for_function("globalThis.Device !== undefined")
        crowd = [str(site.client.base_url), STUDY, 14]
        if not listed:
            assert person.page.evaluate(CROWD, crowd) == ["OFFLINE"] * 14
            assert "has been blocked by CORS policy" in person.said[0]
            return
        assert person.page.evaluate(CROWD, crowd) == ["WAITING"] * 14
        site.collect()
        outcomes = person.page.evaluate(CROWD, crowd)
        assert sorted(outcomes) == ["ANSWERED"] * 12 + ["WAITING"] * 2
        site.step()
        assert site.coordinator.snapshots.current(STUDY).closed[0].feedback.count == 12
