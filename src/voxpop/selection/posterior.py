"""Greedy maximum-variance selection and the weighted posterior (eq:sigma_update, eq:mu_update).

A batch of `t` rounds of one action is one Gaussian observation of variance lambda/t, so conditioning on it changes
the posterior covariance by one rank:

    c(x)  = cov(x, a)
    cov  <- cov - c c' / (cov(a, a) + lambda / t)

A factor V with cov = K - V V' gives the column c in O(n h) after h batches. Repeating an action is one more
observation; the result is the posterior of the merged arms (lem:equivalent_representation).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular

from voxpop.core.errors import Array, InputError
from voxpop.core.problem import GRAM_LIMIT, Indices, Problem

if TYPE_CHECKING:
    from voxpop.selection.lazy import LazyPosterior

BatchRule = Literal["corrected", "printed", "single"]

TIE = 1e-9  # variances within this share of each other count as equal
MOST_BATCHES = 1_000_000  # of a phase, unless every batch is meant to be one round
REMEDY = "use the corrected batch rule, a larger ratio, a smaller ridge or a shorter horizon"
RESOLVED = 1e-14  # a posterior variance below this share of the prior's is rounding error


class Batches:
    """The batches that were played, merged by action, and what they told."""

    def __init__(self, problem: Problem, candidates: Indices) -> None:
        self.problem, self.candidates = problem, candidates
        self.prior = problem.prior_variance[candidates]
        self.pulls: dict[int, int] = {}  # position among the candidates -> rounds, in order of first play
        self.batches = 0
        self.information_gain = 0.0  # 1/2 log det(I + W^1/2 K W^1/2 / lambda)

    def record(self, position: int, rounds: int, variance: float) -> None:
        """A batch of an action that had this variance."""
        self.pulls[position] = self.pulls.get(position, 0) + rounds
        self.batches += 1
        self.information_gain += 0.5 * math.log1p(variance * rounds / self.problem.ridge)

    def merged(self, rows: int) -> tuple[Indices, Array] | None:
        """The distinct arms and the factor L of their pulls, if it has at most half of so many rows."""
        if 2 * len(self.pulls) > rows:
            return None
        arms = self.candidates[np.fromiter(self.pulls, dtype=np.intp)]
        pulls = np.fromiter(self.pulls.values(), dtype=float)
        try:
            return arms, cholesky(self.problem.regularised(arms, pulls), lower=True)
        except LinAlgError:  # too close to singular for a factorisation from scratch: keep the sequential one
            return None


class Posterior(Batches):
    """The posterior variance of some candidate actions while batches are being played."""

    def __init__(self, problem: Problem, candidates: Indices) -> None:
        super().__init__(problem, candidates)
        small = problem.size <= GRAM_LIMIT
        self._gram = problem.covariance(candidates, candidates) if small else None
        self.variance = self.prior.copy()  # Sigma^2_h
        self._factor = np.empty((32, len(candidates)))  # V', (capacity, candidates)
        self._used = 0
        self._complete = True

    @property
    def factor(self) -> Array:
        """V' with cov = K - V V', (batches or fewer, candidates)."""
        return self._factor[: self._used]

    def row_of(self, position: int) -> Array:
        """The row of V of the candidate at this position."""
        return self.factor[:, position]

    def resume(self, variance: Array, factor: Array) -> Posterior:
        """Go on where others stopped; what they played is not known here, so that it cannot be merged."""
        self.variance, self._used, self._complete = variance, len(factor), False
        self._factor = factor
        return self

    def most_uncertain(self) -> int:
        """The first position of largest variance; rounding, which differs between machines, does not decide."""
        return int((self.variance >= (1 - TIE) * self.variance.max()).argmax())

    def variance_of(self, position: int) -> float:
        """The variance of the candidate at this position."""
        return float(self.variance[position])

    def observe(self, position: int, rounds: int) -> None:
        """Condition on a batch of rounds of the candidate at this position."""
        if self._used == len(self._factor):
            self._make_room()
        variance, noise = self.variance[position], self.problem.ridge / rounds
        past = self.factor
        column = np.subtract(self._column(position), past[:, position] @ past, out=self._factor[self._used])
        column /= math.sqrt(variance + noise)
        self._used += 1
        self.variance -= column * column
        np.maximum(self.variance, 0.0, out=self.variance)
        self.record(position, rounds, float(variance))

    def _column(self, position: int) -> Array:
        """k(x, a) for every candidate x."""
        if self._gram is not None:
            return np.asarray(self._gram[position])
        return self.problem.covariance(self.candidates, self.candidates[position : position + 1])[:, 0]

    def _make_room(self) -> None:
        """Rebuild the factor from the merged arms if that is smaller, else double its capacity."""
        merged = self.merged(self._used) if self._complete else None
        if merged is not None:
            arms, root = merged
            factor = solve_triangular(root, self.problem.covariance(arms, self.candidates), lower=True)
            self._factor[: len(arms)] = factor
            self._used = len(arms)
            self.variance = np.maximum(self.prior - np.einsum("ij,ij->j", factor, factor), 0.0)
            return
        self._factor = np.vstack([self._factor, np.empty((max(32, self._used), len(self.candidates)))])


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
    scale = _scale(problem, ratio, rule)
    if len(active) > GRAM_LIMIT:
        from voxpop.selection.lazy import LazyPosterior

        return fill(LazyPosterior(problem, active), active, rounds, scale)
    return fill(Posterior(problem, active), active, rounds, scale)


def least_batches(problem: Problem, active: Indices, rounds: int, scale: float) -> float:
    """At least so many batches fill a phase, whatever the kernel.

    After t rounds the action of largest prior variance k still has at least lambda k / (lambda + t k): playing it
    alone tells most about it. So no batch at time t is longer than max(1, scale (lambda + t k) / (lambda k)).
    """
    prior, ridge = float(problem.prior_variance[active].max()), problem.ridge
    if scale == 0:
        return rounds
    single = min(max(ridge / scale - ridge / prior, 0.0), rounds)  # batches are one round long until then
    return single + ridge / scale * math.log((ridge + rounds * prior) / (ridge + single * prior)) / (1 + TIE)


def require_end(problem: Problem, rounds: int, ratio: float, rule: BatchRule) -> None:
    """Refuse batches so short that a phase of these rounds would not end in reasonable time."""
    scale = _scale(problem, ratio, rule)
    least = least_batches(problem, np.arange(problem.size), rounds, scale)
    if scale > 0 and least > MOST_BATCHES:
        raise InputError(f"a phase of {rounds:,} rounds takes {least:,.0f} batches by the {rule} rule; {REMEDY}")


def _scale(problem: Problem, ratio: float, rule: BatchRule) -> float:
    """The length of a batch times the variance of its action."""
    return (ratio**2 - 1) * {"corrected": problem.ridge, "printed": 1.0, "single": 0.0}[rule]


def fill(posterior: Posterior | LazyPosterior, active: Indices, rounds: int, scale: float) -> Selection:
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


def in_blocks(estimate: Callable[[Indices], tuple[Array, ...]], at: Indices) -> tuple[Array, ...]:
    """What an estimate gives for every action, (actions,) each; many actions are taken a block at a time."""
    parts = [estimate(at[start : start + GRAM_LIMIT]) for start in range(0, len(at), GRAM_LIMIT)]
    return parts[0] if len(parts) == 1 else tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def regress(problem: Problem, arms: Indices, pulls: Indices, at: Indices) -> tuple[Array, Array]:
    """The weighted posterior at some actions: weights (at, arms), with mean = weights @ y, and variance.

    The weights are as many as the factor of the selection: `in_blocks` takes many actions a block at a time.
    """
    factor = cho_factor(problem.regularised(arms, pulls), lower=True)
    cross = problem.covariance(arms, at)  # (arms, at)
    weights = cho_solve(factor, cross)
    variance = problem.prior_variance[at] - np.einsum("ij,ij->j", cross, weights)
    return np.asarray(weights.T), np.maximum(variance, 0.0)


@lru_cache(maxsize=64)
def maximum_information_gain(problem: Problem) -> float:
    """gamma_T as greedy selection finds it, which is at least 1 - 1/e of the maximum."""
    return select(problem, np.arange(problem.size), problem.horizon, 1.6).information_gain


def information_gain(problem: Problem, arms: Indices, pulls: Indices) -> float:
    """1/2 log det(I + W^1/2 K W^1/2 / lambda): what the phase's rounds can tell about f, in nats."""
    roots = np.sqrt(pulls)
    matrix = problem.covariance(arms, arms) * np.outer(roots, roots) / problem.ridge
    matrix.flat[:: len(arms) + 1] += 1
    return 0.5 * float(np.linalg.slogdet(matrix)[1])
