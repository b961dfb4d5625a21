"""One browser for all tests here; it ends before other tests begin, which may need an event loop of their own."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, Error

from tests.browser.chromium import chromium, limited
from tests.service.console.browser import patience


@dataclass
class Kept:
    """The browser, as long as it works."""

    driver: list[int] = field(default_factory=list)
    browser: Browser | None = None
    stack: ExitStack = field(default_factory=ExitStack)

    def get(self) -> Browser:
        """Return a browser that works."""
        if self.browser is None or not self.driver:
            self.close()
            self.browser = self.stack.enter_context(chromium(self.driver))
        return self.browser

    def close(self) -> None:
        """End the browser; one whose driver was ended cannot say goodbye."""
        with suppress(Error):
            self.stack.close()
        self.browser = None


@pytest.fixture(scope="package", autouse=True)
def _patience() -> Iterator[None]:
    with patience():
        yield


@pytest.fixture(scope="package")
def kept() -> Iterator[Kept]:
    found = Kept()
    yield found
    found.close()


@pytest.fixture
def browser(kept: Kept) -> Iterator[Browser]:
    """The system's Chromium; a test in which a call never returns fails, and the next one gets another."""
    found = kept.get()
    with limited(kept.driver):
        yield found
