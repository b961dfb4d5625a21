"""Estimates of the model's constants from a pilot: a few dozen people, a dozen actions, averages with counts.

The pilot's averages follow the model of the study itself (`likelihood.py`) with the kernel k = (1 - w) k_l + w, smooth
plus constant: people often differ in how much they like anything at all. The length-scales l, v, sigma, tau, w and the
prior mean m maximise the marginal likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.linalg import LinAlgError
from scipy.special import expit, logit

from voxpop.calibration.likelihood import Evaluation
from voxpop.calibration.pilot import Group, Pilot
from voxpop.core.errors import Array, InputError, require_choice, require_number
from voxpop.core.evidence import Evidence
from voxpop.core.kernels import Constant, Kernel, Matern, SquaredExponential
from voxpop.core.problem import Problem
from voxpop.core.spaces import Decisions, Space
from voxpop.runtime.threads import one_thread

KERNELS: dict[str, Callable[..., Kernel]] = {
    "squared-exponential": SquaredExponential,
    "matern-5/2": partial(Matern, nu=2.5),
    "matern-3/2": partial(Matern, nu=1.5),
    "matern-1/2": partial(Matern, nu=0.5),
}
LENGTHS = (0.02, 1.0)  # length-scales are sought between these, on the unit cube
OFFSETS = (1e-3, 1 - 1e-3)  # and the constant's share w between these
MOST_NUMBERS = 3000  # the most group means that are solved for together
STARTS = (0.1, 0.3, 1.0)


@dataclass(frozen=True)
class Estimate:
    """A constant and its 95 % interval; the interval is infinite where the pilot does not determine it."""

    value: float
    low: float
    high: float

    @property
    def range(self) -> str:
        """The interval as text."""
        wild = self.high - self.low > 1e6 * abs(self.value)
        return "not determined" if wild else f"{self.low:.3g} to {self.high:.3g}"


@dataclass(frozen=True, eq=False)
class Calibration:
    """What a pilot says about the model, and how sure it is."""

    kernel_name: str
    length_scales: dict[str, Estimate]  # by parameter
    offset: Estimate  # the share of a person's deviation that is the same for every action
    bias_std: Estimate
    noise_std: Estimate
    prior_mean: Estimate
    norm_bound: Estimate
    margin: float
    people: int
    log_likelihood: float
    kernel: Kernel
    pilot: Decisions
    rewards: tuple[Estimate, ...]  # f at the pilot's actions
    groups: tuple[Group, ...]  # the pilot's answers

    @property
    def ridge(self) -> float:
        """sigma^2 / B^2: the noise of a round, compared with what there is to learn about f.

        The paper's sigma^2 / v^2 compares it with one person's deviation. Where people differ little, or only by a
        constant, f would then count as known after a handful of actions, long before it is.
        """
        return (self.noise_std.value / self.norm_bound.value) ** 2

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The pilot's average answers, for the study to learn from."""
        points = self.pilot.points
        return tuple(Evidence(points[group.actions], group.counts, group.people, group.mean) for group in self.groups)

    def problem(self, decisions: Decisions, horizon: int, beta: float | None = None) -> Problem:
        """Make the study's problem; the norm bound includes the margin."""
        return Problem(
            decisions,
            self.kernel,
            self.noise_std.value,
            self.bias_std.value,
            self.norm_bound.value,
            horizon,
            prior_mean=self.prior_mean.value,
            beta=beta,
            ridge=self.ridge,
            pilot=self.evidence,
        )


def calibrate(pilot: Pilot, space: Space | None = None, kernel: str = "auto", margin: float = 1.5) -> Calibration:
    """Estimate the model's constants by marginal likelihood.

    `kernel` is a name from `KERNELS`, or "auto" for the likeliest of them. With a space, each parameter has one
    length-scale (a choice too, though it takes several dimensions). The norm bound is the root of the expected
    squared RKHS norm of f at the pilot's actions, times the margin.
    """
    require_number("margin", margin, least=1)
    names = list(KERNELS) if kernel == "auto" else [require_choice("kernel", kernel, [*KERNELS, "auto"])]
    points = pilot.decisions.points
    axes = _axes(space, points.shape[1])
    groups = pilot.groups()
    if sum(len(group.mean) for group in groups) > MOST_NUMBERS:
        raise InputError(
            f"the pilot has {len(groups)} different patterns of actions and counts, too many to solve for; "
            "let people share the same actions and counts"
        )
    with one_thread():
        fits = [_Fit.search(name, points, axes, groups) for name in names]
        return max(fits, key=lambda fit: fit.log_likelihood).calibration(pilot, margin)


def _axes(space: Space | None, dimension: int) -> dict[str, int]:
    """Return the number of dimensions that each parameter takes."""
    if space is None:
        return {f"x{i + 1}": 1 for i in range(dimension)}
    axes = {name: parameter.width for name, parameter in space.parameters.items()}
    if sum(axes.values()) != dimension:
        raise InputError(
            f"the space has {sum(axes.values())} dimensions and the pilot's actions have {dimension}; "
            "scale the pilot's actions with this space"
        )
    return axes


@dataclass(frozen=True, eq=False)
class _Fit:
    """One kernel family with its best constants; `theta` holds the logarithms of lengths, v, sigma, tau; logit w."""

    name: str
    points: Array
    axes: dict[str, int]
    groups: Sequence[Group]
    theta: Array
    log_likelihood: float

    @classmethod
    def search(cls, name: str, points: Array, axes: dict[str, int], groups: Sequence[Group]) -> _Fit:
        """Maximise the likelihood from several starts."""
        from scipy.optimize import minimize

        spread = float(np.std(np.concatenate([group.mean for group in groups]))) or 1.0
        deviation = math.sqrt(
            sum(float(np.trace(g.scatter)) for g in groups) / max(1, sum((g.people - 1) * len(g.mean) for g in groups))
        )
        deviation = deviation or spread

        def negative(theta: Array) -> float:
            try:
                return -cls(name, points, axes, groups, theta, 0.0).posterior().log_likelihood
            except LinAlgError:
                return 1e10

        limits = [tuple(np.log(LENGTHS))] * len(axes) + [
            (math.log(1e-4 * scale), math.log(1e3 * scale)) for scale in (deviation, deviation, spread + deviation)
        ]
        limits.append(tuple(logit(np.array(OFFSETS))))
        rounds = float(np.mean(np.concatenate([group.counts for group in groups])))
        found = []
        for length in STARTS:
            start = np.log([length] * len(axes) + [deviation, 0.5 * deviation * math.sqrt(rounds), spread + deviation])
            start = np.append(start, logit(0.3))
            start = np.clip(start, [low for low, _ in limits], [high for _, high in limits])
            found.append(minimize(negative, start, method="L-BFGS-B", bounds=limits))
        best = min(found, key=lambda result: float(result.fun))
        return cls(name, points, axes, groups, np.asarray(best.x), -float(best.fun))

    def kernel(self) -> Kernel:
        lengths, offset = np.exp(self.theta[: len(self.axes)]), float(expit(self.theta[-1]))
        smooth = KERNELS[self.name](tuple(np.repeat(lengths, list(self.axes.values())).tolist()))
        return (1 - offset) * smooth + Constant(offset)

    def posterior(self) -> Evaluation:
        """Compute the marginal likelihood at these constants, and f given the pilot."""
        bias, noise, tau = np.exp(self.theta[len(self.axes) : -1])
        gram = self.kernel()(self.points, self.points)
        return Evaluation.at(gram, float(bias), float(noise), float(tau), self.groups)

    def calibration(self, pilot: Pilot, margin: float) -> Calibration:
        """Return the constants with their intervals."""
        posterior = self.posterior()
        reaches = np.minimum(1.96 * self._errors(), 700.0)
        triples = [self.theta, self.theta - reaches, self.theta + reaches]
        estimates = [Estimate(*map(float, np.exp(column))) for column in np.transpose(triples)[:-1]]
        offset = Estimate(*(float(expit(row[-1])) for row in triples))
        lengths = dict(zip(self.axes, estimates, strict=False))
        bias, noise, _ = estimates[len(self.axes) :]
        reach = 1.96 * posterior.prior_mean_std
        mean = posterior.prior_mean
        deviations = np.sqrt(np.maximum(np.diag(posterior.covariance), 0.0))
        return Calibration(
            kernel_name=self.name,
            length_scales=lengths,
            offset=offset,
            bias_std=bias,
            noise_std=noise,
            prior_mean=Estimate(mean, mean - reach, mean + reach),
            norm_bound=_norm(posterior, margin),
            margin=margin,
            people=pilot.person_count,
            log_likelihood=self.log_likelihood,
            kernel=self.kernel(),
            pilot=pilot.decisions,
            rewards=tuple(
                Estimate(float(mean + m), float(mean + m - 1.96 * d), float(mean + m + 1.96 * d))
                for m, d in zip(posterior.mean, deviations, strict=True)
            ),
            groups=tuple(self.groups),
        )

    def _errors(self) -> Array:
        """Compute standard errors of theta from the observed information; infinite where the likelihood is flat."""
        size, step = len(self.theta), 1e-3

        def value(*moves: tuple[int, float]) -> float:
            theta = self.theta.copy()
            for axis, move in moves:
                theta[axis] += move
            try:
                return replace(self, theta=theta).posterior().log_likelihood
            except LinAlgError:
                return self.log_likelihood

        hessian = np.empty((size, size))
        for i in range(size):
            for j in range(i + 1):
                hessian[i, j] = hessian[j, i] = (
                    value((i, step), (j, step))
                    - value((i, step), (j, -step))
                    - value((i, -step), (j, step))
                    + value((i, -step), (j, -step))
                ) / (4 * step**2)
        values, vectors = np.linalg.eigh(-hessian)
        spread = np.where(values > 1e-6, 1 / np.maximum(values, 1e-6), np.inf)
        flat = np.isinf(spread)
        variance = np.square(vectors[:, ~flat]) @ spread[~flat]
        undetermined = np.square(vectors[:, flat]).sum(axis=1) > 1e-3
        return np.where(undetermined, np.inf, np.sqrt(variance))


def _norm(posterior: Evaluation, margin: float) -> Estimate:
    """Estimate the RKHS norm of f at the pilot's actions; its square has the moments of a quadratic form."""
    square = float(posterior.norm_mean @ posterior.norm_mean)
    covariance = posterior.norm_covariance
    expected = square + float(np.trace(covariance))
    variance = 2 * float(np.sum(covariance**2)) + 4 * float(posterior.norm_mean @ covariance @ posterior.norm_mean)
    reach = 1.96 * math.sqrt(max(variance, 0.0))
    low, value, high = (math.sqrt(max(square, 0.0)) for square in (expected - reach, expected, expected + reach))
    return Estimate(margin * value, margin * low, margin * high)
