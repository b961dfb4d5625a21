"""Pages that stay up to date: server-sent events, with one look at the database for all browsers that watch a thing.

A stream ends with its session, and with the server: it marks its connection as endless (`web/protocol.py`), so that a
server that stops closes it at once. Browsers come back by themselves.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from voxpop.service import logs, operators
from voxpop.service.console.pages import PAGE_HEADERS, render_part
from voxpop.service.operators import Session
from voxpop.service.refusals import Refusal
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.web.guard import ENDLESS, STOPPING

LOOK_SECONDS = 1.0  # between two looks at a feed, unless it says otherwise
BEAT_SECONDS = 5.0  # after which a stream without news checks its session, and says that it lives
MOST_STREAMS = 1000  # of one process
MOST_OF_BROWSER = 5  # streams of one session: browsers open six connections over HTTP/1.1, and the page needs one
STREAM_HEADERS = {**PAGE_HEADERS, "content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no"}


@dataclass(frozen=True)
class Feed:
    """Something that can be watched."""

    key: str  # the same for all who watch the same
    view: Callable[[], Any]  # what pages show of it
    pause: float | None = None  # seconds between two looks at it; None: LOOK_SECONDS


class _Watch:
    """The looks at one feed, for all who watch it."""

    def __init__(self, feed: Feed) -> None:
        self.feed, self.watchers, self.version = feed, 0, 0
        self.view: Any = None
        self.gone = False  # there is nothing left to look at
        self.changed = asyncio.Event()
        self.task = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while True:
            try:
                view = await run_in_threadpool(self.feed.view)
                if not self.version or view != self.view:
                    self.view, self.version = view, self.version + 1
                    self._wake()
            except Exception as error:  # the database may be away; browsers keep what they have
                if isinstance(error, Refusal) and error.status == 404:
                    self.gone = True
                    self._wake()
                    return
                logs.fault("live", error)
            await asyncio.sleep(self.feed.pause or LOOK_SECONDS)

    def _wake(self) -> None:
        told, self.changed = self.changed, asyncio.Event()
        told.set()


class Hub:
    """All watches of a process."""

    def __init__(self) -> None:
        self._watches: dict[str, _Watch] = {}
        self.streams = 0
        self.sessions: Counter[str] = Counter()  # streams by cookie

    def require_room(self, session: Session) -> None:
        """Refuse a stream that would be one too many; a page without one loads, and says that it stays as it is."""
        if self.streams >= MOST_STREAMS:
            raise Refusal(503, "too many pages are watched at once; close some, or try again later", retry_after=30)
        if session.cookie and self.sessions[session.cookie] >= MOST_OF_BROWSER:
            raise Refusal(
                503,
                f"{MOST_OF_BROWSER} other pages of this browser are kept up to date, and this one is not; close one of "
                "them and reload this one",
                retry_after=30,
            )

    @asynccontextmanager
    async def watch(self, feed: Feed, session: Session) -> AsyncIterator[_Watch]:
        """Watch a feed; its looks end with its last watcher."""
        watch = self._watches.get(feed.key)
        if watch is None:
            watch = self._watches[feed.key] = _Watch(feed)
        watch.watchers += 1
        self.streams += 1
        self.sessions[session.cookie] += 1
        try:
            yield watch
        finally:
            self.streams -= 1
            self.sessions -= Counter([session.cookie])  # forgets whoever has none left
            watch.watchers -= 1
            if not watch.watchers:
                watch.task.cancel()
                del self._watches[feed.key]


def event(text: str, name: str = "") -> bytes:
    """Write one server-sent event."""
    lines = [f"event: {name}"] if name else []
    return "\n".join([*lines, *(f"data: {line}" for line in text.splitlines() or [""]), "", ""]).encode()


def last_events(here: str, gone: bool = False) -> bytes:
    """Tell a page that its session has ended, or what it shows is gone, and that there is nothing more to come."""
    said = "there is no such study any more, and this page is no longer up to date" if gone else ""
    return event(render_part("notice", None, here, notice=said, ended=not gone)) + event("", "ended")


class LiveResponse(StreamingResponse):
    """A stream of messages about a feed, each made from its newest view."""

    def __init__(
        self, hub: Hub, feed: Feed, message: Callable[[Any], str], coordinator: Coordinator, session: Session
    ) -> None:
        hub.require_room(session)
        super().__init__((), headers=STREAM_HEADERS)
        self._hub, self._feed, self._message = hub, feed, message
        self._coordinator, self._session = coordinator, session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[ENDLESS] = True
        if not scope.get(STOPPING):
            self.body_iterator = self._events(scope["path"])
        try:
            await super().__call__(scope, receive, send)
        finally:  # the browser may have left while an event was sent, and not while one was awaited
            if isinstance(self.body_iterator, AsyncGenerator):
                await self.body_iterator.aclose()

    async def _events(self, path: str) -> AsyncGenerator[bytes, None]:
        clock, seen = asyncio.get_running_loop().time, 0
        try:
            async with self._hub.watch(self._feed, self._session) as watch:
                while True:
                    changed = watch.changed
                    # before every event: whoever was signed out sees no more
                    if watch.gone or not await self._still_signed_in():
                        yield last_events(path, watch.gone)
                        return
                    news, seen = watch.version != seen, watch.version
                    yield event(self._message(watch.view)) if news else b": still here\n\n"
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(clock() + BEAT_SECONDS):
                            await changed.wait()
        except Exception as error:  # the browser comes back, and nobody else would know why it had to
            logs.fault("live", error)

    async def _still_signed_in(self) -> bool:
        if not self._session.cookie:  # of an open service, where nobody signs in
            return True
        now = self._coordinator.context.clock()
        given = (self._coordinator.database, self._session.cookie, now, True)
        try:
            return await run_in_threadpool(operators.session_of, *given) is not None
        except Exception as error:  # the database may be away
            logs.fault("live", error)
            return True
