"""Waiting for what is bound to happen: how long it takes is the machine's business, and no test is about it."""

import time
from collections.abc import Callable

HANGING = 900.0  # seconds after which what has not happened never will; only a fault makes a test wait that long


def until(happened: Callable[[], object], what: str, pause: float = 0.01) -> None:
    """Wait until it has happened."""
    end = time.monotonic() + HANGING
    while not happened():
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(pause)
