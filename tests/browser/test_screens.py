"""Every screen is for everyone: with a screen reader, in the dark, on a phone, without a mouse, and to look only."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.browser.chromium import Visit, visit
from tests.browser.town import MANY, Town, espresso, history, loyalty_card, open_doors, reminders, tea_house, town
from tests.helpers_cli import STUDY
from tests.service.world import add_operator
from voxpop import Calendar
from voxpop.service import operators
from voxpop.service.keys import new_key
from voxpop.service.study.status import status_of

ADA, VIEWER = new_key(), new_key()
SCREENS = {
    "studies": "/",
    "a study": "/studies/espresso",
    "a paused study of two parameters": "/studies/reminders",
    "a draft": "/studies/loyalty-card",
    "a study with a calendar": "/studies/tea-house",
    "people": "/studies/espresso/people",
    "connections": "/studies/espresso/connect",
    "new study": "/new",
    "decisions of a new study": "/studies/loyalty-card/plan/decisions",
    "people of a new study": "/studies/loyalty-card/plan/people",
    "start of a new study": "/studies/loyalty-card/plan/rehearsal",
    "health": "/system",
    "keys and sessions": "/system/access",
    "audit trail": "/system/audit",
    "webhooks": "/system/webhooks",
    "nothing there": "/studies/nothing",
}
GRAVE = ("serious", "critical")
PHONE: ViewportSize = {"width": 360, "height": 740}
# The width after charts were drawn again: they hear of the new size before the first of the two frames.
DRAWN_WIDTH = """() => new Promise(tell => requestAnimationFrame(() => requestAnimationFrame(
    () => tell(document.documentElement.scrollWidth))))"""
MOST_HEIGHT = 3_000  # of a study's page on a phone
DESK: ViewportSize = {"width": 1280, "height": 800}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Town, str]]:
    """A town with studies, and where it is served."""
    with town(tmp_path_factory.mktemp("town")) as it:
        for settle in (espresso, reminders, loyalty_card, tea_house):
            settle(it)
        add_operator(it.coordinator, "ada", ADA)
        operators.add_key(it.coordinator.database, "eve", VIEWER, it.clock(), "viewer", "espresso")
        with open_doors(it) as url:
            yield it, url


def findings(page: Page, *rules: str) -> list[str]:
    """Return what axe finds that keeps somebody from using the page; all rules apply unless some are named."""
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found = page.evaluate("options => axe.run(options)", options)["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in GRAVE]


def colour(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def look(it: Visit, name: str) -> list[str]:
    """Look at the open page in the light, in the dark and on a phone; return what is wrong with it."""
    page = it.page
    page.set_viewport_size(DESK)
    page.emulate_media(color_scheme="light")
    page.evaluate(AXE_SCRIPT)
    wrong, light = findings(page), colour(page)
    page.emulate_media(color_scheme="dark")
    wrong += [f"{each} (dark)" for each in findings(page, "color-contrast")]
    wrong += ["it looks the same in the dark"] if colour(page) == light else []
    page.set_viewport_size(PHONE)
    page.wait_for_function("width => innerWidth === width", arg=PHONE["width"])
    width = page.evaluate(DRAWN_WIDTH)
    wrong += [f"it is {width} wide on a phone"] if width > PHONE["width"] else []
    return [f"{name}: {each}" for each in wrong]


def test_no_screen_keeps_anybody_out(browser: Browser, place: tuple[Town, str], tmp_path: Path) -> None:
    _, url = place
    with visit(browser, url, bypass_csp=True) as it:  # axe is a script, and the pages take none but their own
        it.go("/sign-in")
        wrong = look(it, "sign in")
        it.sign_in(ADA)
        for name, path in SCREENS.items():
            it.go(path)
            wrong += look(it, name)
        (tmp_path / "tea.toml").write_text(STUDY)
        it.go("/new")
        it.page.get_by_label("A pilot").set_input_files(tmp_path / "tea.toml")
        expect(it.page.get_by_role("heading", name="What the study file says")).to_be_visible()
        wrong += look(it, "a file that was read")
        it.page.set_viewport_size({"width": 390, "height": 844})
        it.go("/studies/espresso")
        height = it.page.evaluate(DRAWN_WIDTH.replace("scrollWidth", "scrollHeight"))
        wrong += [f"the overview is {height} high on a phone"] if height > MOST_HEIGHT else []
    assert wrong == []


def test_a_study_with_dates_is_made_from_a_pilot_and_a_history(
    browser: Browser, place: tuple[Town, str], tmp_path: Path
) -> None:
    it, url = place
    (tmp_path / "oat-milk.csv").write_bytes(MANY)
    (tmp_path / "profit.csv").write_bytes(history())
    with visit(browser, url, bypass_csp=True) as ada:
        page = ada.page
        ada.sign_in(ADA, "/new")
        page.get_by_label("A history of the metric").set_input_files(tmp_path / "profit.csv")
        expect(ada.notice).to_contain_text("no file was chosen")
        page.get_by_label("A pilot").set_input_files(tmp_path / "oat-milk.csv")
        expect(page.get_by_text("A weekly cycle is")).to_be_visible()
        expect(page.get_by_role("img", name="Shocks of about").locator("canvas")).to_be_visible()
        assert look(ada, "a pilot and a history") == []
        page.get_by_label("Name of the study").fill("oat-milk")
        ada.press("Next: decisions")
        page.get_by_text("Calendar", exact=True).click()
        page.get_by_label("A round is").fill("day")
        ada.press("Next: people")
        expect(page.get_by_text("“It starts on” is empty; a calendar needs it, such as 2026-03-02")).to_be_visible()
        expect(page.get_by_label("It starts on")).to_have_attribute("aria-invalid", "true")
        page.get_by_label("It starts on").fill("2026-03-02")
        page.get_by_label("Time zone").fill("Europe/Berlin")
        ada.press("Next: people")
        ada.press("Next: start")
        expect(page.get_by_role("columnheader", name="Asked until")).to_be_visible()
        assert look(ada, "plan of a study with dates") == []
        ada.press("Save as a draft")
        page.wait_for_url(url + "/studies/oat-milk")
    made = it.coordinator.snapshots.current("oat-milk")
    assert made.calendar == Calendar("day", "2026-03-02", "Europe/Berlin")
    assert made.problem.shock_std > 0.1


def test_the_schedule_of_a_wave_can_be_taken(browser: Browser, place: tuple[Town, str]) -> None:
    with visit(browser, place[1], accept_downloads=True) as ada:
        ada.sign_in(ADA, "/studies/tea-house")
        wave = ada.page.locator("#wave")
        expect(wave).to_contain_text("time of Europe/Berlin; people then have until")
        for name, ending, begins in (("CSV", "csv", b"round,from,until,"), ("iCalendar", "ics", b"BEGIN:VCALENDAR")):
            with ada.page.expect_download() as taken:
                wave.get_by_role("link", name=f"Schedule ({name})").click()
            assert taken.value.suggested_filename == f"tea-house-schedule.{ending}"
            assert taken.value.path().read_bytes().startswith(begins)
        assert ada.said == []


# The words on what has the focus, or the label of a field.
FOCUSED = """() => { const it = document.activeElement, label = it.labels && it.labels[0];
    return ((label || it).innerText || '').trim(); }"""


def tab_to(page: Page, name: str) -> None:
    """Press the tabulator until something with this name has the focus."""
    for _ in range(300):  # what the stream brings may take the focus away on the way
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED) == name:
            return
    raise AssertionError(f"the tabulator does not lead to {name!r}")


def sign_in(sitting: Visit) -> None:
    """Sign in with the keyboard alone; the field for the key has the focus as the page opens."""
    sitting.go()
    expect(sitting.page.get_by_label("Your key")).to_be_focused()
    sitting.page.keyboard.type(ADA)
    sitting.page.keyboard.press("Enter")
    sitting.page.wait_for_url(sitting.url + "/")


def test_signing_in_and_pausing_need_no_mouse(browser: Browser, place: tuple[Town, str]) -> None:
    it, url = place
    with visit(browser, url) as sitting:
        page, keyboard = sitting.page, sitting.page.keyboard
        sign_in(sitting)
        tab_to(page, "espresso")
        keyboard.press("Enter")
        page.wait_for_url(url + "/studies/espresso")
        for button, life, state in (("Pause", "paused", "paused"), ("Resume", "running", "collecting")):
            tab_to(page, button)
            with page.expect_navigation():  # the stream may bring the badge earlier, and the new page takes the focus
                keyboard.press("Enter")
            expect(page.locator(".badge").first).to_have_text(state)
            assert status_of(it.coordinator.context, "espresso").life == life


def test_a_study_is_made_and_started_without_a_mouse(browser: Browser, place: tuple[Town, str], tmp_path: Path) -> None:
    """Nothing is clicked: fields, what is folded, choices, a mistake and its field, and the dialogue for the file."""
    it, url = place
    (tmp_path / "chai.csv").write_bytes(MANY)
    with visit(browser, url) as sitting:
        page, keyboard = sitting.page, sitting.page.keyboard
        page.on("filechooser", lambda dialogue: dialogue.set_files(tmp_path / "chai.csv"))  # which is no page
        sign_in(sitting)
        tab_to(page, "New study")
        keyboard.press("Enter")
        page.wait_for_url(url + "/new")
        tab_to(page, "A pilot (CSV) or a study file (TOML)")
        keyboard.press("Enter")
        expect(page.get_by_role("heading", name="What the pilot says")).to_be_visible()
        tab_to(page, "person")
        keyboard.press("l")  # chooses “leave out” in a dropdown
        expect(page.locator("#error")).to_contain_text("Nothing was stored, and the file is still chosen")
        tab_to(page, "person")
        keyboard.press("p")
        expect(page.get_by_role("heading", name="What the pilot says")).to_be_visible()
        tab_to(page, "Name of the study")
        keyboard.press("Control+a")
        keyboard.type("chai")
        tab_to(page, "Next: decisions")
        keyboard.press("Enter")
        page.wait_for_url(url + "/studies/chai/plan/decisions")
        tab_to(page, "Rounds")
        keyboard.press("Control+a")
        keyboard.type("many")
        keyboard.press("Enter")  # sends the form, as in every form; the mistake gets the focus
        expect(page.get_by_label("Rounds", exact=True)).to_be_focused()
        expect(page.get_by_label("Rounds", exact=True)).to_have_attribute("aria-invalid", "true")
        keyboard.press("Control+a")
        keyboard.type("5000")
        tab_to(page, "Money")
        keyboard.press("Enter")  # unfolds
        tab_to(page, "Next: people")
        keyboard.press("Enter")
        page.wait_for_url(url + "/studies/chai/plan/people")
        tab_to(page, "none")
        keyboard.press("ArrowDown")
        assert page.get_by_label("central", exact=True).is_checked()
        keyboard.press("ArrowUp")
        tab_to(page, "Next: start")
        keyboard.press("Enter")
        page.wait_for_url(url + "/studies/chai/plan/rehearsal")
        tab_to(page, "Start the study")
        keyboard.press("Enter")
        page.wait_for_url(url + "/studies/chai")
        assert status_of(it.coordinator.context, "chai").life == "running"
        assert it.coordinator.snapshots.current("chai").definition.problem.horizon == 5000
        assert sitting.said == [error for error in sitting.said if "422" in error]


def test_a_viewer_sees_one_study_and_no_buttons(browser: Browser, place: tuple[Town, str]) -> None:
    _, url = place
    with visit(browser, url) as eve:
        page = eve.page
        eve.sign_in(VIEWER)
        expect(page.get_by_role("rowheader")).to_have_text(["espresso"])
        expect(page.get_by_role("link", name="System")).to_have_count(0)
        expect(page.get_by_role("link", name="New study")).to_have_count(0)
        page.get_by_role("link", name="espresso").click()
        expect(page.get_by_role("button")).to_have_text(["Sign out"])
        expect(page.locator("main form")).to_have_count(0)
        for path in ("/studies/reminders", "/new", "/system", "/system/audit"):
            eve.go(path)
            expect(page.get_by_text("ask an operator")).to_be_visible()


def test_a_chart_s_key_has_no_empty_values(browser: Browser, place: tuple[Town, str]) -> None:
    with visit(browser, place[1]) as it:
        it.sign_in(ADA, "/studies/espresso")
        key = it.page.locator(".u-legend").first
        expect(key).to_contain_text("estimate")
        expect(key).not_to_contain_text("–")
        expect(key.locator("tr").first).to_be_hidden()  # the axis has no colour
