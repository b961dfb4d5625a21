"""Real people who were once asked: a decision about them, and what each of them gains from it.

What voxpop ships of a survey is a table of figures beside its module, one line for each person or kind of person:
fitted numbers, never the survey's own records. `python benchmarks/real_people.py WHEELS` makes the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from voxpop.errors import Array
from voxpop.model.decisions import Decisions, Space
from voxpop.simulation.people import TablePeople


@dataclass(frozen=True, eq=False)
class Survey:
    """A study of real people: what can be decided, and how to make the people who answer."""

    name: str
    question: str  # what is decided, in one sentence
    space: Space
    points: dict[str, int]  # values of each parameter, unless another number of decisions is chosen
    people: Callable[[Decisions], TablePeople]
    reward: str  # what the reward is called
    pilot_rounds: int  # for which someone in the pilot tries each decision
    horizon: int = 20_000

    def decisions(self, size: int | None = None) -> Decisions:
        """Return the decisions: a grid, or Sobol points if several parameters must share another number."""
        if size is None:
            return self.space.grid(self.points)
        return self.space.grid(size) if len(self.points) == 1 else self.space.sobol(size)


def figures(path: Path) -> tuple[Array, ...]:
    """Read the columns of a shipped table."""
    return tuple(np.loadtxt(path, delimiter=",", encoding="utf-8", unpack=True))


def column(decisions: Decisions, name: str) -> Array:
    """Return one parameter of every decision."""
    return np.array([label[name] for label in decisions], dtype=float)
