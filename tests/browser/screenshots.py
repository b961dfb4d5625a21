"""`make screenshots`: the pictures of docs/console.md, of studies and people that are made up for them."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import FloatRect, Page, ViewportSize, expect

from tests.browser import town as places
from tests.browser.chromium import Visit, chromium, visit
from tests.helpers_cli import ROOT
from tests.service.console.browser import patience
from tests.service.world import add_operator
from voxpop.service import logs, operators
from voxpop.service.keys import new_key
from voxpop.service.outbox.receivers import Hook, Outside, set_hook

FOLDER = ROOT / "docs/console"
DESK: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
STUDIES = (
    places.croissant,
    places.loyalty_card,
    places.rent_survey,
    places.opening_hours,
    places.reminders,
    places.espresso,
    places.tea_house,
)
COLOURS = 128  # of a picture: enough for text and lines, and a third of the bytes
ROOM = 16  # around a part of a page


def settle(page: Page) -> None:
    """Wait until everything is drawn, and take the cursor away."""
    page.evaluate("document.activeElement?.blur()")
    page.wait_for_function("[...document.querySelectorAll('[data-chart]')].every(each => each.querySelector('canvas'))")


def keep(name: str, page: Page, clip: FloatRect | None = None) -> None:
    """Take a picture of the window, or of a part of the page."""
    taken = page.screenshot(clip=clip, full_page=clip is not None)
    picture = Image.open(io.BytesIO(taken)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(FOLDER / f"{name}.png", optimize=True)


def keep_part(name: str, page: Page, first: str, last: str = "") -> None:
    """Take a picture of what is between the beginning of one part and the end of another, in full width."""
    settle(page)
    top, bottom = page.locator(first).bounding_box(), page.locator(last or first).bounding_box()
    assert top is not None
    assert bottom is not None
    begin, end = max(0.0, top["y"] - ROOM), bottom["y"] + bottom["height"] + ROOM
    keep(name, page, {"x": 0, "y": begin, "width": DESK["width"], "height": end - begin})


def unfold(page: Page) -> None:
    """Open all that is folded."""
    page.evaluate("document.querySelectorAll('details.fold').forEach(each => each.open = true)")


def of_studies(it: Visit) -> None:
    """Show the list, and the parts of a study's page."""
    page = it.page
    it.go("/")
    keep_part("studies", page, "header", "main")
    it.go("/studies/espresso")
    keep_part("study", page, "header", "#wave")
    keep_part("decisions", page, "#estimate")
    unfold(page)
    keep_part("waves", page, "#waves")
    it.go("/studies/tea-house")
    keep_part("schedule", page, "#wave")
    it.go("/studies/reminders")
    keep_part("two-parameters", page, "figure:has(.map)")
    it.go("/studies/croissant")
    keep_part("finished", page, "header", "#answer")
    unfold(page)
    keep_part("log", page, "#log")
    keep_part("export", page, "#export")
    it.go("/studies/rent-survey")
    unfold(page)
    keep_part("privacy", page, "#privacy")
    it.go("/studies/loyalty-card")
    keep_part("draft", page, "header", "#study-actions")
    it.go("/studies/espresso/people")
    keep_part("people", page, "header", "main")


def of_connections(it: Visit, town: places.Town) -> None:
    """Show how a study is connected with others."""
    town.coordinator.note("espresso", 2, "holiday week", "ada")
    ann = Hook("ann", "ann@example.org", "email", "espresso", ["study.finished"])
    set_hook(town.coordinator.database, ann, town.clock(), Outside(smtp="smtp://mail.example.org"), "ada")
    it.go("/studies/espresso/connect")
    keep_part("connections", it.page, "header", "main")


def of_a_new_study(it: Visit, folder: Path) -> None:
    """Show how a study is made from a pilot."""
    page = it.page
    it.go("/new")
    (folder / "oat-milk.csv").write_bytes(places.MANY)
    page.get_by_label("A pilot").set_input_files(folder / "oat-milk.csv")
    expect(page.get_by_role("heading", name="What the pilot says")).to_be_visible()
    keep_part("new", page, "header", "main")
    it.press("Next: decisions")
    page.wait_for_url("**/plan/decisions")
    page.get_by_text("Calendar", exact=True).click()
    keep_part("plan", page, "header", "main")
    it.press("Next: people")
    it.press("What does each promise cost?")
    expect(page.get_by_role("table").filter(has_text="What each promise costs")).to_be_visible()
    keep_part("promise", page, "header", "main")
    it.press("Next: start")
    expect(page.get_by_role("table").filter(has_text="What to expect")).to_be_visible()
    keep_part("start", page, "header", "main")


def of_the_system(it: Visit) -> None:
    """Show what concerns the whole service."""
    for name, path in {"health": "/system", "keys": "/system/access", "audit": "/system/audit"}.items():
        it.go(path)
        keep_part(name, it.page, "header", "main")


def main() -> None:
    """Take all pictures."""
    logs.set_up("error")
    FOLDER.mkdir(exist_ok=True)
    key = new_key()
    with tempfile.TemporaryDirectory() as made, patience(), chromium() as browser:
        os.chdir(made)  # so that the page about the service shows no long path
        with places.town(Path()) as it:
            add_operator(it.coordinator, "ada", key)
            add_operator(it.coordinator, "grace", new_key())
            with places.open_doors(it) as url, visit(browser, url, viewport=DESK) as desk:
                desk.sign_in(key)
                keep_part("empty", desk.page, "header", "main")
            for made_up in STUDIES:
                made_up(it)
            operators.add_key(it.coordinator.database, "eve", new_key(), it.clock(), "viewer", "espresso", "ada")
            with places.open_doors(it, background=True) as url:
                with visit(browser, url, viewport=DESK) as desk:
                    desk.go("/sign-in")
                    keep_part("sign-in", desk.page, "header", "main")
                    desk.sign_in(key)
                    of_studies(desk)
                    of_a_new_study(desk, Path(made))
                    of_the_system(desk)
                    of_connections(desk, it)
                with visit(browser, url, viewport=DESK, color_scheme="dark") as dark:
                    dark.sign_in(key, "/studies/espresso")
                    keep_part("dark", dark.page, "header", "#estimate figure >> nth=0")
                with visit(browser, url, viewport=PHONE) as phone:
                    phone.sign_in(key, "/studies/espresso")
                    settle(phone.page)
                    keep("phone", phone.page)


if __name__ == "__main__":
    main()
