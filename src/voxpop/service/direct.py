"""Uploads, straight from the server: on the one busy route a framework's comfort would cost more than the work."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from voxpop.service.refusals import Refusal
from voxpop.service.reports import decode
from voxpop.service.routes import Route, bearer_of, require_json

COUNTED = b'{"status":"counted"}'
BEFORE = b'{"status":"counted before"}'


class Direct:
    """The ASGI application of one upload route; refusals are raised, for the guard to answer."""

    def __init__(self, route: Route, count: Callable[[re.Match[str], str, bytes], Awaitable[bool]]) -> None:
        self.route = route
        self.pattern = re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", route.path))
        self._count = count

    def match(self, scope: Scope) -> re.Match[str] | None:
        """Whether it is for this route."""
        return self.pattern.fullmatch(scope["path"]) if scope["method"] == self.route.method else None

    async def __call__(self, match: re.Match[str], scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self.route
        authorization = kind = b""
        for name, value in scope["headers"]:
            if name == b"authorization":
                authorization = value
            elif name == b"content-type":
                kind = value
        token = bearer_of(authorization.decode("latin-1"))
        require_json(kind.decode("latin-1"))
        new = await self._count(match, token, decode(await _body(receive)))
        body = COUNTED if new else BEFORE
        await send({"type": "http.response.start", "status": 201 if new else 200, "headers": _HEADERS[new]})
        await send({"type": "http.response.body", "body": body})


def _headers(body: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]


_HEADERS: dict[bool, Any] = {True: _headers(COUNTED), False: _headers(BEFORE)}


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "the connection ended before the body did; send it again")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
