"""Real people who were once asked: a decision about them, and what each of them gains from it.

What voxpop ships of a survey is a table of figures, one line for each person or kind of person: fitted numbers, never
the survey's own records. Each table says where it comes from; `python -m benchmarks.real_people WHEELS` makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from scipy.special import expit, logsumexp

from voxpop.errors import Array
from voxpop.model.decisions import Decisions, Float, Integer, Space
from voxpop.simulation.people import TablePeople
from voxpop.simulation.simulator import Population

TABLES = Path(__file__).with_name("data")


class KnownPeople(Population, Protocol):
    """People of whom the truth is known."""

    @property
    def mean(self) -> Array: ...


@dataclass(frozen=True, eq=False)
class Survey:
    """A study of people who can be made: what can be decided, and how to make the people who answer."""

    name: str
    question: str  # what is decided, in one sentence
    space: Space
    points: dict[str, int]  # values of each parameter, unless another number of decisions is chosen
    people: Callable[[Decisions], KnownPeople]
    reward: str  # what the reward is called
    pilot_rounds: int  # for which someone in the pilot tries each decision
    horizon: int = 20_000

    def decisions(self, size: int | None = None) -> Decisions:
        """Return the decisions: a grid, or Sobol points if several parameters must share another number."""
        if size is None:
            return self.space.grid(self.points)
        return self.space.grid(size) if len(self.points) == 1 else self.space.sobol(size)


def figures(name: str) -> tuple[Array, ...]:
    """Read the columns of a shipped table."""
    return tuple(np.loadtxt(TABLES / f"{name}.csv", delimiter=",", encoding="utf-8", unpack=True))


def column(decisions: Decisions, name: str) -> Array:
    """Return one parameter of every decision."""
    return np.array([label[name] for label in decisions], dtype=float)


# Swiss travellers and the fare of a new train


@dataclass(frozen=True, eq=False)
class Travellers:
    """The fare that each person would pay according to the survey, and how they react to a multiple of it.

    In 1998 people were asked nine times each how they would make one of their trips: by train, by car, or by
    Swissmetro, an underground train that was planned. A person takes it at x times the fare of the survey with chance
    expit(level - steepness x), everything else about the trip being as in the survey, and then pays x times that fare.

    >>> Travellers(*figures("train")).chance(np.array([1.0])).mean().round(2)
    np.float64(0.62)
    """

    fare: Array  # (people,)
    level: Array  # (people,)
    steepness: Array  # (people,)

    def chance(self, factors: Array) -> Array:
        """Compute how likely each person takes the train at each multiple of the fare, (people, factors)."""
        return np.asarray(expit(self.level[:, None] - self.steepness[:, None] * factors))


def travelling(decisions: Decisions) -> TablePeople:
    """Make the travellers: a round is a trip, on which someone pays the fare or travels otherwise."""
    everyone, factors = Travellers(*figures("train")), column(decisions, "fare")
    stakes = everyone.fare[:, None] * factors
    return TablePeople(stakes * everyone.chance(factors), stakes=stakes)


TRAIN = Survey(
    name="train",
    question="Which fare, as a multiple of the planned one, earns a new train most per traveller and trip?",
    space=Space(fare=Float(0.5, 1.5)),
    points={"fare": 101},
    people=travelling,
    reward="revenue in francs per trip",
    pilot_rounds=20,
)


# Electricity customers and the tariff of a new supplier

RIVAL_PRICE = 9.0  # cents per kWh
POWER, WINNING = 5.0, 1.5  # cents per kWh, and per kWh of a year's use


@dataclass(frozen=True, eq=False)
class Households:
    """What each person thinks of a supplier's attributes, in units of utility.

    People chose up to twelve times among four suppliers with a fixed price, a time-of-day rate or a seasonal rate, with
    or without a contract, who were local, well known or neither. Here a well-known supplier enters with a fixed price
    and a contract. A person takes its offer with the chance of a logit among it and three rivals as in the survey:

    - the local supplier, 9 cents per kWh, no contract;
    - a well-known supplier with the time-of-day rate (11 cents from 8 to 20 o'clock, 5 at night), no contract;
    - an unknown supplier with the seasonal rate (10 cents in summer, 8 in winter, 6 in between), no contract.

    >>> Households(*figures("tariff")).chance(np.array([7.0, 9.0]), np.array([1.0, 1.0])).mean(axis=0).round(2)
    array([0.53, 0.21])
    """

    price: Array  # (people,) per cent and kWh
    contract: Array  # (people,) per year
    local: Array  # (people,)
    known: Array  # (people,)
    time_of_day: Array  # (people,)
    seasonal: Array  # (people,)

    def chance(self, prices: Array, years: Array) -> Array:
        """Compute how likely each person takes each offer, (people, offers)."""
        rivals = [RIVAL_PRICE * self.price + self.local, self.time_of_day + self.known, self.seasonal]
        lead = self.known - logsumexp(rivals, axis=0)
        return np.asarray(expit(np.outer(self.price, prices) + np.outer(self.contract, years) + lead[:, None]))


def supplied(decisions: Decisions) -> TablePeople:
    """Make the households: in a round someone needs a supplier, who earns a margin or is not chosen.

    The supplier's costs are assumed: power costs 5 cents per kWh, and winning a customer costs 1.5 cents for each kWh
    of a year's use, spread over the contract and one year more.
    """
    prices, years = column(decisions, "price"), column(decisions, "contract")
    margins = prices - POWER - WINNING / (1 + years)
    return TablePeople(margins * Households(*figures("tariff")).chance(prices, years), stakes=margins)


TARIFF = Survey(
    name="tariff",
    question="Which price per kWh and which contract earn a new electricity supplier most per kWh of demand?",
    space=Space(price=Float(6.0, 10.0), contract=Integer(0, 5)),
    points={"price": 21, "contract": 6},
    people=supplied,
    reward="margin in cents per kWh",
    pilot_rounds=20,
)


# Voters and a position on the left-right scale


@dataclass(frozen=True, eq=False)
class Voters:
    """Where kinds of voters stand, how they lean, how much a step away from them costs, and how many they are.

    Before the American election of 1996 people placed themselves and the incumbent on a scale from 1 (extremely
    liberal) to 7 (extremely conservative), and said for whom they would vote. Here a challenger may take any position
    x. A person votes for it with chance expit(level - steepness |position - x|): what holds for the challenger is what
    held for the real one, except where he stands.

    >>> Voters(*figures("voters")).chance(np.array([1.0, 4.0, 7.0])).mean(axis=0).round(2)
    array([0.23, 0.45, 0.35])
    """

    position: Array  # (kinds,) from 1 to 7
    level: Array  # (kinds,)
    steepness: Array  # (kinds,) per step of the scale
    count: Array  # (kinds,)

    def chance(self, positions: Array) -> Array:
        """Compute how likely each person votes for a challenger at each position, (people, positions)."""
        away = np.abs(self.position[:, None] - positions)
        kinds = expit(self.level[:, None] - self.steepness[:, None] * away)
        return np.repeat(kinds, self.count.astype(int), axis=0)


def voting(decisions: Decisions) -> TablePeople:
    """Make the voters: a round is a poll, in which someone is for the challenger or not."""
    chance = Voters(*figures("voters")).chance(column(decisions, "position"))
    return TablePeople(chance, stakes=np.ones(len(decisions)))


VOTERS = Survey(
    name="voters",
    question="Where on the left-right scale does a challenger win most votes against an incumbent?",
    space=Space(position=Float(1.0, 7.0)),
    points={"position": 121},
    people=voting,
    reward="share of votes",
    pilot_rounds=1,
)
SURVEYS = {survey.name: survey for survey in (TRAIN, TARIFF, VOTERS)}
