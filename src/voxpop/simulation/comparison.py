"""Policies compared on the same people: a summary of every run, and what each policy lost and asked for.

`compare` does it in one call, `voxpop compare` in several processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from voxpop.errors import Array, InputError, one_of
from voxpop.model.state import State
from voxpop.policies import Policy
from voxpop.policies.botorch import installed
from voxpop.privacy import NoPrivacy, Privacy
from voxpop.report.stakes import regret_curve
from voxpop.simulation.runs import Described, Run, Scenario, simulate
from voxpop.simulation.trials import Trial

# The default first, then what a practitioner would use instead.
CONTENDERS = ("waves", "dpbe", "pilot-only", "equal-split", "halving", "thompson", "dbcare", "rho", "gp-ucb")
COSTS = {"numbers": "numbers sent", "people": "people asked", "waves": "waves"}
HEADINGS = ("policy", "regret at T", *COSTS.values(), "optimum kept", "certificate true")


# Runs in numbers


@dataclass(frozen=True)
class RunSummary:
    """One run in numbers."""

    regret: float
    numbers: int  # eq:comm_cost
    merged: int  # the same, if everyone sent one average for each distinct action
    people: int
    waves: int
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


def perform(trial: Described) -> RunSummary:
    """Run it and keep what matters."""
    return summarise(trial.run())


def summarise(run: Run) -> RunSummary:
    """Summarise a run in numbers."""
    horizon, f = run.scenario.problem.horizon, run.scenario.f
    rounds, regret = regret_curve(run.plans, run.best, horizon, f, run.moves)
    known_before = State.prior(run.scenario.problem, run.state.norm_bound).most_lost(run.best)
    return RunSummary(
        regret=run.metrics.regret,
        numbers=run.metrics.numbers,
        merged=sum(plan.people * (1 if plan.reports == "one" else len(plan.arms)) for plan in run.plans),
        people=run.metrics.people,
        waves=len(run.plans),
        seconds=run.seconds,
        kept=run.optimum_kept,
        certificate=run.certificate_true if run.state.certificate < known_before else None,
        left=len(run.state.active),
        norm_bound=run.state.norm_bound,
        curve=tuple(float(f"{value:.6g}") for value in np.interp(grid(horizon), rounds, regret)),
    )


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


# Comparisons


@dataclass(frozen=True, repr=False)
class Comparison:
    """What each policy lost and asked for; printed as a table.

    >>> from voxpop import make_scenario
    >>> from voxpop.simulation.scenarios import Options
    >>> found = compare(make_scenario("sphere", Options(size=15, horizon=500)), ["waves", "equal-split"], seeds=[0])
    >>> print(found)  # doctest: +ELLIPSIS
    policy       regret at T  numbers sent  people asked  waves  optimum kept  certificate true
    waves        ...
    equal-split  ...
    No policy beats ... in both regret and numbers sent.
    >>> found.cells["equal-split"].mean("people")
    100.0
    """

    study: str
    cells: Cells  # by policy: `cells["waves"].mean("regret")`, and also numbers, people and waves
    left_out: dict[str, str]  # policies that make no sense for this study, with the reason

    @property
    def frontier(self) -> list[str]:
        """The policies that no other beats in both regret and numbers sent."""
        return frontier(self.cells)

    def __repr__(self) -> str:
        lines = [HEADINGS, *rows(self.cells)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shown = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([*shown, verdict(self.cells)])


def compare(
    study: Scenario | Callable[[int], Scenario],
    policies: Iterable[str] = CONTENDERS,
    seeds: Iterable[int] = range(5),
    privacy: Privacy | None = None,
) -> Comparison:
    """Let policies ask the same simulated people, once for each seed.

    Give a function of the seed instead of a scenario to have a new pilot in every run.

    >>> from voxpop import make_scenario
    >>> from voxpop.simulation.scenarios import Options
    >>> found = compare(make_scenario("sphere", Options(size=15, horizon=1000)), ["waves", "gp-ucb"], seeds=range(2))
    >>> found.cells["waves"].mean("people") < found.cells["gp-ucb"].mean("people")
    True
    """
    trust = privacy or NoPrivacy()
    scenarios = {seed: study if isinstance(study, Scenario) else study(seed) for seed in seeds}
    if not scenarios:
        raise InputError("there are no seeds to run; give at least one, such as range(5)")
    first = next(iter(scenarios.values()))
    chosen, reasons = suitable({name: first.make_policy(name) for name in policies}, first, trust)
    cells = {
        name: Cell({seed: summarise(simulate(made, name, seed, trust)) for seed, made in scenarios.items()})
        for name in chosen
    }
    return Comparison(first.name, cells, reasons)


def suitable(policies: Mapping[str, Policy], scenario: Scenario, privacy: Privacy) -> tuple[list[str], dict[str, str]]:
    """Choose the policies that make sense for a study, and say why the others do not."""
    reasons = {
        name: f"asks one person per round, whom the {privacy.model} model cannot hide"
        for name, policy in policies.items()
        if privacy.model != "none" and not policy.aggregates
    }
    if "pilot-only" in policies and not scenario.problem.pilot:
        reasons["pilot-only"] = "needs a pilot, and this study has none"
    if "botorch" in policies and not installed():
        reasons["botorch"] = "needs BoTorch, which is not installed (pip install botorch)"
    chosen = [name for name in policies if name not in reasons]
    if not chosen:
        raise InputError(f"nothing is left to compare: {because(reasons)}; name other policies")
    return chosen, reasons


def because(reasons: Mapping[str, str]) -> str:
    """Say in one line why policies were left out."""
    return "; ".join(f"{name} {reason}" for name, reason in reasons.items())


def rows(cells: Cells) -> list[tuple[str, ...]]:
    """List what every policy loses and asks for, and how often it is right where it claims something."""
    return [
        (
            name,
            f"{quantity(cell.mean())} ± {quantity(cell.std())}",
            *(quantity(cell.mean(cost)) for cost in COSTS),
            cell.kept if cell.certified else "",
            cell.certified,
        )
        for name, cell in cells.items()
    ]


def frontier(cells: Cells) -> list[str]:
    """List the policies that no other beats in both mean regret and mean numbers sent.

    One that is as good in one and better in the other beats it, too.
    """
    means = {name: (cell.mean(), cell.mean("numbers")) for name, cell in cells.items()}
    return [
        name
        for name, (regret, numbers) in means.items()
        if not any(r <= regret and n <= numbers and (r, n) != (regret, numbers) for r, n in means.values())
    ]


def verdict(cells: Cells) -> str:
    """Say which policies are on the frontier."""
    return f"No policy beats {one_of(frontier(cells))} in both regret and numbers sent."
