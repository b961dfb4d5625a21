"""HTTP connections with limits: uvicorn itself bounds neither the head of a request nor what one caller may hold.

Heads are measured before the parser sees them, because the parser keeps an unfinished header in memory.
"""

from __future__ import annotations

import asyncio
import ssl
from functools import partial
from itertools import chain
from typing import Any, cast

import httptools
import uvicorn
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import get_remote_addr

from voxpop.service.refusals import Refusal
from voxpop.service.web.connections import STALLED, Connections, Group
from voxpop.service.web.error_replies import error_reply
from voxpop.service.web.guard import UNLIMITED, Guard
from voxpop.service.web.origins import NOBODY, Origins
from voxpop.service.web.quick_uploads import QuickUploads
from voxpop.service.web.routes import ENDLESS, STOPPING

HEAD_SECONDS = 15.0  # from the first sign of a request to the end of its headers, with the TLS handshake
SPARE_SECONDS = 2.0  # the same, for a connection beyond the limits
REST_SECONDS = 1.0  # for which a refused caller may go on sending, so that the reply reaches it
BODY_PATIENCE = 0.5  # for which the body of an upload is waited for before it takes the ordinary way
IDLE_SECONDS = 75  # between two requests
MOST_HEAD = 16 * 1024  # bytes of all headers
MOST_TARGET = 8 * 1024  # bytes of the address in the first line
MOST_HEADERS = 100
MOST_FRUITLESS = MOST_TARGET + 2 * MOST_HEAD  # bytes that complete neither a head nor a part of a body
SLICE = 16 * 1024  # bytes that the parser gets at once

NO_HTTP = Refusal(400, "this is not a valid HTTP/1.1 request; correct it and send it again on a new connection")
LONG_TARGET = Refusal(414, f"the address is longer than {MOST_TARGET} bytes; see /openapi.json for valid ones")
LONG_HEAD = Refusal(431, f"the headers are longer than {MOST_HEAD} bytes; send fewer or shorter ones")
MANY_HEADERS = Refusal(431, f"there are more than {MOST_HEADERS} headers; send fewer")
LONG_CHUNKING = Refusal(400, f"{MOST_FRUITLESS} bytes of a chunked body hold no data; send no extensions or trailers")
CROWDED = Refusal(503, "there are too many connections; close some, or try again in a moment", retry_after=2)

CLOSE = (b"connection", b"close")


class _Stop(Exception):  # noqa: N818
    """Makes the parser stop."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on connections and on the heads of requests; the guard limits the bodies."""

    def __init__(
        self,
        *,
        limits: Connections,
        tls: ssl.SSLContext | None = None,
        quick: QuickUploads | None = None,
        origins: Origins = NOBODY,
        **named: Any,
    ) -> None:
        super().__init__(**named)
        self._limits, self._tls, self._quick, self._origins = limits, tls, quick, origins
        self._begun: tuple[RequestResponseCycle, Any] | None = None  # a request, and the application that answers it
        self._body_timer: asyncio.TimerHandle | None = None
        self.address = ""
        self.groups: tuple[Group, ...] = ()
        self.unsent = 0
        self._admitted = True
        self._over = False  # what still arrives is ignored
        self._in_head = self._in_body = False
        self._fruitless = 0  # bytes since the parser last completed a head or a part of a body
        self._refusal: Refusal | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._early = b""  # what arrived between the handshake's end and our knowing of it

    # The life of a connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.address = (get_remote_addr(transport) or ("", 0))[0]
        self._admitted = self._limits.admit(self)
        self._start_head_timer()
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
        self._stop_head_timer()
        self._limits.forget(self)
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
        self._answer_begun(late=True)

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
        self._answer_begun()
        if self._over:
            return
        if self._answering():
            self._stop_head_timer()
        else:
            self._start_head_timer()

    def _parse(self, data: bytes) -> None:
        self._fruitless += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # what follows is not HTTP
            self._finish()
        except httptools.HttpParserError:
            self._refuse(self._refusal or NO_HTTP)
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
        self._refusal = self._wrong_with_head()
        if self._refusal is not None:
            raise _Stop
        super().on_headers_complete()
        self._in_head, self._in_body, self._fruitless = False, True, 0
        self.headers = []  # for the trailers, which nobody reads
        if not self._admitted:
            self.cycle.keep_alive = False

    def _wrong_with_head(self) -> Refusal | None:
        if len(self.url) > MOST_TARGET:
            return LONG_TARGET
        if len(self.headers) > MOST_HEADERS:
            return MANY_HEADERS
        if sum(map(len, chain.from_iterable(self.headers))) > MOST_HEAD:
            return LONG_HEAD
        if self._admitted or self.url.decode("latin-1") in UNLIMITED:
            return None
        preflight = self._origins.preflight(self.parser.get_method().decode("latin-1"), self._path, self.headers)
        return CROWDED if preflight is None else None

    @property
    def _path(self) -> str:
        return self.url.partition(b"?")[0].decode("latin-1")

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Put a request off until what has arrived is parsed: uploads that are whole are quicker to answer."""
        self._begun = cycle, app

    def _answer_begun(self, late: bool = False) -> None:
        """Answer the request that has begun; of an upload, wait a moment for its body."""
        if self._begun is None:
            return
        (cycle, app), scope = self._begun, cast(Scope, self._begun[0].scope)
        usual = not cycle.disconnected and not cycle.waiting_for_100_continue
        quick = self._quick if usual and self._quick is not None and self._quick.expects(scope) else None
        if quick is not None and cycle.more_body and not late:
            self._body_timer = self._body_timer or self.loop.call_later(BODY_PATIENCE, self._answer_begun, True)
            return
        self._begun = None
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None
        if quick is None or cycle.more_body or not quick.take(scope, bytes(cycle.body), partial(self._reply, cycle)):
            super()._start_asgi_task(cycle, app)

    def _reply(self, cycle: RequestResponseCycle, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Write the whole reply to a request at once."""
        if cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        self._write(status, headers if cycle.keep_alive else [*headers, CLOSE], body)
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _write(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        lines = [b"%s: %s\r\n" % header for header in (*self.server_state.default_headers, *headers)]
        self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", body]))

    def on_body(self, body: bytes) -> None:
        self._fruitless = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body, self._fruitless = False, 0
        super().on_message_complete()

    # The end of a connection

    def _answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        return cycle is not None and not cycle.response_complete

    def _finish(self) -> None:
        """Close the connection after the reply that is being made."""
        self._over = True
        self._stop_head_timer()
        if self._answering():
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    def _too_long(self) -> Refusal:
        if self._in_body:
            return LONG_CHUNKING
        return LONG_TARGET if self._in_head and len(self.url) > MOST_TARGET else LONG_HEAD

    def _refuse(self, refusal: Refusal) -> None:
        """Reply with a refusal, if this is not too late, and close the connection."""
        if self._over:
            return
        if self._answering() and not self._in_body:  # the reply before this is still being written
            self._finish()
            return
        self._over = True
        if self._in_body and self.cycle.response_started:
            self.transport.close()
            return
        if self._in_body:
            self.cycle.disconnected = True  # the application must not reply as well
            self.cycle.message_event.set()
        reply = error_reply(refusal, "", unread=False)
        known = self._in_head or self._in_body
        readable = self._origins.headers(self._path, cast("dict[str, Any]", self.scope)["headers"]) if known else []
        self._write(reply.status_code, [*reply.raw_headers, *readable, CLOSE], bytes(reply.body))
        self._leave()

    def _leave(self) -> None:
        """Close the connection, but not while bytes of the caller are under way: it would lose the reply."""
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._stop_head_timer()
            self._head_timer = self.loop.call_later(REST_SECONDS, self.transport.abort)
        else:
            self.transport.close()

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            seconds = HEAD_SECONDS if self._admitted else SPARE_SECONDS
            self._head_timer = self.loop.call_later(seconds, self._head_timed_out)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_timed_out(self) -> None:
        self._head_timer = None
        self.transport.abort()


def server_config(
    app: ASGIApp, limits: Connections, tls: ssl.SSLContext | None = None, **settings: Any
) -> uvicorn.Config:
    """Make the configuration of a server whose connections have these limits."""
    # Behind a proxy, who the caller is stands in a header that the ordinary way reads.
    quick = app.quick if isinstance(app, Guard) and not settings.get("proxy_headers", False) else None
    origins = app.origins if isinstance(app, Guard) else NOBODY
    http: Any = partial(BoundedProtocol, limits=limits, tls=tls, quick=quick, origins=origins)
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
