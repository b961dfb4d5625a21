"""The marginal likelihood of a pilot, and f given the pilot.

    y_u(x_i) = f(x_i) + b_u(x_i) + e,    f ~ GP(m, tau^2 k),  b_u ~ GP(0, v^2 k),  e ~ N(0, sigma^2 / w_ui)

People who tried the same actions equally often are exchangeable, so their likelihood splits into that of their mean and
that of their scatter around it: with S = v^2 K + sigma^2 W^-1 and U people,

    mean ~ N(m 1, tau^2 K + S / U),     scatter ~ Wishart(S, U - 1),

which costs O(actions^3) for any number of people. People with a pattern of their own form a group of one; the
means of all groups share f and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg.lapack import dtrtrs
from scipy.special import expit, logit

from voxpop.calibration.pilot import Group, Moments
from voxpop.errors import Array
from voxpop.model.kernels import Constant, Kernel, Matern, SquaredExponential
from voxpop.model.problem import Indices


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The likelihood for given constants; the posterior of f is computed on demand."""

    log_likelihood: float
    prior_mean: float  # m, the likeliest within the range of the averages
    prior_mean_std: float
    gram: Array  # (actions, actions) K
    tau: float
    rows: Indices  # the action of each number in the groups' means
    root: Array  # Cholesky root of the covariance of the means
    residual: Array  # root^-1 (means - m)

    @classmethod
    def at(cls, gram: Array, bias: float, noise: float, tau: float, groups: Sequence[Group]) -> Evaluation:
        """Compute the likelihood for given constants."""
        rows = np.concatenate([group.actions for group in groups])
        y = np.concatenate([group.mean for group in groups])
        covariance = tau**2 * gram[rows[:, None], rows]
        log_likelihood, start = 0.0, 0
        for group in groups:
            own = bias**2 * gram[group.actions[:, None], group.actions]
            own.flat[:: len(own) + 1] += noise**2 / group.counts
            log_likelihood += _scatter_likelihood(own, group)
            stop = start + len(own)
            covariance[start:stop, start:stop] += own / group.people
            covariance[range(start, stop), range(start, stop)] += group.noise_std**2
            start = stop
        root = np.asarray(np.linalg.cholesky(covariance), dtype=float)
        white = _solve(root, np.stack([np.ones(len(y)), y], axis=1))
        ones, values = white[:, 0], white[:, 1]
        weight = float(ones @ ones)
        mean = float(np.clip(ones @ values / weight, y.min(), y.max()))
        residual = values - mean * ones
        log_likelihood -= 0.5 * (float(residual @ residual) + len(y) * math.log(2 * math.pi))
        log_likelihood -= float(np.log(root.diagonal()).sum())
        return cls(log_likelihood, mean, 1 / math.sqrt(weight), gram, tau, rows, root, residual)

    @cached_property
    def _gram_root(self) -> Array:
        """K^1/2."""
        values, vectors = np.linalg.eigh(self.gram)
        return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)

    @cached_property
    def _cross(self) -> Array:
        """root^-1 times the covariance of the means and h, where f = m + K^1/2 h."""
        return _solve(self.root, self.tau**2 * self._gram_root[:, self.rows].T)

    @cached_property
    def norm_mean(self) -> Array:
        """The mean of h; |h| is the RKHS norm of f - m at the pilot's actions."""
        return np.asarray(self._cross.T @ self.residual)

    @cached_property
    def norm_covariance(self) -> Array:
        """The covariance of h."""
        return np.asarray(self.tau**2 * np.eye(len(self.gram)) - self._cross.T @ self._cross)

    @property
    def mean(self) -> Array:
        """The mean of f - m at the pilot's actions."""
        return np.asarray(self._gram_root @ self.norm_mean)

    @property
    def covariance(self) -> Array:
        """The covariance of f at the pilot's actions."""
        return np.asarray(self._gram_root @ self.norm_covariance @ self._gram_root)


def _scatter_likelihood(covariance: Array, group: Group) -> float:
    """Compute the log-likelihood of the deviations of U people from their own mean."""
    if group.people == 1:
        return 0.0
    if group.moments is not None:
        return _moment_likelihood(covariance, group.people, group.moments)
    root = np.asarray(np.linalg.cholesky(covariance), dtype=float)
    size, freedom = len(root), group.people - 1
    inner = _solve(root, _solve(root, group.scatter).T)
    log_det = 2 * float(np.log(root.diagonal()).sum())
    constant = freedom * (size * math.log(2 * math.pi) + log_det) + size * math.log(group.people)
    return -0.5 * (constant + float(np.trace(inner)))


def _moment_likelihood(covariance: Array, people: int, moments: Moments) -> float:
    """Compute the log-likelihood of tr S / a and 1'S1 / a^2, which are nearly Gaussian with noise or many people."""
    size = len(covariance)
    expected = np.array([float(np.trace(covariance)) / size, float(covariance.sum()) / size**2])
    spread = 2 / (people - 1) * np.array([float(np.sum(covariance**2)) / size**2, expected[1] ** 2])
    variance = spread + moments.errors
    return -0.5 * float((np.square(moments.variances - expected) / variance + np.log(2 * math.pi * variance)).sum())


def _solve(root: Array, right: Array) -> Array:
    """Compute root^-1 right, for a lower triangular root."""
    return np.asarray(dtrtrs(root, right, lower=1)[0])


KERNELS: dict[str, Callable[..., Kernel]] = {  # from the smoothest functions to the roughest
    "squared-exponential": SquaredExponential,
    "matern-5/2": partial(Matern, nu=2.5),
    "matern-3/2": partial(Matern, nu=1.5),
    "matern-1/2": partial(Matern, nu=0.5),
}
LENGTHS = (0.02, 1.0)  # length-scales are sought between these, on the unit cube
OFFSETS = (1e-3, 1 - 1e-3)  # and the constant's share w between these
STARTS = (0.1, 0.3, 1.0)  # length-scales from which the search starts
LEAST = 1e-3  # people who all agree are taken to differ by this share of how much actions differ
LENGTH, OFFSET = 0.3, 0.3  # the priors' centres
SPREADS = {"length": 0.7, "v": 1.5, "sigma": 1.5, "tau": 1.0, "w": 1.5}  # and their standard deviations


@dataclass(frozen=True, eq=False)
class Prior:
    """Independent normal priors of theta: the logarithms of lengths, v, sigma and tau, and logit w."""

    centre: Array
    spread: Array
    limits: Array  # (constants, 2) of the search

    @classmethod
    def of(cls, groups: Sequence[Group], axes: int) -> Prior:
        """Centre v and sigma on how much answers differ between people, tau on that and on how much actions differ."""
        means = np.concatenate([group.mean for group in groups])
        rounds = float(np.mean(np.concatenate([group.counts for group in groups])))
        freedom = sum((group.people - 1) * len(group.mean) for group in groups)
        scatter = sum(float(np.trace(group.scatter)) for group in groups)
        noise = sum(len(group.mean) * group.noise_std**2 for group in groups) / len(means)  # that privacy added
        across = math.sqrt(max(float(np.var(means)) - noise, LEAST * float(np.var(means))))
        within = max(math.sqrt(scatter / freedom), LEAST * across) if freedom else across
        centre = np.log([*[LENGTH] * axes, within, 0.5 * within * math.sqrt(rounds), across + within])
        spread = [*[SPREADS["length"]] * axes, *(SPREADS[name] for name in ("v", "sigma", "tau", "w"))]
        limits = [LENGTHS] * axes + [(1e-4 * scale, 1e3 * scale) for scale in (within, within, across + within)]
        return cls(
            np.append(centre, logit(OFFSET)),
            np.array(spread),
            np.vstack([np.log(limits), logit(np.array(OFFSETS))]),
        )

    def log_density(self, theta: Array) -> float:
        """Compute the log-density, up to a constant."""
        return -0.5 * float(np.square((theta - self.centre) / self.spread).sum())


@dataclass(frozen=True, eq=False)
class Fit:
    """One kernel family with its constants; `theta` holds the logarithms of lengths, v, sigma, tau; logit w."""

    name: str
    points: Array
    axes: dict[str, int]
    groups: Sequence[Group]
    prior: Prior
    theta: Array

    @classmethod
    def search(cls, name: str, points: Array, axes: dict[str, int], groups: Sequence[Group]) -> Fit:
        """Maximise the likelihood times the prior, from several starts."""
        from scipy.optimize import minimize

        prior = Prior.of(groups, len(axes))
        first = cls(name, points, axes, groups, prior, prior.centre)

        def negative(theta: Array) -> float:
            return -replace(first, theta=theta).log_density

        limits = [(float(low), float(high)) for low, high in prior.limits]
        found = []
        for length in STARTS:
            start = np.concatenate([np.full(len(axes), math.log(length)), prior.centre[len(axes) :]])
            found.append(minimize(negative, np.clip(start, *prior.limits.T), method="L-BFGS-B", bounds=limits))
        best = min(found, key=lambda result: float(result.fun))
        return replace(first, theta=np.asarray(best.x))

    @property
    def log_density(self) -> float:
        """The logarithm of likelihood times prior, up to a constant."""
        try:
            return self.posterior.log_likelihood + self.prior.log_density(self.theta)
        except LinAlgError:
            return -1e10

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel k = (1 - w) k_l + w."""
        lengths, offset = np.exp(self.theta[: len(self.axes)]), float(expit(self.theta[-1]))
        smooth = KERNELS[self.name](tuple(np.repeat(lengths, list(self.axes.values())).tolist()))
        return (1 - offset) * smooth + Constant(offset)

    @cached_property
    def posterior(self) -> Evaluation:
        """The marginal likelihood at these constants, and f given the pilot."""
        gram = self.kernel(self.points, self.points)
        bias, noise, tau = map(float, np.exp(self.theta[len(self.axes) : -1]))
        return Evaluation.at(gram, bias, noise, tau, self.groups)

    def raised(self) -> Fit:
        """Raise v until people are predicted to differ, on average over the answers, as much as they do.

        The likelihood asks how likely deviations are in the kernel's directions. Where people differ in one direction
        only (each likes everything s times as much), that falls short of how much they differ. A protected pilot does
        not say which part of the variance is whose, so all of it counts as people's deviations.
        """
        gram = self.kernel(self.points, self.points).diagonal()
        bias, noise = np.exp(2 * self.theta[len(self.axes) : -2])
        freedom = [group.people - 1 for group in self.groups]
        seen = sum(float(np.trace(group.scatter)) for group in self.groups)
        shared = sum(f * float(gram[group.actions].sum()) for f, group in zip(freedom, self.groups, strict=True))
        own = sum(f * float((1 / group.counts).sum()) for f, group in zip(freedom, self.groups, strict=True))
        if any(group.moments is not None for group in self.groups):
            own = 0.0
        if seen <= bias * shared + noise * own:
            return self
        theta = self.theta.copy()
        theta[len(self.axes)] = 0.5 * math.log((seen - noise * own) / shared)
        return replace(self, theta=theta)

    def errors(self) -> Array:
        """Compute standard errors of theta from the curvature of the log-density."""
        size, step = len(self.theta), 1e-3
        moves = step * np.eye(size)

        def value(move: Array) -> float:
            return replace(self, theta=self.theta + move).log_density

        hessian = np.empty((size, size))
        for i in range(size):
            for j in range(i + 1):
                a, b = moves[i], moves[j]
                curvature = value(a + b) - value(a - b) - value(b - a) + value(-a - b)
                hessian[i, j] = hessian[j, i] = curvature / (4 * step**2)
        values, vectors = np.linalg.eigh(-hessian)
        variance = np.square(vectors) @ (1 / np.maximum(values, self.prior.spread.max() ** -2))
        return np.asarray(np.minimum(np.sqrt(variance), self.prior.spread))
