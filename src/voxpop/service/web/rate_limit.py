"""The rate limit: one token bucket per caller."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

MOST_CALLERS = 100_000  # remembered at the same time; the one silent for longest is forgotten first


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
