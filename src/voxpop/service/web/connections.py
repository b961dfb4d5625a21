"""Limits on connections: how many there may be, in all and from one caller, and what may arrive on one, and how slowly.

uvicorn bounds neither the head of a request, nor the time it takes, nor what one caller may hold; other servers wait
without a limit for the first byte of a connection. Here heads are measured before the parser sees them, because it
keeps an unfinished header in memory. A connection beyond the limits may only ask whether the service is healthy.
"""

from __future__ import annotations

import asyncio
import resource
import ssl
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any, cast

import httptools
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import get_remote_addr

from voxpop.service.refusals import Refusal
from voxpop.service.web.guard import ENDLESS, STOPPING, UNLIMITED, error_reply
from voxpop.service.web.limits import REFUSED, caller_of

MOST_CONNECTIONS = 4000
MOST_SPARE = 256  # on top of these, for callers who ask whether the service is healthy
OWN_FILES = 256  # descriptors for everything else: the database, the log, requests to the shuffler

HEAD_SECONDS = 15.0  # from the first sign of a request to the end of its headers, with the TLS handshake
SPARE_SECONDS = 2.0  # the same, for a connection beyond the limits
BODY_SECONDS = 30.0  # for a whole body, however slowly its parts arrive
STALLED = 20.0  # seconds in which a caller must take at least a part of a reply
REST_SECONDS = 1.0  # for which a refused caller may go on sending, so that the reply reaches it
IDLE_SECONDS = 75  # between two requests
MOST_HEAD = 16 * 1024  # bytes of all headers
MOST_TARGET = 8 * 1024  # bytes of the address in the first line
MOST_HEADERS = 100
MOST_FRUITLESS = MOST_TARGET + 2 * MOST_HEAD  # bytes that complete neither a head nor a part of a body
SLICE = 16 * 1024  # bytes that the parser gets at once

# Refusals are made anew each time: an exception that is raised again would keep all requests that it has met.
NO_HTTP = partial(
    Refusal, 400, "this is not a valid HTTP/1.1 request; correct it and send it again on a new connection"
)
LONG_TARGET = partial(Refusal, 414, f"the address is longer than {MOST_TARGET} bytes; see /openapi.json for valid ones")
LONG_HEAD = partial(Refusal, 431, f"the headers are longer than {MOST_HEAD} bytes; send fewer or shorter ones")
MANY_HEADERS = partial(Refusal, 431, f"there are more than {MOST_HEADERS} headers; send fewer")
LONG_CHUNKING = partial(
    Refusal, 400, f"{MOST_FRUITLESS} bytes of a chunked body hold no data; send no extensions or trailers"
)
SLOW_BODY = partial(Refusal, 503, f"the body took longer than {BODY_SECONDS:g} s; send it again, faster", retry_after=1)
CROWDED = partial(Refusal, 503, "there are too many connections; close some, or try again in a moment", retry_after=2)

CLOSE = (b"connection", b"close")


class Connections:
    """All connections of a server; `most_of_one` is the limit of one caller, and 0 means none.

    All callers behind a trusted proxy share its address: only the limit for the whole server applies to that one.
    """

    def __init__(
        self, most_of_one: int, is_proxy: Callable[[str], bool] = lambda _: False, most: int = MOST_CONNECTIONS
    ) -> None:
        self.note_refusal: Callable[[], None] = lambda: None  # called for every connection beyond the limits
        self._most_of_one, self._is_proxy, self._most = most_of_one or float("inf"), is_proxy, most
        self._callers: dict[BoundedProtocol, str] = {}  # of the connections that are counted; empty for a trusted proxy
        self._of_caller: dict[str, dict[BoundedProtocol, None]] = {}  # of those that are idle, the first one first
        self._idle: dict[BoundedProtocol, None] = {}  # those between two requests, the one idle for longest first
        self._spare: dict[BoundedProtocol, None] = {}  # the oldest first

    def admit(self, connection: BoundedProtocol) -> bool:
        """Count a new connection and return True; if there are too many, make it a spare one and return False."""
        caller = "" if self._is_proxy(connection.address) else f"caller {caller_of(connection.address)}"
        if not self._has_room(caller):
            self._add_spare(connection)
            self.note_refusal()
            return False
        self._callers[connection] = caller
        self._of_caller.setdefault(caller, {})[connection] = None
        return True

    def rest(self, connection: BoundedProtocol) -> None:
        """Note that a connection waits for its next request: it may be closed if another one needs its place."""
        if connection in self._callers:
            own = self._of_caller[self._callers[connection]]
            own[connection] = self._idle[connection] = own.pop(connection)

    def wake(self, connection: BoundedProtocol) -> None:
        """Note that a request arrives on a connection."""
        self._idle.pop(connection, None)

    def forget(self, connection: BoundedProtocol) -> None:
        """Stop counting a connection."""
        self._spare.pop(connection, None)
        self.wake(connection)
        caller = self._callers.pop(connection, None)
        if caller is not None:
            del self._of_caller[caller][connection]
            if not self._of_caller[caller]:
                del self._of_caller[caller]

    async def end_stalled(self) -> None:
        """End the connections whose callers have taken nothing of their replies since the last look."""
        for connection in [*self._callers, *self._spare]:
            unsent = connection.transport.get_write_buffer_size()
            if unsent and unsent == connection.unsent:
                self._end(connection)
            connection.unsent = unsent

    def _has_room(self, caller: str) -> bool:
        """Return True if there is room for one more connection; the one that is idle for longest gives way to it."""
        own = self._of_caller.get(caller, {})
        alone = bool(caller) and len(own) >= self._most_of_one
        if not alone and len(self._callers) < self._most:
            return True
        longest = next((one for one in (own if alone else self._idle) if one in self._idle), None)
        if longest is None:
            return False
        self.forget(longest)
        self._add_spare(longest)  # until its last reply is sent
        longest.transport.close()
        return len(self._callers) < self._most

    def _add_spare(self, connection: BoundedProtocol) -> None:
        if len(self._spare) >= MOST_SPARE:
            self._end(next(iter(self._spare)))
        self._spare[connection] = None

    def _end(self, connection: BoundedProtocol) -> None:
        self.forget(connection)
        connection.transport.abort()


def affordable_connections() -> int:
    """Allow the process enough open files for all connections; return how many there can be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + MOST_SPARE + OWN_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return MOST_CONNECTIONS
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(soft - MOST_SPARE - OWN_FILES, soft // 4)


class _Stop(Exception):  # noqa: N818
    """Makes the parser stop."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on connections, on heads, and on the time of both heads and bodies.

    As soon as the head of a request is known, what is wrong with it is told to the application, which replies.
    """

    def __init__(self, *, limits: Connections, tls: ssl.SSLContext | None = None, **named: Any) -> None:
        super().__init__(**named)
        self._limits, self._tls = limits, tls
        self.address = ""
        self.unsent = 0  # bytes that waited to be sent at the last look
        self._admitted = True
        self._over = False  # what still arrives is ignored
        self._in_head = self._in_body = False
        self._fruitless = 0  # bytes since the parser last completed a head or a part of a body
        self._timer: asyncio.TimerHandle | None = None  # for the head or the body that is arriving
        self._handshake: asyncio.Task[None] | None = None
        self._early = b""  # what arrived between the handshake's end and our knowing of it

    # The life of a connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.address = (get_remote_addr(transport) or ("", 0))[0]
        self._admitted = self._limits.admit(self)
        self._start_timer()
        if self._tls is None:
            super().connection_made(transport)
        else:
            transport.pause_reading()  # until the handshake can read
            self._handshake = self.loop.create_task(self._shake_hands(transport, self._tls))

    async def _shake_hands(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        """Start TLS here and not in uvicorn, so that connections are counted before their handshake."""
        try:
            secured = await self.loop.start_tls(
                transport, self, tls, server_side=True, ssl_handshake_timeout=HEAD_SECONDS
            )
        except OSError:  # includes SSLError
            secured = None
        if secured is None or self._over:
            transport.abort()
            self.connection_lost(None)
            return
        super().connection_made(secured)
        self._handshake = None
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._stop_timer()
        self._limits.forget(self)
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._limits.rest(self)

    def shutdown(self) -> None:
        super().shutdown()
        if self._answering():
            scope = cast("dict[str, Any]", self.scope)
            scope[STOPPING] = True
            if scope.get(ENDLESS):  # the server would wait for the end of the reply
                self.transport.close()

    # What arrives

    def data_received(self, data: bytes) -> None:
        if self._handshake is not None:
            self._early += data
            return
        self._limits.wake(self)
        self._unset_keepalive_if_required()
        for start in range(0, len(data), SLICE):
            if not self._over:
                self._parse(data[start : start + SLICE])
        if self._over:
            return
        if self._in_body or not self._answering():
            self._start_timer()
        else:
            self._stop_timer()

    def _parse(self, data: bytes) -> None:
        self._fruitless += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # what follows is not HTTP
            self._finish()
        except httptools.HttpParserError:
            self._refuse(NO_HTTP)
        else:
            if self._fruitless > MOST_FRUITLESS:
                self._refuse(self._too_long())

    def on_message_begin(self) -> None:
        if self._answering():  # requests that do not wait for the reply before would pile up in memory
            self._finish()
            raise _Stop
        super().on_message_begin()
        self._in_head = True

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_head, self._in_body, self._fruitless = False, True, 0
        self._stop_timer()
        refusal = self._wrong_with_head()
        self.headers = []  # for the trailers, which nobody reads
        if not self._admitted:
            self.cycle.keep_alive = False
        if refusal is not None:
            self._refuse(refusal)

    def on_body(self, body: bytes) -> None:
        self._fruitless = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body, self._fruitless = False, 0
        self._stop_timer()
        super().on_message_complete()

    def _wrong_with_head(self) -> Callable[[], Refusal] | None:
        if len(self.url) > MOST_TARGET:
            return LONG_TARGET
        if len(self.headers) > MOST_HEADERS:
            return MANY_HEADERS
        if sum(map(len, chain.from_iterable(self.headers))) > MOST_HEAD:
            return LONG_HEAD
        return None if self._admitted or self.scope["path"] in UNLIMITED else CROWDED

    # The end of a connection

    def _answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        return cycle is not None and not cycle.response_complete

    def _finish(self) -> None:
        """Close the connection after the reply that is being made."""
        self._over = True
        self._stop_timer()
        if self._answering():
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    def _too_long(self) -> Callable[[], Refusal]:
        if self._in_body:
            return LONG_CHUNKING
        return LONG_TARGET if self._in_head and len(self.url) > MOST_TARGET else LONG_HEAD

    def _refuse(self, refusal: Callable[[], Refusal]) -> None:
        """Refuse what is arriving, if this is not too late, and close the connection."""
        if self._over:
            return
        if self._in_body or self._answering():
            if self._in_body:
                cast("dict[str, Any]", self.scope)[REFUSED] = refusal()
                self.cycle.message_event.set()  # the application may be waiting for the rest
            self._finish()
            return
        self._over = True
        reply = error_reply(refusal(), unread=False)
        headers = (*self.server_state.default_headers, *reply.raw_headers, CLOSE)
        lines = [b"%s: %s\r\n" % header for header in headers]
        self.transport.write(b"".join([STATUS_LINE[reply.status_code], *lines, b"\r\n", bytes(reply.body)]))
        if self.transport.can_write_eof():  # bytes of the caller may be under way: it would lose the reply
            self.transport.write_eof()
            self._stop_timer()
            self._timer = self.loop.call_later(REST_SECONDS, self.transport.abort)
        else:
            self.transport.close()

    def _start_timer(self) -> None:
        """Limit the time for what is arriving; a timer that runs already is for the same head or body."""
        if self._timer is None:
            seconds = BODY_SECONDS if self._in_body else HEAD_SECONDS if self._admitted else SPARE_SECONDS
            self._timer = self.loop.call_later(seconds, self._timed_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _timed_out(self) -> None:
        self._timer = None
        if self._in_body:
            self._refuse(SLOW_BODY)
        else:
            self.transport.abort()


def server_config(
    app: ASGIApp, limits: Connections, tls: ssl.SSLContext | None = None, **settings: Any
) -> uvicorn.Config:
    """Make the configuration of a server whose connections have these limits."""
    http: Any = partial(BoundedProtocol, limits=limits, tls=tls)
    return uvicorn.Config(
        app,
        http=http,
        loop="auto" if tls is None else "asyncio",  # uvloop would read from a connection that was paused at its start
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        callback_notify=limits.end_stalled,
        timeout_notify=int(STALLED),
        **settings,
    )
