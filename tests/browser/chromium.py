"""The system's own Chromium, and pages that note what a person would not see: errors, and calls to strangers."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Locator,
    Page,
    Request,
    expect,
    sync_playwright,
)

from tests.helpers_waiting import HANGING

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
QUIET = (
    "--no-sandbox",  # it does not start as root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
WAIT = HANGING * 1000  # milliseconds until a page shows something
LONGEST = (
    HANGING + 300
)  # seconds of one test with a browser, whatever it calls: closing and scripts have no limit of their own


def _children() -> set[int]:
    return {int(pid) for each in Path("/proc/self/task").glob("*/children") for pid in each.read_text().split()}


@contextmanager
def chromium(driver: list[int] | None = None) -> Iterator[Browser]:
    """Start a browser; the process that drives it is noted in `driver`."""
    assert CHROMIUM.exists(), f"{CHROMIUM} is missing; install it with: apt-get install -y chromium"
    expect.set_options(timeout=WAIT)
    before = _children()
    with sync_playwright() as playwright:
        if driver is not None:
            driver[:] = _children() - before
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*QUIET], timeout=WAIT)
        yield browser
        if driver is None or driver:
            browser.close()


@contextmanager
def limited(driver: list[int], seconds: float = LONGEST) -> Iterator[None]:
    """End what drives the browser if this takes too long: every call that waits then fails, limit or none."""

    def end() -> None:
        while driver:
            os.kill(driver.pop(), signal.SIGKILL)

    timer = Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@dataclass
class Visit:
    """Somebody who uses one browser, with cookies and a memory of its own."""

    url: str
    context: BrowserContext
    page: Page
    said: list[str] = field(default_factory=list)  # errors and warnings, also about the content security policy
    asked: list[Request] = field(default_factory=list)

    def go(self, path: str = "/") -> None:
        """Open a page."""
        self.page.goto(self.url + path)

    def sign_in(self, key: str, path: str = "/") -> None:
        """Open a page, and sign in on the way."""
        self.go(path)
        self.page.get_by_label("Your key").fill(key)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(self.url + path)

    def press(self, name: str) -> None:
        """Press a button."""
        self.page.get_by_role("button", name=name, exact=True).click()

    @property
    def notice(self) -> Locator:
        """What the page says about something that went wrong."""
        return self.page.get_by_role("alert").filter(has_text=re.compile(r"\S"))

    @property
    def strangers(self) -> set[str]:
        """The other servers that were asked for something."""
        own = urlsplit(self.url).netloc
        return {place for request in self.asked if (place := urlsplit(request.url).netloc) not in ("", own)}


@contextmanager
def visit(browser: Browser, url: str, **settings: Any) -> Iterator[Visit]:
    """Open a window that nobody has used before."""
    context = browser.new_context(**settings)
    context.set_default_timeout(WAIT)
    it = Visit(url, context, context.new_page())

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            it.said.append(message.text)

    context.on("console", hear)
    context.on("weberror", lambda error: it.said.append(str(error.error)))
    context.on("request", lambda request: it.asked.append(request))
    try:
        yield it
    finally:
        with suppress(Error):  # of a browser that was ended
            context.close()
