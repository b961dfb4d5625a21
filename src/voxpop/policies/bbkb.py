"""BBKB, batched budgeted kernel bandit (Calandriello et al., 2020): sparse features and adaptive batches.

The kernel is projected on a dictionary S of played actions (Nystroem): with z(x) = K_SS^-1/2 k_S(x),

    mu(x) = z'V^-1 Z'y,     s^2(x) = k(x, x) - z'z + lambda z'V^-1 z,     V = Z'Z + lambda I.

Inside a batch the mean stays fixed, while the variance, which needs no feedback, keeps falling with every round played;
a round plays argmax mu(x) + beta s(x). The batch ends when 1 + sum s^2(x_i) / lambda, with the variances at
its start, exceeds C: until then s has fallen by a factor of at most sqrt(C). At its end the dictionary is
redrawn: an action that was played t times so far is in it with probability min(1, q t s^2(x) / lambda).

A person's bias counts as noise, lambda = R^2 = v^2 k(x, x) + sigma^2, and every round asks a new person. With gamma,
the information gained before the batch, beta is

    sqrt(C) (B + sqrt(2 (gamma + 1 + ln(1/delta))))    safe
    B + sqrt(C (2 gamma + 1) + ln(1/delta))            published

The safe one is that of IGP-UCB, times sqrt(C) because the variance has fallen since. The published one is that of the
authors' program, batch-bkb, which multiplies the information alone; it is narrower, and loses less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from voxpop.errors import Array
from voxpop.model.options import option
from voxpop.model.problem import Indices, Problem
from voxpop.model.state import OPEN, Channel, State
from voxpop.model.waves import End, Feedback, Info, Plan, changed
from voxpop.policies.gp_ucb import Belief, confidence_bonus, noise_variance
from voxpop.policies.protocol import OVER, Configured, require_few_rounds, uneliminated
from voxpop.runtime.machine import require_room


@dataclass(frozen=True, eq=False)
class Sparse:
    """The sparse posterior over all actions."""

    rounds: Array  # (n,) played
    totals: Array  # (n,) rewards less their prior mean, added up
    dictionary: Indices
    mean: Array  # (n,)
    covariance: Array  # (n, n) lambda Z V^-1 Z'
    missing: Array  # (n,) k(x, x) - z'z: the variance that the dictionary cannot represent
    gain: float

    @cached_property
    def variance(self) -> Array:
        """The variance of each action's value, (n,)."""
        return np.asarray(self.missing + np.maximum(self.covariance.diagonal(), 0.0))


@dataclass(frozen=True, eq=False)
class SparseState(State):
    """The state, with the posterior."""

    belief: Sparse = field(kw_only=True)


@dataclass(frozen=True)
class BBKB(Configured):
    """Batched budgeted kernel bandit."""

    delta: float = option(0.1, above=0, below=1, help="The probability that the bounds are false.")
    switch: float = option(2.0, above=1, most=1e6, help="C of bbkb, by which a batch may shrink the variance.")
    oversampling: float = option(5.0, above=0, help="How readily a round enters the dictionary of bbkb: q.")
    bonus: Literal["safe", "published"] = option(
        "safe", help="The width of bbkb's bounds: safe, wide enough for a whole batch; or as its authors published it."
    )
    seed: int = option(0, least=0, help="The seed of the dictionary.")
    name = "bbkb"
    aggregates = False

    def init(self, problem: Problem) -> State:
        """Return the state in which nothing was played and the dictionary is empty."""
        require_few_rounds(self.name, problem)
        require_room(4 * 8 * problem.size**2, problem.size, "a covariance of every pair", power=2)
        nothing = np.zeros(problem.size)
        sparse = _posterior(problem, nothing, nothing, np.empty(0, dtype=np.intp), 0.0)
        prior = State.prior(problem, problem.norm_bound)
        return self._bounded(problem, SparseState(**vars(prior), belief=sparse))

    def plan(self, problem: Problem, state: State, channel: Channel = OPEN) -> Plan | End:
        """Plan one batch: rounds until the variance has fallen enough."""
        left = problem.horizon - state.rounds
        if left == 0:
            return OVER
        assert isinstance(state, SparseState)
        sparse, noise, centre = state.belief, noise_variance(problem), state.centre
        shrinking, start = Belief.of(sparse.mean, sparse.covariance), sparse.variance
        bonus, spent, variance = self._bonus(problem, sparse.gain), 1.0, start
        pulls: dict[int, int] = {}
        while left > 0 and spent <= self.switch:
            arm = int((centre + bonus * np.sqrt(variance)).argmax())
            pulls[arm] = pulls.get(arm, 0) + 1
            spent += float(start[arm]) / noise
            left -= 1
            shrinking.narrow(arm, noise)
            variance = sparse.missing + np.maximum(shrinking.variance, 0.0)
        arms, rounds = (np.fromiter(numbers, dtype=np.intp) for numbers in (pulls, pulls.values()))
        return Plan(state.wave + 1, arms, rounds, int(rounds.sum()), int(arms[0]), "one")

    def advance(self, problem: Problem, state: State, plan: Plan, feedback: Feedback) -> tuple[State, Info]:
        """Add the rewards of the batch, and redraw the dictionary."""
        feedback.check(plan)
        assert isinstance(state, SparseState)
        belief, noise = state.belief, noise_variance(problem)
        rounds, totals = belief.rounds.copy(), belief.totals.copy()
        rounds[plan.arms] += plan.pulls
        totals[plan.arms] += plan.pulls * (feedback.mean - problem.means[plan.arms])
        gain = belief.gain + 0.5 * float(np.log1p(belief.variance[plan.arms] / noise) @ plan.pulls)
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(plan.wave,)))
        drawn = rng.random(problem.size) < self.oversampling * rounds * belief.variance / noise
        drawn[plan.arms[0]] = True  # never empty
        known = _posterior(problem, rounds, totals, np.flatnonzero(drawn), gain)
        after = self._bounded(problem, changed(state.played(plan), belief=known))
        return after, uneliminated(problem, float(after.lead_width.max()), gain)

    def _bonus(self, problem: Problem, gain: float) -> float:
        if self.bonus == "safe":
            return math.sqrt(self.switch) * confidence_bonus(problem, gain, self.delta)
        return problem.norm_bound + math.sqrt(self.switch * (2 * gain + 1) + math.log(1 / self.delta))

    def _bounded(self, problem: Problem, state: SparseState) -> SparseState:
        belief = state.belief
        width = self._bonus(problem, belief.gain) * np.sqrt(belief.variance)
        return state.bounded(problem.means + belief.mean, width)


def _posterior(problem: Problem, rounds: Array, totals: Array, dictionary: Indices, gain: float) -> Sparse:
    """Compute the sparse posterior after `rounds` rounds of each action, whose rewards add up to `totals`."""
    noise, z = noise_variance(problem), _features(problem, dictionary.tobytes())
    precision = z.T @ (rounds[:, None] * z) + noise * np.eye(z.shape[1])
    solved = np.linalg.solve(precision, z.T)
    missing = np.maximum(problem.prior_variance - np.einsum("ij,ij->i", z, z), 0.0)
    return Sparse(rounds, totals, dictionary, solved.T @ (z.T @ totals), noise * (z @ solved), missing, gain)


@lru_cache(maxsize=1)  # a dictionary that has grown to its size stays as it is for many batches
def _features(problem: Problem, dictionary: bytes) -> Array:
    """Compute z(x) of every action, (n, features)."""
    chosen = np.frombuffer(dictionary, dtype=np.intp)
    values, vectors = np.linalg.eigh(problem.covariance(chosen, chosen))
    kept = values > 1e-12 * values.max(initial=0.0)
    return np.asarray(problem.covariance(np.arange(problem.size), chosen) @ (vectors[:, kept] / np.sqrt(values[kept])))
