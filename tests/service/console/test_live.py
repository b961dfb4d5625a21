"""Pages that stay up to date: one look for all who watch, and streams that end with their session and the server."""

import asyncio
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Thread
from typing import Any

import pytest
import uvicorn
from starlette.responses import Response

from tests.helpers_waiting import HANGING, until
from tests.service.console.browser import OTHER, Browser, Desk
from tests.service.world import STUDY, definition
from voxpop.service import operators
from voxpop.service.console import screen as live
from voxpop.service.console.screen import Feed, Hub, LiveResponse, event
from voxpop.service.operators import IDLE_SECONDS
from voxpop.service.study import life
from voxpop.service.study.life import Wanted
from voxpop.service.web.connections import Connections, server_config
from voxpop.service.web.guard import STOPPING


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(live, "BEAT_SECONDS", 0.05)


class Stream:
    """The events of an open page."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def next(self) -> str:
        """Wait for the next event, and return it; comments say only that the stream lives."""
        found: list[str] = []
        for line in self._lines:
            if line.startswith(("data:", "event:")):
                found.append(line)
            elif not line and found:
                return "\n".join(found)
        return ""  # the stream has ended


@contextmanager
def watching(browser: Browser, path: str) -> Iterator[Stream]:
    with browser.client.stream("GET", path) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        yield Stream(answer.iter_lines())


def test_a_change_reaches_an_open_page(desk: Desk, operator: Browser) -> None:
    with watching(operator, "/live") as stream:
        assert ">planning<" in stream.next()
        life.change(desk.coordinator.context, STUDY, Wanted.PAUSED, "me")
        changed = stream.next()
    assert changed.startswith('data: <hx-partial hx-target="#studies" hx-swap="outerMorph">')
    assert ">paused<" in changed


def test_the_numbers_of_people_are_live(desk: Desk, operator: Browser) -> None:
    with watching(operator, f"/studies/{STUDY}/people/live") as stream:
        stream.next()
        desk.register(7)
        while "<dd>7</dd>" not in (said := stream.next()):
            assert said


def test_a_viewer_s_stream_tells_of_one_study_only(desk: Desk, viewer: Browser) -> None:
    with watching(viewer, "/live") as stream:
        said = stream.next()
        life.change(desk.coordinator.context, OTHER, Wanted.PAUSED, "me")
        life.change(desk.coordinator.context, STUDY, Wanted.PAUSED, "me")
        said += stream.next()
    assert STUDY in said
    assert OTHER not in said


def test_a_searched_list_stays_searched(desk: Desk, operator: Browser) -> None:
    page = operator.get("/?q=cof").text
    place = re.search(r'hx-sse:connect="([^"]+)"', page)
    assert place is not None
    with watching(operator, place[1]) as stream:
        said = stream.next()
        life.change(desk.coordinator.context, OTHER, Wanted.PAUSED, "me")
        said += stream.next()
    assert OTHER in said
    assert f"/studies/{STUDY}" not in said


@pytest.mark.parametrize("how", ["revoked", "idle", "signed out"])
def test_a_stream_ends_with_its_session_and_says_so(desk: Desk, operator: Browser, how: str) -> None:
    with watching(operator, "/live") as stream:
        stream.next()
        if how == "revoked":
            operators.revoke_key(desk.coordinator.database, "me", desk.clock(), last=True)
        elif how == "idle":
            desk.clock.now += IDLE_SECONDS + 1  # the stream itself is no use of the session
        else:
            session = operators.Session(operator.client.cookies["voxpop"], operators.Principal("me"))
            operators.sign_out(desk.coordinator.database, session, desk.clock())
        said = [stream.next(), stream.next(), stream.next()]
    assert "You are no longer signed in" in said[-3]
    assert said[-2].startswith("event: ended")
    assert said[-1] == ""


def test_whoever_was_signed_out_sees_no_more_events(
    desk: Desk, operator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "BEAT_SECONDS", 10 * HANGING)
    with watching(operator, "/live") as stream:
        stream.next()
        operators.revoke_key(desk.coordinator.database, "me", desk.clock(), last=True)
        life.change(desk.coordinator.context, STUDY, Wanted.PAUSED, "other")
        assert "You are no longer signed in" in stream.next()


def test_one_browser_gets_a_page_more_than_streams(desk: Desk, operator: Browser) -> None:
    """Over HTTP/1.1 another page would not load at all if every connection were a stream."""
    with ExitStack() as pages:
        streams = [pages.enter_context(watching(operator, "/live")) for _ in range(live.MOST_OF_BROWSER)]
        assert all(stream.next() for stream in streams)
        answer = operator.get("/live", **{"hx-request": "true"})
        assert answer.status_code == 503
        assert "this one is not" in answer.text
        assert operator.get("/").status_code == 200
        with Browser(str(operator.client.base_url)) as other:
            other.sign_in()
            with watching(other, "/live") as stream:
                assert stream.next()


def test_a_stream_without_a_session_says_so_and_ends(stranger: Browser) -> None:
    """An error would make the browser try again for ever."""
    with watching(stranger, "/live") as stream:
        assert "You are no longer signed in" in stream.next()
        assert stream.next().startswith("event: ended")
        assert stream.next() == ""


def test_a_stream_that_is_left_is_forgotten(desk: Desk, operator: Browser) -> None:
    hub = desk.service.console.hub
    for _ in range(3):
        with watching(operator, "/live") as stream:
            stream.next()
            assert hub.streams >= 1
        operator.client.close()
        operator.client = type(operator)(str(operator.client.base_url)).client
        operator.sign_in()
    until(lambda: hub.streams == 0, "the end of the streams")
    assert not hub.sessions


def test_a_server_that_stops_does_not_wait_for_open_pages(desk: Desk) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(server_config(desk.app, Connections(0), lifespan="off"))  # waits as long as it takes
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    until(lambda: server.started, "the start")
    with Browser(f"http://127.0.0.1:{listener.getsockname()[1]}") as browser:
        browser.sign_in()
        with watching(browser, "/live") as stream:
            stream.next()
            server.should_exit = True
            thread.join(HANGING)
            assert not thread.is_alive()
    listener.close()


def test_a_page_that_is_asked_for_while_the_server_stops_does_not_hold_it(desk: Desk) -> None:
    """The server was told to stop after the request arrived, and before its reply began."""
    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message)

    async def receive() -> Any:
        await asyncio.Event().wait()  # the browser stays

    async def ask() -> None:
        session = operators.Session("", operators.Principal("anyone", "anyone"))
        response: Response = LiveResponse(Hub(), Feed("one", lambda: 1), str, desk.coordinator, session)
        scope = {"type": "http", "path": "/live", STOPPING: True}
        await asyncio.wait_for(response(scope, receive, send), HANGING)

    asyncio.run(ask())
    assert [message["type"] for message in said] == ["http.response.start", "http.response.body"]


async def stream_of(hub: Hub, feed: Feed, desk: Desk, wanted: int) -> list[str]:
    """Watch a feed until so many events have come."""
    said: list[str] = []
    left = asyncio.Event()

    async def send(message: Any) -> None:
        text = message.get("body", b"").decode()
        if text.startswith("data:"):
            said.append(text)
        if len(said) >= wanted:
            left.set()

    async def receive() -> Any:
        await left.wait()
        return {"type": "http.disconnect"}

    session = operators.Session("", operators.Principal("anyone", "anyone"))
    response: Response = LiveResponse(hub, feed, str, desk.coordinator, session)
    await asyncio.wait_for(response({"type": "http", "path": "/live"}, receive, send), HANGING)
    return said


def test_all_who_watch_share_one_look(desk: Desk) -> None:
    """The view changes with every look, so that the number of looks is seen in the events."""
    looks = 0

    def view() -> int:
        nonlocal looks
        looks += 1
        return looks

    async def many() -> list[list[str]]:
        hub = Hub()
        found = await asyncio.gather(*(stream_of(hub, Feed("one", view), desk, 3) for _ in range(20)))
        assert hub.streams == 0
        return found

    for said in asyncio.run(many()):
        seen = [int(text.removeprefix("data: ")) for text in said]
        assert seen == sorted(set(seen))
        assert seen[0] == 1
    assert looks < 20  # and not three for each of the twenty


def test_a_view_that_has_not_changed_is_not_sent_again(desk: Desk) -> None:
    views = iter([1, 1, 1, 2, 2, 2])
    said = asyncio.run(stream_of(Hub(), Feed("same", lambda: next(views, 3), 0.01), desk, 3))
    assert said[:3] == [event(str(number)).decode() for number in (1, 2, 3)]


def test_a_look_that_fails_is_followed_by_others(desk: Desk) -> None:
    calls = 0

    def view() -> str:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError("the database is away")
        return f"look {calls}"

    assert asyncio.run(stream_of(Hub(), Feed("broken", view), desk, 2))[:2] == [
        event("look 1").decode(),
        event("look 3").decode(),
    ]


@pytest.mark.parametrize("page", ["", "/people"])
def test_a_page_whose_study_is_deleted_says_so_and_is_looked_at_no_more(
    desk: Desk, operator: Browser, page: str
) -> None:
    desk.coordinator.create("idea", definition(), draft=True)
    with watching(operator, f"/studies/idea{page}/live") as stream:
        stream.next()
        life.delete(desk.coordinator.context, "idea", "me")
        while "There is no such study any more" not in (said := stream.next()):
            assert said
        assert stream.next().startswith("event: ended")
        assert stream.next() == ""
    with watching(operator, f"/studies/idea{page}/live") as stream:  # and no invented name is watched at all
        assert "There is no such study any more" in stream.next()
        assert stream.next().startswith("event: ended")
    until(lambda: desk.service.console.hub.streams == 0, "the end of the streams")


def test_a_study_may_be_called_like_a_stream(desk: Desk, operator: Browser) -> None:
    desk.coordinator.create("live", definition())
    assert "<h1>live</h1>" in operator.get("/studies/live").text
    with watching(operator, "/studies/live/live") as stream:
        assert "study-answer" in stream.next()
    assert "<h1>There is no such page</h1>" in operator.get("/studies/live/nothing").text


def test_a_stream_that_fails_is_logged(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[tuple[str, str]] = []
    monkeypatch.setattr("voxpop.service.logs.fault", lambda event, error: noted.append((event, str(error))))

    def broken(_: Any) -> str:
        raise ValueError("a template that cannot be filled in")

    async def send(message: Any) -> None: ...

    async def receive() -> Any:
        await asyncio.Event().wait()  # the browser stays

    async def watch() -> None:
        session = operators.Session("", operators.Principal("anyone", "anyone"))
        response = LiveResponse(Hub(), Feed("one", lambda: 1), broken, desk.coordinator, session)
        await asyncio.wait_for(response({"type": "http", "path": "/live"}, receive, send), HANGING)

    asyncio.run(watch())
    assert noted == [("live", "a template that cannot be filled in")]


def test_an_event_has_one_line_of_data_for_each_line_of_text() -> None:
    assert event("a\nb") == b"data: a\ndata: b\n\n"
    assert event("", "ended") == b"event: ended\ndata: \n\n"
