"""The guard around all routes: the rate limit, limits on bodies, one sentence for every error, telemetry, and origins.

Devices may be web pages. A browser keeps what a service replies from the pages of other sites unless the reply names
their origin. Cookies are no part of this: devices send their keys themselves, so that a page that is let in can do no
more than any other program.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from starlette import routing
from starlette.responses import JSONResponse, Response
from starlette.types import Lifespan, Message, Receive, Scope, Send

from voxpop.errors import InputError
from voxpop.service import logs
from voxpop.service.refusals import DATABASE_AWAY, Refusal, no_database
from voxpop.service.shuffler.signed_http import reply_kind
from voxpop.service.web.limits import REFUSED, Body, HeldBytes, RateLimit, caller_of
from voxpop.service.web.metrics import Telemetry
from voxpop.service.web.routes import Route, pattern_of

UNLIMITED = ("/healthz", "/readyz")  # exempt from the rate limit

# In the scope of a request:
ENDLESS = "voxpop.endless"  # its reply ends only with the caller or the server
STOPPING = "voxpop.stopping"  # the server is about to stop, so that such a reply must not begin any more
SIGNED_WITH = "voxpop.signed"  # the keys of a request between the two servers, and its signature: the reply is signed

RefusalPage = Callable[[Scope, Refusal], Response | None]  # for people; None if a program has asked
Router = Callable[[Scope, Body, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

ORIGIN = re.compile(r"(https?)://([a-z0-9-]+(?:\.[a-z0-9-]+)*|\[[0-9a-f:]+\])(?::([1-9][0-9]{0,4}))?")
HOST = re.compile(rb"(?:[A-Za-z0-9._~-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
USUAL_PORTS = {"http": "80", "https": "443"}  # browsers leave them out
VARY = (b"vary", b"Origin")
FRESH = (b"cache-control", b"no-store")  # nobody on the way, and no browser, keeps what does not say otherwise
EXPOSED = (b"access-control-expose-headers", b"ETag, Retry-After")
SENT = (b"access-control-allow-headers", b"authorization, content-type, if-none-match, x-voxpop-enrolment")
MAX_AGE = (b"access-control-max-age", b"7200")  # seconds for which a browser need not ask again; none heeds more


def no_page(scope: Scope, refusal: Refusal) -> Response | None:
    """Make no page, because only programs ask."""
    return None


def require_origins(name: str, text: str) -> frozenset[str]:
    """Return the origins in a text, separated by spaces or commas; refuse what no browser sends as one.

    >>> sorted(require_origins("allow_origin", "https://app.example, http://localhost:5173"))
    ['http://localhost:5173', 'https://app.example']
    """
    origins = re.findall(r"[^\s,]+", text)
    for origin in origins:
        found = ORIGIN.fullmatch(origin)
        if found is None or int(found[3] or 1) > 65535 or found[3] == USUAL_PORTS[found[1]]:
            raise InputError(
                f"{name} must be origins as browsers send them, such as https://app.example or http://localhost:5173 "
                f"(in lower case, without a usual port, a path or a slash at the end), got {origin!r}"
            )
    return frozenset(origins)


class Origins:
    """The origins whose pages may call the routes for devices; unless some are listed, there are none."""

    def __init__(self, listed: Iterable[str] = (), routes: Iterable[Route] = ()) -> None:
        self._listed = frozenset(origin.encode() for origin in listed)
        methods: dict[str, list[str]] = {}
        for route in routes:
            if route.for_devices:
                methods.setdefault(route.path, []).append(route.method)
        self._places = [(pattern_of(path), ", ".join(known).encode()) for path, known in methods.items()]

    def headers(self, path: str, head: Iterable[tuple[bytes, bytes]]) -> Headers:
        """Return what lets a page read the reply to its request; nothing for any other request."""
        origin = next((value for name, value in head if name == b"origin"), b"")
        known = origin in self._listed and self.methods(path)
        return [(b"access-control-allow-origin", origin), VARY, EXPOSED] if known else []

    def methods(self, path: str) -> bytes:
        """Return the methods by which devices call this address; empty if they do not."""
        return next((known for pattern, known in self._places if pattern.fullmatch(path)), b"")


NOBODY = Origins()


class Guard:
    """Wraps a router: whatever happens inside, the caller gets an answer and the process lives on."""

    def __init__(
        self,
        router: Router,
        telemetry: Telemetry,
        rate_limit: RateLimit,
        page: RefusalPage = no_page,
        origins: Origins = NOBODY,
        lifespan: Lifespan[Any] | None = None,
    ) -> None:
        self.origins, self._held = origins, HeldBytes()
        self._router, self._telemetry, self._rate_limit = router, telemetry, rate_limit
        self._page, self._lifespan = page, routing.Router(lifespan=lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._lifespan(scope, receive, send)
            return
        start, status, begun = time.perf_counter(), 0, 0.0
        held: Message = {}
        path, head = scope["path"], scope["headers"]
        caller = caller_of(scope["client"][0]) if scope.get("client") else ""
        body = Body(scope, receive, self._held, caller)
        readable = self.origins.headers(path, head)
        asks = scope["method"] == "OPTIONS" and any(name == b"access-control-request-method" for name, _ in head)

        async def observed(message: Message) -> None:
            nonlocal status, begun, held
            if message["type"] == "http.response.start":
                status, begun = message["status"], time.perf_counter()
                given, kept = message["headers"], any(name == b"cache-control" for name, _ in message["headers"])
                message = {**message, "headers": [*given, *readable, *([] if kept else [FRESH])]}
                if SIGNED_WITH in scope:  # it waits for the body, which is one message
                    held = message
                    return
            elif held:
                keys, asked = scope[SIGNED_WITH]
                signature = keys.sign(reply_kind(status, asked), path, message["body"])
                signed = [*held["headers"], (b"x-voxpop-signature", signature.encode())]
                await send({**held, "headers": signed})
            await send(message)

        try:
            if readable and asks:  # no limit: it costs nothing, and no page could read why it was refused
                allowed = [(b"access-control-allow-methods", self.origins.methods(path)), SENT, MAX_AGE]
                await observed({"type": "http.response.start", "status": 204, "headers": allowed})
                await observed({"type": "http.response.body"})
                return
            if any(name == b"host" and not HOST.fullmatch(value) for name, value in head):
                raise Refusal(400, "the Host header is not the name of a machine; send the one of the address")
            if REFUSED in scope:
                raise scope.pop(REFUSED)
            wait = 0.0 if path in UNLIMITED else self._rate_limit.take(caller)
            if wait > 0:
                raise Refusal(429, "too many requests from this address; wait a little", retry_after=wait)
            await self._router(scope, body, observed)
        except Exception as error:
            refusal = refusal_of(error, _pattern(scope))
            reply = error_reply(refusal, not body.whole, self._page(scope, refusal))
            if status == 0:  # otherwise a reply has already begun
                await reply(scope, receive, observed)
        finally:
            body.close()
            # A page that stays up to date is answered when its reply begins; how long somebody looks at it is no wait.
            answered = begun if scope.get(ENDLESS) else time.perf_counter()
            self._telemetry.request(scope["method"], _pattern(scope), status, answered - start)


def _pattern(scope: Scope) -> str:
    """Return the pattern of the route, so that what callers put into an address stays out of the logs."""
    return getattr(scope.get("endpoint"), "path", "unknown")


def refusal_of(error: Exception, route: str) -> Refusal:
    """Turn an error into the refusal that the caller gets; log it if the caller is not to blame."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, InputError):
        return Refusal(422, str(error))
    if isinstance(error, DATABASE_AWAY):
        logs.fault("database", error, route=route)
        return no_database()
    logs.fault("fault", error, route=route)
    return Refusal(500, "something went wrong here; nothing was counted, try again")


def error_reply(refusal: Refusal, unread: bool, page: Response | None = None) -> Response:
    """Make the reply to a request that is refused, or complete the `page` for people.

    `unread` means that part of the body was not received.
    """
    headers = {} if refusal.allow is None else {"allow": refusal.allow}
    if refusal.retry_after is not None:
        headers["retry-after"] = str(max(1, round(refusal.retry_after)))
    if refusal.status == 401 and page is None:
        headers["www-authenticate"] = "Bearer"
    if refusal.status in (413, 503) and unread:
        headers["connection"] = "close"  # the rest of the body is not wanted
    if page is None:
        return JSONResponse({"error": refusal.sentence}, refusal.status, headers)
    page.headers.update(headers)
    return page
