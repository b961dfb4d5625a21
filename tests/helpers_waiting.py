"""Waiting for events that must happen; how long they take depends on the machine, and no test is about that."""

import time
from collections.abc import Callable

HANGING = 900.0  # seconds after which an event will not happen any more; only a fault makes a test wait this long


def until(happened: Callable[[], object], what: str, pause: float = 0.01) -> None:
    """Wait until it has happened."""
    end = time.monotonic() + HANGING
    while not happened():
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(pause)
