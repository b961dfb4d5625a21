"""Shocks that everybody shares: what a round does to all rewards alike, such as the weather or a weekday."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.signal import lfilter

from voxpop.errors import Array, InputError
from voxpop.model.options import check, option
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.runtime.random_streams import stream

WEEK, DAYS = 7, 2**20  # days, and the stream of what they do
MOVES = DAYS + 1  # the stream of how expected rewards change
PANEL = "Good and bad rounds"
AT_ONCE = 4096  # rounds that are drawn together


@dataclass(frozen=True)
class Weather:
    """What happens in a round: Gaussian shocks, from one round to the next correlated by `persist`, half of them weekly
    if wanted; what the decision before leaves behind; and how expected rewards change.

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

    carry_over: float = option(
        0.0,
        least=0,
        most=1,
        help="The share of the decision before that is still felt in the first round of the next one.",
        panel=PANEL,
    )
    drift_rate: float = option(
        0.0,
        least=0,
        help="The most by which an expected reward changes in a round, in units of the range of rewards.",
        panel=PANEL,
    )

    def __post_init__(self) -> None:
        check(self)
        if not self.shocks and (self.persist or self.weekly):
            said = "weekly" if self.weekly else f"shocks_persist {self.persist:g}"
            raise InputError(f"{said} is about shocks, and there are none; add --shocks 0.1, or leave it out")

    def over(self, f: Array) -> Weather | None:
        """Return this weather in units of the reward; None if it is calm."""
        size = self.shocks * float(np.ptp(f))
        rate = self.drift_rate * float(np.ptp(f))
        return replace(self, shocks=size, drift_rate=rate) if size or self.carry_over or rate else None

    def moves(self, problem: Problem, seed: int) -> Array | None:
        """Return by how much each expected reward changes in a round, (n,); None if nothing does.

        Two decisions that are drawn at random part as fast as can be: the change has the norm rate / sqrt(max k) in the
        RKHS, so that no expected reward changes by more than the rate.
        """
        if not self.drift_rate or problem.size < 2:
            return None
        pair = stream(seed, "weather", MOVES).choice(problem.size, 2, replace=False)
        change = problem.covariance(np.arange(problem.size), pair) @ [1.0, -1.0]
        norm = math.sqrt(max(float(change[pair] @ [1.0, -1.0]), np.finfo(float).tiny))
        return np.asarray(self.drift_rate / math.sqrt(problem.largest_variance) / norm * change)

    def rounds(self, seed: int, first: int, count: int, run: int = 0) -> Array:
        """Return the shocks of some rounds, the same whoever asks for them; a run of its own has other weather."""
        return _drawn(self, seed, -(-(first + count) // AT_ONCE) * AT_ONCE, run)[first : first + count]

    def of(self, plan: Plan, first: int, seed: int, f: Array, moves: Array | None = None) -> Array:
        """Return what happens to the averages of each block of a wave that begins with this round, (blocks, arms).

        Before the wave its reference is in force. The truth is f (n,) at the beginning of the study, and changes by
        `moves` in every round.
        """
        sequence, counting = plan.sequence, plan.counting
        happened = self.rounds(seed, first, len(sequence))
        if moves is not None:
            happened = happened + (first + np.arange(len(sequence))) * moves[sequence]
        if self.carry_over:
            before = np.concatenate([[plan.reference], sequence[:-1]])
            happened = happened + self.carry_over * (f[before] - f[sequence])
        return np.array(
            [
                [float(happened[(counting == block) & (sequence == arm)].mean()) for arm in plan.arms.tolist()]
                for block in plan.numbered
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
