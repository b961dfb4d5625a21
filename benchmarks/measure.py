"""What a benchmark measures and finds: the least of a few times, ratios with targets, and costs against a size."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

Work = Callable[[], object]
FALL = 1.5  # a ratio that is worse than the baseline by this factor is a regression


def seconds(work: Work, repeats: int = 3) -> float:
    """Return the least of a few times: other work of the machine can only add to it."""
    return together([work], repeats)[0]


def together(works: Sequence[Work], repeats: int = 3) -> list[float]:
    """Return the least time of each, taken in turns, so that a slow minute of the machine affects all alike."""
    best = [float("inf")] * len(works)
    for _ in range(repeats):
        for number, work in enumerate(works):
            start = perf_counter()
            work()
            best[number] = min(best[number], perf_counter() - start)
    return best


def machine_limits() -> dict[str, float]:
    """Measure matrix products on one thread, in double and single precision, and copying memory."""
    matrix, source = np.random.default_rng(0).random((1024, 1024)), np.ones(2**23)
    single, target = matrix.astype(np.float32), np.empty_like(source)
    works: list[Work] = [lambda: matrix @ matrix, lambda: single @ single, lambda: np.copyto(target, source)]
    double, half, copy = together(works, 5)
    return {
        "gigaflops": 2 * 1024**3 / double / 1e9,
        "gigaflops_single": 2 * 1024**3 / half / 1e9,
        "gigabytes_per_second": 2 * source.nbytes / copy / 1e9,
    }


@dataclass(frozen=True)
class Figure:
    """One ratio, and what it must be."""

    name: str
    value: float
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""

    @property
    def target(self) -> str:
        """What it must be; empty if nothing."""
        least, most = self.at_least, self.at_most
        return f"≥ {least:g}" if least is not None else "" if most is None else f"≤ {most:g}"

    def verdict(self, before: Mapping[str, float]) -> str:
        """Judge it in one word, by its target and by the ratios of an earlier run."""
        if not self.target:
            return ""
        if self.at_least is not None:
            missed, worse = self.value < self.at_least, self.value < before.get(self.name, 0.0) / FALL
        else:
            assert self.at_most is not None
            old = before.get(self.name, float("inf"))
            missed, worse = self.value > self.at_most, self.value > max(old, 0.1) * FALL
        return "missed" if missed else "worse" if worse else "reached"


@dataclass(frozen=True)
class Curve:
    """The cost against one size."""

    axis: str
    sizes: Sequence[float]
    times: Sequence[float]
    limit: float | None = None  # of the exponent
    note: str = ""  # instead of the exponent, where the cost is not a power of the size

    @property
    def exponent(self) -> float:
        """The p of time ~ size^p, by least squares on the logarithms.

        >>> round(Curve("n", [1, 2, 4], [3, 12, 48]).exponent, 6)
        2.0
        """
        return float(np.polyfit(np.log(self.sizes), np.log(self.times), 1)[0])

    @property
    def figure(self) -> Figure:
        """The exponent, as a figure."""
        return Figure(f"exponent of the cost in {self.axis}", self.exponent, at_most=self.limit)


@dataclass(frozen=True)
class Absent:
    """A peer that is not installed."""

    name: str


Found = Iterator[Figure | Curve | Absent]  # what one piece measures, as it goes on
