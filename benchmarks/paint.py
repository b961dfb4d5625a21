"""The first paint of a study's page against that of a static page of the same browser: the ratio of their medians.

Run it with: python -m benchmarks.paint
"""

from __future__ import annotations

import tempfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from threading import Thread
from typing import Any

from playwright.sync_api import Page

from tests.browser import town as places
from tests.browser.chromium import chromium, visit
from tests.service.world import add_operator
from voxpop.service import logs
from voxpop.service.keys import new_key

LOADS = 15  # of each page, in turns
PAINT = """() => new Promise(tell => new PerformanceObserver(seen => tell(seen.getEntries()[0].startTime))
    .observe({type: 'paint', buffered: true}))"""
STATIC = "<!doctype html><title>Static</title><h1>A page</h1>" + "<p>Some text that is there at once.</p>" * 20


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that says nothing."""

    def log_message(self, *arguments: Any) -> None:
        """Log nothing."""


def paint(page: Page, address: str) -> float:
    """Return after how many milliseconds a page was first painted."""
    page.goto(address)
    return float(page.evaluate(PAINT))


def main() -> None:
    """Load both pages in turns, and print the medians and their ratio."""
    logs.set_up("error")
    key = new_key()
    with tempfile.TemporaryDirectory() as made, chromium() as browser, places.town(Path(made)) as it:
        (Path(made) / "static").mkdir()
        (Path(made) / "static/index.html").write_text(STATIC)
        add_operator(it.coordinator, "ada", key)
        places.espresso(it)
        handler = partial(Quiet, directory=f"{made}/static")
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, places.open_doors(it) as url:
            Thread(target=server.serve_forever, daemon=True).start()
            with visit(browser, url) as ada:
                ada.sign_in(key)
                static, study = f"http://127.0.0.1:{server.server_address[1]}/", f"{url}/studies/espresso"
                found = [(paint(ada.page, static), paint(ada.page, study)) for _ in range(LOADS)][1:]
            server.shutdown()
    plain, shown = (median(times) for times in zip(*found, strict=True))
    print(f"static {plain:.0f} ms, study {shown:.0f} ms, ratio {shown / plain:.2f}, medians of {LOADS - 1} loads")


if __name__ == "__main__":
    main()
