"""Every screen is for everyone: with a screen reader, in the dark, on a phone, without a mouse, and to look only."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.browser.chromium import Visit, visit
from tests.browser.town import Town, espresso, loyalty_card, open_doors, reminders, town
from tests.helpers_cli import STUDY
from tests.service.world import add_operator
from voxpop.service import operators
from voxpop.service.keys import new_key
from voxpop.service.study.status import status_of

ADA, VIEWER = new_key(), new_key()
SCREENS = {
    "studies": "/",
    "a study": "/studies/espresso",
    "a paused study of two parameters": "/studies/reminders",
    "a draft": "/studies/loyalty-card",
    "people": "/studies/espresso/people",
    "new study": "/new",
    "health": "/system",
    "keys and sessions": "/system/access",
    "audit trail": "/system/audit",
    "nothing there": "/studies/nothing",
}
GRAVE = ("serious", "critical")
PHONE: ViewportSize = {"width": 360, "height": 740}
# The width after charts were drawn again: they hear of the new size before the first of the two frames.
DRAWN_WIDTH = """() => new Promise(tell => requestAnimationFrame(() => requestAnimationFrame(
    () => tell(document.documentElement.scrollWidth))))"""
DESK: ViewportSize = {"width": 1280, "height": 800}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Town, str]]:
    """A town with studies, and where it is served."""
    with town(tmp_path_factory.mktemp("town")) as it:
        for settle in (espresso, reminders, loyalty_card):
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
        it.page.get_by_label("The study file").set_input_files(tmp_path / "tea.toml")
        it.press("Read the file")
        expect(it.page.get_by_role("heading", name="New study from tea.toml")).to_be_visible()
        wrong += look(it, "plan of a new study")
    assert wrong == []


def tab_to(page: Page, name: str) -> None:
    """Press the tabulator until something with this name has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("(document.activeElement.innerText || '').trim()") == name:
            return
    raise AssertionError(f"the tabulator does not lead to {name!r}")


def test_signing_in_and_pausing_need_no_mouse(browser: Browser, place: tuple[Town, str]) -> None:
    it, url = place
    with visit(browser, url) as sitting:
        page, keyboard = sitting.page, sitting.page.keyboard
        sitting.go()
        keyboard.type(ADA)  # the field for it has the focus
        keyboard.press("Enter")
        page.wait_for_url(url + "/")
        tab_to(page, "espresso")
        keyboard.press("Enter")
        page.wait_for_url(url + "/studies/espresso")
        for button, life, state in (("Pause", "paused", "paused"), ("Resume", "running", "collecting")):
            tab_to(page, button)
            with page.expect_navigation():  # the stream may bring the badge earlier, and the new page takes the focus
                keyboard.press("Enter")
            expect(page.locator(".badge").first).to_have_text(state)
            assert status_of(it.coordinator.context, "espresso").life == life


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
