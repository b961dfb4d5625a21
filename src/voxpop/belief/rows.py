"""All averages that people have sent, pilot included, as rows of one regression: y = f(points) + noise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import block_diag, cho_factor, cho_solve
from scipy.special import chdtrc

from voxpop.core.errors import Array
from voxpop.core.evidence import Evidence
from voxpop.core.phases import Answered, Feedback, Plan
from voxpop.core.problem import Problem

DOUBT = 1e-3  # the probability that Gaussian people who follow the model are found to differ too much
NOTABLE = 1.3  # times the model's variance; less is not worth a warning


@dataclass(frozen=True, eq=False)
class Rows:
    """Averages less their prior mean, where they were taken, and the covariance of their noise."""

    points: Array  # (rows, dimensions)
    residual: Array  # (rows,)
    noise: Array  # (rows, rows)

    def __len__(self) -> int:
        return len(self.residual)

    @classmethod
    def joined(cls, parts: Iterable[Rows], dimensions: int) -> Rows:
        """Put the rows of independent groups of people below each other."""
        parts = [part for part in parts if len(part)]
        if not parts:
            return cls(np.empty((0, dimensions)), np.empty(0), np.empty((0, 0)))
        points = np.concatenate([part.points for part in parts])
        return cls(points, np.concatenate([part.residual for part in parts]), block_diag(*(p.noise for p in parts)))


def all_rows(problem: Problem, history: Iterable[Answered]) -> Rows:
    """Return the rows of the pilot and of every phase."""
    return Rows.joined([pilot_rows(problem), *(rows_of(problem, *phase) for phase in history)], dimensions(problem))


def dimensions(problem: Problem) -> int:
    """Return the number of coordinates of a decision."""
    return int(problem.decisions.points.shape[1])


def rows_of(problem: Problem, plan: Plan, feedback: Feedback) -> Rows:
    """Return the rows of one phase."""
    noise = total_noise(problem, plan, feedback)
    return Rows(problem.decisions.points[plan.arms], feedback.mean - problem.means[plan.arms], noise)


def total_noise(problem: Problem, plan: Plan, feedback: Feedback) -> Array:
    """Compute the covariance of a phase's averages: people's deviations, their rounds, and privacy.

    Where people were seen to differ more than the model says, their noise is raised to what was seen: for Gaussian
    people the scatter is independent of the averages.
    """
    noise = problem.answer_noise(plan.arms, plan.pulls, feedback.effective)
    seen = np.sqrt(excess_scatter(problem, plan, feedback))
    noise = np.asarray(noise * np.outer(seen, seen))
    return noise if feedback.noise is None else noise + feedback.noise


def excess_scatter(problem: Problem, plan: Plan, feedback: Feedback) -> Array:
    """Return how many times the model's variance people's averages have, (arms,); ones unless that is beyond doubt."""
    if feedback.scatter is None or feedback.freedom <= 0:
        return np.ones(len(plan.arms))
    model = problem.answer_noise(plan.arms, plan.pulls).diagonal()
    ratios = feedback.scatter / model
    freedom = feedback.freedom
    level = len(ratios) * float(chdtrc(freedom, freedom * float(ratios.max())))
    beyond_doubt = level < DOUBT and ratios.max() > NOTABLE
    return np.asarray(np.maximum(ratios, 1.0) if beyond_doubt else np.ones(len(ratios)))


@lru_cache(maxsize=64)
def pilot_rows(problem: Problem) -> Rows:
    """Return one row per action of the pilot: together they say as much about f as its groups of people do."""
    if not problem.pilot:
        return Rows.joined([], dimensions(problem))
    points, place = np.unique(np.concatenate([group.points for group in problem.pilot]), axis=0, return_inverse=True)
    precision, weighted, start = np.zeros((len(points), len(points))), np.zeros(len(points)), 0
    for group in problem.pilot:
        at = place.ravel()[start : start + len(group.mean)]
        start += len(at)
        factor = cho_factor(_noise(problem, group), lower=True)
        precision[np.ix_(at, at)] += cho_solve(factor, np.eye(len(at)))
        weighted[at] += cho_solve(factor, group.mean - prior_means(problem, group.points))
    noise = np.linalg.inv(precision)
    return Rows(points, noise @ weighted, (noise + noise.T) / 2)


def prior_means(problem: Problem, points: Array) -> Array:
    """Return the prior mean at points: that of the nearest decision, if decisions differ in it."""
    if isinstance(problem.prior_mean, float):
        return np.full(len(points), problem.prior_mean)
    distances = np.square(points[:, None, :] - problem.decisions.points).sum(axis=2)
    return np.asarray(problem.means[distances.argmin(axis=1)])


def _noise(problem: Problem, group: Evidence) -> Array:
    """Compute the covariance of the average answers of a group."""
    covariance = problem.bias_std**2 * problem.kernel(group.points, group.points)
    covariance.flat[:: len(covariance) + 1] += problem.noise_std**2 / group.rounds
    return np.asarray(covariance / group.people + group.noise_std**2 * np.eye(len(covariance)))
