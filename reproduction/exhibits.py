"""An exhibit: a figure or table of the paper, the runs it needs, and what it claims."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np

from voxpop.errors import Array
from voxpop.report.drawing import Figure
from voxpop.simulation.comparison import Cell, Cells, quantity
from voxpop.simulation.trials import Trial

STUDIES = ("synthetic", "sphere", "camel", "michalewicz", "light")
OURS = {"DPBE": "dpbe-paper", "voxpop": "dpbe"}  # the algorithm as printed, and our form of it
SURE = 2.0  # a difference counts beyond this many standard errors


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    seeds: int = 20
    functions: int = 100  # of the readings, which are short
    horizon: int = 40_000
    private_horizon: int = 1_000_000
    data: str | None = None  # a folder of light readings, in place of the shipped figures
    note: str = ""  # what to say on every figure

    def trials(self, study: str, policy: str, **chosen: Any) -> tuple[Trial, ...]:
        """Make the same trial for every seed."""
        first = Trial(study, policy, horizon=self.horizon, data=self.data if study == "light" else None)
        return tuple(replace(first, seed=seed, **chosen) for seed in range(self.seeds))


FULL = Scale()
QUICK = Scale(
    seeds=3, functions=10, horizon=4_000, private_horizon=50_000, note="quick: 3 seeds, T = 4,000 (private: 50,000)"
)


Verdict = Literal["reproduced", "not reproduced", "undecided", "reached", "not reached"]


@dataclass(frozen=True)
class Finding:
    """A claim, what we saw, and what follows."""

    claim: str
    verdict: Verdict
    evidence: str
    reason: str = ""  # why, where it does not reproduce or needs an explanation
    target: bool = False  # a target of our own, not a claim of the paper

    def as_target(self) -> Self:
        """Turn it into a target of our own, which is reached or not rather than reproduced."""
        words: dict[Verdict, Verdict] = {"reproduced": "reached", "not reproduced": "not reached"}
        return replace(self, verdict=words.get(self.verdict, self.verdict), target=True)

    def because(self, reason: str) -> Self:
        """Add the reason, unless the claim simply reproduces."""
        return self if self.verdict in ("reproduced", "reached") else replace(self, reason=reason)


@dataclass(frozen=True)
class Sheet:
    """A table."""

    title: str
    label: str  # of the paper; "" if it is ours
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    @classmethod
    def of(cls, title: str, label: str, corner: str, rows: Mapping[str, Mapping[str, str]]) -> Self:
        """Make a table of named rows, each with a value for every heading."""
        headings = next(iter(rows.values()))
        return cls(title, label, (corner, *headings), [(name, *row.values()) for name, row in rows.items()])


@dataclass(frozen=True)
class Shown:
    """An exhibit made from its runs."""

    figure: Figure | None
    tables: Sequence[Sheet] = ()
    findings: Sequence[Finding] = ()


@dataclass(frozen=True)
class Exhibit:
    """A figure or table to make."""

    name: str
    title: str
    labels: tuple[str, ...]  # of the paper; () if it is ours
    series: Mapping[str, tuple[Trial, ...]]
    present: Callable[[Cells], Shown]
    text: str = ""  # what there is to see

    @property
    def trials(self) -> list[Trial]:
        """Every run it needs."""
        return [trial for trials in self.series.values() for trial in trials]


def ranged(values: Array) -> str:
    """Write the median of some numbers with the least and the largest."""
    middle, low, high = (quantity(float(value)) for value in (np.median(values), values.min(), values.max()))
    return f"{middle} ({low} to {high})"


def compare(claim: str, less: Cell, more: Cell, name: str = "regret", factor: float = 1.0) -> Finding:
    """Judge whether one mean is below `factor` times another, beyond chance: paired by seed, two standard errors."""
    a, b = _paired(less, more, name)
    if not len(a):
        return Finding(claim, "undecided", "no seed was run by both")
    verdict = sign(a - factor * b)
    share = _times(a.mean() / b.mean()) if b.mean() else ""
    return Finding(claim, verdict, f"{quantity(a.mean())} against {quantity(b.mean())}{share}, {len(a)} seeds")


def _times(ratio: float) -> str:
    """Write a ratio, unless nothing is left of it when it is rounded."""
    rounded = f"{ratio:.2g}"
    return " (about the same)" if rounded == "1" else f" ({rounded} times)"


def sign(differences: Array) -> Verdict:
    """Judge differences: reproduced if they are negative on average, beyond chance."""
    if len(differences) < 2:
        return "undecided"
    mean = float(differences.mean())
    if abs(mean) <= SURE * float(differences.std(ddof=1)) / math.sqrt(len(differences)):
        return "undecided"
    return "reproduced" if mean < 0 else "not reproduced"


def trend(claim: str, cells: Mapping[Any, Cell], name: str, rises: bool) -> Finding:
    """Judge whether a mean falls (or rises) along the cells.

    It must do so from first to last, with no step the other way beyond chance.
    """
    keys, signs = list(cells), -1.0 if rises else 1.0
    ends = _step(cells[keys[0]], cells[keys[-1]], name, signs)
    against = [
        f"{first} to {second}"
        for first, second in pairwise(keys)
        if _step(cells[first], cells[second], name, signs) == "not reproduced"
    ]
    verdict: Verdict = "not reproduced" if against else ends
    values = ", ".join(f"{key}: {quantity(cell.mean(name))}" for key, cell in cells.items())
    return Finding(claim, verdict, values + (f"; the other way from {', '.join(against)}" if against else ""))


def _step(first: Cell, second: Cell, name: str, signs: float) -> Verdict:
    before, after = _paired(first, second, name)
    return sign(signs * (after - before))


def _paired(one: Cell, other: Cell, name: str) -> tuple[Array, Array]:
    """Return one number of the runs that both have, seed by seed."""
    seeds = [seed for seed in one.runs if seed in other.runs]
    values = [[getattr(cell.runs[seed], name) for seed in seeds] for cell in (one, other)]
    return np.array(values[0], dtype=float), np.array(values[1], dtype=float)
