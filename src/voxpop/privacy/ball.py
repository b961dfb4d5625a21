"""The ball that every person's averages are clipped to: what bounds anyone's influence, whoever they are.

Clipping is Euclidean in whitened coordinates z = L^-1 (y - c) with L L' = M. Two choices of (M, c) compete:

kernel     M = K + lambda W^-1, c = prior mean. |L^-1 (f(A) - m)| <= B for every f of norm at most B, and a person's
           deviation is v times a chi variable, so R = B + v chi_H(99.9 %). Noise that is isotropic in z has covariance
           proportional to M: to the estimator the sample only looks smaller (the functional mechanism of Hall,
           Rinaldo and Wasserman, 2013).
euclidean  M = I, c = the middle of the earlier bounds, R = |half-widths| + the 99.9 % quantile of a deviation.

All of it is public: the plan, the problem's constants and what earlier phases released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import chdtri, gammaincc, gammaln

from voxpop.errors import Array
from voxpop.phases import Noise, Plan
from voxpop.problem import Problem
from voxpop.state import State

OUTSIDE = 1e-3  # the share of model-like people who are clipped at all


@dataclass(frozen=True, eq=False)
class Ball:
    """A centre, a metric and a radius; and by how much model-like people exceed it."""

    metric: str
    centre: Array  # (arms,)
    root: Array  # (arms, arms) L
    shape: Noise  # M
    radius: float
    excess: float  # E (|z| - R)+
    excess_square: float  # E (|z| - R)+^2

    def whiten(self, y: Array) -> Array:
        """z = L^-1 (y - c) for answers of shape (users, arms)."""
        return np.asarray(solve_triangular(self.root, (y - self.centre).T, lower=True).T)

    def clip(self, z: Array) -> Array:
        """The nearest point of the ball, for each row."""
        norms = np.linalg.norm(z, axis=1, keepdims=True)
        return np.asarray(z * np.minimum(1.0, self.radius / np.maximum(norms, np.finfo(float).tiny)))

    def restore(self, z: Array) -> Array:
        """y = c + L z."""
        return np.asarray(self.centre + self.root @ z)

    def noise(self, variance: float) -> Noise:
        """The covariance of the restored mean if z carries isotropic noise."""
        return self.shape.times(variance)

    def clipping(self, users: int, z_score: float) -> Noise:
        """The square of the bias that clipping can cause, in the same form.

        The average excess of model-like people has a mean below E(|z| - R)+ and a standard deviation below
        sqrt(E(|z| - R)+^2 / users).
        """
        slack = self.excess + z_score * math.sqrt(self.excess_square / users)
        return self.shape.times(slack * slack)


def kernel_ball(problem: Problem, plan: Plan, norm_bound: float) -> Ball:
    """The ball of the kernel metric."""
    arms = len(plan.arms)
    deviation = math.sqrt(max(problem.bias_std**2, problem.noise_std**2 / problem.ridge))
    quantile = math.sqrt(float(chdtri(arms, OUTSIDE)))
    mean = math.sqrt(2) * math.exp(gammaln((arms + 1) / 2) - gammaln(arms / 2))
    first = mean * float(gammaincc((arms + 1) / 2, quantile**2 / 2))  # E chi, where chi > quantile
    second = arms * float(gammaincc(arms / 2 + 1, quantile**2 / 2))  # E chi^2, likewise
    excess = max(0.0, first - quantile * OUTSIDE)
    excess_square = max(0.0, second - 2 * quantile * first + quantile**2 * OUTSIDE)
    own = problem.ridge / plan.pulls + 4 * arms * np.finfo(float).eps * problem.prior_variance[plan.arms]
    root = np.asarray(np.linalg.cholesky(problem.covariance(plan.arms, plan.arms) + np.diag(own)), dtype=float)
    return Ball(
        "kernel",
        problem.means[plan.arms],
        root,
        Noise(1.0, own),
        norm_bound + deviation * quantile,
        deviation * excess,
        deviation**2 * excess_square,
    )


def euclidean_ball(problem: Problem, plan: Plan, state: State) -> Ball:
    """The ball around the middle of the earlier bounds.

    The quantile of a deviation's length is bounded as by Laurent and Massart (2000): with probability 1 - e^-t it is at
    most r(t), r(t)^2 = tr S + 2 sqrt(t tr S^2) + 2 t |S|; what exceeds r(t) is then at most r'(t) e^-t on average.
    """
    lower, upper = state.lower[plan.arms], state.upper[plan.arms]
    spread = problem.bias_std**2 * problem.covariance(plan.arms, plan.arms)
    spread.flat[:: len(plan.arms) + 1] += problem.noise_std**2 / plan.pulls
    trace, square, norm = float(np.trace(spread)), float(np.sum(spread**2)), float(np.linalg.norm(spread, 2))
    t = -math.log(OUTSIDE)
    quantile = math.sqrt(trace + 2 * math.sqrt(t * square) + 2 * t * norm)
    slope = (math.sqrt(square / t) + 2 * norm) / (2 * quantile)
    size = len(plan.arms)
    return Ball(
        "euclidean",
        (lower + upper) / 2,
        np.eye(size),
        Noise(0.0, np.ones(size)),
        quantile + float(np.linalg.norm((upper - lower) / 2)),
        slope * OUTSIDE,
        2 * slope**2 * OUTSIDE,
    )


def unbounded(problem: Problem, plan: Plan) -> Ball:
    """No clipping and no whitening, as the paper prints it."""
    size = len(plan.arms)
    return Ball("none", problem.means[plan.arms], np.eye(size), Noise(0.0, np.ones(size)), math.inf, 0.0, 0.0)
