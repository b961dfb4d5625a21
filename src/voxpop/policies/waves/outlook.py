"""The value of information: how much better the best choice is expected to be after a wave.

A wave of U people about arms A, W rounds each, sees y = f(A) + e, e ~ N(0, N). If f has posterior mean m and covariance
S, the mean after the wave is m + G xi, with xi standard Gaussian, G = S_A L^-T and L L' = S_AA + N. The value of the
wave is E[max (m + G xi)] - max m, over the actions that may turn out best.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.linalg import solve_triangular

from voxpop.errors import Array
from voxpop.gp.belief import Belief
from voxpop.model.problem import Indices

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
class Outlook:
    """What the planner sees of a belief: the actions that may turn out best, and the arms worth asking about."""

    actions: Indices  # contenders first, then the arms that are none
    contenders: int
    pool: Indices  # the arms that may be asked about, as places in `actions`
    incumbent: int  # as a place in `actions`
    mean: Array  # (actions,)
    covariance: Array  # (actions, actions)
    xi: Array  # (MOST_ARMS + 2, DRAWS)
    fresh_xi: Array  # (MOST_ARMS + 2, FRESH_DRAWS)

    @classmethod
    def of(cls, belief: Belief, active: Indices, best: int, seed: int) -> Outlook:
        """Look at the active actions."""
        xi, fresh_xi = _draws(seed)
        mean, deviation = belief.mean, belief.deviation
        score = (mean[active] - mean[best]) / np.maximum(deviation[active], 1e-300)
        near = active[score > -REACH]
        near = near if len(near) <= CONTENDERS else active[np.argsort(-score, kind="stable")[:CONTENDERS]]
        contenders = np.union1d(near, [best])
        likely = active[np.argsort(-score, kind="stable")[:LIKELY]]
        arms = np.union1d(np.union1d(likely, _spread(belief, active)), [best])
        others = np.setdiff1d(arms, contenders)
        actions = np.concatenate([contenders, others])
        places = {action: place for place, action in enumerate(actions.tolist())}
        pool = np.array([places[arm] for arm in arms.tolist()])
        covariance = belief.covariance(actions)
        return cls(actions, len(contenders), pool, places[best], mean[actions], covariance, xi, fresh_xi)

    @property
    def best_mean(self) -> float:
        """The mean of the incumbent."""
        return float(self.mean[self.incumbent])

    def loss(self, places: Indices) -> Array:
        """Compute what a round of each action is expected to lose against the incumbent."""
        return np.asarray(self.best_mean - self.mean[places])

    @cached_property
    def _moved(self) -> Array:
        """Rewards of the contenders as the belief draws them, (contenders, draws)."""
        values, vectors = np.linalg.eigh(self.covariance[: self.contenders, : self.contenders])
        half = np.random.default_rng(1).standard_normal((self.contenders, 4 * DRAWS))
        moves = vectors * np.sqrt(np.maximum(values, 0.0)) @ half
        return np.asarray(self.mean[: self.contenders, None] + np.concatenate([moves, -moves], axis=1))

    @cached_property
    def expected_loss(self) -> float:
        """What the incumbent is expected to lose per round against the best of all contenders."""
        return max(0.0, float(self._moved.max(axis=0).mean()) - self.best_mean)

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

    def values(self, places: Indices, noises: Array, fresh: bool = False) -> Array:
        """Compute the value of waves about the same arms with several noise covariances, (waves, arms, arms)."""
        cross = self.covariance[: self.contenders, places]
        inner = self.covariance[np.ix_(places, places)]
        roots = np.linalg.cholesky(inner + noises + ROUNDING * np.trace(inner) * np.eye(len(places)))
        gains = np.linalg.solve(roots, np.broadcast_to(cross.T, (len(noises), *cross.T.shape)))
        moved = np.matmul(gains.transpose(0, 2, 1), (self.fresh_xi if fresh else self.xi)[: len(places)])
        moved += self.mean[: self.contenders, None]
        return np.asarray(np.maximum(moved.max(axis=1).mean(axis=1) - self.mean[: self.contenders].max(), 0.0))

    def values_of_people(
        self, places: Indices, single: Array, shared: Array, people: Array, fresh: bool = False
    ) -> Array:
        """Compute the value for several numbers of people: `single` is the noise of one, `shared` that of all."""
        cross = self.covariance[: self.contenders, places]
        inner = self.covariance[np.ix_(places, places)] + shared
        root = np.linalg.cholesky(single + ROUNDING * np.trace(single) * np.eye(len(places)))
        half = solve_triangular(root, inner, lower=True)
        white = solve_triangular(root, half.T, lower=True)
        theta, vectors = np.linalg.eigh((white + white.T) / 2)
        directions = solve_triangular(root, cross.T, lower=True).T @ vectors  # (contenders, arms)
        shrink = 1 / np.sqrt(np.maximum(theta, 0.0) + 1 / people[:, None])  # (people, arms)
        xi = (self.fresh_xi if fresh else self.xi)[: len(places)]
        steps = (shrink[:, :, None] * xi).transpose(1, 0, 2).reshape(len(places), -1)
        moved = (directions @ steps).reshape(self.contenders, len(people), -1)
        moved += self.mean[: self.contenders, None, None]
        return np.asarray(np.maximum(moved.max(axis=0).mean(axis=1) - self.mean[: self.contenders].max(), 0.0))

    def by_value(self, noise: Array, most: int) -> list[int]:
        """Order arms greedily by value, as places; `noise` is that of a wave about all actions."""
        observed = self.covariance + noise
        c, pool = self.contenders, self.pool
        residual = self.covariance[:c][:, pool].copy()  # of the contenders with the averages not yet explained
        rest = observed[np.ix_(pool, pool)].copy()
        least = ROUNDING * rest.diagonal().max()
        moved = np.repeat(self.mean[:c, None], DRAWS, axis=1)
        chosen: list[int] = []
        for step in range(min(most, len(pool))):
            deviation = np.sqrt(np.maximum(rest.diagonal(), least))
            directions = residual / deviation  # (contenders, pool)
            trial = moved[None, :, :] + directions.T[:, :, None] * self.xi[step]
            scores = trial.max(axis=1).mean(axis=1)
            scores[chosen] = -np.inf
            scores[rest.diagonal() <= least] = -np.inf  # known from the others
            best = first_of_largest(scores)
            if not np.isfinite(scores[best]):
                break
            chosen.append(best)
            moved = trial[best]
            column = rest[:, best] / deviation[best]
            residual -= np.outer(directions[:, best], column)
            rest -= np.outer(column, column)
        return [int(pool[place]) for place in chosen]

    def by_variance(self, noise: Array, most: int) -> list[int]:
        """Order arms greedily by posterior variance, as places."""
        rest = self.covariance[np.ix_(self.pool, self.pool)].copy()
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


@lru_cache(maxsize=8)
def _draws(seed: int) -> tuple[Array, Array]:
    """Draw what waves are valued with, the same in every wave."""
    rng = np.random.default_rng(seed)
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
