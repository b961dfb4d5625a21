"""Devices that are web pages: which origins may call the routes of devices, and the headers that tell a browser so.

A browser keeps what a service replies from the pages of other sites unless the reply names their origin. Cookies are no
part of this: devices send their keys themselves, so that a page that is let in can do no more than any other program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from voxpop.errors import InputError
from voxpop.service.web.routes import Route, pattern_of

Headers = list[tuple[bytes, bytes]]

ORIGIN = re.compile(r"(https?)://([a-z0-9-]+(?:\.[a-z0-9-]+)*|\[[0-9a-f:]+\])(?::([1-9][0-9]{0,4}))?")
USUAL_PORTS = {"http": "80", "https": "443"}  # browsers leave them out
VARY = (b"vary", b"Origin")
EXPOSED = (b"access-control-expose-headers", b"Retry-After")
SENT = (b"access-control-allow-headers", b"authorization, content-type, x-voxpop-enrolment")
MAX_AGE = (b"access-control-max-age", b"7200")  # seconds for which a browser need not ask again; none heeds more


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
        origin = self._origin(head)
        if origin is None or self._methods(path) is None:
            return []
        return [(b"access-control-allow-origin", origin), VARY, EXPOSED]

    def preflight(self, method: str, path: str, head: Iterable[tuple[bytes, bytes]]) -> Headers | None:
        """Return what else the reply says if a browser asks before it sends a page's request; None if it does not."""
        if method != "OPTIONS" or self._origin(head) is None or (known := self._methods(path)) is None:
            return None
        asks = any(name == b"access-control-request-method" for name, _ in head)
        return [(b"access-control-allow-methods", known), SENT, MAX_AGE] if asks else None

    def _origin(self, head: Iterable[tuple[bytes, bytes]]) -> bytes | None:
        """Return the origin that the request names, if it is listed."""
        if not self._listed:
            return None
        named = next((value for name, value in head if name == b"origin"), b"")
        return named if named in self._listed else None

    def _methods(self, path: str) -> bytes | None:
        """Return the methods by which devices call this address; None if they do not."""
        return next((known for pattern, known in self._places if pattern.fullmatch(path)), None)


NOBODY = Origins()
