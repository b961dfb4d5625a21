"""Real people who were once asked: a decision about them, and what each of them gains from it.

What voxpop ships of a survey is a table of figures, one line for each person or kind of person: fitted numbers, never
the survey's own records. Each table says where it comes from; `python -m benchmarks.real_people WHEELS` makes them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import expit, logsumexp

from voxpop.errors import Array
from voxpop.model.decisions import Decisions, Float, Integer, Space
from voxpop.simulation.people import Customers, TablePeople

TABLES = Path(__file__).with_name("data")


@dataclass(frozen=True, eq=False)
class Survey:
    """A study of people who can be made: what can be decided, and how to make the people who answer."""

    name: str
    question: str  # what is decided, in one sentence
    space: Space
    points: dict[str, int]  # values of each parameter, unless another number of decisions is chosen
    people: Callable[[Decisions], TablePeople | Customers]
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


def choosing(chance: Callable[[Decisions], Array], stakes: Callable[[Decisions], Array]) -> Callable[..., TablePeople]:
    """Make people who take an offer in a round with a chance, (people, decisions), and then gain what is at stake."""

    def people(decisions: Decisions) -> TablePeople:
        at_stake = stakes(decisions)
        return TablePeople(at_stake * chance(decisions), stakes=at_stake)

    return people


# Swiss travellers and the fare of a new train


def taking_the_train(decisions: Decisions) -> Array:
    """Compute how likely each person takes a train at each multiple of the fare; a round is a trip.

    In 1998 people were asked nine times each how they would make one of their trips: by train, by car, or by
    Swissmetro, an underground train that was planned. A person takes it at x times the fare of the survey with chance
    expit(level - steepness x), everything else about the trip being as in the survey, and then pays x times that fare.

    >>> taking_the_train(TRAIN.decisions(3))[:, 1].mean().round(2)
    np.float64(0.62)
    """
    _, level, steepness = figures("train")
    return np.asarray(expit(level[:, None] - np.outer(steepness, column(decisions, "fare"))))


TRAIN = Survey(
    name="train",
    question="Which fare, as a multiple of the planned one, earns a new train most per traveller and trip?",
    space=Space(fare=Float(0.5, 1.5)),
    points={"fare": 101},
    people=choosing(taking_the_train, lambda decisions: np.outer(figures("train")[0], column(decisions, "fare"))),
    reward="revenue in francs per trip",
    pilot_rounds=20,
)


# Electricity customers and the tariff of a new supplier

RIVAL_PRICE = 9.0  # cents per kWh
POWER, WINNING = 5.0, 1.5  # cents per kWh, and per kWh of a year's use


def changing_supplier(decisions: Decisions) -> Array:
    """Compute how likely each household takes each offer; in a round it needs a supplier.

    People chose up to twelve times among four suppliers with a fixed price, a time-of-day rate or a seasonal rate, with
    or without a contract, who were local, well known or neither. Here a well-known supplier enters with a fixed price
    and a contract. A person takes its offer with the chance of a logit among it and three rivals as in the survey:

    - the local supplier, 9 cents per kWh, no contract;
    - a well-known supplier with the time-of-day rate (11 cents from 8 to 20 o'clock, 5 at night), no contract;
    - an unknown supplier with the seasonal rate (10 cents in summer, 8 in winter, 6 in between), no contract.

    >>> offers = Space(price=Float(7, 9), contract=Integer(1, 2)).grid(2)  # for one year, and for two
    >>> changing_supplier(offers).mean(axis=0)[::2].round(2)
    array([0.53, 0.21])
    """
    price, contract, local, known, time_of_day, seasonal = figures("tariff")  # utility per cent, per year, or as such
    rivals = [RIVAL_PRICE * price + local, time_of_day + known, seasonal]
    lead = known - logsumexp(rivals, axis=0)
    offer = np.outer(price, column(decisions, "price")) + np.outer(contract, column(decisions, "contract"))
    return np.asarray(expit(offer + lead[:, None]))


def margins(decisions: Decisions) -> Array:
    """Compute what the supplier earns per kWh.

    Its costs are assumed: power costs 5 cents per kWh, and winning a customer costs 1.5 cents for each kWh of a year's
    use, spread over the contract and one year more.
    """
    return column(decisions, "price") - POWER - WINNING / (1 + column(decisions, "contract"))


TARIFF = Survey(
    name="tariff",
    question="Which price per kWh and which contract earn a new electricity supplier most per kWh of demand?",
    space=Space(price=Float(6.0, 10.0), contract=Integer(0, 5)),
    points={"price": 21, "contract": 6},
    people=choosing(changing_supplier, margins),
    reward="margin in cents per kWh",
    pilot_rounds=20,
)


# Voters and a position on the left-right scale


def voting(decisions: Decisions) -> Array:
    """Compute how likely each person votes for a challenger at each position; a round is a poll.

    Before the American election of 1996 people placed themselves and the incumbent on a scale from 1 (extremely
    liberal) to 7 (extremely conservative), and said for whom they would vote. Here a challenger may take any position
    x. A person votes for it with chance expit(level - steepness |position - x|): what holds for the challenger is what
    held for the real one, except where he stands. The table has one line for each kind of voters, with their number.

    >>> voting(VOTERS.decisions(3)).mean(axis=0).round(2)
    array([0.23, 0.45, 0.35])
    """
    position, level, steepness, count = figures("voters")
    away = np.abs(position[:, None] - column(decisions, "position"))
    return np.repeat(expit(level[:, None] - steepness[:, None] * away), count.astype(int), axis=0)


VOTERS = Survey(
    name="voters",
    question="Where on the left-right scale does a challenger win most votes against an incumbent?",
    space=Space(position=Float(1.0, 7.0)),
    points={"position": 121},
    people=choosing(voting, lambda decisions: np.ones(len(decisions))),
    reward="share of votes",
    pilot_rounds=1,
)
SURVEYS = {survey.name: survey for survey in (TRAIN, TARIFF, VOTERS)}
