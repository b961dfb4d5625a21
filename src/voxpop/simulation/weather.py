"""Shocks that everybody shares: what a round does to all rewards alike, such as the weather or a weekday."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.signal import lfilter

from voxpop.errors import Array, InputError
from voxpop.model.options import check, option
from voxpop.model.waves import Plan
from voxpop.runtime.random_streams import stream

WEEK, DAYS = 7, 2**20  # days, and the stream of what they do
PANEL = "Good and bad rounds"
AT_ONCE = 4096  # rounds that are drawn together


@dataclass(frozen=True)
class Weather:
    """Shocks of a round: Gaussian, from one round to the next correlated by `persist`, half of them weekly if wanted.

    >>> Weather(0.1).rounds(0, 0, 3).round(3).tolist()
    [0.09, 0.157, 0.023]
    """

    shocks: float = option(
        0.0, least=0, help="Shocks that everybody shares in a round, in units of the range of rewards.", panel=PANEL
    )
    persist: float = option(
        0.0,
        least=0,
        below=1,
        called="shocks_persist",
        help="Their correlation from one round to the next.",
        panel=PANEL,
    )
    weekly: bool = option(
        False, help="Half of the shocks' variance is that of a day of the week, for rounds of a day.", panel=PANEL
    )

    def __post_init__(self) -> None:
        check(self)
        if not self.shocks and (self.persist or self.weekly):
            said = "weekly" if self.weekly else f"shocks_persist {self.persist:g}"
            raise InputError(f"{said} is about shocks, and there are none; add --shocks 0.1, or leave it out")

    def over(self, f: Array) -> Weather | None:
        """Return these shocks in units of the reward; None if there are none."""
        size = self.shocks * float(np.ptp(f))
        return replace(self, shocks=size) if size else None

    def rounds(self, seed: int, first: int, count: int, run: int = 0) -> Array:
        """Return the shocks of some rounds, the same whoever asks for them; a run of its own has other weather."""
        return _drawn(self, seed, -(-(first + count) // AT_ONCE) * AT_ONCE, run)[first : first + count]

    def of(self, plan: Plan, first: int, seed: int) -> Array:
        """Return what happens to the averages of each block of a wave that begins with this round, (blocks, arms)."""
        sequence = plan.sequence
        happened = self.rounds(seed, first, len(sequence)).reshape(plan.blocks, -1)
        played = sequence.reshape(plan.blocks, -1)
        return np.array(
            [
                [float(block[arms == arm].mean()) for arm in plan.arms.tolist()]
                for block, arms in zip(happened, played, strict=True)
            ]
        )


@lru_cache(maxsize=8)
def _drawn(weather: Weather, seed: int, count: int, run: int) -> Array:
    """Draw the shocks of so many rounds, once for all policies that ask round by round."""
    innovations = stream(seed, "weather", run).standard_normal(count)
    innovations[1:] *= math.sqrt(1 - weather.persist**2)
    found = np.asarray(lfilter([1.0], [1.0, -weather.persist], innovations))
    if weather.weekly:
        days = stream(seed, "weather", DAYS).standard_normal(WEEK)  # Mondays are alike in the pilot and in the study
        days = (days - days.mean()) / days.std()
        found = math.sqrt(0.5) * (found + days[np.arange(count) % WEEK])
    found = weather.shocks * found
    found.setflags(write=False)
    return found
