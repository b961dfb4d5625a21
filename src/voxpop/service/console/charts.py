"""Charts as plain data, which the page's script hands to uPlot; what they show is also in a table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Role = Literal["certified", "likely", "estimate", "pilot", "answers", "chosen", "loss"]  # says how it is drawn
DIGITS = 6  # of numbers in charts: finer than any screen


@dataclass(frozen=True)
class Series:
    """One line, or the dots, or one edge of a band: two neighbours with the same role are a band."""

    label: str
    role: Role
    values: tuple[float | None, ...]

    @classmethod
    def of(cls, label: str, role: Role, values: Iterable[float | None]) -> Series:
        """Make a series; what is not finite is a gap."""
        return cls(label, role, tuple(map(_plain, values)))


@dataclass(frozen=True)
class Chart:
    """Some series over a common axis."""

    title: str
    x_label: str
    y_label: str
    x: tuple[float, ...]
    series: tuple[Series, ...]
    logarithmic: bool = False  # the axis below

    @property
    def data(self) -> dict[str, Any]:
        """What the script needs."""
        return asdict(self)


def _plain(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.{DIGITS}g}")
