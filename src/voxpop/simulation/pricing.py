"""Customers, each with their own willingness to pay: a population that is not Gaussian at all.

A customer belongs to a segment and carries a personal reservation price; from one occasion to the next it varies a
little. At price p a customer buys if today's reservation price is at least p, and the seller earns p - unit_cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from voxpop.errors import Array
from voxpop.model.waves import Plan
from voxpop.simulation.people import Answering


@dataclass(frozen=True)
class Segment:
    """A kind of customer: log-normal reservation prices around a median."""

    share: float
    median: float
    spread: float  # standard deviation of the logarithm


SEGMENTS = (Segment(0.35, 3.4, 0.25), Segment(0.45, 5.6, 0.25), Segment(0.20, 9.0, 0.35))


@dataclass(frozen=True, eq=False)
class Customers(Answering):
    """The customers of a shop; an action is a price, its reward the profit on one occasion."""

    prices: Array  # (n,)
    unit_cost: float = 1.5
    mood: float = 0.12  # standard deviation of the logarithm from one occasion to the next
    segments: tuple[Segment, ...] = SEGMENTS

    @cached_property
    def demand(self) -> Array:
        """The chance that a random customer buys at each price, in closed form."""
        buys = [
            segment.share * ndtr(np.log(segment.median / self.prices) / np.hypot(segment.spread, self.mood))
            for segment in self.segments
        ]
        return np.asarray(np.sum(buys, axis=0))

    @property
    def profit(self) -> Array:
        """The truth: the population's mean profit at each price."""
        return np.asarray((self.prices - self.unit_cost) * self.demand)

    mean = profit  # as other populations call it

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        """Draw each customer's mean profit at each price, over the occasions on which it was in force."""
        kinds = rng.choice(len(self.segments), size=people, p=[segment.share for segment in self.segments])
        medians = np.array([segment.median for segment in self.segments])[kinds]
        spreads = np.array([segment.spread for segment in self.segments])[kinds]
        personal = np.log(medians) + spreads * rng.standard_normal(people)  # log of the reservation price
        prices = self.prices[plan.arms]
        chance = ndtr((personal[:, None] - np.log(prices)) / self.mood)  # (people, arms)
        bought = rng.binomial(plan.pulls, chance)
        return np.asarray((prices - self.unit_cost) * bought / plan.pulls)

    def observe_one(self, arm: int, rounds: int, rng: np.random.Generator) -> float:
        """Draw the mean profit over occasions that each have a new customer, at one price."""
        bought = rng.binomial(rounds, self.demand.item(arm))
        return (self.prices.item(arm) - self.unit_cost) * bought / rounds
