"""A device that is a web page of another site: a browser lets it take part where it is listed, and nowhere else."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Browser, Error

from tests.browser.chromium import Visit, visit
from tests.service.test_http import KEY, Site, as_
from tests.service.world import STUDY
from voxpop.service.keys import new_key

# Returns the status and the body of a reply as a page sees them.
FETCH = """async ([url, method, headers, body]) => {
  const reply = await fetch(url, {method, headers, body: body ?? undefined});
  return [reply.status, await reply.json()];
}"""
JSON = {"content-type": "application/json"}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None: ...


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of another site, with an empty page."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "index.html").write_text("<!doctype html><title>A device</title><link rel='icon' href='data:,'>")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture
def site(elsewhere: int, tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, origins=frozenset([f"http://127.0.0.1:{elsewhere}"]))
    made.collect()
    yield made
    made.close()


def call(page: Visit, site: Site, method: str, path: str, headers: dict[str, str], body: str | None = None) -> Any:
    """Let the page call the service; return what it could read, or the browser's error."""
    try:
        return page.page.evaluate(FETCH, [str(site.client.base_url).rstrip("/") + path, method, headers, body])
    except Error as error:
        return error.message


def test_a_page_that_is_listed_takes_part(browser: Browser, site: Site, elsewhere: int) -> None:
    place, mine = f"/v2/studies/{STUDY}", as_(new_key())
    token = site.invited()[0]["token"]
    with visit(browser, f"http://127.0.0.1:{elsewhere}") as page:
        page.go()
        ask = partial(call, page, site)
        registered = ask("PUT", f"{place}/participant", mine | {"x-voxpop-enrolment": "not needed"})
        assert registered == [201, {"status": "registered"}]
        assert ask("GET", f"{place}/checkin", mine)[1]["invited"] is False
        assert ask("GET", f"{place}/decision", mine)[0] == 200
        report = f"{place}/waves/1/report"
        assert ask("PUT", report, as_(token) | JSON, '{"report": [0.5]}') == [201, {"status": "counted"}]
        status, refusal = ask("PUT", report, as_(token) | JSON, '{"report": [0.25]}')
        assert (status, "stays as it is" in refusal["error"]) == (409, True)
        assert ask("DELETE", f"{place}/participant", mine) == [200, {"status": "withdrawn"}]
        assert "Failed to fetch" in ask("GET", "/v2/studies", as_(KEY))  # what operators do is for no page
    assert site.answered == 1


def test_a_page_that_is_not_listed_can_neither_send_a_key_nor_read_a_reply(
    browser: Browser, site: Site, elsewhere: int
) -> None:
    place, token = f"/v2/studies/{STUDY}", site.invited()[0]["token"]
    with visit(browser, f"http://localhost:{elsewhere}") as page:
        page.go()
        ask = partial(call, page, site)
        assert "Failed to fetch" in ask("GET", f"{place}/decision", {})
        assert "Failed to fetch" in ask("GET", f"{place}/checkin", as_(new_key()))
        report = ask("PUT", f"{place}/waves/1/report", as_(token) | JSON, '{"report": [0.5]}')
        assert "Failed to fetch" in report
    assert site.answered == 0
