"""Residual horizon optimisation with people: plan all batches that are left as one, and play the first.

Che and Namkoong, Adaptive experimentation at scale (2023, arXiv:2303.11582), and Che, Jiang, Namkoong and Wang,
Optimization-driven adaptive experimentation (2024, arXiv:2408.04570). Averages of a batch are Gaussian, so the belief
about f moves as in a Gaussian sequential experiment: if N numbers are spread over the arms in proportions p, each with
the variance s^2, then f ~ N(m, S) is known afterwards with the covariance

    S - S h B^-1 h S,     h = diag(sqrt(N p / s^2)),     B = I + h S h.

Before each batch the static p for all numbers that are left is chosen that maximises the expected largest mean after
them, which minimises the simple regret, by stochastic gradients through draws of f and of the answers; its first share
is played. The authors take automatic derivatives; here they are written out (`Experiment.gain`).

A wave asks the same people about all of its arms, so a share cannot be played to the letter: the 1/sum(p^2) arms of
largest p are, equally. The belief is voxpop's, which is fitted to the pilot and all answers. When no draw changes the
decision, asking stops. The paper leaves the budget open; ours was chosen on the seeds 100 to 139, in no table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax

from voxpop.errors import Array
from voxpop.gp.belief import believe
from voxpop.model.options import option
from voxpop.model.problem import Problem
from voxpop.model.state import OPEN, Channel, State
from voxpop.model.waves import End, Plan
from voxpop.policies.dbcare import answer_deviation
from voxpop.policies.peers import JITTER, Pooled, short_plan, spread
from voxpop.policies.protocol import OVER

CANDIDATES = 64  # of more actions, an evenly spread subset is allocated to
DRAWS = 512
STEPS, STRIDE = 50, 0.4  # of the ascent; the largest change of a logit in its first step


@dataclass(frozen=True)
class RHO(Pooled):
    """Plan a static allocation for all batches that are left, and play its first share."""

    batches: int = option(10, least=1, most=10, help="The waves.")
    numbers: int = option(4000, least=1, help="The numbers that people send in all.")
    seed: int = option(0, least=0, help="The seed of the draws by which allocations are valued.")
    name = "rho"

    def plan(self, problem: Problem, state: State, channel: Channel = OPEN) -> Plan | End:
        """Play the first share of the best static allocation."""
        rounds = problem.horizon - state.rounds
        if rounds == 0:
            return OVER
        if state.wave >= self.batches:
            return End("every batch is played")
        at = spread(problem, CANDIDATES)
        belief, left = believe(problem, state.history), self.batches - state.wave
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(state.wave,)))
        covariance, draws = belief.covariance(at), rng.standard_normal((2, DRAWS, len(at)))
        covariance.flat[:: len(at) + 1] += JITTER * problem.norm_bound**2 * problem.prior_variance[at]
        experiment = Experiment(belief.mean[at], covariance, answer_deviation(problem), draws)
        numbers = self.numbers * left / self.batches
        share = experiment.best(numbers)
        if experiment.gain(share, numbers)[0] == 0:
            return End("no answers are expected to change the decision")
        count = min(round(1 / float(share @ share)), rounds)
        arms = np.sort(at[np.argsort(-share, kind="stable")[:count]])
        people = max(1, round(self.numbers / self.batches / count))
        return channel.enlist(problem, state, short_plan(problem, state, arms, people))


@dataclass(frozen=True, eq=False)
class Experiment:
    """A Gaussian sequential experiment: the belief about the arms, the deviation of a number, and standard draws."""

    mean: Array  # (arms,)
    covariance: Array  # (arms, arms)
    deviation: float
    draws: Array  # (2, draws, arms), of f and of the answers

    @cached_property
    def truths(self) -> Array:
        """Draws of f - m, (draws, arms)."""
        return np.asarray(self.draws[0] @ np.linalg.cholesky(self.covariance).T)

    def gain(self, share: Array, numbers: float) -> tuple[float, Array]:
        """Return what the largest mean is expected to gain by the numbers, and the derivative in each ln p.

        The means after the answers are m + q with q = S h u and u = B^-1 (h g + e), where g is f - m and e the draws of
        the answers. The derivative of q_a in h_j is S'_aj u_j + c_aj (g_j - q_j), where S' is the covariance afterwards
        and c_a = B^-1 h S_a. The mean of today's best arm does not move on average, so its own q is taken away.
        """
        h, best = np.sqrt(numbers * share) / self.deviation, int(np.argmax(self.mean))
        weighed = h[:, None] * self.covariance  # h S
        factor = cho_factor(weighed * h + np.eye(len(h)), lower=True)
        c = cho_solve(factor, weighed).T  # (arms a, arms)
        after = self.covariance - c @ weighed
        u = cho_solve(factor, (h * self.truths + self.draws[1]).T).T  # (draws, arms)
        q = u @ weighed
        means = self.mean + q
        winners = np.argmax(means, axis=1)
        gains = means[np.arange(len(q)), winners] - means[:, best]
        slope = (after[winners] - after[best]) * u + (c[winners] - c[best]) * (self.truths - q)
        return float(gains.mean()), np.asarray(slope.mean(axis=0) * h / 2)

    def best(self, numbers: float) -> Array:
        """Return the proportions at the end of an ascent from equal ones, (arms,); they are a softmax of logits."""
        logits = np.zeros(len(self.mean))
        for step in range(STEPS):
            share = softmax(logits)
            _, slope = self.gain(share, numbers)
            slope -= share * slope.sum()
            logits += STRIDE * (1 - step / STEPS) * slope / max(np.abs(slope).max(), np.finfo(float).tiny)
        return np.asarray(softmax(logits))
