"""A person runs a whole study in a browser: no terminal, real processes, and nothing left behind in the browser."""

import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.browser.chromium import Visit, visit
from tests.helpers_cli import ENVIRONMENT, VOXPOP, Outcome, main_of, pilot_csv
from tests.helpers_waiting import until

PEOPLE = 100
Run = Callable[..., Outcome]


@dataclass(frozen=True)
class Service:
    """A coordinator in a process of its own."""

    url: str
    folder: Path
    key: str
    run: Run  # a command

    @property
    def key_file(self) -> Path:
        return self.folder / "my.key"


@contextmanager
def serving(folder: Path, run: Run) -> Iterator[Service]:
    """Run a coordinator, and make a key, as the first steps of the documentation say."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url, database = f"http://127.0.0.1:{port}", folder / "voxpop.db"
    command = [str(VOXPOP), "serve", "--database", str(database), "--port", str(port)]
    with (folder / "serve.log").open("w") as log:
        server = subprocess.Popen(command, env=ENVIRONMENT, stderr=log)
    try:
        until(lambda: is_up(url), "the coordinator's start", pause=0.05)
        run("keys", "operator", "ada", "--database", database, "--file", folder / "my.key")
        yield Service(url, folder, (folder / "my.key").read_text().strip(), run)
    finally:
        server.terminate()
        server.wait()


def is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz").is_success
    except httpx.TransportError:
        return False


def mark(page: Page) -> None:
    """Note something in the window that is gone when the page is loaded again."""
    page.evaluate("window.marked = true")


def marked(page: Page) -> bool:
    return bool(page.evaluate("window.marked === true"))


@contextmanager
def fleet(service: Service, devices: int) -> Iterator[subprocess.Popen[str]]:
    """Let simulated people take part until the study is over."""
    command = [str(VOXPOP), "fleet", "tea", "--devices", str(devices), "--url", service.url]
    command += ["--key-file", str(service.key_file)]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as people:
        try:
            yield people
        finally:
            people.terminate()


def tried(act: Callable[[], bool]) -> bool:
    """Do something on a page that changes by itself; return False if it has to be done again."""
    try:
        return act()
    except PlaywrightTimeout:
        return False


def test_a_study_is_run_from_a_pilot_to_its_export_without_a_terminal(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, main_of(monkeypatch)) as service, visit(browser, service.url, accept_downloads=True) as it:
        page, badge = it.page, it.page.locator(".badge").first
        it.sign_in(service.key)
        create_draft(it, pilot_csv(tmp_path / "tea.csv", people=6, prices=5))
        page.wait_for_url(f"{service.url}/studies/tea")
        expect(badge).to_have_text("draft")
        it.press("Start")
        expect(badge).to_have_text("waiting for people")

        mark(page)
        with fleet(service, PEOPLE) as people:
            expect(page.get_by_text(f"{PEOPLE} people are registered")).to_be_visible()
            expect(page.locator("#study-waves")).to_contain_text("wave 1")
            assert marked(page), "the page changed because it was loaded again"
            it.press("Pause")
            expect(badge).to_have_text("paused")
            it.press("Resume")
            moves = re.compile("planning|playing|collecting|waiting for people")  # devices may have asked before
            expect(badge).to_have_text(moves)
            really = page.get_by_role("button", name="End now, really", exact=True)

            def ended() -> bool:  # an update of the page may close the question again
                if badge.inner_text() != "finished" and not really.is_visible():
                    page.get_by_text("End now…").click(timeout=3_000)
                if really.is_visible():
                    page.get_by_label("Type tea to end it").fill("tea", timeout=3_000)
                    really.click(timeout=3_000)
                return badge.inner_text() == "finished"

            until(lambda: tried(ended), "the end")
            expect(badge).to_have_text("finished")
            said = people.communicate()[0]
            assert "finished: use price = " in said

        compare_export(it, service)
        leave(it, service)


def create_draft(it: Visit, pilot: Path) -> None:
    """Upload a pilot, see what it says and what a rehearsal expects, and save it as a draft."""
    page = it.page
    page.get_by_role("link", name="New study").click()
    page.get_by_label("A pilot").set_input_files(pilot)
    expect(page.get_by_role("heading", name="What the pilot says")).to_be_visible()
    it.press("Next: decisions")
    it.press("Next: people")
    page.get_by_text("When to stop asking").click()
    page.get_by_label("Good enough").fill("0.001")  # so that the study does not end by itself
    it.press("Next: start")
    # On a busy machine the seconds that a rehearsal has are too few, and the page says so.
    expect(page.locator("#rehearsal")).to_contain_text(re.compile("means of|There was no time to rehearse"))
    page.reload()  # which neither forgets nor repeats it
    expect(page.locator("#rehearsal")).to_contain_text(re.compile("means of|There was no time to rehearse"))
    it.press("Save as a draft")


@dataclass
class Hand:
    """Counts what a person clicks and fills in."""

    it: Visit
    moves: int = 0

    def press(self, name: str) -> None:
        self.moves += 1
        self.it.press(name)

    def follow(self, name: str) -> None:
        self.moves += 1
        self.it.page.get_by_role("link", name=name).click()

    def fill(self, label: str, text: str) -> None:
        self.moves += 1
        self.it.page.get_by_label(label, exact=True).fill(text)


MOST_MOVES = 25


def test_an_empty_service_has_a_running_study_after_a_few_moves(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, main_of(monkeypatch)) as service, visit(browser, service.url) as it:
        hand, page = Hand(it), it.page
        it.go()
        hand.fill("Your key", service.key)
        hand.press("Sign in")
        hand.follow("New study")
        page.get_by_label("A pilot").set_input_files(pilot_csv(tmp_path / "tea.csv", people=6, prices=5))
        hand.moves += 1
        hand.fill("Name of the study", "tea")
        hand.press("Next: decisions")
        hand.fill("Rounds", "5000")
        hand.fill("What the reward is called", "profit")
        hand.press("Next: people")
        hand.press("Next: start")
        hand.press("Start the study")
        page.wait_for_url(f"{service.url}/studies/tea")
        expect(page.locator(".badge").first).to_have_text(re.compile("planning|waiting for people"))
        assert hand.moves <= MOST_MOVES
        assert it.said == []


def compare_export(it: Visit, service: Service) -> None:
    """Take the table of decisions; it is the same that the command line makes."""
    it.page.get_by_role("heading", name="Files").click()
    with it.page.expect_download() as taken:
        it.page.get_by_role("link", name="Decisions (CSV)").click()
    file = service.folder / "decisions.csv"
    done = service.run("export", "tea", "--key-file", service.key_file, "--url", service.url, "--out", file)
    assert done.code == 0, done.err
    assert taken.value.suggested_filename == "tea-decisions.csv"
    assert taken.value.path().read_bytes() == file.read_bytes()


def leave(it: Visit, service: Service) -> None:
    """Look for what the browser knows, sign out, and look again."""
    page = it.page
    (cookie,) = it.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == ("voxpop", True, "Lax", "/")
    secrets = (service.key, cookie["value"])
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
    assert not [secret for secret in secrets if secret in page.content()]
    assert not [request.url for request in it.asked if any(secret in request.url for secret in secrets)]

    it.press("Sign out")
    page.wait_for_url(f"{service.url}/sign-in")
    assert it.context.cookies() == []
    page.go_back()
    page.wait_for_url(f"{service.url}/sign-in?next=/studies/tea")
    it.context.add_cookies([{"name": cookie["name"], "value": cookie["value"], "url": service.url}])
    it.go("/studies/tea")
    assert urlsplit(page.url).path == "/sign-in", "the cookie of a session that was ended is worth nothing"
    assert it.strangers == set()
    assert it.said == []
