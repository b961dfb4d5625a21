"""Summaries of runs: what is kept for tables and pictures."""

from __future__ import annotations

from dataclasses import dataclass

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


def perform(trial: Trial) -> RunSummary:
    """Run a trial and keep what matters."""
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
