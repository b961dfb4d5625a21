"""Taking times: the least of a few, and how they grow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The least time of a few: what else the machine did only adds."""
    best = float("inf")
    for _ in range(repeats):
        start = perf_counter()
        work()
        best = min(best, perf_counter() - start)
    return best


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """The p of time ~ size^p, by least squares on the logarithms.

    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(np.asarray(sizes, dtype=float)), np.log(np.asarray(times, dtype=float)), 1)[0])


def machine_limits() -> dict[str, float]:
    """The rate of matrix products on one thread, and the bandwidth of copying memory."""
    matrix, source = np.random.default_rng(0).random((1024, 1024)), np.ones(2**23)
    target = np.empty_like(source)
    product, copy = seconds(lambda: matrix @ matrix), seconds(lambda: np.copyto(target, source))
    return {"gigaflops": 2 * 1024**3 / product / 1e9, "gigabytes_per_second": 2 * source.nbytes / copy / 1e9}
