"""Devices that are web pages: who may read the replies of which routes, and what no page may read."""

import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import httpx
import pytest

from tests.helpers_cli import main_of
from tests.helpers_waiting import HANGING
from tests.service.served import served
from tests.service.test_http import BATCH, ENCODED, KEY, SHUFFLER_KEY, Site, as_, client_of
from tests.service.world import STUDY
from voxpop.errors import InputError
from voxpop.service import serve
from voxpop.service.keys import Keyring, new_key
from voxpop.service.serve import Settings, settings_of
from voxpop.service.shuffler.batches import Shuffler
from voxpop.service.stores.migrate import open_store
from voxpop.service.study import life
from voxpop.service.study.life import Wanted
from voxpop.service.web.connections import Connections
from voxpop.service.web.coordinator_app import CoordinatorApp
from voxpop.service.web.guard import require_origins
from voxpop.service.web.limits import RateLimit
from voxpop.service.web.routes import Route
from voxpop.service.web.shuffler_app import ShufflerApp

APP, OTHER = "https://app.example", "http://localhost:5173"
PAGE = {"origin": APP}
READABLE = {
    "access-control-allow-origin": APP,
    "vary": "Origin",
    "access-control-expose-headers": "ETag, Retry-After",
}
PLACE = f"/v2/studies/{STUDY}"
ASK = {**PAGE, "access-control-request-method": "PUT", "access-control-request-headers": "authorization,content-type"}


def told(headers: Mapping[str, str]) -> dict[str, str]:
    """Return what these headers say to a browser about pages of other sites."""
    return {name: value for name, value in headers.items() if name.startswith("access-control-") or name == "vary"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, origins=frozenset([APP, OTHER]))
    made.collect()
    yield made
    made.close()


@pytest.fixture
def shuffler(tmp_path: Path) -> Iterator[httpx.Client]:
    database = open_store(str(tmp_path / "s.db"), "shuffler")
    app = ShufflerApp(Shuffler(database, Mock()), "http://127.0.0.1:1", SHUFFLER_KEY, frozenset([APP]))
    with client_of(app.guarded(RateLimit(0, 1), 4096)) as client:
        yield client
    database.close()


def test_a_page_can_read_what_became_of_its_report(site: Site) -> None:
    token, other = (invitation["token"] for invitation in site.invited()[:2])
    replies = [
        site.put(token, {"report": [0.5]}, **PAGE),
        site.put(token, {"report": [0.5]}, **PAGE),
        site.put(token, {"report": [0.6]}, **PAGE),
        site.put("x" * 43, {"report": [0.6]}, **PAGE),
        site.put(token, b"{", **PAGE),
    ]
    assert [reply.status_code for reply in replies] == [201, 200, 409, 401, 400]
    assert [told(reply.headers) for reply in replies] == [READABLE] * 5
    life.change(site.coordinator.context, STUDY, Wanted.ENDED)
    site.step()
    late = site.put(other, {"report": [0.5]}, **PAGE)
    assert (late.status_code, told(late.headers)) == (410, READABLE)


@pytest.mark.parametrize("origin", [None, "https://app.example.evil", "https://APP.example", "null", f"{APP} {OTHER}"])
def test_others_are_answered_as_if_there_was_no_list(site: Site, origin: str | None) -> None:
    named = {} if origin is None else {"origin": origin}
    report = site.put(site.invited()[0]["token"], {"report": [0.5]}, **named)
    decision = site.client.get(f"{PLACE}/decision", headers=named | as_(site.people[0]))
    asked = site.client.options(f"{PLACE}/checkin", headers=ASK | {"origin": origin or ""})
    assert [reply.status_code for reply in (report, decision, asked)] == [201, 200, 405]
    assert [told(reply.headers) for reply in (report, decision, asked)] == [{}] * 3


def test_every_listed_origin_is_named_as_it_is(site: Site) -> None:
    reply = site.client.get(f"{PLACE}/decision", headers={"origin": OTHER})
    assert told(reply.headers) == READABLE | {"access-control-allow-origin": OTHER}


def test_a_page_registers_checks_in_and_withdraws(site: Site) -> None:
    mine = PAGE | as_(new_key())
    replies = [
        site.client.put(f"{PLACE}/participant", headers=mine),
        site.client.get(f"{PLACE}/checkin", headers=mine),
        site.client.delete(f"{PLACE}/participant", headers=mine),
        site.client.get(f"{PLACE}/checkin", headers=PAGE),
        site.client.get("/v2/studies/coffee/checkin", headers=mine),
    ]
    assert [reply.status_code for reply in replies] == [201, 200, 200, 401, 404]
    assert [told(reply.headers) for reply in replies] == [READABLE] * 5


@pytest.mark.parametrize(
    ("address", "methods"),
    [
        (f"{PLACE}/waves/1/report", "PUT"),
        (f"{PLACE}/participant", "PUT, GET, DELETE"),
        (f"{PLACE}/checkin?x=y", "GET"),
        (f"{PLACE}/decision", "GET"),
    ],
)
def test_a_browser_that_asks_first_is_told_what_devices_may_send(site: Site, address: str, methods: str) -> None:
    reply = site.client.options(address, headers=ASK)
    assert (reply.status_code, reply.content) == (204, b"")
    assert told(reply.headers) == READABLE | {
        "access-control-allow-methods": methods,
        "access-control-allow-headers": "authorization, content-type, if-none-match, x-voxpop-enrolment",
        "access-control-max-age": "7200",
    }


def test_options_that_are_no_question_of_a_browser_are_refused_as_ever(site: Site) -> None:
    reply = site.client.options(f"{PLACE}/checkin", headers=PAGE)
    assert (reply.status_code, told(reply.headers)) == (405, READABLE)


def address_of(route: Route) -> str:
    names = {"study": STUDY, "wave": "1", "batch": BATCH, "before": "1"}
    return re.sub(r"{(\w+)(:path)?}", lambda found: names.get(found[1], "x"), route.path)


def test_only_the_routes_of_devices_are_for_pages(site: Site) -> None:
    for_pages = {(route.method, route.path) for route in site.service.routes() if route.for_devices}
    assert for_pages == {
        ("PUT", "/v2/studies/{study}/waves/{wave}/report"),
        ("GET", "/v2/studies/{study}/checkin"),
        ("GET", "/v2/studies/{study}/decision"),
        ("PUT", "/v2/studies/{study}/participant"),
        ("GET", "/v2/studies/{study}/participant"),
        ("DELETE", "/v2/studies/{study}/participant"),
    }
    others = [route for route in site.service.routes() if not route.for_devices]
    assert {"/metrics", "/v2/studies", "/"} <= {route.path for route in others}
    for route in others:
        assert site.service.guarded(RateLimit(0, 1), 4096).origins.headers(address_of(route), headers_of(PAGE)) == []
    for path in ("/metrics", "/v2/studies", "/", "/healthz", "/nothing"):
        for method in ("GET", "OPTIONS"):
            assert told(site.client.request(method, path, headers=ASK | as_(KEY)).headers) == {}, path


def headers_of(head: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in head.items()]


def test_a_page_can_read_that_it_comes_too_often(tmp_path: Path) -> None:
    made = Site(tmp_path, rate=1e-6, origins=frozenset([APP]))
    try:
        made.collect()
        replies = [made.put("x" * 43, {"report": [0.5]}, **PAGE) for _ in range(4)]
        asked = made.client.options(f"{PLACE}/decision", headers=ASK)
    finally:
        made.close()
    assert [reply.status_code for reply in replies] == [401, 401, 401, 429]
    assert told(replies[3].headers) == READABLE
    assert "retry-after" in replies[3].headers
    assert asked.status_code == 204  # otherwise the page could not learn why


def test_a_page_can_read_that_the_service_is_crowded(site: Site) -> None:
    app = CoordinatorApp(site.coordinator, origins=frozenset([APP])).guarded(RateLimit(0, 1), 4096)
    with served(app, limits=Connections(1)) as url:
        place = httpx.URL(url)
        with socket.create_connection((place.host, place.port or 0), HANGING) as held, httpx.Client() as client:
            held.sendall(b"GET ")  # and no more: this connection is in use
            asked = client.options(f"{url}{PLACE}/decision", headers=ASK)
            reply = client.get(f"{url}{PLACE}/decision", headers=PAGE)
            stranger = client.get(f"{url}{PLACE}/decision", headers={"origin": "https://evil.example"})
            console = client.get(f"{url}/", headers=PAGE)
    assert [one.status_code for one in (asked, reply, stranger, console)] == [204, 503, 503, 503]
    assert [told(one.headers) for one in (reply, stranger, console)] == [READABLE, {}, {}]
    assert "retry-after" in reply.headers


def test_a_shuffler_takes_reports_of_pages_and_nothing_else(shuffler: httpx.Client) -> None:
    place = f"/v2/batches/{BATCH}"
    report = {"report": [1], **ENCODED}
    refused = shuffler.put(f"{place}/report", json=report, headers=PAGE | as_("x" * 43))
    asked = shuffler.options(f"{place}/report", headers=ASK)
    assert (refused.status_code, told(refused.headers)) == (401, READABLE)
    assert (asked.status_code, asked.headers["access-control-allow-methods"]) == (204, "PUT")
    for method, path in (("PUT", place), ("DELETE", place), ("OPTIONS", place), ("GET", "/metrics")):
        assert told(shuffler.request(method, path, headers=ASK).headers) == {}, (method, path)


@pytest.mark.parametrize(
    "wrong",
    [
        "*",
        "null",
        "app.example",
        "//app.example",
        "https://",
        "https://app.example/",
        "https://app.example/page",
        "https://app.example?x",
        "https://*.example",
        "https://me@app.example",
        "https://APP.example",
        "https://app.example:443",
        "http://app.example:80",
        "http://app.example:99999",
        "ftp://app.example",
        "https://app..example",
    ],
)
def test_what_no_browser_sends_is_no_origin(wrong: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"got {wrong!r}")):
        require_origins("allow_origin", f"{APP} {wrong}")


def test_origins_stand_apart_by_spaces_or_commas() -> None:
    given = f" {APP},{OTHER},\n http://[::1]:8080 , http://localhost"
    assert require_origins("allow_origin", given) == {APP, OTHER, "http://[::1]:8080", "http://localhost"}
    assert require_origins("allow_origin", "") == frozenset()


@pytest.mark.parametrize("command", ["serve", "shuffler"])
def test_flags_and_the_environment_name_origins(command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found: list[tuple[dict[str, str], Settings]] = []

    def run(app: CoordinatorApp | ShufflerApp, settings: Settings) -> None:
        path = f"{PLACE}/decision" if isinstance(app, CoordinatorApp) else f"/v2/batches/{BATCH}/report"
        origins = app.guarded(RateLimit(0, 1), 4096).origins
        named = [origin for origin in (APP, OTHER) if origins.headers(path, [(b"origin", origin.encode())])]
        found.append((dict.fromkeys(named, path), settings))
        (app.coordinator if isinstance(app, CoordinatorApp) else app.shuffler).database.close()

    monkeypatch.setattr(serve, "run", run)
    monkeypatch.setattr(Settings, "own_shuffler_key", lambda self: Keyring.of(SHUFFLER_KEY))
    monkeypatch.chdir(tmp_path)
    others = [] if command == "serve" else ["--coordinator-url", "http://127.0.0.1:1"]
    for flags, environment in (
        ([], None),
        (["--allow-origin", APP], None),
        (["--allow-origin", APP, "--allow-origin", OTHER], None),
        ([], f"{APP}, {OTHER}"),
        (["--allow-origin", OTHER], APP),
    ):
        monkeypatch.delenv("VOXPOP_ALLOW_ORIGIN", raising=False)
        if environment is not None:
            monkeypatch.setenv("VOXPOP_ALLOW_ORIGIN", environment)
        assert main_of(monkeypatch)(command, "--database", "x.db", *others, *flags).code == 0
    assert [list(named) for named, _ in found] == [[], [APP], [APP, OTHER], [APP, OTHER], [OTHER]]


def test_a_wrong_origin_is_refused_before_a_database_is_opened(tmp_path: Path) -> None:
    settings = settings_of(database=str(tmp_path / "x.db"), allow_origin="*", coordinator_url="http://127.0.0.1:1")
    with pytest.raises(InputError, match="allow_origin must be origins"):
        serve.coordinator_of(settings)
    settings = replace(settings, shuffler_key="k" * 40)
    with pytest.raises(InputError, match="allow_origin must be origins"):
        serve.shuffler_of(settings)
    assert list(tmp_path.iterdir()) == []
