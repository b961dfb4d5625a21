"""Generated tests that are the same every time, and that go on with random examples for VOXPOP_FUZZ_SECONDS."""

import os
import time
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

SECONDS = float(os.environ.get("VOXPOP_FUZZ_SECONDS", "0"))  # for each test


def fuzz(run: Callable[[Any], None], examples: SearchStrategy[Any], number: int, seconds: float = SECONDS) -> None:
    """Run a test with this many examples, and then with as many random ones until the time is over."""

    def test(example: Any) -> None:
        run(example)

    end, anything = time.monotonic() + seconds, list(HealthCheck)
    settings(max_examples=number, suppress_health_check=anything)(given(examples)(test))()
    while time.monotonic() < end:
        wanted = settings(max_examples=number, suppress_health_check=anything, derandomize=False, database=None)
        wanted(given(examples)(test))()
