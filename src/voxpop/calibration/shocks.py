"""Shocks that everybody shares, estimated before a study: from the history of a metric, or from a pilot's rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import f as fisher

from voxpop.calibration.pilot import Pilot
from voxpop.errors import Array, InputError, require_integer
from voxpop.model.problem import Indices
from voxpop.model.words import counted, number

WINDOW = 10  # rounds in which every decision of a wave has its turn, about
FEWEST, LONGEST = 14, 1500  # rounds of a history
SPARSE = 3  # rounds for each value, at most
TINY = 1e-300
LEVEL, NORMAL = 0.01, 2.58  # of the tests for a cycle and for a trend
RUNS = 0.2  # the correlation from which on shocks come in runs
UNLIKE = 20  # times as large as the pilot's rewards: another unit
LEAST_FREEDOM = 2  # of an estimate from a pilot; what is assumed otherwise counts as much
MOST = 3000  # actions and rounds


@dataclass(frozen=True, eq=False)
class ShockEstimate:
    """What happens to everybody alike in a round: its standard deviation among neighbouring rounds, and how sure it is.

    >>> rng = np.random.default_rng(0)
    >>> found = estimate_shocks(5 + 0.1 * rng.standard_normal(60))
    >>> round(found.shock_std, 2), round(found.freedom), found.weekly
    (0.08, 47, 0.0)
    """

    shock_std: float  # of a round, compared with those close to it
    freedom: float  # degrees of freedom of its square
    persist: float = 0.0  # the correlation of a round with the next, after the cycle
    weekly: float = 0.0  # the share of the variance that a cycle explains; 0 if none shows
    trend: float = 0.0  # per round; removed, and 0 if none shows
    long_std: float = 0.0  # of a round, compared with all others
    rounds: int = 0  # in which something was measured
    series: Array = field(default_factory=lambda: np.zeros(0))  # the history; NaN is a gap
    cycle: Array = field(default_factory=lambda: np.zeros(0))  # what the cycle adds to each round of the history
    uneven: bool = False  # its dates are, so that every row counts as a round
    step: str = ""  # between its rounds, such as 1 day, if its dates say so
    period: int = 0  # the rounds of the cycle with a value; 0 if none shows
    beyond: tuple[float, float] = (0.0, 0.0)  # the size of shocks beyond the cycle, and their degrees of freedom

    @property
    def advice(self) -> tuple[str, ...]:
        """What was found and what to do about it, in sentences."""
        size, sure = number(self.shock_std), f"{self.freedom:.0f} degrees of freedom"
        if not len(self.series):
            return (f"The pilot's {self.rounds} rounds show shocks that everybody shares, of about {size} ({sure}).",)
        missing, turns = len(self.series) - self.rounds, "rises" if self.trend > 0 else "falls"
        said = {
            f"What a round does to everybody differs by about {size} among {WINDOW} rounds in a row ({sure}), and by "
            f"{number(self.long_std)} over all {self.rounds}. That is an upper estimate: it includes how the metric's "
            "average varies with the people behind it.": True,
            f"{counted(missing, 'round')} of the history without a value: left out.": missing,
            f"The history's values are {self.step} apart: a round of the study is taken to last as long.": self.step,
            "The history's dates are not evenly spaced: every row counts as one round.": self.uneven,
            f"The metric {turns} by {number(abs(self.trend))} a round; removed.": self.trend,
            f"A weekly cycle is {100 * self.weekly:.0f} % of the variance, and beyond it rounds differ by about "
            f"{number(self.beyond[0])}: play blocks of whole weeks (cycle = {self.period} in [policy]), or let a round "
            "be a week.": self.weekly,
            f"Good and bad rounds come in runs (correlation {self.persist:.2f} with the next): play decisions in the "
            "order that the study asks for.": self.persist > RUNS,
        }
        return tuple(sentence for sentence, holds in said.items() if holds)

    @property
    def balanced(self) -> ShockEstimate:
        """The same for decisions that are played as often in each round of the cycle: what is beyond it."""
        return replace(self, shock_std=self.beyond[0], freedom=self.beyond[1]) if self.period else self

    def rounds_worth(self, bias_std: float, noise_std: float, people: int = 100) -> int:
        """Return the rounds after which shocks blur a decision's average no more than so many people's differences.

        >>> ShockEstimate(0.1, 50.0).rounds_worth(0.5, 0.3)
        4
        """
        return max(1, math.ceil((people * self.shock_std**2 - noise_std**2) / bias_std**2))

    def require_unit(self, rewards: Array) -> None:
        """Refuse a history of another order of magnitude than the pilot's rewards."""
        own, pilot = (float(np.sqrt(np.nanmean(np.square(values)))) for values in (self.series, rewards))
        if not pilot / UNLIKE <= own <= pilot * UNLIKE:
            raise InputError(
                f"the history's values are about {own:.3g} and the pilot's rewards about {pilot:.3g}, which looks like "
                "another unit; give the metric per person and round, in the unit of the pilot's rewards"
            )


def estimate_shocks(history: Any, period: int | None = None, first: int = 0) -> ShockEstimate:
    """Estimate shocks from a metric under one decision, a value a round and NaN for a gap.

    A study plays its decisions in turns, so that shocks are compared among neighbours: within windows of ten rounds. A
    cycle is looked for if the rounds of its period are given; the history begins with round `first` of it. Of a long
    history the last 1,500 rounds count.
    """
    if isinstance(history, ShockEstimate):
        return history
    try:
        series = np.array(history, dtype=float)
    except (TypeError, ValueError):
        series = np.zeros((0, 0))
    if series.ndim != 1 or np.isinf(series).any():
        raise InputError("a history must be finite numbers, one a round, with NaN for a gap; give one such column")
    first, series = first + max(0, len(series) - LONGEST), series[-LONGEST:]
    at = np.flatnonzero(~np.isnan(series))
    values, size = series[at], len(at)
    if size < max(FEWEST, len(series) / SPARSE):
        fewest = f"at least {FEWEST} rounds with a value, and one in {SPARSE}"
        raise InputError(f"a history needs {fewest}, got {size} in {len(series)}; give more, or leave it out")
    line = np.column_stack([np.ones(size), at - at.mean()])
    straight = values - line @ np.linalg.lstsq(line, values)[0]
    if np.abs(straight).max() <= 1e-9 * np.abs(values).max():
        raise InputError(
            f"the history is {values[0]:g} in its first round and never varies; give it as it was measured"
        )
    design, rest, weekly, cycle, days = line, straight, 0.0, np.zeros(len(series)), 0
    if period is not None:
        phases = (np.arange(len(series)) + first) % require_integer("period", period, least=2)
        seen = np.unique(phases[at])
        wider = np.column_stack([line, *(phases[at] == phase for phase in seen[1:])]).astype(float)
        weights = np.linalg.lstsq(wider, values)[0]
        left, free, more = values - wider @ weights, size - wider.shape[1], len(seen) - 1
        if more and free >= period:
            ratio = (straight @ straight - left @ left) / more / (left @ left / free + TINY)
            if fisher.sf(ratio, more, free) < LEVEL:
                weekly = max(0.0, 1 - (left @ left / free) / (straight @ straight / (size - 2)))
                design, rest, days = wider, left, len(seen)
                effects = np.zeros(period)
                effects[seen[1:]] = weights[2:]
                cycle = (effects - effects[seen].mean())[phases]
    pairs = np.flatnonzero(np.diff(at) == 1)
    raw = float((rest[pairs] * rest[pairs + 1]).mean() / (np.square(rest).mean() + TINY)) if len(pairs) else 0.0
    persist = min(max((raw + 2 / size) / (1 - 4 / size), -0.95), 0.95)  # less the bias of a series without its line
    slope = np.linalg.lstsq(design, values)[0][1]
    spread = rest @ rest / (size - design.shape[1]) * (1 + persist) / (1 - persist)
    shows = abs(slope) > NORMAL * math.sqrt(spread * np.linalg.pinv(design.T @ design)[1, 1])
    square, freedom = _within(straight, at, persist)
    beyond, share = _within(rest, at, persist), (size - design.shape[1]) / (size - line.shape[1])
    return ShockEstimate(
        math.sqrt(square),
        freedom,
        persist,
        weekly,
        float(slope) if shows else 0.0,
        math.sqrt(straight @ straight / (size - 2)),
        size,
        series,
        cycle,
        period=days,
        beyond=(math.sqrt(beyond[0] / share), share * beyond[1]),
    )


def _within(values: Array, at: Indices, persist: float) -> tuple[float, float]:
    """Return the mean square within windows of ten rounds, and the degrees of freedom that correlation leaves of it."""
    same = np.equal.outer(at // WINDOW, at // WINDOW).astype(float)
    centre = np.eye(len(at)) - same / same.sum(axis=1)
    likely = centre @ persist ** np.abs(np.subtract.outer(at, at)) @ centre
    square = float(np.square(centre @ values).sum() / np.trace(centre))
    return square, float(np.trace(likely) ** 2 / np.square(likely).sum())


def shocks_of_rounds(pilot: Pilot, deviations: Array, noise_std: float) -> ShockEstimate | None:
    """Estimate shocks from a pilot whose decisions were tried in several rounds, by REML; None if it is too unsure.

    Decisions are projected out, and people's noise is known: `deviations` is the covariance of one person's, (actions,
    actions). Along the eigenvectors of what is left of the rounds, squares have the expectations 1 + shock^2 * value.
    """
    if pilot.when is None:
        return None
    actions, rounds = len(pilot.decisions), int(pilot.when.max()) + 1
    if actions + rounds > MOST:
        raise InputError(f"the pilot has {rounds:,} rounds, too many to solve for; write days or weeks, not moments")
    sums = np.zeros((actions + rounds + 1, actions + rounds + 1))
    for person in np.unique(pilot.people):
        rows = np.flatnonzero(pilot.people == person)
        tried, when = pilot.actions[rows], pilot.when[rows]
        noise = deviations[np.ix_(tried, tried)] + np.diag(noise_std**2 / pilot.counts[rows])
        told = np.zeros((len(rows), len(sums)))
        told[np.arange(len(rows)), tried] = told[np.arange(len(rows)), actions + when] = 1.0
        told[:, -1] = pilot.averages[rows]
        sums += told.T @ np.linalg.solve(noise, told)
    across = sums[actions:, :actions]
    left = sums[actions:, actions:] - across @ np.linalg.pinv(sums[:actions, :actions], hermitian=True) @ across.T
    values, vectors = np.linalg.eigh(left[:-1, :-1])
    kept = values > 1e-9 * sums[actions:-1, actions:-1].max()
    if not kept.any():
        return None
    values, squares = values[kept], np.square(vectors[:, kept].T @ left[:-1, -1]) / values[kept]

    def unlikely(variance: float) -> float:
        return float(np.sum(np.log1p(variance * values) + squares / (1 + variance * values)))

    found = float(minimize_scalar(unlikely, bounds=(0.0, float((squares / values).max())), method="bounded").x)
    freedom = float(np.square(found * values / (1 + found * values)).sum())
    return ShockEstimate(math.sqrt(found), freedom, rounds=rounds) if freedom >= LEAST_FREEDOM else None
