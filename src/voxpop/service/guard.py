"""What stands before every route: size and rate limits, error pages in one sentence, logs and metrics."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from voxpop.service import logs
from voxpop.service.direct import Direct
from voxpop.service.refusals import Refusal

MOST_CALLERS = 100_000  # remembered by the rate limit
UNLIMITED = ("/healthz", "/readyz")


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
        self._log = structlog.get_logger().bind()
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._admit(scope)
            match = self._direct and self._direct.match(scope)
            if self._direct and match:
                await self._direct(match, scope, self._measured(scope, receive), observed)
            else:
                await self.app(scope, self._measured(scope, receive), observed)
        except Refusal as refusal:
            if status == 0:
                await refuse(observed, refusal)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if status == 0:  # otherwise the application has noted and answered it
                logs.fault("fault", error, route=_route(scope))
                await refuse(observed, Refusal(500, "something went wrong here; nothing was counted, try again"))
        finally:
            self._note(scope, status, time.perf_counter() - start)

    def _admit(self, scope: Scope) -> None:
        if scope["path"] in UNLIMITED:
            return
        client = scope.get("client")
        wait = self.buckets.take(client[0] if client else "")
        if wait > 0:
            raise Refusal(429, "too many requests from this address; wait a little", retry_after=wait)

    def _measured(self, scope: Scope, receive: Receive) -> Receive:
        """The request's body, refused when it grows beyond the limit."""
        most = self._most(scope)
        for name, value in scope["headers"]:
            if name == b"content-length" and (not value.isdigit() or int(value) > most):
                raise too_large(most)
        seen = 0

        async def measured() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                raise too_large(most)
            return message

        return measured

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


def too_large(most: int) -> Refusal:
    """The body does not fit."""
    return Refusal(413, f"the body is larger than {most} bytes; send less")


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
    if refusal.status == 413:
        headers.append((b"connection", b"close"))  # the rest of the body is not read
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
