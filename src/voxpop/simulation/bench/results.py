"""What a benchmark finds: ratios with targets, and costs against a size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from voxpop.simulation.bench.clock import exponent


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
