"""Requests that are repeated, and answers that are believed only if they are voxpop's own.

Proxies, balancers and the portals of hotels answer too: with statuses of their own, and with pages instead of JSON.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

NOT_NOW = (408, 425, 429)  # and every status from 500
MOST_PAUSE = 60.0  # seconds, whatever Retry-After says


class Caller:
    """Every request here may be repeated."""

    def __init__(self, http: httpx.Client, attempts: int, sleep: Callable[[float], None]) -> None:
        self._http, self._attempts, self._sleep = http, attempts, sleep

    def request(self, method: str, address: str, headers: dict[str, str], body: bytes | None = None) -> httpx.Response:
        """The answer; while there is none, or only "not now", again and again with growing pauses."""
        attempt = 1
        while True:
            pause = min(10.0, 0.1 * 2**attempt) * random.uniform(0.5, 1.0)
            try:
                answer = self._http.request(method, address, headers=headers, content=body)
                if not is_not_now(answer) or attempt >= self._attempts:
                    return answer
                pause = max(pause, seconds_of(answer.headers.get("retry-after", "")))
            except httpx.RequestError:
                if attempt >= self._attempts:
                    raise
            self._sleep(pause)
            attempt += 1


def is_not_now(answer: httpx.Response) -> bool:
    """Whether the same request may succeed later."""
    return answer.status_code >= 500 or answer.status_code in NOT_NOW


def seconds_of(retry_after: str) -> float:
    """How long a Retry-After header asks to wait, within reason: seconds, or a date; 0 for anything else.

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
    """The JSON object of an answer; empty if it holds none."""
    try:
        found = answer.json()
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def refusal_of(answer: httpx.Response) -> str | None:
    """The sentence with which a voxpop service refuses; None if it does not, or if somebody else answers."""
    sentence = document_of(answer).get("error")
    return sentence if 400 <= answer.status_code < 500 and isinstance(sentence, str) else None


def is_done(answer: httpx.Response, *statuses: str) -> bool:
    """Whether a voxpop service says that it did what was asked."""
    return answer.status_code in (200, 201) and document_of(answer).get("status") in statuses
