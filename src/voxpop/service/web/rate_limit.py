"""The rate limit: a token bucket for every caller."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

MOST_CALLERS = 100_000  # remembered at the same time; the one that was quiet the longest is forgotten first


@dataclass
class RateLimit:
    """Lets every caller make `rate` requests a second, and `burst` at once; a rate of 0 is no limit."""

    rate: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)  # level, and when it was so

    def take(self, caller: str) -> float:
        """Take a token from the caller's bucket: return 0, or the seconds to wait if there is none."""
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
