"""What people do by mistake, and what happens to them: a clear message on the page, and nothing lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser, expect

from tests.browser.chromium import Visit, visit
from tests.browser.town import HOUR, Town, open_doors, town
from tests.helpers_cli import STUDY
from tests.service.world import add_operator
from voxpop.service import audit, operators
from voxpop.service.console import screen as live
from voxpop.service.keys import new_key
from voxpop.service.stores.schema import inbox
from voxpop.service.study import life
from voxpop.service.study.life import Wanted
from voxpop.service.study.status import status_of

ADA, GRACE = new_key(), new_key()
Place = tuple[Town, str]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A town with two operators and no study."""
    with town(tmp_path) as it:
        add_operator(it.coordinator, "ada", ADA)
        add_operator(it.coordinator, "grace", GRACE)
        with open_doors(it) as url:
            yield it, url


@pytest.fixture
def ada(browser: Browser, place: Place) -> Iterator[Visit]:
    """An operator who is signed in."""
    with visit(browser, place[1]) as it:
        it.sign_in(ADA)
        yield it


def actions(it: Town, study: str) -> list[str]:
    """Return what was done to a study, the newest first."""
    return [entry.action for entry in audit.trail(it.coordinator.database, study)]


def test_a_picture_that_is_called_a_table_is_refused_on_the_page(ada: Visit, place: Place, tmp_path: Path) -> None:
    (tmp_path / "pilot.csv").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40)
    ada.go("/new")
    ada.page.get_by_label("A pilot").set_input_files(tmp_path / "pilot.csv")
    expect(ada.notice).to_contain_text("Nothing was stored")
    field = ada.page.get_by_label("A pilot")
    assert field.evaluate("field => field.files[0].name") == "pilot.csv"  # it is still there
    assert place[0].coordinator.studies() == []


def test_a_file_of_200_megabytes_is_refused_before_it_is_read(ada: Visit, place: Place, tmp_path: Path) -> None:
    with (tmp_path / "pilot.csv").open("wb") as file:
        file.truncate(200 * 2**20)
    ada.go("/new")
    field = ada.page.get_by_label("A pilot")
    field.set_input_files(tmp_path / "pilot.csv")
    ada.press("Read it")
    said = field.evaluate("field => field.validationMessage")
    assert said == "This file has 200 MiB; choose one with at most 20 MiB."
    assert ada.page.url.endswith("/new")
    assert [request.method for request in ada.asked if request.url.endswith("/new")] == ["GET"]

    field.evaluate("field => field.form.submit()")  # as a browser does in which no scripts run
    expect(ada.page.get_by_text("too large")).to_be_visible()
    assert place[0].coordinator.studies() == []


def test_a_column_that_was_read_wrongly_is_put_right_where_it_stands(ada: Visit, tmp_path: Path) -> None:
    rows = ["who,price,profit", *(f"p{at % 9},{1 + at // 9},{at % 7}" for at in range(36))]
    (tmp_path / "pilot.csv").write_text("\n".join(rows))
    ada.go("/new")
    page = ada.page
    page.get_by_label("A pilot").set_input_files(tmp_path / "pilot.csv")
    expect(ada.notice).to_contain_text("choose “people” and “answers” for those that hold it")
    page.get_by_label("who", exact=True).select_option("people")
    expect(ada.notice).to_contain_text("choose “answers” for the one that holds it")
    page.get_by_label("profit", exact=True).select_option("answers")
    expect(page.get_by_role("heading", name="What the pilot says")).to_be_visible()
    expect(page.get_by_role("img", name="What people answered along price").locator("canvas")).to_be_visible()


def test_a_name_with_markup_stays_text(ada: Visit, place: Place, tmp_path: Path) -> None:
    (tmp_path / "tea.toml").write_text(STUDY)
    ada.go("/new")
    ada.page.get_by_label("A pilot").set_input_files(tmp_path / "tea.toml")
    field = ada.page.get_by_label("Name of the study")
    field.fill("<img src=x onerror=alert(1)>")
    assert field.evaluate("field => field.validity.patternMismatch")
    field.evaluate("field => field.removeAttribute('pattern')")
    ada.press("Next: decisions")
    expect(ada.notice).to_contain_text("got '<img src=x onerror=alert(1)>'")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(ada.page.locator("img")).to_have_count(0)
    assert place[0].coordinator.studies() == []


def test_a_refusal_stands_at_its_field_and_takes_no_result_away(ada: Visit, place: Place) -> None:
    it, url = place
    it.define("tea", STUDY, draft=True)
    page = ada.page
    ada.go("/studies/tea/plan/rehearsal")
    table = page.get_by_role("table").filter(has_text="What to expect")
    expect(table).to_be_visible()
    ada.go("/studies/tea/plan/decisions")
    for label, text, said in (
        ("Rounds", "abc", "Rounds must be a whole number"),
        ("Values of price", "1, 99", "at most"),
        ("Only such decisions", "price >", "price >"),
    ):
        field = page.get_by_label(label, exact=True)
        before = field.input_value()
        field.fill(text)
        ada.press("Next: people")
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_be_focused()
        expect(page.locator(f"div:has(> #{field.get_attribute('id')}) .wrong")).to_contain_text(said)
        field.fill(before)
    page.get_by_label("Rounds", exact=True).fill("600")
    ada.press("Next: people")
    page.wait_for_url(f"{url}/studies/tea/plan/people")
    page.go_back()
    expect(page.get_by_label("Rounds", exact=True)).to_have_value("600")
    page.get_by_role("link", name="4. Start").click()
    expect(table).to_be_visible()


def test_two_operators_who_start_a_study_at_once_start_it_once(browser: Browser, ada: Visit, place: Place) -> None:
    it, url = place
    it.define("tea", STUDY, draft=True)
    with visit(browser, url) as grace:
        grace.sign_in(GRACE, "/studies/tea")
        ada.go("/studies/tea")
        for each in (ada, grace):  # neither waits for the other
            each.page.get_by_role("button", name="Start", exact=True).evaluate("it => { setTimeout(() => it.click()) }")
        for each in (ada, grace):
            expect(each.page.locator(".badge").first).to_have_text("planning")
    assert actions(it, "tea") == ["started", "created"]


def test_a_browser_left_open_over_night_must_sign_in_again(
    ada: Visit, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    it, url = place
    monkeypatch.setattr(live, "BEAT_SECONDS", 0.1)
    it.define("tea", STUDY)
    ada.go("/studies/tea")
    it.clock.now += operators.IDLE_SECONDS + HOUR
    expect(ada.notice).to_contain_text("You are no longer signed in")
    ada.press("Pause")
    expect(ada.page.get_by_role("status")).to_contain_text("Your session has ended")
    assert status_of(it.coordinator.context, "tea").life == "running"
    ada.page.get_by_label("Your key").fill(ADA)
    ada.press("Sign in")
    ada.page.wait_for_url(url + "/")


def test_a_page_that_nobody_sees_holds_no_connection(ada: Visit, place: Place) -> None:
    """Tabs that are opened in the background are hidden from the start; browsers have few connections to a server."""
    it, _ = place
    it.define("tea", STUDY)
    ada.page.add_init_script("Object.defineProperty(document, 'hidden', { get: () => !window.seen })")
    ada.asked.clear()
    ada.go("/studies/tea")
    ada.page.wait_for_load_state("networkidle")
    assert not [request for request in ada.asked if request.url.endswith("/live")]
    with ada.page.expect_request("**/live"):
        ada.page.evaluate("window.seen = true, document.dispatchEvent(new Event('visibilitychange'))")
    life.change(it.coordinator.context, "tea", Wanted.PAUSED, "grace")
    expect(ada.page.locator(".badge").first).to_have_text("paused")


def test_the_seventh_page_of_a_browser_loads(ada: Visit, place: Place) -> None:
    it, url = place
    it.define("tea", STUDY)
    pages = [ada.context.new_page() for _ in range(7)]
    for page in pages:
        page.goto(url + "/studies/tea")
        expect(page.get_by_role("heading", name="tea", exact=True)).to_be_visible()
    expect(pages[-1].get_by_role("alert")).to_contain_text("pages of this browser are kept up to date")


def test_the_cookie_of_another_server_opens_nothing(ada: Visit, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with town(tmp_path / "other") as it, open_doors(it) as url:  # of the same host, which is all that browsers look at
        add_operator(it.coordinator, "ada", ADA)
        ada.page.goto(url)
        expect(ada.page.get_by_role("status")).to_contain_text("it belongs to another server")
        assert ada.page.url == url + "/sign-in?ended"


def test_a_revoked_key_stops_working_at_once(ada: Visit, place: Place) -> None:
    it, url = place
    it.define("tea", STUDY)
    ada.page.route("**/live", lambda route: route.abort())  # so that the page does not know
    ada.go("/studies/tea")
    operators.revoke_key(it.coordinator.database, "ada", it.clock(), last=True)
    ada.press("Pause")
    expect(ada.page.get_by_role("status")).to_contain_text("its key was revoked")
    assert status_of(it.coordinator.context, "tea").life == "running"
    ada.page.get_by_label("Your key").fill(ADA)
    ada.press("Sign in")
    expect(ada.notice).to_contain_text("This key was revoked")
    assert ada.page.url == url + "/sign-in"


def test_a_study_is_not_deleted_while_people_answer(ada: Visit, place: Place) -> None:
    it, _ = place
    it.define("tea", STUDY, draft=True)
    ada.page.route("**/live", lambda route: route.abort())
    ada.go("/studies/tea")
    ada.page.get_by_text("Delete…").click()
    ada.page.get_by_label("Type tea to delete it").fill("tea")
    life.change(it.coordinator.context, "tea", Wanted.RUNNING, "grace")  # meanwhile
    it.settle("tea")
    it.join("tea", 4)
    it.play("tea")
    assert it.answer("tea", 1) == 1
    ada.press("Delete it for good")
    expect(ada.page.get_by_text("is under way, and people may be answering; end it first")).to_be_visible()
    with it.coordinator.database.read() as connection:
        kept = connection.execute(sa.select(sa.func.count()).select_from(inbox)).scalar_one()
    assert kept == 1
    ada.page.get_by_role("link", name="All studies").click()
    expect(ada.page.get_by_role("rowheader")).to_have_text(["tea"])
