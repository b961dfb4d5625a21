"""The ball that every person's averages are clipped to, which bounds the influence of any one person.

Clipping is Euclidean in whitened coordinates z = L^-1 (y - c) with L L' = Q: the ball is the ellipsoid of shape R^2 Q
around c, and noise that is isotropic in z has covariance proportional to Q. A person's averages are f(A) plus a
deviation; the ball should hold the averages of nearly everyone who follows the model, and little more. What is public
about f:

kernel     f has norm at most B, so f(A) - m lies in the ellipsoid of shape B^2 K around 0.
earlier    Besides, f(A0) is near the average y0 that the previous wave released, with error covariance N0: for any t
           in (0, 1), (1 - t) |f|^2 / B^2 + t |f(A0) - y0|^2_{N0^-1} / chi^2 <= 1, where chi is the quantile of the
           error's length at level beta. That is an ellipsoid in the RKHS whose centre is a ridge regression and whose
           shape is a posterior covariance. It costs no budget, because y0 is public.
euclidean  f is within the earlier bounds: a plain ball around their middle.

A deviation lies in the ellipsoid of shape q^2 (v^2 K + sigma^2 W^-1) with probability 99.9 %, where q is the quantile
of a chi variable. The sum of ellipsoids of shapes S and D lies in that of shape (1 + r) S + (1 + 1/r) D for every
r > 0. For the kernel ball, this is the functional mechanism of Hall, Rinaldo and Wasserman (2013).

With guardrails a report has a block of averages for each metric, and all of it is clipped together: the product of the
ellipsoids of shapes S_m of several metrics lies in that of the blocks S_m sum_j t_j / t_m, for any t > 0. Deviations
whose metrics have the correlations R are at most q sqrt(largest eigenvalue of R) long in coordinates that are whitened
metric by metric, with the quantile q of as many coordinates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.linalg import block_diag, cho_factor, cho_solve, solve_triangular
from scipy.special import chdtrc, chdtri

from voxpop.errors import Array, InputError
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.waves import Plan

OUTSIDE = 1e-3  # the share of the people who follow the model that is clipped
MIXTURES = (0.15, 0.5, 0.85)  # the values of t that are tried
Region = tuple[Array, Array]  # the centre less the prior mean, and the shape, of an ellipsoid in which f(A) is
HUGE = 1e100  # answers are cut off at this distance from the centre
FARTHEST = 1e150  # and at this one in whitened coordinates


@dataclass(frozen=True, eq=False)
class Ball:
    """A centre, a metric and a radius, with the tail of the people outside."""

    metric: str
    centre: Array  # (arms,)
    root: Array  # (arms, arms) L
    radius: float
    tail: tuple[Array, Array]  # how far people who follow the model are outside (rounded up), and how likely that is

    def __post_init__(self) -> None:
        arms = len(self.centre) if self.centre.ndim == 1 else 0
        if not arms:
            raise InputError(f"centre must be a list of numbers, got the shape {self.centre.shape}")
        if self.root.shape != (arms, arms):
            raise InputError(
                f"root must have the shape {(arms, arms)} to match centre, got the shape {self.root.shape}"
            )
        if np.triu(self.root, 1).any() or not (self.root.diagonal() > 0).all():
            raise InputError("root must be lower triangular with a positive diagonal")
        if not 1 / HUGE <= self.radius <= HUGE and not math.isinf(self.radius):
            raise InputError(f"radius must be a number from {1 / HUGE:g} to {HUGE:g}, got {self.radius:g}")
        excess, chance = self.tail
        if excess.ndim != 1 or excess.shape != chance.shape:
            raise InputError(
                f"tail must be two lists of the same length, got the shapes {excess.shape} and {chance.shape}"
            )

    @cached_property
    def shape(self) -> Array:
        """Q = L L'."""
        return np.asarray(self.root @ self.root.T)

    @property
    def condition(self) -> float:
        """The condition number of L."""
        with np.errstate(all="ignore"):
            return float(np.linalg.cond(self.root))

    def whiten(self, y: Array) -> Array:
        """Compute z = L^-1 (y - c) for answers of shape (people, arms); the result is always finite.

        NaN counts as the centre, and deviations are cut off at HUGE. If L is so extreme that the solution overflows, it
        is cut off, too: an error would depend on y, and so reveal something about it.
        """
        with np.errstate(over="ignore"):  # a warning would depend on y, too
            deviation = np.where(np.isnan(y), 0.0, np.clip(y - self.centre, -HUGE, HUGE))
        z = solve_triangular(self.root, deviation.T, lower=True).T
        return np.asarray(np.clip(np.nan_to_num(z), -FARTHEST, FARTHEST))

    def clip(self, z: Array) -> Array:
        """Project each row to the nearest point of the ball."""
        if math.isinf(self.radius):
            return z
        largest = np.maximum(np.abs(z).max(axis=1, keepdims=True), self.radius)  # so that no square overflows
        norms = largest * np.linalg.norm(z / largest, axis=1, keepdims=True)
        return np.asarray(z * np.minimum(1.0, self.radius / np.maximum(norms, self.radius)))

    def restore(self, z: Array) -> Array:
        """Compute y = c + L z."""
        return np.asarray(self.centre + self.root @ z)

    def clipping(self, people: int, beta: float) -> Array | None:
        """Compute a matrix C such that clipping biases a'mean by at most sqrt(a'C a), except with probability beta.

        The mean excess X of people who follow the model has a Chernoff bound: it exceeds
        min over s of (U ln E e^(sX) + ln(1/beta)) / (s U) with probability at most beta.
        """
        excess, chance = self.tail
        if not len(excess):
            return None
        rates = np.geomspace(1e-2, 300, 60) / excess.max()
        logs = np.log1p(np.expm1(rates[:, None] * excess) @ chance)
        slack = float(np.min((people * logs + math.log(1 / beta)) / (rates * people)))
        return slack**2 * self.shape


def candidates(problem: Problem, plan: Plan, state: State) -> list[Ball]:
    """Return the balls for a wave that follow from public knowledge."""
    each = list(zip(problem.metrics, state.metrics, strict=True)) if plan.also else [(problem, state)]
    zero = np.zeros(len(plan.arms))
    prior = [(zero, known.norm_bound**2 * own.covariance(plan.arms, plan.arms)) for own, known in each]
    found = [_around(problem, plan, "kernel", prior)]
    for t in MIXTURES:
        after = [_earlier(own, plan, known, t) for own, known in each]
        known_of_all = [region for region in after if region is not None]
        if len(known_of_all) == len(after):
            found.append(_around(problem, plan, "earlier", known_of_all))
    return found if plan.also else [*found, euclidean_ball(problem, plan, state)]


def _earlier(problem: Problem, plan: Plan, state: State, t: float) -> Region | None:
    """Return where the previous wave allows f to be; None without such a wave or if it contradicts the norm bound."""
    if not state.history:
        return None
    before, feedback = state.history[-1]
    if feedback.printed:
        return None
    noise = problem.answer_noise(before.arms, before.pulls, feedback.effective)
    noise += problem.shocks.variance / feedback.kept * problem.shock_noise(before.turns)
    slack = 0.0
    if feedback.noise is not None:
        noise = noise + feedback.noise
    if feedback.noise is not None and feedback.clipping is not None:
        # Noise and clipping have proportional shapes, so this is the most that clipping adds to the error's length.
        slack = math.sqrt(float(np.trace(feedback.clipping)) / float(np.trace(feedback.noise)))
    chi = math.sqrt(float(chdtri(len(before.arms), problem.beta))) + slack
    tempered = (1 - t) / t * (chi / state.norm_bound) ** 2 * noise
    factor = cho_factor(problem.covariance(before.arms, before.arms) + tempered, lower=True)
    cross = problem.covariance(before.arms, plan.arms)
    y = feedback.mean - problem.means[before.arms]
    level = 1 - (1 - t) / state.norm_bound**2 * float(y @ cho_solve(factor, y))
    if level <= 0:
        return None
    inner = problem.covariance(plan.arms, plan.arms) - cross.T @ cho_solve(factor, cross)
    shape = level * state.norm_bound**2 / (1 - t) * (inner + inner.T) / 2
    return cross.T @ cho_solve(factor, y), shape


def _around(problem: Problem, plan: Plan, metric: str, regions: Sequence[Region]) -> Ball:
    """Return the unit ball that holds the sum of f's ellipsoid and a person's deviation, of all metrics together."""
    metrics, arms = problem.metrics[: len(regions)], plan.coordinates
    quantile, excess, chance = _chi_tail(arms)
    spreads, shapes, units = [_spread(each, plan) for each in metrics], [shape for _, shape in regions], np.ones(arms)
    if plan.also:  # in units in which people deviate alike in all metrics
        sizes = [float(np.trace(spread)) / len(plan.arms) for spread in spreads]
        units = np.repeat(np.sqrt(sizes), len(plan.arms))
        lengths = [math.sqrt(float(np.trace(shape)) / size) for shape, size in zip(shapes, sizes, strict=True)]
        shapes = [sum(lengths) / own / size * shape for own, size, shape in zip(lengths, sizes, shapes, strict=True)]
        spreads = [spread / size for spread, size in zip(spreads, sizes, strict=True)]
        alike = math.sqrt(float(np.linalg.eigvalsh(problem.correlation)[-1]))
        quantile, excess = alike * quantile, alike * excess
    shape, spread = block_diag(*shapes), block_diag(*spreads) * quantile**2
    ratio = math.sqrt(float(np.trace(spread)) / max(float(np.trace(shape)), 1e-9 * float(np.trace(spread))))
    whole = (1 + ratio) * shape + (1 + 1 / ratio) * spread
    whole.flat[:: arms + 1] += 8 * arms * np.finfo(float).eps * float(whole.diagonal().max())  # so that it has a root
    root = units[:, None] * np.asarray(np.linalg.cholesky(whole), dtype=float)
    # A deviation s > 1 times as long as its ellipsoid allows has at most length 1 + (s - 1) sqrt(r / (1 + r)) here.
    share = math.sqrt(ratio / (1 + ratio)) / quantile
    centre = [own.means[plan.arms] + middle for own, (middle, _) in zip(metrics, regions, strict=True)]
    return Ball(metric, np.concatenate(centre), root, 1.0, (share * excess, chance))


def _spread(problem: Problem, plan: Plan) -> Array:
    """Return the covariance of a person's averages around f: a deviation, rounds, and what these do to everybody."""
    return problem.answer_noise(plan.arms, plan.pulls) + problem.shocks.variance * problem.shock_noise(plan.turns)


@lru_cache(maxsize=256)
def _chi_tail(freedom: int) -> tuple[float, Array, Array]:
    """Compute the quantile q of a chi variable, and the distribution of (chi - q)+, rounded up to small steps."""
    quantile = math.sqrt(float(chdtri(freedom, OUTSIDE)))
    edges = quantile + np.linspace(0, 12, 241)
    return quantile, edges[1:] - quantile, -np.diff(chdtrc(freedom, edges**2))


def euclidean_ball(problem: Problem, plan: Plan, state: State) -> Ball:
    """Return the ball around the middle of the earlier bounds.

    The bound on the length of a deviation is that of Laurent and Massart (2000): with probability 1 - e^-t it is at
    most r(t), r(t)^2 = tr S + 2 sqrt(t tr S^2) + 2 t |S|.
    """
    lower, upper = state.lower[plan.arms], state.upper[plan.arms]
    spread = _spread(problem, plan)
    trace, square, norm = float(np.trace(spread)), float(np.sum(spread**2)), float(np.linalg.norm(spread, 2))
    t = -math.log(OUTSIDE) + np.linspace(0, 40, 201)
    lengths = np.sqrt(trace + 2 * np.sqrt(t * square) + 2 * t * norm)
    radius = float(lengths[0]) + float(np.linalg.norm((upper - lower) / 2))
    tail = (lengths[1:] - lengths[0], -np.diff(np.exp(-t)))
    return Ball("euclidean", (lower + upper) / 2, np.eye(len(plan.arms)), radius, tail)


def unbounded(problem: Problem, plan: Plan) -> Ball:
    """Return a ball without clipping or whitening, as the paper prints it."""
    return Ball("none", problem.means[plan.arms], np.eye(len(plan.arms)), math.inf, (np.empty(0), np.empty(0)))
