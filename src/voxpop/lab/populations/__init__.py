"""Populations: who answers. The truth they carry is for `metrics` alone."""

from typing import Protocol, runtime_checkable

import numpy as np

from voxpop.core.errors import Array
from voxpop.core.phases import Plan


class Population(Protocol):
    """People who can be asked once each."""

    def observe(self, plan: Plan, users: int, rng: np.random.Generator) -> Array:
        """The averages that new, randomly drawn people send after a phase, of shape (users, arms)."""

    def observe_each(self, plan: Plan, rng: np.random.Generator) -> Array:
        """The average over a phase in which every round is answered by another person, of shape (arms,)."""


@runtime_checkable
class GaussianPopulation(Population, Protocol):
    """People whose averages are Gaussian, so that the sum over many can be drawn at once."""

    def law(self, plan: Plan) -> tuple[Array, Array]:
        """The mean (arms,) of a person's averages, and a root of their covariance, (arms, arms)."""
