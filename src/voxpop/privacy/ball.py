"""The ball that every person's averages are clipped to: what bounds anyone's influence, whoever they are.

Clipping is Euclidean in whitened coordinates z = L^-1 (y - c) with L L' = Q: the ball is the ellipsoid of shape R^2 Q
around c, and noise that is isotropic in z has covariance proportional to Q. A person's averages are f(A) plus a
deviation; the ball should hold nearly everybody who is like the model, and little more. What is public about f:

kernel     f has norm at most B, so f(A) - m lies in the ellipsoid of shape B^2 K around 0.
earlier    Besides, f(A0) is near the average y0 that the previous phase released, with error covariance N0: for any t
           in (0, 1), (1 - t) |f|^2 / B^2 + t |f(A0) - y0|^2_{N0^-1} / chi^2 <= 1, where chi is the quantile of the
           error's length at level beta. That is an ellipsoid in the RKHS whose centre is a ridge regression and whose
           shape is a posterior covariance. It costs no budget, for y0 is public.
euclidean  f is within the earlier bounds: the plain ball around their middle.

A deviation lies in the ellipsoid of shape q^2 (v^2 K + sigma^2 W^-1) with probability 99.9 %, q being the quantile of a
chi variable. The sum of ellipsoids of shapes S and D lies in that of shape (1 + r) S + (1 + 1/r) D for every r > 0. For
the kernel ball, this is the functional mechanism of Hall, Rinaldo and Wasserman (2013).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import chdtri, gammaincc, gammaln

from voxpop.errors import Array
from voxpop.phases import Plan
from voxpop.problem import Problem
from voxpop.state import State
from voxpop.widths import answer_noise

OUTSIDE = 1e-3  # the share of model-like people who are clipped at all
MIXTURES = (0.15, 0.5, 0.85)  # the values of t that are tried


@dataclass(frozen=True, eq=False)
class Ball:
    """A centre, a metric and a radius; and by how much model-like people exceed it."""

    metric: str
    centre: Array  # (arms,)
    root: Array  # (arms, arms) L
    radius: float
    excess: float  # E (|z| - R)+
    excess_square: float  # E (|z| - R)+^2

    @property
    def shape(self) -> Array:
        """Q = L L'."""
        return np.asarray(self.root @ self.root.T)

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

    def clipping(self, users: int, z_score: float) -> Array:
        """A matrix C with which clipping biases a'mean by at most sqrt(a'C a).

        The average excess of model-like people has a mean below E(|z| - R)+ and a standard deviation below
        sqrt(E(|z| - R)+^2 / users).
        """
        slack = self.excess + z_score * math.sqrt(self.excess_square / users)
        return slack**2 * self.shape


def candidates(problem: Problem, plan: Plan, state: State) -> list[Ball]:
    """The balls that public knowledge allows for a phase."""
    kernel = _around(problem, plan, "kernel", np.zeros(len(plan.arms)), _prior_shape(problem, plan, state.norm_bound))
    earlier = [ball for t in MIXTURES for ball in _earlier(problem, plan, state, t)]
    return [kernel, *earlier, euclidean_ball(problem, plan, state)]


def _prior_shape(problem: Problem, plan: Plan, norm_bound: float) -> Array:
    return norm_bound**2 * problem.covariance(plan.arms, plan.arms)


def _earlier(problem: Problem, plan: Plan, state: State, t: float) -> list[Ball]:
    """The ball that the previous phase allows, if there is one and it does not contradict the norm bound."""
    if not state.history:
        return []
    before, feedback = state.history[-1]
    if feedback.printed:
        return []
    noise = answer_noise(problem, before.arms, before.pulls, feedback.count)
    slack = 0.0
    if feedback.noise is not None:
        noise = noise + feedback.noise
    if feedback.noise is not None and feedback.clipping is not None:
        # Noise and clipping have the same shape, so this is the most that clipping adds to the error's length.
        slack = math.sqrt(float(np.trace(feedback.clipping)) / float(np.trace(feedback.noise)))
    chi = math.sqrt(float(chdtri(len(before.arms), problem.beta))) + slack
    tempered = (1 - t) / t * (chi / state.norm_bound) ** 2 * noise
    factor = cho_factor(problem.covariance(before.arms, before.arms) + tempered, lower=True)
    cross = problem.covariance(before.arms, plan.arms)
    y = feedback.mean - problem.means[before.arms]
    level = 1 - (1 - t) / state.norm_bound**2 * float(y @ cho_solve(factor, y))
    if level <= 0:
        return []
    inner = problem.covariance(plan.arms, plan.arms) - cross.T @ cho_solve(factor, cross)
    shape = level * state.norm_bound**2 / (1 - t) * (inner + inner.T) / 2
    return [_around(problem, plan, "earlier", cross.T @ cho_solve(factor, y), shape)]


def _around(problem: Problem, plan: Plan, metric: str, centre: Array, shape: Array) -> Ball:
    """The unit ball of f's ellipsoid and a person's deviation together."""
    arms = len(plan.arms)
    quantile, excess, excess_square = _chi_tail(arms)
    spread = answer_noise(problem, plan.arms, plan.pulls, 1) * quantile**2
    ratio = math.sqrt(float(np.trace(spread)) / max(float(np.trace(shape)), 1e-9 * float(np.trace(spread))))
    whole = (1 + ratio) * shape + (1 + 1 / ratio) * spread
    whole.flat[:: arms + 1] += 8 * arms * np.finfo(float).eps * float(whole.diagonal().max())  # so that it has a root
    root = np.asarray(np.linalg.cholesky(whole), dtype=float)
    # A deviation s > 1 times as long as its ellipsoid allows is at most 1 + (s - 1) sqrt(r / (1 + r)) in this metric.
    share = math.sqrt(ratio / (1 + ratio)) / quantile
    return Ball(metric, problem.means[plan.arms] + centre, root, 1.0, share * excess, share**2 * excess_square)


def _chi_tail(freedom: int) -> tuple[float, float, float]:
    """The quantile q of a chi variable, E (chi - q)+ and E (chi - q)+^2."""
    quantile = math.sqrt(float(chdtri(freedom, OUTSIDE)))
    mean = math.sqrt(2) * math.exp(gammaln((freedom + 1) / 2) - gammaln(freedom / 2))
    first = mean * float(gammaincc((freedom + 1) / 2, quantile**2 / 2))  # E chi, where chi > q
    second = freedom * float(gammaincc(freedom / 2 + 1, quantile**2 / 2))  # E chi^2, likewise
    excess_square = second - 2 * quantile * first + quantile**2 * OUTSIDE
    return quantile, max(0.0, first - quantile * OUTSIDE), max(0.0, excess_square)


def euclidean_ball(problem: Problem, plan: Plan, state: State) -> Ball:
    """The ball around the middle of the earlier bounds.

    The quantile of a deviation's length is bounded as by Laurent and Massart (2000): with probability 1 - e^-t it is at
    most r(t), r(t)^2 = tr S + 2 sqrt(t tr S^2) + 2 t |S|; what exceeds r(t) is then at most r'(t) e^-t on average.
    """
    lower, upper = state.lower[plan.arms], state.upper[plan.arms]
    spread = answer_noise(problem, plan.arms, plan.pulls, 1)
    trace, square, norm = float(np.trace(spread)), float(np.sum(spread**2)), float(np.linalg.norm(spread, 2))
    t = -math.log(OUTSIDE)
    quantile = math.sqrt(trace + 2 * math.sqrt(t * square) + 2 * t * norm)
    slope = (math.sqrt(square / t) + 2 * norm) / (2 * quantile)
    radius = quantile + float(np.linalg.norm((upper - lower) / 2))
    identity = np.eye(len(plan.arms))
    return Ball("euclidean", (lower + upper) / 2, identity, radius, slope * OUTSIDE, 2 * slope**2 * OUTSIDE)


def unbounded(problem: Problem, plan: Plan) -> Ball:
    """No clipping and no whitening, as the paper prints it."""
    return Ball("none", problem.means[plan.arms], np.eye(len(plan.arms)), math.inf, 0.0, 0.0)
