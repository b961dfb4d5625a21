"""All averages that people have sent, pilot included, as rows of one regression: y = f(points) + noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product

import numpy as np
from scipy.linalg import block_diag, cho_factor, cho_solve, solve_triangular

from voxpop.errors import Array
from voxpop.gp.widths import shared_coordinates
from voxpop.model.noise import ASSUMED, TRUST, Manner, Shocks
from voxpop.model.problem import GRAM_LIMIT, Evidence, Indices, Problem
from voxpop.model.waves import Answered, Feedback, Plan


@dataclass(frozen=True, eq=False)
class Rows:
    """Averages less their prior mean, where they were taken, and the covariance of their noise."""

    points: Array  # (rows, dimensions)
    residual: Array  # (rows,)
    noise: Array  # (rows, rows)
    rounds: Array | None = None  # (rows, rows) of which so much are shocks of variance 1, if that is known

    def __len__(self) -> int:
        return len(self.residual)

    @classmethod
    def joined(cls, parts: Iterable[Rows], dimensions: int) -> Rows:
        """Put the rows of independent groups of people below each other."""
        parts = [part for part in parts if len(part)]
        if not parts:
            return cls(np.empty((0, dimensions)), np.empty(0), np.empty((0, 0)))
        points, residual = (
            np.concatenate(column) for column in zip(*((p.points, p.residual) for p in parts), strict=True)
        )
        rounds = [part.rounds for part in parts if part.rounds is not None]
        shared = block_diag(*rounds) if len(rounds) == len(parts) else None
        return cls(points, residual, block_diag(*(part.noise for part in parts)), shared)


def all_rows(problem: Problem, history: Iterable[Answered], pilot: Rows | None, own: bool = False) -> Rows:
    """Return the rows of the pilot, if there is one, and of every wave, with the noise to expect or people's own.

    What is believed counts with the noise to expect: where answers are skewed, those that happen to be low also happen
    to vary little, and would count too much.
    """
    parts = [] if pilot is None else [pilot]
    return Rows.joined([*parts, *(rows_of(problem, *wave, own=own) for wave in history)], dimensions(problem))


def dimensions(problem: Problem) -> int:
    """Return the number of coordinates of a decision."""
    return int(problem.decisions.points.shape[1])


def rows_of(problem: Problem, plan: Plan, feedback: Feedback, own: bool = False) -> Rows:
    """Return the rows of one wave, with the noise to expect or people's own."""
    seen = own and not problem.of_people
    noise = own_noise(problem, plan, feedback)[0] if seen else total_noise(problem, plan, feedback)
    residual = feedback.mean - problem.means[plan.arms]
    return Rows(problem.decisions.points[plan.arms], residual, noise, _rounds(problem, plan, feedback))


SMALL = 1e-30  # so that nothing is divided by zero where people do not vary at all


def total_noise(problem: Problem, plan: Plan, feedback: Feedback) -> Array:
    """Compute the covariance of a wave's averages, as expected: people's deviations, rounds, and privacy.

    Of the same people in every wave, the mean of those who answered differs from that of all by those who did not.
    """
    noise = _with_rounds(problem, plan, feedback, problem.answer_noise(plan.arms, plan.lived, feedback.effective))
    if missing := missing_part(plan, feedback):
        noise = noise + missing * problem.most_differing**2 * problem.covariance(plan.arms, plan.arms)
    return noise


def missing_part(plan: Plan, feedback: Feedback) -> float:
    """Return the variance of the mean of those who answered around that of all who should, in units of v^2 k."""
    return max(1 / feedback.count - 1 / plan.same, 0.0) if plan.same else 0.0


def _with_rounds(problem: Problem, plan: Plan, feedback: Feedback, people: Array) -> Array:
    """Add to people's noise what happened to everybody in these rounds, and what privacy added."""
    noise = people + problem.shocks.variance * _rounds(problem, plan, feedback)
    return noise if feedback.noise is None else noise + feedback.noise


def _rounds(problem: Problem, plan: Plan, feedback: Feedback) -> Array:
    """Compute what shocks of variance 1 add to the noise of a wave's averages."""
    return problem.shock_noise(plan.turns) / feedback.kept


def own_noise(problem: Problem, plan: Plan, feedback: Feedback) -> tuple[Array, float]:
    """Compute the covariance of a wave's averages as people showed it, and its degrees of freedom.

    Where single answers are seen, it is their own covariance, with the model's as that of `TRUST` people more: the
    posterior of an inverse Wishart prior. Where people vary more than that, they count as they are seen. For Gaussian
    people the scatter is independent of the averages. Where only totals are seen, it is what is expected. Of the same
    people in every wave the scatter shows how they differ, which is no noise.
    """
    if problem.of_people:
        people = problem.answer_noise(plan.arms, plan.lived, feedback.effective)
        return _with_rounds(problem, plan, feedback, people), math.inf
    if feedback.scatter is None or feedback.variances is None or feedback.freedom <= 0:
        return total_noise(problem, plan, feedback), math.inf
    model, scatter = problem.answer_noise(plan.arms, plan.lived), feedback.scatter
    if scatter.ndim == 1:  # the journal of an earlier version
        ratios = np.sqrt(feedback.variances / model.diagonal())
        scatter = model * np.outer(ratios, ratios)
    freedom = TRUST + feedback.freedom
    noise = (TRUST * model + feedback.freedom * scatter) / (freedom * feedback.effective)
    more = np.sqrt(np.maximum(feedback.variances / (feedback.effective * noise.diagonal()), 1.0))
    noise = np.asarray(noise * np.outer(more, more))
    return _with_rounds(problem, plan, feedback, noise), freedom


FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
MANNERS = sorted((Manner(*each) for each in product(FACTORS, FACTORS)), key=lambda each: np.abs(np.log2(each)).sum())
GAIN = 3.0  # log-likelihood that a doubling must gain


def shown_in(problem: Problem, history: Sequence[Answered]) -> Problem:
    """Return the problem in which people vary as they did in the pilot and in these waves, and rounds as in these."""
    seen = [
        problem.show(problem.decisions.points[plan.arms], plan.lived, feedback.variances, feedback.freedom)
        for plan, feedback in history
        if feedback.variances is not None and feedback.freedom > 0
    ]
    shown = problem.showing(seen)
    if not problem.of_people:
        shown = shown.in_manner(_manner(shown, history))
    return shown.showing([], _shocks(shown, history))


def _manner(problem: Problem, history: Sequence[Answered]) -> Manner:
    """Return how people vary, by the likelihood of how single answers do in all waves.

    What they have in common, and what differs between close actions, decides how well these can be compared.
    """
    unlikely = GAIN * np.abs(np.log2(MANNERS)).sum(axis=1)
    for plan, feedback in history:
        if feedback.scatter is None or feedback.scatter.ndim == 1 or feedback.freedom <= 0:
            continue
        spread = problem.spread_at(problem.decisions.points[plan.arms])
        models = np.stack([problem.varying(plan.arms, plan.lived, manner) for manner in MANNERS])
        models = models * (np.outer(spread, spread) + 1e-12 * np.eye(len(spread)))
        fits = np.linalg.slogdet(models)[1] + np.trace(np.linalg.solve(models, feedback.scatter), axis1=1, axis2=2)
        unlikely += feedback.freedom / 2 * fits
    return MANNERS[int(np.argmin(unlikely))]


def _shocks(problem: Problem, history: Sequence[Answered]) -> Shocks:
    """Estimate what happens to everybody in a round, from the residuals of arms and blocks.

    The average of an arm in a block, less those of the arm and of the block, keeps what its own rounds did to everybody
    and the noise of its people, of which the mean square is subtracted. What was assumed counts no longer, unless it
    was measured before the study. Waves of few people show less, and their weights do not depend on what they show.
    """
    prior = problem.shocks
    found = [(prior.freedom, prior.variance, 0.0)] if prior.freedom > ASSUMED else []
    for plan, feedback in history:
        if feedback.by_block is None or len(plan.arms) < 2 or plan.counts is not None:  # unequal rounds differ more
            continue
        blocks, arms = feedback.by_block.shape
        rest = feedback.by_block - feedback.by_block.mean(axis=0)
        rest = rest - rest.mean(axis=1, keepdims=True)
        freedom, rounds = (blocks - 1) * (arms - 1), float(plan.turns[0] // blocks)
        people = problem.answer_noise(plan.arms, plan.lived)
        scatter = None if problem.of_people else feedback.scatter
        if scatter is not None and scatter.ndim == 2 and feedback.freedom > arms:
            people = scatter
        part = rounds * blocks * feedback.kept / feedback.effective * within(people)
        found.append((freedom, rounds * float(np.square(rest).sum()) / freedom, part))
    if not found:
        return prior
    freedoms, squares, parts = np.array(found).T
    weights = freedoms / np.square(parts + max(float(parts.min()), SMALL * float(parts.max()), prior.variance, SMALL))
    weights /= weights.sum()
    known, variance = float(weights @ parts), max(float(weights @ (squares - parts)), 0.0)
    freedom = (variance + known) ** 2 / max(float(np.square(weights * (variance + parts)) @ (1 / freedoms)), SMALL)
    return Shocks(variance, known, max(freedom, float(freedoms.min())))


def within(covariance: Array) -> float:
    """Return the expected variance of averages with this covariance around their own mean, with divisor n - 1."""
    size = len(covariance)
    return (float(np.trace(covariance)) - size * float(covariance.mean())) / (size - 1)


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
    rounds = np.eye(len(points)) + 1  # as if shocks lasted for all rounds of an action
    return Rows(points, noise @ weighted, (noise + noise.T) / 2 + problem.shock_std**2 * rounds, rounds)


def prior_means(problem: Problem, points: Array) -> Array:
    """Return the prior mean at points: that of the nearest decision, if decisions differ in it."""
    if isinstance(problem.prior_mean, float):
        return np.full(len(points), problem.prior_mean)
    distances = np.square(points[:, None, :] - problem.decisions.points).sum(axis=2)
    return np.asarray(problem.means[distances.argmin(axis=1)])


def _noise(problem: Problem, group: Evidence) -> Array:
    """Compute the covariance of the average answers of a group."""
    covariance, (spread, _) = group.covariance, problem.pilot_spread(group.points)
    if covariance is None:
        covariance = problem.bias_std**2 * problem.kernel(group.points, group.points) / group.people
        covariance.flat[:: len(covariance) + 1] += problem.noise_std**2 / group.rounds / group.people
    return np.asarray(covariance * np.outer(spread, spread) + group.noise_std**2 * np.eye(len(covariance)))


POWERS = (1, 2, 4, 8)
SPREAD = 1.0  # standard deviation of ln tau
PENALTY = 1.0  # what a doubled power must gain in log-likelihood
CLOSE = 2.0  # the roughest power whose log-likelihood is within this of the largest is taken
SCALES = np.geomspace(0.02, 8.0, 61)  # tau in units of B/2


@dataclass(frozen=True, eq=False)
class Belief:
    """A Gaussian process that has seen all answers."""

    problem: Problem
    rows: Rows
    tau: float
    power: int

    def prior(self, x: Array, y: Array) -> Array:
        """Compute the prior covariance of f at points x and y, (x, y)."""
        kernel = self.problem.kernel
        covariance = self.tau**2 * kernel(x, y)
        if self.power > 1:
            deviations = np.sqrt(np.outer(kernel.diagonal(x), kernel.diagonal(y)))
            correlation = kernel(x, y) / np.maximum(deviations, np.finfo(float).tiny)
            covariance *= correlation ** (self.power - 1)
        return np.asarray(covariance)

    @cached_property
    def _root(self) -> Array:
        covariance = self.prior(self.rows.points, self.rows.points) + self.rows.noise
        covariance.flat[:: len(covariance) + 1] *= 1 + 1e-12
        return np.asarray(np.linalg.cholesky(covariance), dtype=float)

    @cached_property
    def _weights(self) -> Array:
        half = solve_triangular(self._root, self.rows.residual, lower=True)
        return np.asarray(solve_triangular(self._root, half, lower=True, trans="T"))

    @cached_property
    def mean(self) -> Array:
        """The posterior mean of every action, (n,)."""
        if not len(self.rows):
            return self.problem.means.copy()
        points = self.problem.decisions.points
        parts = [
            self.prior(points[start : start + GRAM_LIMIT], self.rows.points) @ self._weights
            for start in range(0, len(points), GRAM_LIMIT)
        ]
        return np.asarray(self.problem.means + np.concatenate(parts))

    def explained(self, at: Indices) -> Array:
        """Return the part of the prior that the answers explain, as a root (rows, at)."""
        if not len(self.rows):
            return np.empty((0, len(at)))
        cross = self.prior(self.rows.points, self.problem.decisions.points[at])
        return np.asarray(solve_triangular(self._root, cross, lower=True))

    def between(self, at: Indices, others: Indices) -> Array:
        """Compute the posterior covariance of some actions with others, (at, others)."""
        points = self.problem.decisions.points
        return self.prior(points[at], points[others]) - self.explained(at).T @ self.explained(others)

    def covariance(self, at: Indices) -> Array:
        """Compute the posterior covariance of some actions, (at, at)."""
        points, explained = self.problem.decisions.points[at], self.explained(at)
        covariance = self.prior(points, points) - explained.T @ explained
        return np.asarray((covariance + covariance.T) / 2)

    @cached_property
    def deviation(self) -> Array:
        """The posterior standard deviation of every action, (n,)."""
        everything = np.arange(self.problem.size)
        blocks = [everything[start : start + GRAM_LIMIT] for start in range(0, len(everything), GRAM_LIMIT)]
        known = np.concatenate([np.square(self.explained(block)).sum(axis=0) for block in blocks])
        return np.asarray(np.sqrt(np.maximum(self.tau**2 * self.problem.prior_variance - known, 0.0)))


def believe(problem: Problem, history: Iterable[Answered] = ()) -> Belief:
    """Pool the pilot and all waves."""
    return belief_of(problem, all_rows(problem, history, pilot_rows(problem)))


def belief_of(problem: Problem, rows: Rows) -> Belief:
    """Return what is believed after some averages."""
    usual = problem.norm_bound / 2
    return _likeliest(problem, rows, usual)[1] if len(rows) else Belief(problem, rows, usual, 1)


STEP = 2.0  # between the sizes of shocks that are tried
FITTED = 400  # averages at most; of more it takes long


def with_shocks(problem: Problem, rows: Rows) -> Belief:
    """Return what is believed, with shocks as large as residuals and averages together say.

    Where the averages of several waves fit no smooth function, rounds may have moved them. Residuals of mean square M
    with nu degrees of freedom have the likelihood (M / (S + p))^(nu / 2) exp(-nu M / 2 (S + p)), if people explain p;
    what is only assumed counts like that. The largest product with the likelihood of the averages is looked for.
    """
    usual, shocks = problem.norm_bound / 2, problem.shocks.expected
    square, rounds = shocks.variance + shocks.people, rows.rounds
    if not 0 < len(rows) <= FITTED or rounds is None or not square > 0:
        return belief_of(problem, rows)

    def fitted(times: float) -> tuple[float, Belief]:
        variance = max(times * square - shocks.people, 0.0)
        times = (variance + shocks.people) / square
        seen = problem.showing([], replace(shocks, variance=variance))
        noise = rows.noise + (variance - problem.shocks.variance) * rounds
        score, belief = _likeliest(seen, Rows(rows.points, rows.residual, noise), usual)
        known = float(np.linalg.slogdet(noise)[1]) + shocks.freedom * (math.log(times) + 1 / times)
        return score - known / 2, belief

    best, times = fitted(1.0), 1.0
    for step in (STEP, 1 / STEP):
        while (found := fitted(times * step))[0] > best[0]:
            best, times = found, times * step
        if times > 1:
            break
    return best[1]


def _likeliest(problem: Problem, rows: Rows, usual: float) -> tuple[float, Belief]:
    """Return the largest log posterior of a scale and a power, and the belief with the roughest power that is close."""
    fits = [_fit(Belief(problem, rows, 1.0, power), usual) for power in POWERS]
    most = max(fits)[0]
    _, tau, power = max((fit for fit in fits if fit[0] >= most - CLOSE), key=lambda fit: fit[2])
    return most, Belief(problem, rows, tau, power)


def _fit(unit: Belief, usual: float) -> tuple[float, float, int]:
    """Return the largest log posterior of tau for one power, up to a constant, with its tau and the power."""
    rows = unit.rows
    theta, basis = shared_coordinates(unit.prior(rows.points, rows.points), rows.noise)
    square = np.square(basis @ rows.residual)
    taus = usual * SCALES
    variance = 1 + np.square(taus)[:, None] * theta
    score = -0.5 * (np.log(variance) + square / variance).sum(axis=1)
    score -= 0.5 * np.square(np.log(SCALES) / SPREAD) + PENALTY * math.log2(unit.power)
    best = int(np.argmax(score))
    return float(score[best]), float(taus[best]), unit.power


def pooled_best(problem: Problem, history: Iterable[Answered] = ()) -> int:
    """Return the action of largest pooled mean."""
    return int(np.argmax(believe(problem, history).mean))
