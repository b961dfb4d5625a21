"""Greedy maximum-variance selection of the arms of a phase (eq:decision)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from voxpop.core.errors import InputError
from voxpop.core.problem import GRAM_LIMIT, Indices, Problem
from voxpop.selection.dense import TIE, DensePosterior
from voxpop.selection.lazy import LazyPosterior

BatchRule = Literal["corrected", "printed", "single"]

MOST_BATCHES = 1_000_000  # per phase, unless every batch is meant to be one round
REMEDY = "use the corrected batch rule, a larger ratio, a smaller ridge or a shorter horizon"
RESOLVED = 1e-14  # a posterior variance below this share of the prior's is rounding error


@dataclass(frozen=True, eq=False)
class Selection:
    """The merged result of one phase's greedy selection."""

    arms: Indices
    pulls: Indices
    batches: int  # H_l before merging (lem:bound_h)
    information_gain: float


def select(problem: Problem, active: Indices, rounds: int, ratio: float, rule: BatchRule = "corrected") -> Selection:
    """Fill a phase with batches of the action of largest posterior variance (eq:decision).

    The printed batch length floor((C^2 - 1) / Sigma^2) lacks the factor lambda of the corrected rule; both are at
    least one round, or the phase would never end. With the rule "single" every batch is one round.

    >>> from voxpop.core.kernels import SquaredExponential
    >>> p = Problem([0.0, 0.5, 1.0], SquaredExponential(0.2), 0.01, 0.1, norm_bound=1.0, horizon=100)
    >>> chosen = select(p, np.arange(3), rounds=10, ratio=1.6)
    >>> chosen.arms.tolist(), chosen.pulls.tolist()
    ([0, 2, 1], [5, 3, 2])
    """
    scale = batch_scale(problem, ratio, rule)
    posterior = LazyPosterior if len(active) > GRAM_LIMIT else DensePosterior
    return fill(posterior(problem, active), active, rounds, scale)


def least_batches(problem: Problem, active: Indices, rounds: int, scale: float) -> float:
    """Bound the number of batches of a phase from below, for any kernel.

    After t rounds the action of largest prior variance k still has at least lambda k / (lambda + t k), since playing
    it alone tells most about it. So no batch at time t is longer than max(1, scale (lambda + t k) / (lambda k)).
    """
    prior, ridge = float(problem.prior_variance[active].max()), problem.ridge
    if scale == 0:
        return rounds
    single = min(max(ridge / scale - ridge / prior, 0.0), rounds)  # batches are one round long until then
    return single + ridge / scale * math.log((ridge + rounds * prior) / (ridge + single * prior)) / (1 + TIE)


def require_end(problem: Problem, rounds: int, ratio: float, rule: BatchRule) -> None:
    """Refuse batches so short that a phase of `rounds` rounds would not end in reasonable time."""
    scale = batch_scale(problem, ratio, rule)
    least = least_batches(problem, np.arange(problem.size), rounds, scale)
    if scale > 0 and least > MOST_BATCHES:
        raise InputError(f"a phase of {rounds:,} rounds takes {least:,.0f} batches by the {rule} rule; {REMEDY}")


def batch_scale(problem: Problem, ratio: float, rule: BatchRule) -> float:
    """Return the length of a batch times the variance of its action."""
    return (ratio**2 - 1) * {"corrected": problem.ridge, "printed": 1.0, "single": 0.0}[rule]


def fill(posterior: DensePosterior | LazyPosterior, active: Indices, rounds: int, scale: float) -> Selection:
    """Play batches of the most uncertain action until the rounds are spent."""
    resolved = RESOLVED * float(posterior.prior.max())
    while rounds > 0:
        position = posterior.most_uncertain()
        variance = posterior.variance_of(position)
        nothing_left = variance <= resolved or scale >= rounds * variance
        batch = rounds if nothing_left else min(rounds, max(1, int(scale / variance * (1 + TIE))))
        posterior.observe(position, batch)
        rounds -= batch
        if posterior.batches >= MOST_BATCHES and scale > 0 and rounds > 0:
            raise InputError(f"{MOST_BATCHES:,} batches left {rounds:,} rounds of a phase to play; {REMEDY}")
    positions = np.fromiter(posterior.pulls, dtype=np.intp)
    pulls = np.fromiter(posterior.pulls.values(), dtype=np.intp)
    return Selection(active[positions], pulls, posterior.batches, posterior.information_gain)


@lru_cache(maxsize=64)
def greedy_information_gain(problem: Problem) -> float:
    """Bound gamma_T from below: greedy selection gains at least 1 - 1/e of the maximum."""
    return select(problem, np.arange(problem.size), problem.horizon, 1.6).information_gain
