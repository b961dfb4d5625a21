"""A call of the browser that never returns fails its test, and the next test has a browser again."""

import pytest
from playwright.sync_api import Error

from tests.browser.chromium import limited, visit
from tests.browser.conftest import Kept


def test_a_script_that_never_ends_is_ended_and_the_next_browser_works(kept: Kept) -> None:
    with visit(kept.get(), "about:") as it:
        page = it.page
        with limited(kept.driver, 1.0), pytest.raises(Error, match="closed"):
            page.evaluate("() => new Promise(() => {})")
    with visit(kept.get(), "about:") as it:
        assert it.page.evaluate("1 + 1") == 2
