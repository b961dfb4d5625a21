"""Limits on callers and on what they send: who counts as one caller, how often one may ask, and the size of bodies."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, IPv6Network

from starlette.types import Message, Receive, Scope

from voxpop.service.refusals import Refusal, too_large

MOST_CALLERS = 100_000  # whose rate is remembered at the same time; the one silent for longest is forgotten first
MOST_HELD = 256 * 2**20  # bytes of bodies in memory at once
MOST_HELD_OF_ONE = 80 * 2**20  # of these, from one address
REFUSED = "voxpop.refused"  # in the scope of a request: why its connection refuses it


def caller_of(address: str) -> str:
    """Return the name under which limits count an address: IPv6 addresses are counted by network.

    A household or a rented machine usually has a whole network of 2^64 of them.
    """
    if ":" not in address:
        return address
    try:
        found = IPv6Address(address.partition("%")[0])
    except ValueError:  # a proxy may forward anything
        return address
    return str(found.ipv4_mapped or IPv6Network((found, 64), strict=False))


@dataclass
class RateLimit:
    """Allows every caller `rate` requests per second and `burst` at once; a rate of 0 means no limit."""

    rate: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)  # level, and its time

    def take(self, caller: str) -> float:
        """Take a token from the caller's bucket and return 0; if there is none, return the seconds to wait."""
        if self.rate <= 0:
            return 0.0
        now = self.clock()
        level, seen = self._buckets.pop(caller, (self.burst, now))
        level = min(self.burst, level + (now - seen) * self.rate)
        wait = 0.0 if level >= 1 else (1 - level) / self.rate
        self._buckets[caller] = (level - 1 if wait == 0 else level, now)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
        return wait

    def give(self, caller: str) -> None:
        """Put a token back that was taken for nothing."""
        if caller in self._buckets:
            level, seen = self._buckets[caller]
            self._buckets[caller] = (min(self.burst, level + 1), seen)


class HeldBytes:
    """Counts the bytes that unfinished requests hold in memory, and refuses more than there is room for."""

    def __init__(self) -> None:
        self.total = 0
        self._by_caller: Counter[str] = Counter()

    def take(self, caller: str, size: int) -> None:
        """Hold `size` more bytes for a caller, or refuse."""
        if self.total + size > MOST_HELD or self._by_caller[caller] + size > MOST_HELD_OF_ONE:
            raise Refusal(503, "too many large requests at once; send it again in a moment", retry_after=1)
        self.total += size
        self._by_caller[caller] += size

    def give(self, caller: str, size: int) -> None:
        """Hold `size` fewer bytes for a caller."""
        self.total -= size
        self._by_caller[caller] -= size
        if self._by_caller[caller] <= 0:
            del self._by_caller[caller]


class Body:
    """The body of a request as it arrives: refused if it is longer than its limit, or if there is no room for it."""

    def __init__(self, scope: Scope, receive: Receive, held: HeldBytes, caller: str) -> None:
        self._scope, self._receive, self._held, self._caller = scope, receive, held, caller
        self._seen, self._most = 0, float("inf")
        self._read: bytes | None = None
        self.announced: int | None = None  # bytes, if the head says so
        self.whole = True  # nothing more comes
        for name, value in scope["headers"]:
            if name == b"content-length":
                self.announced, self.whole = int(value) if value.isdigit() else 10**18, False
            elif name == b"transfer-encoding":
                self.whole = False

    def limit(self, most: int) -> None:
        """Refuse a body of more than `most` bytes: at once if that is announced, or as soon as they have arrived.

        The strictest limit applies.
        """
        self._most = min(self._most, most)
        if (self.announced or self._seen) > most:
            raise too_large(most)

    async def __call__(self) -> Message:
        """Return the next part, as ASGI applications receive it; after the last one, wait for the caller to leave."""
        message = await self._receive()
        if REFUSED in self._scope:
            raise self._scope[REFUSED]
        if message["type"] == "http.disconnect":
            if not self.whole:
                raise Refusal(400, "the connection ended before the body did; send it again")
            return message
        size = len(message.get("body", b""))
        if size:
            self._held.take(self._caller, size)
            self._seen += size
            if self._seen > self._most:
                raise too_large(int(self._most))
        self.whole = not message.get("more_body", False)
        return message

    async def read(self) -> bytes:
        """Return the whole body."""
        if self._read is None:
            parts = []
            while not self.whole:
                parts.append((await self()).get("body", b""))
            self._read = b"".join(parts)
        return self._read

    def close(self) -> None:
        """Release the body's memory after its request is answered."""
        if self._seen:
            self._held.give(self._caller, self._seen)
