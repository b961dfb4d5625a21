"""The weighted posterior of a phase that was played (eq:sigma_update, eq:mu_update), and its information gain."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from voxpop.core.errors import Array
from voxpop.core.problem import GRAM_LIMIT, Indices, Problem


def in_blocks(estimate: Callable[[Indices], tuple[Array, ...]], at: Indices) -> tuple[Array, ...]:
    """Compute estimates for every action, (actions,) each; many actions are taken one block at a time."""
    parts = [estimate(at[start : start + GRAM_LIMIT]) for start in range(0, len(at), GRAM_LIMIT)]
    return parts[0] if len(parts) == 1 else tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def regress(problem: Problem, arms: Indices, pulls: Indices, at: Indices) -> tuple[Array, Array]:
    """Compute the weighted posterior at some actions: weights (at, arms), with mean = weights @ y, and variance.

    The weights take as much memory as the factor of the selection: use `in_blocks` for many actions.
    """
    factor = cho_factor(problem.regularised(arms, pulls), lower=True)
    cross = problem.covariance(arms, at)  # (arms, at)
    weights = cho_solve(factor, cross)
    variance = problem.prior_variance[at] - np.einsum("ij,ij->j", cross, weights)
    return np.asarray(weights.T), np.maximum(variance, 0.0)


def information_gain(problem: Problem, arms: Indices, pulls: Indices) -> float:
    """Compute 1/2 log det(I + W^1/2 K W^1/2 / lambda): what the phase's rounds can tell about f, in nats."""
    roots = np.sqrt(pulls)
    matrix = problem.covariance(arms, arms) * np.outer(roots, roots) / problem.ridge
    matrix.flat[:: len(arms) + 1] += 1
    return 0.5 * float(np.linalg.slogdet(matrix)[1])
