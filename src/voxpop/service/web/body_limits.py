"""Limits on the bodies of requests: the size of one, the time it takes, and the memory that all of them take."""

from __future__ import annotations

import asyncio
from collections import Counter

from starlette.types import Message, Receive, Scope

from voxpop.service.refusals import Refusal, too_large

BODY_SECONDS = 30.0  # for a whole body, however slowly its parts arrive
MOST_HELD = 256 * 2**20  # bytes of bodies in memory at once
MOST_HELD_OF_ONE = 80 * 2**20  # of these, from one address


class HeldBytes:
    """Counts the bytes that unfinished requests hold in memory, and refuses more than there is room for."""

    def __init__(self) -> None:
        self.total = 0
        self._by_caller: Counter[str] = Counter()

    def take(self, caller: str, size: int) -> None:
        """Hold `size` more bytes for a caller, or refuse."""
        if self.total + size > MOST_HELD or self._by_caller[caller] + size > MOST_HELD_OF_ONE:
            if not self._by_caller[caller]:
                del self._by_caller[caller]
            raise Refusal(503, "too many large requests at once; send it again in a moment", retry_after=1)
        self.total += size
        self._by_caller[caller] += size

    def give(self, caller: str, size: int) -> None:
        """Hold `size` fewer bytes for a caller."""
        self.total -= size
        self._by_caller[caller] -= size
        if self._by_caller[caller] <= 0:
            del self._by_caller[caller]


class TimedBody:
    """A request's body as it arrives; refused if it takes too long or if there is no room for it."""

    def __init__(self, held: HeldBytes, caller: str, receive: Receive) -> None:
        self._held, self._caller, self._receive = held, caller, receive
        self._seen = 0
        self._deadline: float | None = None
        self._whole = False

    async def receive(self) -> Message:
        """Return the next part; after the last one, wait for the caller to disconnect, without a time limit."""
        if self._whole:
            return await self._receive()
        self._deadline = self._deadline or asyncio.get_running_loop().time() + BODY_SECONDS
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            sentence = f"the body took longer than {BODY_SECONDS:g} s; send it again, faster"
            raise Refusal(503, sentence, retry_after=1) from None
        size = len(message.get("body", b""))
        self._held.take(self._caller, size)
        self._seen += size
        self._whole = not message.get("more_body", False)
        return message

    def is_unread(self, scope: Scope) -> bool:
        """Return True if the request has a body that was not received completely."""
        announced = (name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])
        return not self._whole and any(announced)

    def close(self) -> None:
        """Release the body's memory after its request is answered."""
        self._held.give(self._caller, self._seen)


def announced_length(scope: Scope) -> int:
    """Return the Content-Length of a request; 0 if it has none."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            if not value.isdigit() or len(value) > 18:
                raise Refusal(413, "the Content-Length is not a valid number; send less")
            return int(value)
    return 0


def require_short(scope: Scope, most: int) -> None:
    """Refuse a body whose Content-Length exceeds `most` bytes."""
    if announced_length(scope) > most:
        raise too_large(most)


def cut_off(receive: Receive, most: int) -> Receive:
    """Refuse a body as soon as more than `most` bytes have arrived."""
    seen = 0

    async def receive_limited() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise too_large(most)
        return message

    return receive_limited
