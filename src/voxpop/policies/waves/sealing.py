"""The sealed part of the answers: nothing is planned by it, and one statement is made from all of it.

A wave's averages are y ~ N(f(A), N). A Gaussian draw w ~ N(0, N) splits them in two: with a share s to be sealed,

    plan    y + sqrt(s / (1 - s)) w     noise N / (1 - s): belief, planner, model check, stopping, recommendation b
    sealed  y - sqrt((1 - s) / s) w     noise N / s: independent of all plan parts, so of every design, of B and of b

Given all plan parts the affine weights are fixed, and a maximiser x* of f is unknown, but not random. So of the bounds
u(x) on f(x) - f(b) from all sealed parts together only f(x*) - f(b) <= u(x*) has to hold: one one-sided statement. On
it no action is better than b by more than the largest u, and x* is among the x with u(x) >= 0.

The averages themselves are in the journal, so that the seal is a discipline of this program. For the same reason w is
not kept: it is drawn by a generator that is seeded with the averages, and is the same wherever it is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce

import numpy as np
from scipy.linalg import block_diag
from scipy.special import chdtri, ndtri, stdtrit

from voxpop.errors import Array
from voxpop.gp.belief import Rows, dimensions, missing_part, own_noise, pilot_rows, prior_means, rows_of, total_noise
from voxpop.gp.large_widths import affine_values, affine_values_and_gaps
from voxpop.gp.widths import AffineEstimator
from voxpop.model.decisions import Decisions
from voxpop.model.guardrails import Rule
from voxpop.model.kernels import Kernel
from voxpop.model.noise import TRUST, Shocks
from voxpop.model.problem import GRAM_LIMIT, Indices, Problem
from voxpop.model.waves import Answered, Feedback, Plan

SEALED = 0.3  # the share of what people say that is set aside
PILOT_SEALED = 0.75  # of the pilot: it covers what no wave asks about
LIMITED = 0.1  # the share of a level that bounds the chosen action from below, where rewards have an upper limit
DRAWN = 0.1  # the share of a level that covers the draw of a finite population, or of the people who answer
APART = 0.4  # the share of a level that covers how far a panel is from its population
CALM = Shocks(0.0)
FADING = 0.5  # of the drift that is allowed: the standard deviation with which the belief counts it
LEVELS = 1e6  # times the noise of a wave's averages: what all of them have in common, where differences are estimated
COARSE = 2.0**16  # steps of the grid of answers: processors differ by less, and draw the same w


@dataclass(frozen=True)
class Model:
    """What is assumed of f: |f - m| <= B in the RKHS of k (k / max k)^(q - 1), which has shorter length-scales."""

    norm_bound: float
    power: int = 1

    def rougher(self, dimensions: int) -> float:
        """Return how many times as large a norm is in the RKHS of k^q, at most: exact for squared exponentials."""
        return float(self.power ** (dimensions / 4))


@dataclass(frozen=True, eq=False)
class Part:
    """The sealed part of the averages of one wave, or of the pilot."""

    arms: Indices  # of `wider(problem)`
    residual: Array
    noise: Array
    clipping: Array | None = None
    freedom: float = math.inf  # degrees of freedom of the noise; infinite where the model says it
    wave: int = 0  # 0: the pilot
    rounds: Array | None = None  # (arms,) what shocks of variance 1 add to the noise of each
    share: float = 1.0  # of what the answers say
    first: int = 0  # rounds that were played before it; the pilot ends where the study begins
    length: int = 0  # its own
    missing: float = 0.0  # of the same people's: the variance of who did not answer, in units of v^2 k


@dataclass(frozen=True, eq=False)
class Statement:
    """What all sealed parts say together."""

    gaps: Array  # (n,) upper bounds on f(x) - f(b); that of the best action holds
    lower: Array  # (n,) bounds on f(x), which hold together, with a chance of error of their own
    upper: Array  # (n,)

    @property
    def certificate(self) -> float:
        """The most by which any action can be better than b."""
        return max(0.0, float(self.gaps.max()))


def halves(rows: Rows, share: float, seed: list[int]) -> tuple[Rows, Rows]:
    """Split averages into the part to plan with and the sealed part, which has this share of what they say."""
    slightly = 1e-12 * np.diag(rows.noise.diagonal())  # more, as smooth kernels leave nothing but rounding
    w = np.linalg.cholesky(rows.noise + slightly) @ np.random.default_rng(seed).standard_normal(len(rows))
    odds = share / (1 - share)
    rounds = None if rows.rounds is None else rows.rounds / (1 - share)
    return (
        Rows(rows.points, rows.residual + math.sqrt(odds) * w, rows.noise / (1 - share), rounds),
        Rows(rows.points, rows.residual - w / math.sqrt(odds), rows.noise / share),
    )


def words(problem: Problem, seed: int, place: int, averages: Iterable[Array]) -> list[int]:
    """Return what the draw for a wave is seeded with; the pilot is wave 0. NumPy mixes the words into one state."""
    steps = np.concatenate([np.rint(mean / (COARSE * problem.grid_step)) for mean in averages])
    return [seed, place, *steps.astype("<i8").view("<u4").tolist()]


def split_wave(
    problem: Problem, plan: Plan, feedback: Feedback, seed: int, first: int = 0
) -> tuple[Answered, Part | None]:
    """Split the answers of a wave; the first part is what planning and privacy may know of it."""
    return split_metrics([problem], plan, feedback, seed, first)[0]


def split_metrics(
    problems: Sequence[Problem], plan: Plan, feedback: Feedback, seed: int, first: int = 0
) -> list[tuple[Answered, Part | None]]:
    """Split the answers of a wave about every metric, by one joint draw."""
    told = [feedback.of_metric(plan, metric) for metric in range(len(problems))]
    if not plan.sealed:  # a wave of a study that was begun before anything was sealed
        return [(Answered(plan, each), None) for each in told]
    noises = [own_noise(*each) for each in zip(problems, [plan] * len(told), told, strict=True)]
    rows = [
        replace(rows_of(problem, plan, each), noise=noise)
        for problem, each, (noise, _) in zip(problems, told, noises, strict=True)
    ]
    added = [np.zeros((len(plan.arms),) * 2) if each.noise is None else each.noise for each in told]
    alike = together(rows, problems, added, None if len(told) == 1 else _scattered(problems, plan, feedback))
    parts = halves(alike, plan.sealed, words(problems[0], seed, plan.wave, [feedback.mean]))
    found, size, kept = list[tuple[Answered, Part | None]](), len(plan.arms), 1 - plan.sealed
    for metric, (problem, each, (_, freedom)) in enumerate(zip(problems, told, noises, strict=True)):
        planned, sealed = (cut(part, metric, size) for part in parts)
        thinned = replace(
            each,
            mean=problem.means[plan.arms] + planned.residual,
            noise=None if each.noise is None else each.noise / kept,
            kept=kept,
        )
        rounds = problem.shocks.variance * problem.shock_noise(plan.turns)
        noise = sealed.noise - rounds / plan.sealed
        part = Part(plan.arms, sealed.residual, noise, each.clipping, freedom, plan.wave)
        part = replace(part, rounds=1 / plan.turns / plan.sealed, share=plan.sealed, missing=missing_part(plan, each))
        found.append((Answered(plan, thinned), replace(part, first=first, length=plan.asked)))
    return found


def together(rows: Sequence[Rows], problems: Sequence[Problem], added: Sequence[Array], alike: Array | None) -> Rows:
    """Put the averages of all metrics below each other, with how their noise varies together.

    People's noise L_m L_m' of each metric has the correlations `alike` in its own whitened coordinates, or those of the
    problem; noise that was `added` to each is independent.
    """
    if len(rows) == 1:
        return rows[0]
    usual = np.kron(problems[0].correlation, np.eye(len(rows[0])))
    tiny = [1e-12 * np.diag(each.noise.diagonal()) for each in rows]
    people = (np.linalg.cholesky(each.noise - own + more) for each, own, more in zip(rows, added, tiny, strict=True))
    root = block_diag(*people)
    noise = root @ (usual if alike is None else alike) @ root.T + block_diag(*added)
    points, residual = (np.concatenate(parts) for parts in zip(*((r.points, r.residual) for r in rows), strict=True))
    known = [each.rounds for each in rows if each.rounds is not None]
    return Rows(points, residual, noise, block_diag(*known) if len(known) == len(rows) else None)


def cut(rows: Rows, metric: int, size: int) -> Rows:
    """Return the averages of one metric, of so many of each."""
    at = slice(metric * size, (metric + 1) * size)
    rounds = None if rows.rounds is None else rows.rounds[at, at]
    return Rows(rows.points[at], rows.residual[at], rows.noise[at, at], rounds)


def _scattered(problems: Sequence[Problem], plan: Plan, feedback: Feedback) -> Array | None:
    """Return how people's answers about all metrics vary together, whitened metric by metric; None if nobody saw it.

    What is expected counts as `TRUST` people, as it does in the noise of one metric.
    """
    if feedback.scatter is None or feedback.scatter.ndim == 1 or feedback.freedom <= 0:
        return None
    models = [problem.answer_noise(plan.arms, plan.lived) for problem in problems]
    usual = block_diag(*map(np.linalg.cholesky, models))
    expected = usual @ np.kron(problems[0].correlation, np.eye(len(plan.arms))) @ usual.T
    people = (TRUST * expected + feedback.freedom * feedback.scatter) / (TRUST + feedback.freedom)
    blocks = [np.linalg.cholesky(_block(people, metric, len(plan.arms))) for metric in range(len(models))]
    white = np.linalg.inv(block_diag(*blocks))
    return np.asarray(white @ people @ white.T)


def _block(matrix: Array, metric: int, size: int) -> Array:
    at = slice(metric * size, (metric + 1) * size)
    return matrix[at, at]


@lru_cache(maxsize=64)
def split_pilots(problem: Problem, seed: int) -> list[tuple[Rows, Part | None]]:
    """Split the answers of the pilot about every metric, by one joint draw."""
    rows = [pilot_rows(each) for each in problem.metrics]
    if not len(rows[0]):
        return [(each, None) for each in rows]
    none, found = [np.zeros_like(each.noise) for each in rows], list[tuple[Rows, Part | None]]()
    drawn = words(problem, seed, 0, (group.mean for each in problem.metrics for group in each.pilot))
    parts = halves(together(rows, problem.metrics, none, None), PILOT_SEALED, drawn)
    for metric, each in enumerate(problem.metrics):
        planned, sealed = (cut(part, metric, len(rows[0])) for part in parts)
        found.append((planned, Part(_places(each), sealed.residual, sealed.noise)))
    return found


def split_pilot(problem: Problem, seed: int) -> tuple[Rows, Part | None]:
    """Split the answers of the pilot about the objective."""
    return split_pilots(problem, seed)[0]


def faded(problem: Problem, rows: Rows, moved: float, share: float = FADING) -> Rows:
    """Return averages with more noise: since then expected rewards moved by at most `moved`, and by a share of it."""
    if not moved or not len(rows):
        return rows
    more = (share * moved) ** 2 / problem.largest_variance * problem.kernel(rows.points, rows.points)
    return replace(rows, noise=rows.noise + more)


def excess(problem: Problem, shown: Problem) -> Array:
    """Return how many times as much as assumed the pilot's people vary by what waves show, at least 1, (rows,).

    Where they were seen to vary themselves, that counts.
    """
    points = pilot_rows(problem).points
    spread, seen = problem.pilot_spread(points)
    return np.where(seen, 1.0, np.maximum(shown.spread_at(points) / spread, 1.0))


def revised(pilot: Rows, problem: Problem, shown: Problem) -> Rows:
    """Return the pilot's plan part with larger noise where the waves show that its people or rounds vary more."""
    more = excess(problem, shown)
    rounds = max(shown.shocks.variance - problem.shocks.variance, 0.0) / (1 - PILOT_SEALED)
    return replace(pilot, noise=pilot.noise * np.outer(more, more) + rounds * (np.eye(len(more)) + 1))


@lru_cache(maxsize=64)
def wider(problem: Problem, power: int = 1) -> Problem:
    """Return the problem with the pilot's actions, which need not be the study's, and the kernel of a model."""
    points, new = pilot_rows(problem).points, _places(problem) >= problem.size
    means = np.concatenate([problem.means, prior_means(problem, points[new])])
    decisions = Decisions(np.concatenate([problem.decisions.points, points[new]]))
    kernel = powered(problem.kernel, problem.largest_variance, power)
    alone = replace(problem, guardrails=(), today=None, pilot=())
    return replace(alone, decisions=decisions, prior_mean=means, kernel=kernel)


@lru_cache(maxsize=64)
def _places(problem: Problem) -> Indices:
    """Return the number of each of the pilot's actions in the wider problem."""
    found = [np.flatnonzero((problem.decisions.points == point).all(axis=1)) for point in pilot_rows(problem).points]
    new = np.array([not len(place) for place in found], dtype=bool)
    after = problem.size + np.cumsum(new) - 1
    return np.where(new, after, [place[0] if len(place) else 0 for place in found]).astype(np.intp)


@lru_cache(maxsize=64)
def rank(problem: Problem) -> int:
    """Return the numerical rank of the kernel matrix of all actions and the pilot's; of very many, their number."""
    wide, every = wider(problem), np.arange(wider(problem).size)
    if wide.size > GRAM_LIMIT:
        return wide.size
    return int(np.linalg.matrix_rank(wide.covariance(every, every), hermitian=True))


def reach(problem: Problem, level: float) -> float:
    """Bound the norm of a draw of GP(0, k) at all actions together, at this level: its square is chi-squared."""
    return math.sqrt(float(chdtri(rank(problem), level)))


def powered(kernel: Kernel, largest: float, power: int) -> Kernel:
    """Return k (k / max k)^(q - 1)."""
    return kernel if power == 1 else largest ** (1 - power) * reduce(lambda one, other: one * other, [kernel] * power)


def factor(level: float) -> float:
    """Compute the factor of a one-sided statement: z with P(Z > z) = level."""
    return -float(ndtri(level))


def inflation(level: float, freedom: float) -> float:
    """Return how much more noise a part counts with if its noise was estimated: z times its root is Student's t."""
    return 1.0 if math.isinf(freedom) else float(stdtrit(freedom, level) / ndtri(level)) ** 2


def _noise(part: Part, level: float, shocks: float, more: float, levels: float) -> Array:
    """Return the noise that a part counts with, for shocks of this variance, or so much more than the pilot knows."""
    noise = inflation(level, part.freedom) * part.noise
    if part.rounds is not None:
        noise = noise + np.diag(shocks * part.rounds) + shocks / part.share
    else:
        noise = noise + more * (np.eye(len(noise)) + 1)
    return noise + levels * float(noise.diagonal().max())


@dataclass(frozen=True, eq=False)
class Evidence:
    """All sealed parts with what is assumed of f: everything that a statement needs but its level."""

    problem: Problem
    parts: tuple[Part, ...]
    model: Model
    population: int | None = None  # of this size, its own mean is meant, not that of a larger one behind it
    shocks: Shocks = CALM
    drift: float = 0.0  # no expected reward changes by more a round; f moves by D = drift / sqrt(max k) in the RKHS
    now: int = 0  # the round that is spoken of
    who: str = "fresh"  # otherwise the population's people answer in every wave; of a panel, more people are meant
    differing: float = 0.0  # how much people deviate from their mean, if the same answer in every wave: v, as shown

    def state(self, best: int, level: float) -> Statement:
        """Make the statement about an action that was chosen by plan parts, at a level that is spent by it.

        If no reward is above some limit, a small share of the level bounds f(best) from below: nothing is better by
        more than what is left up to the limit.
        """
        problem, at, most = self.problem, np.arange(self.problem.size), math.inf
        if math.isfinite(high := problem.limits[1]):
            estimator, bound = self._estimator(LIMITED * level, 1)
            estimate, width = affine_values(estimator, np.array([best]), bound, self._residual)
            width = width + self._apart(problem.prior_variance[best], LIMITED * level, problem.size)
            most, level = high - float(problem.means[best] + estimate[0] - width[0]), (1 - LIMITED) * level
            most = most if most >= 0 else math.inf  # the answers contradict the limit
        gaps = np.minimum(self.gaps(at, best, level), most)
        estimator, bound = self._estimator(level, 2 * problem.size)
        estimate, width = affine_values(estimator, at, bound, self._residual)
        width = width + self._apart(problem.prior_variance, level, 2 * problem.size)
        return Statement(gaps, problem.means + estimate - width, problem.means + estimate + width)

    def gaps(self, at: Indices, best: int, level: float) -> Array:
        """Bound f(x) - f(best) from above, each at this level."""
        problem, (estimator, bound) = self.problem, self._estimator(level, 1, LEVELS)
        estimate, width = affine_values_and_gaps(estimator, at, best, bound, self._residual)[1]
        width = width + self._apart(self._square(at, best), level, problem.size)
        return np.where(at == best, 0.0, problem.means[at] - problem.means[best] + estimate + width)

    def kept(self, rule: Rule, at: Indices, today: int, level: float, side: int) -> Array:
        """Bound s(x) = g(x) - share g(today) - floor from above (side 1) or below (-1), each at this level.

        One statement holds for one action; the fixed one that is meant may be unknown.
        """
        problem, share = self.problem, rule.share
        estimator, bound = self._estimator(level, 1, LEVELS if share == 1 else 0.0)
        wide, other = estimator.problem, np.array([today])
        cross = wide.covariance(at, estimator.arms) - share * wide.covariance(other, estimator.arms)
        square = wide.prior_variance[at] + share**2 * wide.prior_variance[today]
        square = np.maximum(square - 2 * share * wide.covariance(at, other)[:, 0], 0.0)
        found = estimator.fit(cross, square, bound)
        width = found.width + self._apart(square, level, problem.size)
        slack = problem.means[at] - share * problem.means[today] - rule.floor
        slack = slack + found.estimate(self._residual) + side * width
        return np.asarray(slack if rule.relative else problem.within(slack + rule.floor) - rule.floor)

    def assumed(self, best: int) -> float:
        """Return by how much any action can be better than this one, before anybody is asked."""
        low, high = self.problem.limits
        ahead = self.problem.means - self.problem.means[best]
        most = (ahead + replace(self, parts=()).widths(np.arange(self.problem.size), best, 1.0)).max()
        reach = self.model.norm_bound * math.sqrt(float(self.problem.prior_variance[best]))
        return min(high - max(low, float(self.problem.means[best]) - reach), float(most))

    def widths(self, at: Indices, best: int, level: float, reserve: float = 0.0) -> Array:
        """Compute the widths of the bounds on f(x) - f(best), which do not depend on the answers."""
        if self.parts:
            estimator, bound = self._estimator(level, 1, LEVELS, reserve)
            width = affine_values_and_gaps(estimator, at, best, bound, self._residual)[1][1]
            return np.asarray(width + self._apart(self._square(at, best), level, self.problem.size))
        return np.asarray(self.model.norm_bound * np.sqrt(self._square(at, best, self.model.power)))

    def _square(self, at: Indices, best: int, power: int = 1) -> Array:
        """Compute |k(x, .) - k(best, .)|^2."""
        problem = wider(self.problem, power)
        variance, shared = problem.prior_variance, problem.covariance(at, np.array([best]))[:, 0]
        return np.asarray(np.maximum(variance[at] + variance[best] - 2 * shared, 0.0))

    def _apart(self, square: Array, level: float, statements: int) -> Array:
        """Bound how far a panel is from its population in functions h of |h|^2, of which any may be chosen by it."""
        if self.who != "panel" or self.population is None:
            return np.zeros_like(square)
        z = factor(APART * level / statements)
        return np.asarray(z * self.differing * np.sqrt(square / self.population))

    def _drawn(self, level: float) -> float:
        """Return the level at which each draw of people is covered: of all, of those missing, and of the pilot's."""
        return DRAWN * level / (1 + sum(part.missing > 0 or not part.wave for part in self.parts))

    def rows(self, shown: Problem, history: Iterable[Answered]) -> list[Rows]:
        """Return the sealed averages, to be pooled with the others and with the noise to expect, as these are."""
        points = wider(self.problem).decisions.points
        asked = {
            plan.wave: (
                (1 - plan.sealed) / plan.sealed * total_noise(shown, plan, feedback),
                shown.shock_noise(plan.turns) / plan.sealed,
            )
            for plan, feedback in history
            if plan.sealed
        }
        pilot = [(part.noise, (np.eye(len(part.arms)) + 1) / PILOT_SEALED) for part in self.parts if not part.wave]
        told = [asked[part.wave] if part.wave else pilot[0] for part in self.parts]
        found = [Rows(points[part.arms], part.residual, *noise) for part, noise in zip(self.parts, told, strict=True)]
        ages = [self.now - part.first - part.length / 2 for part in self.parts]
        return [faded(self.problem, rows, self.drift * age) for rows, age in zip(found, ages, strict=True)]

    @property
    def _residual(self) -> Array:
        return np.concatenate([part.residual for part in self.parts])

    def _estimator(
        self, level: float, statements: int, levels: float = 0.0, reserve: float = 0.0
    ) -> tuple[AffineEstimator, float]:
        """Return the estimator of one of several statements that hold together, and the norm bound to use it with.

        With a reserve it counts with so many standard errors more.

        What a whole wave has in common says nothing of differences: there it counts with `levels` times its noise.

        The mean of a finite population differs from f by a draw of GP(0, v^2 k / P), and its own best action depends
        on that draw: a tenth of the level bounds the draw for all actions together. Given the population, the errors
        of its samples are independent of it.
        """
        bound, n, drawn = self.model.norm_bound, self.problem.size, 0.0
        if self.population is not None and self.who == "fresh":
            bound += factor(DRAWN * level / n) * self.problem.most_differing / math.sqrt(self.population)
            level *= 1 - DRAWN
        elif self.population is not None:
            drawn = self.differing * reach(self.problem, self._drawn(level))
            bound += self.model.rougher(dimensions(self.problem)) * drawn / math.sqrt(self.population)
            level *= 1 - DRAWN - (APART if self.who == "panel" else 0.0)
        level /= statements
        arms = np.concatenate([part.arms for part in self.parts])
        shocks = self.shocks.at_most(inflation(level, self.shocks.freedom))
        noise = block_diag(*(_noise(part, level, shocks, self._more, levels) for part in self.parts))
        wide = wider(self.problem, self.model.power)
        return AffineEstimator(wide, arms, noise, None, factor(level) + reserve, self._biases(level, drawn)), bound

    def _biases(self, level: float, drawn: float) -> list[Array]:
        """Return matrices C: besides its noise a'y is biased by at most the sum of their sqrt(a'C a)."""
        found, start, size = list[Array](), 0, sum(len(part.arms) for part in self.parts)
        for part in self.parts:
            at = slice(start, start + len(part.arms))
            for bias in (part.clipping, self._shocked(part, level), self._drifted(part), self._others(part, drawn)):
                if bias is not None:
                    found.append(np.zeros((size, size)))
                    found[-1][at, at] = bias
            start = at.stop
        return found

    def _others(self, part: Part, drawn: float) -> Array | None:
        """Return a matrix C: other people than all bias weights a by at most sqrt(a'C a); None if they are not others.

        The pilot's people are others, and of a wave those who answered are if somebody is missing: their mean differs
        from that of all by a draw of GP(0, p v^2 k), of norm at most `drawn` sqrt(p), in plan parts and sealed ones.
        """
        if not (share := drawn**2 * (part.missing if part.wave else 1 / (self.population or 1))):
            return None
        return np.asarray(share * wider(self.problem).covariance(part.arms, part.arms))

    def _drifted(self, part: Part) -> Array | None:
        """Return a matrix C: what f moved since a part biases weights a by at most sqrt(a'C a).

        Since the middle of a wave, t rounds ago, f moved by at most D t; in the h rounds before and after it, arms were
        played at different times, each by at most D h from there: D t sqrt(a'K a) + D h sum of |a_i| sqrt(k_ii).
        """
        if not self.drift:
            return None
        gram, half, n = wider(self.problem).covariance(part.arms, part.arms), part.length / 2, len(part.arms)
        whole = self.now - part.first
        moved = whole * ((whole - half) * gram + half * n * np.diag(gram.diagonal()))
        return np.asarray(self.drift**2 / self.problem.largest_variance * moved)

    def _shocked(self, part: Part, level: float) -> Array | None:
        """Return a matrix C such that shocks bias the pilot's part by at most sqrt(a'C a); None if they do not.

        Shocks c of variance S beyond those that the pilot was split with are in both of its parts. Given the plan
        part, of noise N, their mean is S (N + S)^-1 times its error, of covariance Q = S (N + S)^-1 S, and plans may
        depend on it: a share of the level covers all weights.
        """
        if part.wave or self._more <= 0:
            return None
        shocks = self._more * np.eye(len(part.arms))
        planned = PILOT_SEALED / (1 - PILOT_SEALED) * part.noise + shocks
        return np.asarray(float(chdtri(len(part.arms), DRAWN * level)) * shocks @ np.linalg.solve(planned, shocks))

    @property
    def _more(self) -> float:
        """By how much shocks vary more than was assumed."""
        return max(self.shocks.variance - self.problem.shock_std**2, 0.0)
