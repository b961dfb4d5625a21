"""Summaries of runs: what is kept for tables and pictures, one run at a time and all runs of a policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from voxpop.errors import Array
from voxpop.model.state import State
from voxpop.report.stakes import regret_curve
from voxpop.simulation.runs import Run
from voxpop.simulation.trials import Trial


@dataclass(frozen=True)
class RunSummary:
    """One run in numbers."""

    regret: float
    numbers: int  # eq:comm_cost
    merged: int  # the same, if everyone sent one average for each distinct action
    people: int
    waves: int  # phases
    seconds: float
    kept: bool  # the best action was never dropped
    certificate: bool | None  # whether it is true; None if it says no more than the prior
    left: int  # actions that could still be best at the end
    norm_bound: float  # at the end; larger than at the start if it was refuted
    curve: tuple[float, ...]  # cumulative regret at `grid(horizon)`


def grid(horizon: int) -> Array:
    """Return the rounds at which curves are kept: evenly spaced, and evenly spaced on a logarithmic axis."""
    even, logarithmic = np.linspace(0, horizon, 161), np.geomspace(1, horizon, 81)
    return np.unique(np.round(np.concatenate([even, logarithmic])))


class Runnable(Protocol):
    """A trial or a rehearsal."""

    def run(self) -> Run: ...


def perform(trial: Runnable) -> RunSummary:
    """Run it and keep what matters."""
    return summarise(trial.run())


def summarise(run: Run) -> RunSummary:
    """Summarise a run in numbers."""
    horizon, f = run.scenario.problem.horizon, run.scenario.f
    rounds, regret = regret_curve(run.plans, run.best, horizon, f)
    return RunSummary(
        regret=run.metrics.regret,
        numbers=run.metrics.numbers,
        merged=sum(plan.people * (1 if plan.reports == "one" else len(plan.arms)) for plan in run.plans),
        people=run.metrics.people,
        waves=len(run.plans),
        seconds=run.seconds,
        kept=run.optimum_kept,
        certificate=run.certificate_true if _certifies(run) else None,
        left=len(run.state.active),
        norm_bound=run.state.norm_bound,
        curve=tuple(float(f"{value:.6g}") for value in np.interp(grid(horizon), rounds, regret)),
    )


def _certifies(run: Run) -> bool:
    """Return True if the certificate says more than the prior does."""
    prior = State.prior(run.scenario.problem, run.state.norm_bound)
    return run.state.certificate < prior.most_lost(run.best)


@dataclass(frozen=True)
class Cell:
    """The runs of one policy in one setting, by seed; a run that failed is missing."""

    runs: Mapping[int, RunSummary]
    trials: tuple[Trial, ...] = ()

    def __getitem__(self, name: str) -> Array:
        """Return one number of every run."""
        return np.array([getattr(run, name) for run in self.runs.values()], dtype=float)

    def mean(self, name: str = "regret") -> float:
        """Compute the mean over runs."""
        return float(self[name].mean())

    def std(self, name: str = "regret") -> float:
        """Compute the standard deviation over runs."""
        return float(self[name].std())

    @cached_property
    def curves(self) -> Array:  # (runs, grid)
        """Cumulative regret."""
        return np.array([run.curve for run in self.runs.values()])

    @property
    def kept(self) -> str:
        """The number of runs in which the best action was never dropped, out of all."""
        return f"{sum(run.kept for run in self.runs.values())}/{len(self.runs)}"

    @property
    def certified(self) -> str:
        """The number of runs whose certificate is true, out of those that have one; "" if none has."""
        verdicts = [run.certificate for run in self.runs.values() if run.certificate is not None]
        return f"{sum(verdicts)}/{len(verdicts)}" if verdicts else ""


Cells = Mapping[str, Cell]


def quantity(value: float) -> str:
    """Write a number as tables show it.

    >>> [quantity(value) for value in (5870, 0.1234, 2.1e7)]
    ['5,870', '0.123', '2.1e+07']
    """
    if value == 0:
        return "0"
    if abs(value) >= 1e7:
        return f"{value:.2g}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
