"""The router made from declared routes: every endpoint checks the body's length and the role before its handler."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from starlette import routing
from starlette.requests import Request
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from voxpop.service.web.body_limits import cut_off, require_short
from voxpop.service.web.request_parts import require_json
from voxpop.service.web.routes import Handler, ReportUpload, Role, RoleCheck, Route
from voxpop.service.web.upload import UploadEndpoint


class Endpoint:
    """The ASGI application of one route; only callers with the route's role reach its handler."""

    def __init__(self, route: Route, handler: Handler, check: RoleCheck, most_bytes: int) -> None:
        self.path, self._handler, self._check, self._most_bytes = route.path, handler, check, most_bytes
        self._takes_body = route.body is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        require_short(scope, self._most_bytes)
        request = Request(scope, cut_off(receive, self._most_bytes))
        caller = await self._check(request)
        if self._takes_body:
            require_json(request.headers.get("content-type", ""))
        response = await self._handler(request, caller)
        if scope["method"] == "HEAD":  # the same headers; a stream is not even begun
            await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
            await send({"type": "http.response.body", "body": b""})
            return
        await response(scope, receive, send)


def make_router(
    routes: list[Route], checks: Mapping[Role, RoleCheck], most_bytes: int, lifespan: Lifespan[Any]
) -> routing.Router:
    """Make a router for these routes; bodies are limited to `most_bytes` unless a route sets its own limit."""
    made = [_made(route, checks, most_bytes if route.most_bytes is None else route.most_bytes) for route in routes]
    # Every address has exactly one spelling, because signatures and metrics depend on it.
    return routing.Router(made, redirect_slashes=False, lifespan=lifespan)


class _ExactRoute(routing.Route):
    """A route with one spelling and one method, besides HEAD for GET; Starlette's takes addresses with a newline."""

    def __init__(self, path: str, endpoint: ASGIApp, method: str) -> None:
        super().__init__(path, endpoint, methods=[method])
        self.methods = {"GET", "HEAD"} if method == "GET" else {method}
        self.path_regex = re.compile(self.path_regex.pattern.removesuffix("$") + r"\Z")


def _made(route: Route, checks: Mapping[Role, RoleCheck], most_bytes: int) -> _ExactRoute:
    endpoint: Endpoint | UploadEndpoint
    if isinstance(route.handler, ReportUpload):
        endpoint = UploadEndpoint(route.path, route.handler, most_bytes)
    else:
        endpoint = Endpoint(route, route.handler, checks[route.role], most_bytes)
    return _ExactRoute(route.path, endpoint, route.method)
