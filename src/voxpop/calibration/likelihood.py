"""The marginal likelihood of a pilot, its gradient, and f given the pilot.

    y_u(x_i) = f(x_i) + b_u(x_i) + e,    f ~ GP(m, tau^2 k),  b_u ~ GP(0, v^2 k),  e ~ N(0, sigma^2 / w_ui)

People who tried the same actions equally often are exchangeable, so their likelihood splits into that of their mean and
that of their scatter around it: with S = v^2 K + sigma^2 W^-1 and U people,

    mean ~ N(m 1, tau^2 K + S / U),     scatter ~ Wishart(S, U - 1),

which costs O(actions^3) for any number of people. People with a pattern of their own form a group of one. Several
groups share f and nothing else. With D_g = S_g / U_g and E_g the rows of the identity at the actions of group g, their
means say as much about f as one average per action does, by generalised least squares:

    P = sum E_g' D_g^-1 E_g,    average = P^-1 sum E_g' D_g^-1 mean_g ~ N(m 1, tau^2 K + P^-1),

so that any number of patterns costs O(actions^3) as well. Groups of equal size are computed together (`Stack`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dpotri, dtrtrs

from voxpop.calibration.pilot import Group
from voxpop.errors import Array
from voxpop.model.problem import Indices


@dataclass(frozen=True, eq=False)
class Stack:
    """Groups that tried equally many actions, a, and of which the same is known."""

    places: Indices  # (groups, a) of their actions among all that were tried
    counts: Array  # (groups, a)
    people: Indices  # (groups,)
    mean: Array  # (groups, a)
    noise_std: Array  # (groups,)
    scatter: Array  # (groups, a, a)
    moments: Array | None  # (groups, 2, 2) variances and errors, instead of the scatter

    @classmethod
    def of(cls, groups: Sequence[Group], tried: Indices) -> Stack:
        """Stack groups of one kind."""
        moments = [(group.moments.variances, group.moments.errors) for group in groups if group.moments is not None]
        return cls(
            np.searchsorted(tried, [group.actions for group in groups]),
            np.array([group.counts for group in groups], dtype=float),
            np.array([group.people for group in groups]),
            np.array([group.mean for group in groups]),
            np.array([group.noise_std for group in groups]),
            np.array([group.scatter for group in groups]),
            np.array(moments) if moments else None,
        )

    def blocks(self, matrix: Array) -> Array:
        """Return the entries of a matrix over actions that belong to each group, (groups, a, a)."""
        return np.asarray(matrix[self.places[:, :, None], self.places[:, None, :]])

    def add_blocks(self, matrix: Array, blocks: Array) -> None:
        """Add (groups, a, a) to a matrix over actions."""
        np.add.at(matrix, (self.places[:, :, None], self.places[:, None, :]), blocks)

    def answers(self, gram: Array, bias: float, noise: float) -> Array:
        """Compute S = v^2 K + sigma^2 W^-1 of one person, (groups, a, a)."""
        own = bias**2 * self.blocks(gram)
        _diagonal(own)[:] += noise**2 / self.counts
        return own

    def averages(self, own: Array) -> Array:
        """Compute the covariance D = S / U of the means around f, and the noise of privacy, (groups, a, a)."""
        covariance = np.asarray(own / self.people[:, None, None])
        _diagonal(covariance)[:] += (self.noise_std**2)[:, None]
        return covariance

    def scatter_likelihood(self, own: Array) -> float:
        """Compute the log-likelihood of the deviations of U people from their own mean."""
        if self.people[0] == 1:
            return 0.0
        if self.moments is not None:
            away, variance = self._moments(own)
            return -0.5 * float((np.square(away) / variance + np.log(2 * math.pi * variance)).sum())
        root = np.asarray(np.linalg.cholesky(own), dtype=float)
        size, freedom = own.shape[1], self.people - 1
        inner = np.array([_solve(r, _solve(r, scatter).T) for r, scatter in zip(root, self.scatter, strict=True)])
        log_det = 2 * np.log(_diagonal(root)).sum(axis=1)
        logs = np.array([math.log(count) for count in self.people])
        constant = freedom * (size * math.log(2 * math.pi) + log_det) + size * logs
        return -0.5 * float((constant + _diagonal(inner).sum(axis=1)).sum())

    def scatter_slope(self, own: Array) -> Array:
        """Compute the derivative of that by S, (groups, a, a)."""
        if self.people[0] == 1:
            return np.zeros_like(own)
        freedom = (self.people - 1)[:, None, None]
        if self.moments is None:
            inverse = np.linalg.inv(own)
            return np.asarray(0.5 * (inverse @ self.scatter @ inverse - freedom * inverse))
        size = own.shape[1]
        away, variance = self._moments(own)
        by_expected = (away / variance)[:, :, None, None]
        by_variance = (0.5 * (np.square(away / variance) - 1 / variance))[:, :, None, None]
        total = own.sum(axis=(1, 2), keepdims=True) / size**2
        slope = by_expected[:, 0] * np.eye(size) / size + by_variance[:, 0] * 4 / freedom * own / size**2
        return np.asarray(slope + (by_expected[:, 1] + by_variance[:, 1] * 4 / freedom * total) / size**2)

    def _moments(self, own: Array) -> tuple[Array, Array]:
        """Return how far tr S / a and 1'S1 / a^2 are from what was seen of them, and the variances of that.

        With noise or many people they are nearly Gaussian.
        """
        assert self.moments is not None
        size = own.shape[1]
        expected = np.stack([np.trace(own, axis1=1, axis2=2) / size, own.sum(axis=(1, 2)) / size**2], axis=1)
        squares = np.stack([np.square(own).sum(axis=(1, 2)) / size**2, np.square(expected[:, 1])], axis=1)
        return self.moments[:, 0] - expected, 2 / (self.people - 1)[:, None] * squares + self.moments[:, 1]


def _diagonal(blocks: Array) -> Array:
    """Return the diagonals of (groups, a, a), to be read or written."""
    return np.asarray(np.einsum("gii->gi", blocks))


@dataclass(frozen=True, eq=False)
class Design:
    """The groups of a pilot, laid out to be computed with."""

    groups: Sequence[Group]
    tried: Indices  # the actions that were tried, in order
    stacks: Sequence[Stack]
    shared: bool  # whether two groups tried the same action
    range: tuple[float, float]  # of the groups' means

    @classmethod
    def of(cls, groups: Sequence[Group]) -> Design:
        """Sort groups by how many actions they tried and by what is known of them."""
        actions, means = (np.concatenate([getattr(group, name) for group in groups]) for name in ("actions", "mean"))
        tried = np.unique(actions)
        kinds: dict[tuple[int, bool, bool], list[Group]] = {}
        for group in groups:
            kinds.setdefault((len(group.actions), group.people == 1, group.moments is None), []).append(group)
        stacks = [Stack.of(alike, tried) for alike in kinds.values()]
        return cls(groups, tried, stacks, len(tried) < len(actions), (float(means.min()), float(means.max())))

    def pooled(self, parts: Sequence[Array]) -> tuple[Array, Array, float]:
        """Return the averages, their covariance P^-1 around f, and the log-likelihood of the means given them.

        `parts` holds D_g of each stack.
        """
        precision, weighted, constant = np.zeros((len(self.tried),) * 2), np.zeros(len(self.tried)), 0.0
        inverses = [np.linalg.inv(part) for part in parts]
        for stack, part, inverse in zip(self.stacks, parts, inverses, strict=True):
            stack.add_blocks(precision, np.asarray(inverse))
            np.add.at(weighted, stack.places, np.einsum("gij,gj->gi", inverse, stack.mean))
            constant += float(np.linalg.slogdet(part)[1].sum()) + stack.mean.size * math.log(2 * math.pi)
        constant += float(np.linalg.slogdet(precision)[1]) - len(precision) * math.log(2 * math.pi)
        error = np.linalg.inv(precision)
        averages = error @ weighted
        for stack, inverse in zip(self.stacks, inverses, strict=True):
            away = stack.mean - averages[stack.places]
            constant += float(np.einsum("gi,gij,gj->", away, inverse, away))
        return averages, (error + error.T) / 2, -0.5 * constant


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The likelihood for given constants; its derivatives and the posterior of f are computed on demand."""

    log_likelihood: float
    prior_mean: float  # m, the likeliest within the range of the averages
    prior_mean_std: float
    gram: Array  # (actions, actions) K
    scales: tuple[float, float, float]  # v, sigma, tau
    design: Design
    own: Sequence[Array]  # S of each stack
    error: Array | None  # P^-1; None if no two groups tried the same action
    root: Array  # (tried, tried) Cholesky root of the covariance of the averages
    residual: Array  # root^-1 (averages - m)

    @classmethod
    def at(cls, gram: Array, bias: float, noise: float, tau: float, design: Design) -> Evaluation:
        """Compute the likelihood for given constants."""
        tried, stacks = gram[design.tried[:, None], design.tried], design.stacks
        own = [stack.answers(tried, bias, noise) for stack in stacks]
        parts = [stack.averages(each) for stack, each in zip(stacks, own, strict=True)]
        log_likelihood = sum(stack.scatter_likelihood(each) for stack, each in zip(stacks, own, strict=True))
        covariance, error, y = tau**2 * tried, None, np.empty(len(tried))
        if design.shared:
            y, error, constant = design.pooled(parts)
            covariance += error
            log_likelihood += constant
        else:
            for stack, part in zip(stacks, parts, strict=True):
                y[stack.places] = stack.mean
                stack.add_blocks(covariance, part)
        root = np.asarray(np.linalg.cholesky(covariance), dtype=float)
        white = _solve(root, np.stack([np.ones(len(y)), y], axis=1))
        ones, values = white[:, 0], white[:, 1]
        weight = float(ones @ ones)
        mean = float(np.clip(ones @ values / weight, *design.range))
        residual = values - mean * ones
        log_likelihood -= 0.5 * (float(residual @ residual) + len(y) * math.log(2 * math.pi))
        log_likelihood -= float(np.log(root.diagonal()).sum())
        scales = (bias, noise, tau)
        return cls(log_likelihood, mean, 1 / math.sqrt(weight), gram, scales, design, own, error, root, residual)

    def slopes(self) -> tuple[Array, float, float, float]:
        """Compute the derivatives of the log-likelihood by K, (tried, tried), and by ln v, ln sigma and ln tau.

        With C = tau^2 K + P^-1, alpha = C^-1 (average - m) and Q the posterior covariance of f, they follow from

            by tau^2 K:  (alpha alpha' - C^-1) / 2,        by D_g:  (e_g e_g' - D_g^-1 + D_g^-1 Q_gg D_g^-1) / 2,

        where e_g = D_g^-1 (mean_g - m - E_g h), at the posterior mean h of f - m. The mean m is the likeliest, or a
        constant, so it adds nothing.
        """
        bias, noise, tau = self.scales
        gram = self.gram[self.design.tried[:, None], self.design.tried]
        lower = np.tril(dpotri(self.root, lower=1)[0])
        inverse = lower + np.tril(lower, -1).T
        alpha = np.asarray(dtrtrs(self.root, self.residual, lower=1, trans=1)[0])
        joint = 0.5 * (np.outer(alpha, alpha) - inverse)
        by_gram = tau**2 * joint
        by_tau, by_bias, by_noise = 2 * float(np.vdot(by_gram, gram)), 0.0, 0.0
        for stack, own in zip(self.design.stacks, self.own, strict=True):
            if self.error is None:
                by_average = stack.blocks(joint)
            else:
                precision = np.linalg.inv(stack.averages(own))
                fitted = self.prior_mean + tau**2 * (gram @ alpha)
                posterior = self.error - self.error @ inverse @ self.error
                away = np.einsum("gij,gj->gi", precision, stack.mean - fitted[stack.places])
                known = precision @ stack.blocks(posterior) @ precision
                by_average = 0.5 * (away[:, :, None] * away[:, None, :] - precision + known)
            by_own = by_average / stack.people[:, None, None] + stack.scatter_slope(own)
            by_noise += 2 * noise**2 * float((_diagonal(by_own) / stack.counts).sum())
            by_bias += 2 * bias**2 * float(np.vdot(by_own, stack.blocks(gram)))
            stack.add_blocks(by_gram, bias**2 * by_own)
        return by_gram, by_bias, by_noise, by_tau

    @cached_property
    def _gram_root(self) -> Array:
        """K^1/2."""
        values, vectors = np.linalg.eigh(self.gram)
        return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)

    @cached_property
    def _cross(self) -> Array:
        """root^-1 times the covariance of the means and h, where f = m + K^1/2 h."""
        return _solve(self.root, self.scales[2] ** 2 * self._gram_root[:, self.design.tried].T)

    @cached_property
    def norm_mean(self) -> Array:
        """The mean of h; |h| is the RKHS norm of f - m at the pilot's actions."""
        return np.asarray(self._cross.T @ self.residual)

    @cached_property
    def norm_covariance(self) -> Array:
        """The covariance of h."""
        return np.asarray(self.scales[2] ** 2 * np.eye(len(self.gram)) - self._cross.T @ self._cross)

    @property
    def mean(self) -> Array:
        """The mean of f - m at the pilot's actions."""
        return np.asarray(self._gram_root @ self.norm_mean)

    @property
    def covariance(self) -> Array:
        """The covariance of f at the pilot's actions."""
        return np.asarray(self._gram_root @ self.norm_covariance @ self._gram_root)


def _solve(root: Array, right: Array) -> Array:
    """Compute root^-1 right, for a lower triangular root."""
    return np.asarray(dtrtrs(root, right, lower=1)[0])
