"""The value of information: how much better the best choice is expected to be after a wave.

A wave of U people about arms A, W rounds each, sees y = f(A) + e, e ~ N(0, N). If f has posterior mean m and covariance
S, the mean after the wave is m + G xi, with xi standard Gaussian, G = S_A L^-T and L L' = S_AA + N. The value of the
wave is E[max (m + G xi)] - max m, over the actions that may turn out best.

With guardrails the maximum is over the actions that keep them with 95 % after the wave. What it shows of a metric moves
the mean of s(x) in the same way, and leaves it a variance that is known before: v - |G|^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from voxpop.errors import Array
from voxpop.gp.belief import Belief
from voxpop.model.problem import Indices
from voxpop.policies.waves.rails import Rail

DRAWS = 64  # antithetic
FRESH_DRAWS = 1024  # for the finalists
CONTENDERS = 160  # actions that may turn out best, at most
REACH = 4.0  # standard deviations by which an action may turn out better than its mean
LIKELY, SPREAD = 24, 12  # arms that may be asked about: those likely best, and others spread out
MOST_ARMS = LIKELY + SPREAD
WORTH_LISTING = 0.1  # of what the incumbent is expected to lose
TIE = 1e-9  # scores that differ by less are equal
ROUNDING = 1e-12  # of the variances, below which nothing is told from zero


@dataclass(frozen=True, eq=False)
class Metric:
    """What the planner sees of one metric: what is believed of the same actions, and what waves are valued with."""

    mean: Array  # (actions,)
    covariance: Array  # (actions, actions)
    xi: Array  # (MOST_ARMS + 2, DRAWS)
    fresh_xi: Array  # (MOST_ARMS + 2, FRESH_DRAWS)

    def draws(self, contenders: int, seed: int) -> Array:
        """Draw what the contenders may truly be, (contenders, draws)."""
        values, vectors = np.linalg.eigh(self.covariance[:contenders, :contenders])
        half = np.random.default_rng(seed).standard_normal((contenders, 4 * DRAWS))
        moves = vectors * np.sqrt(np.maximum(values, 0.0)) @ half
        return np.asarray(self.mean[:contenders, None] + np.concatenate([moves, -moves], axis=1))


@dataclass(frozen=True, eq=False)
class Bound:
    """A rule s(x) >= 0 for the contenders: what is known of s, and how it moves with the answers about its metric."""

    metric: int
    mean: Array  # (contenders,)
    variance: Array  # (contenders,)
    cross: Array  # (contenders, actions) covariance with the metric
    share: float  # of today's
    today: int  # as a place
    floor: float
    z: float

    @classmethod
    def of(cls, rail: Rail, metric: Metric, actions: Indices, contenders: int) -> Bound:
        """Look at a rule."""
        today = int(np.flatnonzero(actions == rail.today)[0]) if rail.rule.relative else 0
        share, some = rail.rule.share, actions[:contenders]
        cross = metric.covariance[:contenders] - share * metric.covariance[today]
        mean, variance = rail.mean[some], rail.deviation[some] ** 2
        return cls(rail.metric, mean, variance, cross, share, today, rail.rule.floor, rail.z)


@dataclass(frozen=True, eq=False)
class Outlook:
    """What the planner sees of a belief: the actions that may turn out best, and the arms worth asking about."""

    actions: Indices  # contenders first, then the arms that are none
    contenders: int
    pool: Indices  # the arms that may be asked about, as places in `actions`
    incumbent: int  # as a place in `actions`
    metrics: tuple[Metric, ...]  # the objective, and those of guardrails
    bounds: tuple[Bound, ...] = ()

    @classmethod
    def of(
        cls,
        belief: Belief,
        active: Indices,
        best: int,
        seed: int,
        others: Sequence[Belief] = (),
        rails: Sequence[Rail] = (),
        today: int | None = None,
        safe: NDArray[np.bool_] | None = None,
    ) -> Outlook:
        """Look at the active actions, with what is believed of other metrics, the rules, and what may be tried."""
        mean, deviation = belief.mean, belief.deviation
        score = (mean[active] - mean[best]) / np.maximum(deviation[active], 1e-300)
        tried = active if safe is None else active[safe[active]]
        for rail in rails:  # to turn out best is to keep them, too
            score = np.minimum(score, rail.mean[active] / np.maximum(rail.deviation[active], 1e-300))
        near = active[score > -REACH]
        near = near if len(near) <= CONTENDERS else active[np.argsort(-score, kind="stable")[:CONTENDERS]]
        contenders = np.union1d(near, [best] if today is None else [best, today])
        likely = active[np.argsort(-score, kind="stable")]
        likely = likely[np.isin(likely, tried)][:LIKELY]
        arms = np.union1d(np.union1d(likely, _spread(belief, tried)), [best])
        rest = np.setdiff1d(arms, contenders)
        actions = np.concatenate([contenders, rest])
        places = {action: place for place, action in enumerate(actions.tolist())}
        pool = np.array([places[arm] for arm in arms.tolist()])
        metrics = tuple(
            Metric(each.mean[actions], each.covariance(actions), *_draws(seed, place))
            for place, each in enumerate([belief, *others])
        )
        bounds = tuple(Bound.of(rail, metrics[rail.metric], actions, len(contenders)) for rail in rails)
        return cls(actions, len(contenders), pool, places[best], metrics, bounds)

    @property
    def mean(self) -> Array:
        """The mean of the objective, (actions,)."""
        return self.metrics[0].mean

    @property
    def covariance(self) -> Array:
        """The covariance of the objective, (actions, actions)."""
        return self.metrics[0].covariance

    @property
    def best_mean(self) -> float:
        """The mean of the incumbent."""
        return float(self.mean[self.incumbent])

    @cached_property
    def _fallback(self) -> float:
        """What it counts as if no contender keeps the guardrails: no more than the worst of them."""
        return float(self.mean[: self.contenders].min())

    @cached_property
    def _standing(self) -> float:
        """What the incumbent counts as."""
        if not self.bounds:
            return float(self.mean[: self.contenders].max())
        keeps = all(_above(one.mean, one.variance, one.z)[self.incumbent] for one in self.bounds)
        return self.best_mean if keeps else self._fallback

    def _largest(self, moved: Array, keeps: Sequence[NDArray[np.bool_]], axis: int) -> Array:
        """Return the largest of the contenders' means that keep the guardrails."""
        if not keeps:
            return np.asarray(moved.max(axis=axis))
        best = np.where(np.logical_and.reduce(keeps), moved, -np.inf).max(axis=axis)
        return np.where(np.isfinite(best), best, self._fallback)

    def loss(self, places: Indices) -> Array:
        """Compute what a round of each action is expected to lose against the incumbent; never a gain."""
        return np.maximum(self.best_mean - self.mean[places], 0.0)

    @cached_property
    def _drawn(self) -> tuple[Array, ...]:
        """What the belief draws of each metric, (contenders, draws)."""
        return tuple(metric.draws(self.contenders, 1 + place) for place, metric in enumerate(self.metrics))

    @cached_property
    def _moved(self) -> Array:
        """Rewards of the contenders in these draws, and no more than the fallback where they break a guardrail."""
        found = self._drawn[0]
        for bound in self.bounds:
            values = self._drawn[bound.metric]
            slack = values - bound.share * values[bound.today] - bound.floor
            scale = np.abs(values).max() + abs(bound.floor)
            found = np.where(slack >= -TIE * scale, found, np.minimum(found, self._fallback))
        return np.asarray(found)

    @cached_property
    def expected_loss(self) -> float:
        """What the incumbent is expected to lose per round against the best of all contenders."""
        best = np.maximum(self._moved.max(axis=0), self._drawn[0][self.incumbent])
        return max(0.0, float(best.mean()) - self.best_mean)

    @property
    def worth(self) -> float:
        """The most that knowing everything is expected to be worth, in every round."""
        return max(self.expected_loss, float(self._moved.max(axis=0).mean()) - self._standing)

    def shortlist(self, most: int) -> Indices:
        """List the incumbent and what adds most to the expected best of the list, while that is worth a place on it."""
        chosen, top = [self.incumbent], self._moved[self.incumbent]
        while len(chosen) < most:
            gains = np.maximum(self._moved, top).mean(axis=1) - top.mean()
            best = first_of_largest(gains)
            if gains[best] <= WORTH_LISTING * self.expected_loss:
                break
            chosen.append(best)
            top = np.maximum(top, self._moved[best])
        return self.actions[chosen]

    def values(self, places: Indices, noises: Array | Sequence[Array], fresh: bool = False) -> Array:
        """Compute the value of waves about the same arms, with the noise of each metric, (waves, arms, arms)."""
        moved, keeps, c = np.empty(0), list[NDArray[np.bool_]](), self.contenders
        for place, noise in enumerate([noises] if isinstance(noises, np.ndarray) else noises):
            metric = self.metrics[place]
            inner = metric.covariance[np.ix_(places, places)]
            roots = np.linalg.cholesky(inner + noise + ROUNDING * np.trace(inner) * np.eye(len(places)))
            xi = (metric.fresh_xi if fresh else metric.xi)[: len(places)]

            def gains(cross: Array, roots: Array = roots) -> Array:
                return np.asarray(np.linalg.solve(roots, np.broadcast_to(cross.T, (len(roots), *cross.T.shape))))

            if not place:
                moved = np.matmul(gains(metric.covariance[:c, places]).transpose(0, 2, 1), xi)
                moved += self.mean[:c, None]
            for bound in self._about(place):
                found = gains(bound.cross[:, places])  # (waves, arms, contenders)
                slack = np.matmul(found.transpose(0, 2, 1), xi) + bound.mean[:, None]
                left = bound.variance - np.square(found).sum(axis=1)
                keeps.append(_above(slack, left[:, :, None], bound.z))
        return np.asarray(np.maximum(self._largest(moved, keeps, 1).mean(axis=1) - self._standing, 0.0))

    def _about(self, metric: int) -> list[Bound]:
        return [bound for bound in self.bounds if bound.metric == metric]

    def values_of_people(
        self,
        places: Indices,
        single: Array | Sequence[Array],
        shared: Array | Sequence[Array],
        people: Array,
        fresh: bool = False,
    ) -> Array:
        """Compute the value for several numbers of people: `single` is the noise of one, `shared` that of all."""
        singles, shareds = ([each] if isinstance(each, np.ndarray) else each for each in (single, shared))
        moved, keeps, c = np.empty(0), list[NDArray[np.bool_]](), self.contenders
        for place, (own, common) in enumerate(zip(singles, shareds, strict=True)):
            metric = self.metrics[place]
            inner = metric.covariance[np.ix_(places, places)] + common
            root = np.linalg.cholesky(own + ROUNDING * np.trace(own) * np.eye(len(places)))
            half = solve_triangular(root, inner, lower=True)
            white = solve_triangular(root, half.T, lower=True)
            theta, vectors = np.linalg.eigh((white + white.T) / 2)
            shrink = 1 / np.sqrt(np.maximum(theta, 0.0) + 1 / people[:, None])  # (people, arms)
            xi = (metric.fresh_xi if fresh else metric.xi)[: len(places)]
            steps = (shrink[:, :, None] * xi).transpose(1, 0, 2).reshape(len(places), -1)

            def directions(cross: Array, root: Array = root, vectors: Array = vectors) -> Array:
                return np.asarray(solve_triangular(root, cross.T, lower=True).T @ vectors)  # (contenders, arms)

            if not place:
                moved = (directions(metric.covariance[:c, places]) @ steps).reshape(c, len(people), -1)
                moved += self.mean[:c, None, None]
            for bound in self._about(place):
                found = directions(bound.cross[:, places])
                slack = (found @ steps).reshape(c, len(people), -1) + bound.mean[:, None, None]
                left = bound.variance[:, None] - np.square(found) @ np.square(shrink).T
                keeps.append(_above(slack, left[:, :, None], bound.z))
        return np.asarray(np.maximum(self._largest(moved, keeps, 0).mean(axis=1) - self._standing, 0.0))

    def opened(self, places: Indices, noises: Sequence[Array]) -> Array:
        """Count the contenders that may not be tried now, and are expected to keep all guardrails after each wave."""
        now = np.logical_and.reduce([_above(bound.mean, bound.variance, bound.z) for bound in self.bounds])
        keeps = np.broadcast_to(~now, (len(noises[0]), self.contenders))
        for bound in self.bounds:
            inner = self.metrics[bound.metric].covariance[np.ix_(places, places)] + noises[bound.metric]
            inner = inner + ROUNDING * np.trace(inner[0]) * np.eye(len(places))
            cross = bound.cross[:, places]
            left = bound.variance - np.einsum("ij,wji->wi", cross, np.linalg.solve(inner, cross.T[None]))
            keeps = keeps & _above(bound.mean, left, bound.z)
        return np.asarray(keeps.sum(axis=1))

    def by_value(self, noise: Array | Sequence[Array], most: int) -> list[int]:
        """Order arms greedily by value, as places; `noise` is that of a wave about all actions, of each metric."""
        noises, c, pool = [noise] if isinstance(noise, np.ndarray) else noise, self.contenders, self.pool
        means = _Moving.of(self.metrics[0], noises[0], pool, c)
        slacks = [_Moving.of(self.metrics[one.metric], noises[one.metric], pool, c, one) for one in self.bounds]
        chosen: list[int] = []
        for step in range(min(most, len(pool))):
            keeps = [slack.trial(step)[1] for slack in slacks]
            scores = self._largest(means.trial(step)[0], keeps, 1).mean(axis=1)
            scores[chosen] = -np.inf
            scores[means.known] = -np.inf  # known from the others
            best = first_of_largest(scores)
            if not np.isfinite(scores[best]):
                break
            chosen.append(best)
            for each in (means, *slacks):
                each.move(best)
        return [int(pool[place]) for place in chosen]

    def by_variance(self, noise: Array, most: int, metric: int = 0) -> list[int]:
        """Order arms greedily by posterior variance, as places."""
        rest = self.metrics[metric].covariance[np.ix_(self.pool, self.pool)].copy()
        extra = noise[np.ix_(self.pool, self.pool)].diagonal()
        least = ROUNDING * rest.diagonal().max()
        chosen: list[int] = []
        for _ in range(min(most, len(self.pool))):
            variance = rest.diagonal().copy()
            variance[chosen] = -np.inf
            best = first_of_largest(variance)
            chosen.append(best)
            column = rest[:, best] / np.sqrt(max(rest[best, best] + extra[best], least))
            rest -= np.outer(column, column)
        return [int(self.pool[place]) for place in chosen]

    def cheapest(self, most: int) -> Indices:
        """List the places of the arms that are expected to lose least: the incumbent, and others that hardly differ."""
        return self.pool[np.argsort(self.loss(self.pool), kind="stable")[:most]]

    def by_chance(self, most: int) -> list[int]:
        """Order arms by the chance of being best, as places."""
        gap = self.mean[self.pool] - self.best_mean
        variance = (
            self.covariance.diagonal()[self.pool]
            + self.covariance[self.incumbent, self.incumbent]
            - 2 * self.covariance[self.pool, self.incumbent]
        )
        order = np.argsort(-gap / np.sqrt(np.maximum(variance, 1e-300)), kind="stable")
        return [int(self.pool[place]) for place in order[:most]]


def first_of_largest(scores: Array) -> int:
    """Return the first of the largest scores, up to rounding: symmetric arms tie, and processors round differently."""
    top = float(scores.max())
    return int(np.argmax(scores >= top - TIE * abs(top))) if np.isfinite(top) else 0


@dataclass(eq=False)
class _Moving:
    """Means of the contenders in draws, moved by one arm of the pool after the other."""

    cross: Array  # (contenders, pool) covariance with the averages that are not yet explained
    rest: Array  # (pool, pool) covariance of these averages
    least: float
    moved: Array  # (contenders, draws)
    xi: Array
    variance: Array  # (contenders,) that is left
    z: float

    @classmethod
    def of(cls, metric: Metric, noise: Array, pool: Indices, contenders: int, bound: Bound | None = None) -> _Moving:
        rest = (metric.covariance + noise)[np.ix_(pool, pool)].copy()
        cross, mean = metric.covariance[:contenders], metric.mean[:contenders]
        variance, z = cross.diagonal(), 0.0
        if bound is not None:
            cross, mean, variance, z = bound.cross, bound.mean, bound.variance, bound.z
        moved = np.repeat(mean[:, None], DRAWS, axis=1)
        return cls(cross[:, pool].copy(), rest, ROUNDING * rest.diagonal().max(), moved, metric.xi, variance, z)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which averages are known from the others, (pool,)."""
        return np.asarray(self.rest.diagonal() <= self.least)

    def trial(self, step: int) -> tuple[Array, NDArray[np.bool_]]:
        """Return the means after each arm of the pool, (pool, contenders, draws), and where they are surely above 0."""
        self.deviation = np.sqrt(np.maximum(self.rest.diagonal(), self.least))
        self.directions = self.cross / self.deviation  # (contenders, pool)
        self.tried = self.moved[None, :, :] + self.directions.T[:, :, None] * self.xi[step]
        return self.tried, _above(self.tried, (self.variance - np.square(self.directions.T))[:, :, None], self.z)

    def move(self, place: int) -> None:
        """Ask about the arm at this place of the pool."""
        column = self.rest[:, place] / self.deviation[place]
        self.moved = self.tried[place]
        self.variance = self.variance - np.square(self.directions[:, place])
        self.cross -= np.outer(self.directions[:, place], column)
        self.rest -= np.outer(column, column)


def _above(mean: Array, variance: Array, z: float) -> NDArray[np.bool_]:
    """Return where something is surely above 0."""
    return np.asarray(mean >= z * np.sqrt(np.maximum(variance, 0.0)))


@lru_cache(maxsize=64)
def _draws(seed: int, metric: int = 0) -> tuple[Array, Array]:
    """Draw what waves are valued with, the same in every wave."""
    rng = np.random.default_rng(seed if not metric else [seed, metric])
    return _antithetic(rng, DRAWS), _antithetic(rng, FRESH_DRAWS)


def _antithetic(rng: np.random.Generator, draws: int) -> Array:
    half = rng.standard_normal((MOST_ARMS + 2, draws // 2))
    return np.concatenate([half, -half], axis=1)


def _spread(belief: Belief, active: Indices) -> Indices:
    """Choose actions spread out: greedily those of largest posterior variance, of at most a few hundred."""
    some = active if len(active) <= 400 else active[np.linspace(0, len(active) - 1, 400).astype(np.intp)]
    rest = belief.covariance(some)
    chosen: list[int] = []
    for _ in range(min(SPREAD, len(some))):
        best = first_of_largest(rest.diagonal())
        chosen.append(best)
        if rest[best, best] <= 0:
            break
        column = rest[:, best] / np.sqrt(rest[best, best])
        rest = rest - np.outer(column, column)
    return some[chosen]
