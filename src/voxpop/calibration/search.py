"""The likeliest constants of one kernel family, under weak priors.

A pilot never determines everything: where all people agree the likelihood rises without limit as v falls, and a
length-scale may run to its limit. So the logarithm of each constant (the logit of w) has a normal prior, centred on
what a glance at the answers suggests and wide enough that a few dozen people outweigh it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.linalg import LinAlgError
from scipy.special import expit, logit

from voxpop.calibration.likelihood import Evaluation
from voxpop.calibration.pilot import Group
from voxpop.core.errors import Array
from voxpop.core.kernels import Constant, Kernel, Matern, SquaredExponential

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
