"""The guard around all routes: the rate limit, limits on bodies, one sentence for every error, and telemetry."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from voxpop.service.refusals import Refusal
from voxpop.service.web.body_limits import HeldBytes, TimedBody, require_short
from voxpop.service.web.callers import caller_of
from voxpop.service.web.error_replies import error_reply
from voxpop.service.web.origins import NOBODY, Origins
from voxpop.service.web.quick_uploads import QuickUploads
from voxpop.service.web.rate_limit import RateLimit
from voxpop.service.web.routes import ENDLESS
from voxpop.service.web.telemetry import Telemetry

RefusalPage = Callable[[Scope, Refusal], Response | None]  # for people; None if a program has asked
UNLIMITED = ("/healthz", "/readyz")  # exempt from the rate limit


class Guard:
    """Wraps a router: whatever happens inside, the caller gets an answer and the process lives on."""

    def __init__(
        self,
        router: ASGIApp,
        telemetry: Telemetry,
        rate_limit: RateLimit,
        most_bytes: int,
        page: RefusalPage = lambda scope, refusal: None,
        quick: QuickUploads | None = None,
        origins: Origins = NOBODY,
    ) -> None:
        self.quick, self.origins = quick, origins
        self._router, self._telemetry, self._rate_limit, self._most_bytes = router, telemetry, rate_limit, most_bytes
        self._held, self._page = HeldBytes() if quick is None else quick.held, page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        start, status, begun = time.perf_counter(), 0, 0.0
        scope["app"] = self  # so that Starlette raises an exception for an unknown address instead of answering itself
        caller = caller_of(scope["client"][0]) if scope.get("client") else ""
        body = TimedBody(self._held, caller, receive)
        readable = self.origins.headers(scope["path"], scope["headers"])

        async def observed(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], time.perf_counter()
                if readable:
                    message = {**message, "headers": [*message["headers"], *readable]}
            await send(message)

        try:
            preflight = self.origins.preflight(scope["method"], scope["path"], scope["headers"])
            if preflight is not None:  # no limit: it costs nothing, and no page could read why it was refused
                await observed({"type": "http.response.start", "status": 204, "headers": preflight})
                await observed({"type": "http.response.body"})
                return
            self._admit(caller, scope["path"])
            try:
                await self._router(scope, body.receive, observed)
            except HTTPException:  # there is no route, so nothing has checked the body's length
                require_short(scope, self._most_bytes)
                raise
        except Exception as error:
            page = partial(self._page, scope)
            reply = error_reply(error, _pattern(scope), body.is_unread(scope), page)
            if status == 0:  # otherwise a reply has already begun
                await reply(scope, receive, observed)
        finally:
            body.close()
            # A page that stays up to date is answered when its reply begins; how long somebody looks at it is no wait.
            answered = begun if scope.get(ENDLESS) else time.perf_counter()
            self._telemetry.request(scope["method"], _pattern(scope), status, answered - start)

    def _admit(self, caller: str, path: str) -> None:
        wait = 0.0 if path in UNLIMITED else self._rate_limit.take(caller)
        if wait > 0:
            raise Refusal(429, "too many requests from this address; wait a little", retry_after=wait)


def _pattern(scope: Scope) -> str:
    """Return the pattern of the route, so that what callers put into an address stays out of the logs."""
    return getattr(scope.get("endpoint"), "path", "unknown")
