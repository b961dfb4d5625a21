"""Uploads, straight from the server: on the one busy route a framework's comfort would cost more than the work."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from voxpop.service.refusals import Refusal, too_large
from voxpop.service.reports import decode
from voxpop.service.web.routes import Route, bearer_of, require_json

COUNTED = b'{"status":"counted"}'
BEFORE = b'{"status":"counted before"}'
NUMBER = 32  # bytes of JSON that a number of a report may take
REST = 1024  # and everything around the numbers

Room = Callable[[re.Match[str], bool], Awaitable[int]]  # numbers of a report there; True: look again


class Direct:
    """The ASGI application of one upload route; refusals are raised, for the guard to answer."""

    def __init__(self, route: Route, count: Callable[[re.Match[str], str, bytes], Awaitable[bool]], room: Room) -> None:
        self.route, self._room = route, room
        self.pattern = re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", route.path))
        self._count = count

    def match(self, scope: Scope) -> re.Match[str] | None:
        """Whether it is for this route."""
        return self.pattern.fullmatch(scope["path"]) if scope["method"] == self.route.method else None

    async def __call__(self, match: re.Match[str], scope: Scope, receive: Receive, send: Send, most: int) -> None:
        scope["route"] = self.route
        authorization = kind = b""
        for name, value in scope["headers"]:
            if name == b"authorization":
                authorization = value
            elif name == b"content-type":
                kind = value
        token = bearer_of(authorization.decode("latin-1"))
        require_json(kind.decode("latin-1"))
        new = await self._count(match, token, decode(await self._body(match, scope, receive, most)))
        body = COUNTED if new else BEFORE
        await send({"type": "http.response.start", "status": 201 if new else 200, "headers": _HEADERS[new]})
        await send({"type": "http.response.body", "body": body})

    async def _body(self, match: re.Match[str], scope: Scope, receive: Receive, most: int) -> bytes:
        """The body, if it can be one of the reports expected there: no more is read, and nothing longer decoded."""
        limit = min(most, NUMBER * await self._room(match, False) + REST)
        length = _length(scope)
        parts, seen = [], 0
        while True:
            if max(seen, length) > limit:  # a phase may have been opened elsewhere a moment ago
                limit = min(most, NUMBER * await self._room(match, True) + REST)
                if max(seen, length) > limit:
                    raise too_large(limit)
            message: Message = await receive()
            if message["type"] == "http.disconnect":
                raise Refusal(400, "the connection ended before the body did; send it again")
            parts.append(message.get("body", b""))
            seen += len(parts[-1])
            if not message.get("more_body", False) and seen <= limit:
                return b"".join(parts)


def _length(scope: Scope) -> int:
    """How long the body is by its own word; 0 if it does not say."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            if not value.isdigit() or len(value) > 18:
                raise Refusal(413, "the length of the body is not a number; send less")
            return int(value)
    return 0


def require_short(scope: Scope, most: int) -> None:
    """Refuse a body that is too long by its own word."""
    if _length(scope) > most:
        raise too_large(most)


def _headers(body: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]


_HEADERS: dict[bool, Any] = {True: _headers(COUNTED), False: _headers(BEFORE)}
