"""Measure when a browser paints the console's pages, and what they cost the service, with a million people registered.

    python -m benchmarks.console_paint

Needs Chromium (Debian: apt-get install chromium). Every load is by a browser that has never seen the service, so that
nothing is in its cache; the service is warm. The limit is how soon such a browser paints the few words of /healthz
from the same server. There are 100 studies with 10^6 registered people, and one of them is in its third wave.
"""

from __future__ import annotations

import gzip
import re
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import httpx
from playwright.sync_api import Browser

from benchmarks.databases import free_port
from benchmarks.service_load import process
from benchmarks.service_scale import definition, populate
from tests.browser.chromium import chromium
from tests.browser.town import HOUR, SECRET, espresso, town
from voxpop.service import logs, operators
from voxpop.service.keys import new_key

LOADS, STUDIES, PEOPLE = 20, 100, 1_000_000
PAGES = {
    "sign in": "/sign-in",
    "all studies": "/",
    "one study": "/studies/espresso",
    "its people": "/studies/espresso/people",
}
LIMIT = "/healthz"
PAINTED = """() => new Promise(tell => new PerformanceObserver(list => {
    for (const each of list.getEntries()) if (each.name === "first-contentful-paint") tell(each.startTime);
}).observe({type: "paint", buffered: true}))"""


def fill(folder: Path) -> str:
    """Create the studies and their people; return the cookie of an operator's session."""
    with town(folder) as it:
        it.clock.now = time.time() - 12 * HOUR
        espresso(it)
        for number in range(STUDIES - 1):
            it.coordinator.create(f"study-{number}", definition(50_000))
            populate(it.coordinator, f"study-{number}", PEOPLE // (STUDIES - 1))
        key = new_key()
        it.coordinator.add_operator("ada", key)
        session = operators.sign_in(it.coordinator.database, key, time.time())
        assert session is not None
        return session.cookie


def painted(browser: Browser, url: str, path: str, cookie: str) -> float:
    """Return the milliseconds until a browser that knows nothing has painted something of a page."""
    context = browser.new_context(bypass_csp=True)
    if cookie:
        context.add_cookies([{"name": "voxpop", "value": cookie, "url": url}])
    page = context.new_page()
    page.goto(url + path, wait_until="commit")
    found = float(page.evaluate(PAINTED))
    context.close()
    return found


def replied(http: httpx.Client, url: str, path: str) -> tuple[float, str]:
    """Return the milliseconds of a reply, and the page."""
    start = time.perf_counter()
    reply = http.get(url + path).raise_for_status()
    return (time.perf_counter() - start) * 1e3, reply.text


def scripts(http: httpx.Client, url: str, page: str) -> tuple[int, int]:
    """Return the bytes of the scripts of a page, and the same with gzip."""
    texts = [http.get(url + address).content for address in re.findall(r'<script src="([^"]+)"', page)]
    return sum(map(len, texts)), sum(len(gzip.compress(text, 9)) for text in texts)


def measure(url: str, cookie: str) -> None:
    with chromium() as browser, httpx.Client(cookies={"voxpop": cookie}, timeout=60) as http:
        print(f"{STUDIES} studies, {PEOPLE:,} people; medians of {LOADS} loads")
        for name, path in PAGES.items():
            given = "" if path == "/sign-in" else cookie
            times, limits, waits = [], [], []
            if given:
                replied(http, url, path)
            for _ in range(LOADS):  # in turn, so that what else the machine does concerns both
                limits.append(painted(browser, url, LIMIT, given))
                times.append(painted(browser, url, path, given))
                waits.append(replied(http, url, path)[0] if given else 0.0)
            ratio = f"{median(times) / median(limits):.2f} times the {median(limits):.0f} ms of a few words"
            print(f"  {name}: painted after {median(times):.0f} ms, {ratio}; the reply takes {median(waits):.0f} ms")
        for name in ("all studies", "one study"):
            size, packed = scripts(http, url, replied(http, url, PAGES[name])[1])
            print(f"  scripts of {name}: {packed / 1000:.1f} kB with gzip ({size / 1000:.1f} kB)")


def main() -> None:
    logs.set_up("error")
    with tempfile.TemporaryDirectory(prefix="voxpop-bench-") as name:
        folder, port = Path(name), free_port()
        cookie, url = fill(folder), f"http://127.0.0.1:{port}"
        database = str(folder / "voxpop.db")
        serve = [sys.executable, "-m", "voxpop", "serve", "--database", database, "--port", str(port)]
        with process(serve, url, VOXPOP_SECRET=SECRET.decode(), VOXPOP_RATE="0"):
            measure(url, cookie)


if __name__ == "__main__":
    main()
