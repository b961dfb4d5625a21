"""The search for the kernel and its constants, of which a pilot is likeliest: maximum a posteriori, by gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.linalg import LinAlgError
from scipy.special import expit, logit

from voxpop.calibration.likelihood import Design, Evaluation
from voxpop.calibration.pilot import CELLS, TOGETHER, Group, cells_of
from voxpop.errors import Array
from voxpop.model.kernels import SHORTEST, Constant, Kernel, Matern, SquaredExponential

KERNELS: dict[str, Callable[..., Kernel]] = {  # from the smoothest functions to the roughest
    "squared-exponential": SquaredExponential,
    "matern-5/2": partial(Matern, nu=2.5),
    "matern-3/2": partial(Matern, nu=1.5),
    "matern-1/2": partial(Matern, nu=0.5),
}
# -2 dk / dr^2, so that dk / d ln l_j is this times the squared step along dimension j in units of its length-scale.
SLOPES: dict[str, Callable[[Array], Array]] = {
    "squared-exponential": lambda r2: np.exp(-r2 / 2),
    "matern-5/2": lambda r2: 5 / 3 * (1 + np.sqrt(5 * r2)) * np.exp(-np.sqrt(5 * r2)),
    "matern-3/2": lambda r2: 3 * np.exp(-np.sqrt(3 * r2)),
    "matern-1/2": lambda r2: np.exp(-np.sqrt(r2)) / np.maximum(np.sqrt(r2), SHORTEST),
}
LENGTHS = (0.02, 1.0)  # length-scales are sought between these, on the unit cube
OFFSETS = (1e-3, 1 - 1e-3)  # and the constant's share w between these
STARTS = (0.1, 0.3, 1.0)  # length-scales from which the search starts
SEARCHES = len(STARTS) + 1  # and then it refines the best
COARSE = 120  # a pilot with more actions is searched with as many
STEPS = 30  # of refining at most
CLOSE = 1e-4  # no more than half of this is left to gain in the log-density
CURVED = 1e-3  # the step of finite differences of the gradient
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
    design: Design
    prior: Prior
    theta: Array

    @classmethod
    def search(
        cls,
        name: str,
        points: Array,
        axes: dict[str, int],
        groups: Sequence[Group],
        watch: Callable[[], None] = lambda: None,
    ) -> Fit:
        """Maximise the likelihood times the prior, from several starts; call `watch` after each, and at the end.

        Where many actions were tried, the starts climb on a coarser pilot, and the best of them is refined.
        """
        prior = Prior.of(groups, len(axes))
        whole = cls(name, points, axes, Design.of(groups), prior, prior.centre)
        coarse = whole.coarser()
        found = []
        for length in STARTS:
            start = np.concatenate([np.full(len(axes), math.log(length)), prior.centre[len(axes) :]])
            found.append(coarse.climb(start))
            watch()
        best = max(found, key=lambda fit: fit.log_density)
        best = best if coarse is whole else whole.refined(best)
        watch()
        return best

    def coarser(self) -> Fit:
        """Return this with actions that are close together counted as one, so that there are at most `COARSE`."""
        cells, fine = self.points, float(COARSE)
        while len(cells) > COARSE:
            fine *= 0.9
            steps = np.rint(fine * (self.points - self.points.min(axis=0)) / np.ptp(self.points, axis=0).clip(SHORTEST))
            cells, place = np.unique(steps, axis=0, return_inverse=True)
        if cells is self.points:
            return self
        place = place.ravel()
        centres = np.stack([np.bincount(place, column) for column in self.points.T], axis=1)
        groups = [replace(group, actions=place[group.actions]) for group in self.design.groups]
        return replace(self, points=centres / np.bincount(place)[:, None], design=Design.of(groups))

    def refined(self, start: Fit) -> Fit:
        """Climb from the maximum of a coarser pilot, by BFGS's method with its curvature, within the limits."""
        curvature, (low, high) = start.curvature(), self.prior.limits.T
        fit = replace(self, theta=start.theta)
        for _ in range(STEPS):
            free = np.where(fit.gradient > 0, fit.theta < high, fit.theta > low)
            slope, step = fit.gradient[free], np.zeros(len(fit.theta))
            step[free] = np.linalg.solve(curvature[np.ix_(free, free)], slope)
            if slope @ step[free] <= CLOSE:
                break
            tried = (replace(fit, theta=np.clip(fit.theta + step / 2**k, low, high)) for k in range(10))
            moved = next((each for each in tried if each.log_density > fit.log_density), None)
            if moved is None:
                break
            step, bend, old = moved.theta - fit.theta, fit.gradient - moved.gradient, curvature
            if bend @ step > 0:
                curvature = old + np.outer(bend, bend) / (bend @ step)
                curvature -= np.outer(old @ step, old @ step) / (step @ old @ step)
            fit = moved
        return fit

    def climb(self, start: Array) -> Fit:
        """Climb from a start to the next maximum of the log-density.

        Where everybody tried the same, finite differences are quick, and the constants that earlier versions found are
        found again to the last bit.
        """
        from scipy.optimize import minimize

        @lru_cache(maxsize=1)
        def fit(theta: bytes) -> Fit:
            return replace(self, theta=np.frombuffer(theta))

        limits = [(float(low), float(high)) for low, high in self.prior.limits]
        found = minimize(
            lambda theta: -fit(theta.tobytes()).log_density,
            np.clip(start, *self.prior.limits.T),
            jac=(lambda theta: -fit(theta.tobytes()).gradient) if len(self.design.groups) > 1 else None,
            method="L-BFGS-B",
            bounds=limits,
        )
        return replace(self, theta=np.asarray(found.x))

    @property
    def log_density(self) -> float:
        """The logarithm of likelihood times prior, up to a constant."""
        try:
            return self.posterior.log_likelihood + self.prior.log_density(self.theta)
        except LinAlgError:
            return -1e10

    @cached_property
    def gradient(self) -> Array:
        """The derivatives of the log-density by theta."""
        try:
            by_gram, *by_scales = self.posterior.slopes()
        except LinAlgError:
            return np.zeros(len(self.theta))
        offset, tried = float(expit(self.theta[-1])), self.design.tried
        steps = [
            np.square((column[:, None] - column) / length)
            for column, length in zip(self.points[tried].T, self._lengths, strict=True)
        ]
        weights = (1 - offset) * SLOPES[self.name](np.asarray(sum(steps))) * by_gram
        by_column = [float(np.vdot(weights, step)) for step in steps]
        starts = np.cumsum([0, *self.axes.values()])[:-1]
        by_offset = offset * float(np.sum(by_gram * (1 - self.posterior.gram[tried[:, None], tried])))
        own = np.array([*np.add.reduceat(by_column, starts), *by_scales, by_offset])
        return np.asarray(own - (self.theta - self.prior.centre) / self.prior.spread**2)

    @property
    def _lengths(self) -> Array:
        """The length-scale of each dimension."""
        return np.repeat(np.exp(self.theta[: len(self.axes)]), list(self.axes.values()))

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel k = (1 - w) k_l + w."""
        offset = float(expit(self.theta[-1]))
        return (1 - offset) * KERNELS[self.name](tuple(self._lengths.tolist())) + Constant(offset)

    @cached_property
    def posterior(self) -> Evaluation:
        """The marginal likelihood at these constants, and f given the pilot."""
        gram = self.kernel(self.points, self.points)
        bias, noise, tau = map(float, np.exp(self.theta[len(self.axes) : -1]))
        return Evaluation.at(gram, bias, noise, tau, self.design)

    def raised(self) -> Fit:
        """Raise v until people are predicted to differ, on average over the answers, as much as they do.

        The likelihood asks how likely deviations are in the kernel's directions. Where people differ in one direction
        only (each likes everything s times as much), that falls short of how much they differ. A protected pilot does
        not say which part of the variance is whose, so all of it counts as people's deviations.
        """
        gram = self.kernel(self.points, self.points).diagonal()
        bias, noise = np.exp(2 * self.theta[len(self.axes) : -2])
        groups = self.design.groups
        freedom = [group.people - 1 for group in groups]
        seen = sum(float(np.trace(group.scatter)) for group in groups)
        shared = sum(f * float(gram[group.actions].sum()) for f, group in zip(freedom, groups, strict=True))
        own = sum(f * float((1 / group.counts).sum()) for f, group in zip(freedom, groups, strict=True))
        if any(group.moments is not None for group in groups):
            own = 0.0
        if seen <= bias * shared + noise * own:
            return self
        theta = self.theta.copy()
        theta[len(self.axes)] = 0.5 * math.log((seen - noise * own) / shared)
        return replace(self, theta=theta)

    def averaged(self) -> list[Group]:
        """Return what a study keeps of the answers: averages of several people, and how sure they are.

        Groups of several people are such averages. If anyone has a pattern of actions of their own, all groups are
        pooled into one average per action, or per cell of neighbours where few people tried one action: their answers
        are moved to the action in its middle, along the estimate of f.
        """
        groups = self.design.groups
        if all(group.people > 1 or group.moments is not None or group.noise_std > 0 for group in groups):
            return list(groups)
        answers = np.zeros(len(self.points))
        for group in groups:
            answers[group.actions] += group.people
        place, middles = np.zeros(len(self.points), dtype=np.intp), []
        tried = self.design.tried
        least = TOGETHER if len(tried) <= CELLS else max(TOGETHER, math.ceil(answers.sum() / CELLS))
        for number, cell in enumerate(cells_of(self.points[tried], answers[tried], least)):
            cell = tried[cell]
            place[cell] = number
            away = self.points[cell] - np.average(self.points[cell], axis=0, weights=answers[cell])
            middles.append(int(cell[np.square(away).sum(axis=1).argmin()]))
        shift = self.posterior.mean[np.array(middles)[place]] - self.posterior.mean
        moved = [replace(g, actions=place[g.actions], mean=g.mean + shift[g.actions]) for g in groups]
        design, centres = Design.of(moved), self.points[middles]
        scales = np.exp(self.theta[len(self.axes) : -2])
        parts = [stack.averages(stack.answers(self.kernel(centres, centres), *scales)) for stack in design.stacks]
        averages, covariance, _ = design.pooled(parts)
        rounds, behind = np.zeros(len(middles)), np.bincount(place, answers).astype(float)
        squares = np.zeros(len(middles))
        for group in moved:
            np.add.at(rounds, group.actions, group.people / group.counts)
            away = group.people * np.square(group.mean - averages[group.actions])
            np.add.at(squares, group.actions, group.scatter.diagonal() + away)
        people, none = sum(group.people for group in groups), np.zeros_like(covariance)
        return [
            Group(
                np.array(middles),
                (behind / rounds).round(9),
                people,
                averages,
                none,
                answers=behind,
                covariance=covariance,
                pooled=squares / np.maximum(behind - 1, 1),
            )
        ]

    def curvature(self) -> Array:
        """Compute how strongly the log-density is curved, (constants, constants): at least as the prior's widest."""
        moves = CURVED * np.eye(len(self.theta))
        ahead, behind = (
            np.array([replace(self, theta=self.theta + sign * move).gradient for move in moves]) for sign in (1, -1)
        )
        hessian = (ahead - behind) / (2 * CURVED)
        values, vectors = np.linalg.eigh(-(hessian + hessian.T) / 2)
        return np.asarray((vectors * np.maximum(values, self.prior.spread.max() ** -2)) @ vectors.T)

    def errors(self) -> Array:
        """Compute standard errors of theta from the curvature of the log-density; that of a coarser pilot will do."""
        variances = np.linalg.inv(self.coarser().curvature()).diagonal()
        return np.asarray(np.minimum(np.sqrt(variances), self.prior.spread))
