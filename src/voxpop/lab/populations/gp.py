"""People who deviate from the population like a Gaussian process: f_u ~ GP(f, v^2 k) (ass:local_func)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from voxpop.core.errors import Array, require_array
from voxpop.core.phases import Plan
from voxpop.core.problem import Problem


@dataclass(frozen=True, eq=False)
class GPPeople:
    """People around the reward `f` (n,), with the problem's kernel, bias and noise.

    A person's averages are drawn exactly: deviation at the played arms plus noise averaged over the rounds is one
    Gaussian vector with covariance v^2 K + sigma^2 W^-1.
    """

    problem: Problem
    f: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "f", require_array("f", self.f))

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        """Draw the averages of new people, of shape (people, arms)."""
        mean, root = self.law(plan)
        return np.asarray(mean + rng.standard_normal((people, len(plan.arms))) @ root.T)

    def law(self, plan: Plan) -> tuple[Array, Array]:
        """Return the mean of a person's averages, and a root of their covariance."""
        return self.f[plan.arms], square_root(self.problem.answer_noise(plan.arms, plan.pulls))

    def observe_each(self, plan: Plan, rng: np.random.Generator) -> Array:
        """Draw the averages over rounds that are each answered by a new person, of shape (arms,)."""
        spread = rng.standard_normal(len(plan.arms)) * self._deviation[plan.arms]
        return np.asarray(self.f[plan.arms] + spread / np.sqrt(plan.pulls))

    @cached_property
    def _deviation(self) -> Array:
        """The standard deviation of a new person's answer about each action in one round."""
        problem = self.problem
        return np.sqrt(problem.bias_std**2 * problem.prior_variance + problem.noise_std**2)


def square_root(covariance: Array) -> Array:
    """Compute a matrix R with R R' = covariance, for any positive semi-definite covariance."""
    try:
        return np.asarray(np.linalg.cholesky(covariance), dtype=float)
    except np.linalg.LinAlgError:  # nearly singular
        values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
