"""What a wave proves: one statement about the unknown best action, and lower bounds for the recommendation.

Let b be the wave's reference and x* a maximiser of f: unknown, but not random. With weights fixed before the answers,

    f(x*) - f(b) <= u(x*)                  fails with probability at most beta_u: one one-sided statement, and
    f(x) - f(b) >= l(x) for every x        fails with probability at most beta_l: n one-sided statements.

On the first event x* is never dropped by `u(x) < 0`, and max f - f(b) is at most the largest u of the actions left. The
second is needed for a recommendation other than b, which is chosen after the answers. Its factor is the quantile of the
maximum of a known Gaussian vector: of M draws the k-th largest is exceeded with probability exactly k / (M + 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtri, ndtri

from voxpop.errors import Array
from voxpop.gp.belief import Rows, all_rows, excess_scatter, pilot_rows, prior_means, total_noise
from voxpop.gp.check import clipping_misfit, misfit, misfit_limit, smallest_norm
from voxpop.gp.large_widths import affine_values, affine_values_and_gaps
from voxpop.gp.widths import Affine, AffineEstimator
from voxpop.model.decisions import Decisions
from voxpop.model.problem import GRAM_LIMIT, Indices, Problem
from voxpop.model.state import History

FIRST_SHARE = 0.8  # of the level, for statements that assume the given norm bound
ALARM = 0.01  # the probability of a false alarm
WORTH_SAYING = 2.0  # times the model's variance; people with heavy tails seem to differ a little more than they do
MARGIN = 2.0  # the bound is raised to this many times the least norm that fits


@dataclass(frozen=True)
class Fit:
    """How well the model fits."""

    norm_bound: float  # to assume from now on
    pilot: bool  # False if the pilot contradicts the waves
    consistent: bool  # False if no function at all fits the waves, so that nothing can be certified
    warning: str  # what was found and what to do; empty if nothing is wrong


def model_check(problem: Problem, without_pilot: Problem, history: History, norm_bound: float, pilot: bool) -> Fit:
    """Compare all averages with the model."""
    clipped = sum(
        clipping_misfit(total_noise(problem, plan, feedback), feedback.clipping)
        for plan, feedback in history
        if feedback.clipping is not None
    )
    waves = all_rows(without_pilot, history)
    limit = misfit_limit(len(waves), ALARM, clipping=clipped)
    alarm = _misfit(problem, waves, norm_bound) > limit
    raised, warnings = _raised(problem, waves, norm_bound, clipped), [_people(problem, history)]
    consistent = math.isfinite(raised)
    if not consistent:
        raised = norm_bound
        warnings.append(
            "the waves contradict each other by more than their noise: bias_std or noise_std is too small, or rewards "
            "changed between the waves; nothing is certified, and a new calibration with people of today is needed"
        )
    elif alarm:
        warnings.append(
            f"no function of norm {norm_bound:.3g} fits the answers: the norm bound was raised to {raised:.3g}; "
            "calibrate again, with a rougher kernel or a larger margin"
        )
    if pilot and problem.pilot:
        everything = all_rows(problem, history)
        pilot = _misfit(problem, everything, raised) <= misfit_limit(len(everything), ALARM, clipping=clipped)
    if problem.pilot and not pilot:
        warnings.append(
            "the pilot contradicts the waves, which count alone from now on; were its people drawn like these?"
        )
    return Fit(raised, pilot, consistent, "; ".join(filter(None, warnings)))


def share_of_raise(given: float, assumed: float) -> float:
    """Return the share of a level for statements under a norm bound that was raised to 2^j times the given one."""
    raises = round(math.log2(assumed / given))
    return FIRST_SHARE if raises == 0 else (1 - FIRST_SHARE) * 2.0**-raises


def _misfit(problem: Problem, rows: Rows, norm_bound: float) -> float:
    return misfit(problem.kernel(rows.points, rows.points), rows.residual, rows.noise, norm_bound)


def _raised(problem: Problem, rows: Rows, norm_bound: float, clipped: float) -> float:
    """Return the norm bound, doubled until it exceeds the least norm that fits by a margin; infinite if none fits."""
    usual = (math.sqrt(len(rows) + 2 * math.sqrt(2 * len(rows))) + math.sqrt(clipped)) ** 2
    if _misfit(problem, rows, norm_bound) <= usual:
        return norm_bound
    gram = problem.kernel(rows.points, rows.points)
    least = smallest_norm(gram, rows.residual, rows.noise, usual)
    if math.isinf(least):  # no function fits as well as usual; does any fit at all?
        least = smallest_norm(gram, rows.residual, rows.noise, misfit_limit(len(rows), ALARM, clipping=clipped))
    if math.isinf(least):
        return math.inf
    return norm_bound * 2.0 ** math.ceil(math.log2(max(1.0, MARGIN * least / norm_bound)))


def _people(problem: Problem, history: History) -> str:
    """Say that people differ more than the model says, if the last wave shows it."""
    plan, feedback = history[-1]
    excess = float(excess_scatter(problem, plan, feedback).max())
    if excess < WORTH_SAYING:
        return ""
    return (
        f"people differ {math.sqrt(excess):.2g} times as much as bias_std and noise_std say, and their noise counts as "
        "what was seen; calibrate again with more people"
    )


UPPER_SHARE = 0.75  # of a wave's level, for the statement about the best action
DRAWS = 4000


@dataclass(frozen=True, eq=False)
class Statement:
    """Bounds on f(x) - f(reference) for the actions that were active."""

    reference: int
    upper: Array  # (n,) infinite where nothing was stated
    lower: Array  # (n,) minus infinity where nothing was stated


def next_level(delta: float, spent: float, last: bool) -> float:
    """Return the level of the next wave: half of what is left, and all of it in a wave that is declared the last."""
    return (delta - spent) * (1.0 if last else 0.5)


def one_sided(level: float) -> float:
    """Compute z with P(Z > z) = level."""
    return -float(ndtri(level))


def factor_of_maximum(deviations: Array, level: float, seed: int, both: bool = False) -> float:
    """Return a factor that no coordinate of a Gaussian vector exceeds, except with probability `level`.

    The vector is deviations @ w, w standard Gaussian, each coordinate in units of its own standard deviation; with
    `both`, no coordinate exceeds it in size.
    """
    rank = int(level * (DRAWS + 1))
    if rank < 1:
        return bonferroni(len(deviations), level, both)
    lengths = np.linalg.norm(deviations, axis=1)
    units = deviations[lengths > 0] / lengths[lengths > 0, None]
    draws = np.random.default_rng(seed).standard_normal((deviations.shape[1], DRAWS))
    largest = np.zeros(DRAWS)
    for start in range(0, len(units), 512):
        drawn = units[start : start + 512] @ draws
        np.maximum(largest, (np.abs(drawn) if both else drawn).max(axis=0), out=largest)
    return float(np.partition(largest, -rank)[-rank])


def bonferroni(statements: int, level: float, both: bool = False) -> float:
    """Compute the factor with which each of several statements fails with its share of the level."""
    return one_sided(level / statements / (2 if both else 1))


@dataclass(frozen=True, eq=False)
class Bounds:
    """Estimates with the widths that a wave's answers give, of values or of gaps."""

    estimate: Array
    width: Array


@dataclass(frozen=True, eq=False)
class Contrasts:
    """What is known of a wave before its answers are used: the arms, the noise, and what the statements may assume."""

    problem: Problem
    arms: Indices
    noise: Array
    clipping: Array | None
    norm_bound: float
    population: int | None  # of this size, its own mean is meant, not that of a larger one behind it

    def gaps(self, at: Indices, reference: int, y: Array, z: float) -> Bounds:
        """Bound f(x) - f(reference) for one action, with factor z."""
        estimator = AffineEstimator(self.problem, self.arms, self.noise, self.clipping, z)
        estimate, width = affine_values_and_gaps(estimator, at, reference, self.norm_bound, y)[1]
        return Bounds(estimate, width + z * self._own_mean(at, reference))

    def all_gaps(self, at: Indices, reference: int, y: Array, level: float, seed: int) -> Bounds:
        """Bound f(x) - f(reference) from below for all actions together."""
        z = bonferroni(len(at), level)
        if len(at) > GRAM_LIMIT:
            return self.gaps(at, reference, y, z)
        estimator = AffineEstimator(self.problem, self.arms, self.noise, self.clipping, z)
        found = estimator.values_and_gaps(at, reference, self.norm_bound)[1]
        return self._sharpened(found, z, level, seed, y, self._own_mean(at, reference), both=False)

    def all_values(self, at: Indices, y: Array, level: float, seed: int) -> Bounds:
        """Bound f(x) from both sides for all actions together."""
        z = bonferroni(len(at), level, both=True)
        estimator = AffineEstimator(self.problem, self.arms, self.noise, self.clipping, z)
        own = self._own_mean(at, None)
        if len(at) > GRAM_LIMIT:
            estimate, width = affine_values(estimator, at, self.norm_bound, y)
            return Bounds(estimate, width + z * own)
        return self._sharpened(estimator.values(at, self.norm_bound), z, level, seed, y, own, both=True)

    def _sharpened(self, found: Affine, z: float, level: float, seed: int, y: Array, own: Array, both: bool) -> Bounds:
        """Replace the factor z of the noise by that of the maximum over all actions, which are far from independent."""
        if self.population is not None:
            return Bounds(found.estimate(y), found.width + z * own)
        root = np.linalg.cholesky(self.noise + 1e-14 * np.trace(self.noise) * np.eye(len(self.noise)))
        deviations = found.weights @ root
        factor = factor_of_maximum(deviations, level, seed, both)
        width = found.width + (factor - z) * np.linalg.norm(deviations, axis=1)
        return Bounds(found.estimate(y), width)

    def _own_mean(self, at: Indices, reference: int | None) -> Array:
        """Compute by how much the mean of a finite population varies around f, at x or for its gap."""
        if self.population is None:
            return np.zeros(len(at))
        square = self.problem.prior_variance[at]
        if reference is not None:
            other = np.array([reference])
            square = square + self.problem.prior_variance[reference] - 2 * self.problem.covariance(at, other)[:, 0]
        return np.asarray(self.problem.bias_std * np.sqrt(np.maximum(square, 0.0) / self.population))


def pilot_statement(
    problem: Problem, norm_bound: float, reference: int, level: float, population: int | None
) -> Statement:
    """State what the pilot proves about f(x) - f(reference), for all x and both sides at once.

    Its answers chose the model's constants, so no weights were fixed before them; by Scheffe, the bounds hold for all
    weights together with the root of a quantile of chi-squared as factor.
    """
    rows, size = pilot_rows(problem), problem.size
    places = [np.flatnonzero((problem.decisions.points == point).all(axis=1)) for point in rows.points]
    new = np.array([not len(place) for place in places])  # the pilot's actions need not be the study's
    points = np.concatenate([problem.decisions.points, rows.points[new]])
    means = np.concatenate([problem.means, prior_means(problem, rows.points[new])])
    wider = replace(problem, decisions=Decisions(points), prior_mean=means, pilot=())
    arms = np.where(new, size + np.cumsum(new) - 1, [place[0] if len(place) else 0 for place in places])
    z = math.sqrt(float(chdtri(len(rows), level)))
    wave = Contrasts(wider, arms, rows.noise, None, norm_bound, population)
    gaps = wave.gaps(np.arange(size), reference, rows.residual, z)
    ahead = problem.means - problem.means[reference] + gaps.estimate
    upper, lower = ahead + gaps.width, ahead - gaps.width
    upper[reference] = lower[reference] = 0.0
    return Statement(reference, upper, lower)


def certified_gaps(statements: Iterable[Statement], active: Indices, choice: int) -> Array:
    """Bound f(x) - f(choice) for the active actions, by the best chain of statements; it holds for the best action.

    From f(b) <= f(b') - l and f(x) - f(b) <= u follows f(x) - f(b') <= u - l, and lower bounds can be chained.
    """
    statements = list(statements)
    if not statements:
        return np.full(len(active), np.inf)
    # The least that the choice is better than each reference by; improved along chains.
    ahead = {statement.reference: -np.inf for statement in statements} | {choice: 0.0}
    for _ in statements:
        for statement in statements:
            for other, known in list(ahead.items()):
                step = 0.0 if other == statement.reference else float(statement.lower[other])
                ahead[statement.reference] = max(ahead[statement.reference], known + step)
    bounds = np.min([statement.upper[active] - ahead[statement.reference] for statement in statements], axis=0)
    return np.where(active == choice, 0.0, bounds)
