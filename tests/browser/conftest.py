"""One browser for all tests here; it ends before other tests begin, which may need an event loop of their own."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import chromium
from tests.service.console.browser import patience


@pytest.fixture(scope="package", autouse=True)
def _patience() -> Iterator[None]:
    with patience():
        yield


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    with chromium() as started:
        yield started
