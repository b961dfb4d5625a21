"""What stands before every route: size and rate limits, error pages in one sentence, logs and metrics."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections import Counter as Counts
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from voxpop.service import logs
from voxpop.service.refusals import AWAY, Refusal, no_database, too_large
from voxpop.service.web.upload import Direct, require_short

MOST_CALLERS = 100_000  # remembered by the rate limit
UNLIMITED = ("/healthz", "/readyz")
BODY_SECONDS = 30.0  # for a whole body, however it trickles in
MOST_HELD = 256 * 2**20  # bytes of bodies in memory at once
MOST_HELD_OF_ONE = 80 * 2**20  # and of those, from one address


@dataclass
class Buckets:
    """A token bucket for each caller: `rate` requests a second, and `burst` at once. A rate of 0 is no limit."""

    rate: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _levels: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def take(self, caller: str) -> float:
        """0 if the caller may go on, else the seconds to wait."""
        if self.rate <= 0:
            return 0.0
        now = self.clock()
        level, seen = self._levels.pop(caller, (self.burst, now))
        level = min(self.burst, level + (now - seen) * self.rate)
        wait = 0.0 if level >= 1 else (1 - level) / self.rate
        self._levels[caller] = (level - 1 if wait == 0 else level, now)
        if len(self._levels) > MOST_CALLERS:
            self._levels.popitem(last=False)
        return wait


class Held:
    """The bytes of unfinished requests; whoever would make them too many has to wait."""

    def __init__(self) -> None:
        self.total = 0
        self._by_caller: Counts[str] = Counts()

    def take(self, caller: str, size: int) -> None:
        """Hold so many more for a caller, or refuse."""
        if self.total + size > MOST_HELD or self._by_caller[caller] + size > MOST_HELD_OF_ONE:
            if not self._by_caller[caller]:
                del self._by_caller[caller]
            raise Refusal(503, "too many large requests at once; send it again in a moment", retry_after=1)
        self.total += size
        self._by_caller[caller] += size

    def give(self, caller: str, size: int) -> None:
        """They are no longer held."""
        self.total -= size
        self._by_caller[caller] -= size
        if self._by_caller[caller] <= 0:
            del self._by_caller[caller]


class Metrics:
    """Prometheus metrics of one service; no label says anything about a study or a person."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self.requests = Counter("voxpop_requests", "Requests answered", labels, registry=self.registry)
        buckets = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
        self.seconds = Histogram(
            "voxpop_request_seconds", "Time to answer", ("route",), buckets=buckets, registry=self.registry
        )
        self.reports = Counter("voxpop_reports", "Reports counted", registry=self.registry)
        self.events = Counter("voxpop_events", "What moved studies on", ("kind",), registry=self.registry)


class Guard:
    """Wraps an ASGI application; whatever happens inside, the caller gets an answer and the process lives on."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        buckets: Buckets,
        most_bytes: int,
        larger: Mapping[str, int] | None = None,
        direct: Direct | None = None,
    ) -> None:
        self.app, self.metrics, self.buckets, self.most_bytes = app, metrics, buckets, most_bytes
        # Routes of other services and operators, by "METHOD pattern", may take more.
        self._larger = [(re.compile(re.sub(r"{\w+}", "[^/]+", name)), most) for name, most in (larger or {}).items()]
        self._direct = direct
        self._held = Held()
        self._log = structlog.get_logger().bind()
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0
        body = _Body(self._held, _caller(scope), receive)

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._admit(scope)
            match = self._direct and self._direct.match(scope)
            if self._direct and match:
                await self._direct(match, scope, body.receive, observed, self.most_bytes)
            else:
                body.limit(scope, self._most(scope))
                await self.app(scope, body.receive, observed)
        except Refusal as refusal:
            if status == 0:
                await refuse(observed, refusal)
        except asyncio.CancelledError:
            raise
        except AWAY as error:
            if status == 0:
                logs.fault("database", error, route=_route(scope))
                await refuse(observed, no_database())
        except Exception as error:
            if status == 0:  # otherwise the application has noted and answered it
                logs.fault("fault", error, route=_route(scope))
                await refuse(observed, Refusal(500, "something went wrong here; nothing was counted, try again"))
        finally:
            body.close()
            self._note(scope, status, time.perf_counter() - start)

    def _admit(self, scope: Scope) -> None:
        if scope["path"] in UNLIMITED:
            return
        wait = self.buckets.take(_caller(scope))
        if wait > 0:
            raise Refusal(429, "too many requests from this address; wait a little", retry_after=wait)

    def _most(self, scope: Scope) -> int:
        name = f"{scope['method']} {scope['path']}"
        return next((most for pattern, most in self._larger if pattern.fullmatch(name)), self.most_bytes)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        method, route = scope["method"], _route(scope)
        if method not in ("GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH"):
            method = "other"
        key = method, route, status
        if key not in self._children:
            made = self.metrics.requests.labels(method, route, str(status)), self.metrics.seconds.labels(route)
            self._children[key] = made
        requests, histogram = self._children[key]
        requests.inc()
        histogram.observe(seconds)
        log = self._log.debug if status < 400 else self._log.info
        log("request", method=method, route=route, status=status, seconds=round(seconds, 4))


class _Body:
    """A request's body as it comes in: refused when it is too long, too slow, or more than there is room for."""

    def __init__(self, held: Held, caller: str, receive: Receive) -> None:
        self._held, self._caller, self._receive = held, caller, receive
        self._seen, self._most = 0, math.inf
        self._end: float | None = None  # of its time
        self._whole = False

    def limit(self, scope: Scope, most: int) -> None:
        """Refuse what is longer, by its own word or when it shows."""
        self._most = most
        require_short(scope, most)

    async def receive(self) -> Message:
        """The next part; after the last one, only that the caller is gone, which may take as long as it likes."""
        if self._whole:
            return await self._receive()
        loop = asyncio.get_running_loop()
        self._end = self._end or loop.time() + BODY_SECONDS
        try:
            async with asyncio.timeout_at(self._end):
                message = await self._receive()
        except TimeoutError:
            sentence = f"the body took longer than {BODY_SECONDS:g} s; send it again, faster"
            raise Refusal(503, sentence, retry_after=1) from None
        size = len(message.get("body", b""))
        if self._seen + size > self._most:
            raise too_large(int(self._most))
        self._held.take(self._caller, size)
        self._seen += size
        self._whole = not message.get("more_body", False)
        return message

    def close(self) -> None:
        """The request is answered."""
        self._held.give(self._caller, self._seen)


def _caller(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _route(scope: Scope) -> str:
    """The route's pattern: what a caller wrote into the address stays out of logs and metrics."""
    route = scope.get("route")
    return getattr(route, "path", "unknown")


async def refuse(send: Send, refusal: Refusal) -> None:
    """Answer with one sentence."""
    body = json.dumps({"error": refusal.sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refusal.retry_after is not None:
        headers.append((b"retry-after", str(max(1, round(refusal.retry_after))).encode()))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refusal.status in (413, 503):
        headers.append((b"connection", b"close"))  # the rest of the body is not read
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
