"""What a benchmark measures and finds: the least of a few times, ratios with targets, and costs against a size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

Work = Callable[[], object]


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


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Fit the p of time ~ size^p by least squares on the logarithms.

    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(np.asarray(sizes, dtype=float)), np.log(np.asarray(times, dtype=float)), 1)[0])


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
    def targeted(self) -> bool:
        """True if it has a target."""
        return self.at_least is not None or self.at_most is not None

    @property
    def reached(self) -> bool:
        """True if the target is met or there is none."""
        return (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )


@dataclass(frozen=True)
class Curve:
    """The cost against one size."""

    axis: str
    sizes: list[float]
    times: list[float]
    exponent: float
    limit: float | None = None
    note: str = ""  # instead of the exponent, where the cost is not a power of the size

    @classmethod
    def of(
        cls, axis: str, sizes: Sequence[int], times: Sequence[float], limit: float | None = None, note: str = ""
    ) -> Curve:
        """Make a curve with the exponent that fits."""
        return cls(axis, [float(size) for size in sizes], list(times), exponent(sizes, times), limit, note)

    @property
    def figure(self) -> Figure:
        """The exponent, as a figure."""
        return Figure(f"exponent of the cost in {self.axis}", self.exponent, at_most=self.limit)


@dataclass
class Results:
    """Everything that was measured."""

    figures: list[Figure] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)  # peers that are not installed

    def add(self, other: Results) -> None:
        """Take in what another piece measured."""
        self.figures += other.figures
        self.curves += other.curves
        self.absent += other.absent
