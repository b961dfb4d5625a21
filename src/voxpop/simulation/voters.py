"""Voters and a position on the left-right scale.

Before the American election of 1996 people placed themselves and the incumbent on a scale from 1 (extremely liberal) to
7 (extremely conservative), and said for whom they would vote. Here a challenger may take any position x. A person
votes for it with chance expit(level - steepness |position - x|): what holds for the challenger is what held for
the real one, except where he stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import expit

from voxpop.errors import Array
from voxpop.model.decisions import Decisions, Float, Space
from voxpop.simulation.people import TablePeople
from voxpop.simulation.survey import Survey, column, figures

SHIPPED = Path(__file__).with_name("data") / "voters.csv"
SOURCE = """\
Kinds of voters among 944 people, fitted by voxpop (benchmarks/real_people.py) to how they said they would vote.
American National Election Study of 1996, as the data set anes96 (public domain) of the package statsmodels 0.15.0.
A line for each kind: position that they gave themselves, level, steepness, people of this kind."""


@dataclass(frozen=True, eq=False)
class Voters:
    """Where kinds of voters stand, how they lean, how much a step away from them costs, and how many they are."""

    position: Array  # (kinds,) from 1 to 7
    level: Array  # (kinds,)
    steepness: Array  # (kinds,) per step of the scale
    count: Array  # (kinds,)

    def chance(self, positions: Array) -> Array:
        """Compute how likely each person votes for a challenger at each position, (people, positions).

        >>> voters().chance(np.array([1.0, 4.0, 7.0])).mean(axis=0).round(2)
        array([0.23, 0.45, 0.35])
        """
        away = np.abs(self.position[:, None] - positions)
        kinds = expit(self.level[:, None] - self.steepness[:, None] * away)
        return np.repeat(kinds, self.count.astype(int), axis=0)


def voters() -> Voters:
    """Read the figures that come with voxpop."""
    return Voters(*figures(SHIPPED))


def people(decisions: Decisions) -> TablePeople:
    """Make the people: a round is a poll, in which someone is for the challenger or not."""
    chance = voters().chance(column(decisions, "position"))
    return TablePeople(chance, stakes=np.ones(len(decisions)))


VOTERS = Survey(
    name="voters",
    question="Where on the left-right scale does a challenger win most votes against an incumbent?",
    space=Space(position=Float(1.0, 7.0)),
    points={"position": 121},
    people=people,
    reward="share of votes",
    pilot_rounds=1,
)
