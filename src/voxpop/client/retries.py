"""Requests with retries, and checks that an answer comes from a voxpop service.

Proxies, load balancers and captive portals answer, too, with their own statuses and with HTML pages instead of JSON.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable
from contextlib import closing
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

NOT_NOW = (408, 425, 429)  # and every status of 500 or more
WIDEST = 25  # characters of a number in JSON and its comma: -2.2250738585072014e-308,
ROOM = 256  # bytes
MOST_PAUSE = 60.0  # seconds, whatever Retry-After says
REPLY_BYTES, REPLY_SECONDS = 2**25, 60.0  # that a reply may have and take


def body_of(said: dict[str, Any] | bytes) -> bytes:
    """Write a message as JSON, with spaces at its end, since its length is seen on the network whatever TLS hides.

    A report of numbers is as long as its public constants say; another message has a multiple of `ROOM` bytes. Bytes
    stay as they are: they are a share, which always has the same length.

    >>> {len(body_of({"report": [value, 0.0]})) for value in (0.0, -1.5e-300, 1e100, 12345.678)}
    {63}
    """
    if isinstance(said, bytes):
        return said
    text, report = _compact(said), said.get("report")
    room = ROOM * -(-len(text) // ROOM)
    if isinstance(report, list):
        room = len(_compact({**said, "report": []})) + WIDEST * len(report)
    assert len(text) <= room
    return text.ljust(room).encode()


def _compact(said: dict[str, Any]) -> str:
    return json.dumps(said, separators=(",", ":"), allow_nan=False)


class Caller:
    """A caller that repeats its requests; it may be used only for requests that are safe to repeat."""

    def __init__(self, http: httpx.Client, attempts: int, sleep: Callable[[float], None]) -> None:
        self._http, self._attempts, self._sleep = http, attempts, sleep

    def request(self, method: str, address: str, headers: dict[str, str], body: bytes | None = None) -> httpx.Response:
        """Return the answer to a request; without one, or if it says "not now", repeat it with growing pauses."""
        attempt = 1
        while True:
            pause = min(10.0, 0.1 * 2**attempt) * random.uniform(0.5, 1.0)
            try:
                request = self._http.build_request(method, address, headers=headers, content=body)
                request.headers.pop("cookie", None)  # it would tell who asks, whatever client an app gives
                answer = read(self._http.send(request, auth=None, follow_redirects=False, stream=True))
                if not is_not_now(answer) or attempt >= self._attempts:
                    return answer
                pause = max(pause, seconds_of(answer.headers.get("retry-after", "")))
            except httpx.RequestError:
                if attempt >= self._attempts:
                    raise
            self._sleep(pause)
            attempt += 1


def read(answer: httpx.Response) -> httpx.Response:
    """Read a reply as a whole; one that is endless, or unpacks into more than any has, is no answer."""
    content, end = bytearray(), time.monotonic() + REPLY_SECONDS
    with closing(answer):
        for part in answer.iter_bytes():
            content += part
            if len(content) > REPLY_BYTES or time.monotonic() > end:
                raise httpx.ReadError("the reply is larger than any reply of a service, or takes too long")
    kept = {name: answer.headers[name] for name in ("retry-after",) if name in answer.headers}
    return httpx.Response(answer.status_code, headers=kept, content=bytes(content), request=answer.request)


def is_not_now(answer: httpx.Response) -> bool:
    """Return True if the same request may succeed later."""
    return answer.status_code >= 500 or answer.status_code in NOT_NOW


def seconds_of(retry_after: str) -> float:
    """Read a Retry-After header (seconds, or a date) as seconds, at most MOST_PAUSE; 0 for anything else.

    >>> seconds_of("3"), seconds_of("1e9"), seconds_of("soon")
    (3.0, 60.0, 0.0)
    """
    try:
        wanted = float(retry_after)
    except ValueError:
        try:
            wanted = parsedate_to_datetime(retry_after).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return 0.0 if math.isnan(wanted) else min(MOST_PAUSE, max(0.0, wanted))


def document_of(answer: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of an answer; an empty one if it holds none."""
    try:
        found = answer.json()
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def refusal_of(answer: httpx.Response) -> str | None:
    """Return the sentence with which a voxpop service refuses; None if it does not, or if something else answers."""
    sentence = document_of(answer).get("error")
    return sentence if 400 <= answer.status_code < 500 and isinstance(sentence, str) else None


def is_done(answer: httpx.Response, *statuses: str) -> bool:
    """Return True if a voxpop service says that it did what was asked."""
    return answer.status_code in (200, 201) and document_of(answer).get("status") in statuses
