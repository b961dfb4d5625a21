"""Plain programs: a `dpbe` run that solves the equations afresh at every batch, and a bare loop of `gp-ucb`.

All play the synthetic study (n = 100, T = 40,000) with the same answers, and the plans must be the same.

plain program    voxpop, but every batch builds K + lambda W^-1 of the merged arms and solves it for every active
                 action, as eq:sigma_update and eq:decision are printed, and every trial value of c in the search for an
                 affine width solves (K + c N) a = h afresh
plain rounds     `gp-ucb` as a loop over NumPy arrays, without a driver, states or a log
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter
from unittest.mock import patch

import numpy as np

from voxpop.errors import Array
from voxpop.gp.posterior import TIE
from voxpop.gp.selection import BatchRule, Selection
from voxpop.gp.widths import Affine, AffineEstimator
from voxpop.model.problem import Indices, Problem
from voxpop.policies import make_policy
from voxpop.policies.gp_ucb import GPUCB, confidence_bonus, noise_variance
from voxpop.simulation.runs import Run, simulate
from voxpop.simulation.scenarios import Options, make_scenario


def plain_select(
    problem: Problem, active: Indices, rounds: int, ratio: float, rule: BatchRule = "corrected"
) -> Selection:
    """Select arms by eq:decision and eq:sigma_update as printed, with merged pulls (rk:shrink)."""
    kernel, points, ridge = problem.kernel, problem.decisions.points, problem.ridge
    pulls: dict[int, int] = {}
    batches = 0
    variance = kernel.diagonal(points[active])
    while rounds > 0:
        position = int(np.argmax(variance >= (1 - TIE) * variance.max()))
        length = int((ratio**2 - 1) * (ridge if rule == "corrected" else 1.0) / variance[position] * (1 + TIE))
        length = min(max(1, length), rounds)
        pulls[position] = pulls.get(position, 0) + length
        rounds -= length
        batches += 1
        arms = points[active[list(pulls)]]
        weights = np.array(list(pulls.values()))
        cross = kernel(arms, points[active])
        solved = np.linalg.solve(kernel(arms, arms) + np.diag(ridge / weights), cross)
        variance = kernel.diagonal(points[active]) - np.sum(cross * solved, axis=0)
    return Selection(active[list(pulls)], np.array(list(pulls.values())), batches, float("nan"))


class PlainEstimator(AffineEstimator):
    """The affine width by golden-section search on log c, with a fresh solve for every trial."""

    def fit(self, cross: Array, square: Array, norm_bound: float) -> Affine:
        """Find the minimiser for functions h given as h(A) and |h|^2."""

        def trial(log_c: Array) -> tuple[Array, Array]:
            system = self.gram + np.exp(log_c)[:, None, None] * self.noise
            weights = np.asarray(np.linalg.solve(system, cross[:, :, None])[:, :, 0], dtype=float)
            return self.width_of(weights, cross, square, norm_bound), weights

        golden = (np.sqrt(5) - 1) / 2
        low, high = np.full(len(square), -25.0), np.full(len(square), 25.0)
        for _ in range(40):
            left, right = high - golden * (high - low), low + golden * (high - low)
            better = trial(left)[0] < trial(right)[0]
            low, high = np.where(better, low, left), np.where(better, right, high)
        width, weights = trial((low + high) / 2)
        prior = norm_bound * np.sqrt(square)
        useful = width < prior
        return Affine(np.where(useful, width, prior), np.where(useful[:, None], weights, 0.0))


def plain_rounds(problem: Problem, answers: Array) -> Indices:
    """Play `gp-ucb` with these answers, one per round, and return the arms."""
    everything, noise, delta = np.arange(problem.size), noise_variance(problem), GPUCB.delta
    covariance, mean = problem.covariance(everything, everything).copy(), problem.means.copy()
    arms, gain = np.empty(len(answers), dtype=np.intp), 0.0
    for number, answer in enumerate(answers.tolist()):
        width = confidence_bonus(problem, gain, delta) * np.sqrt(np.maximum(covariance.diagonal(), 0.0))
        arm = arms[number] = np.argmax(mean + width)
        column = covariance[:, arm].copy()
        gain += 0.5 * math.log1p(column[arm] / noise)
        mean += column * ((answer - mean[arm]) / (column[arm] + noise))
        covariance -= np.multiply.outer(column, column / (column[arm] + noise))
    return arms


def timed(seed: int, plainly: Callable[[], AbstractContextManager[object]] = nullcontext) -> tuple[float, Run]:
    """Run the synthetic study; return the seconds that it took, and the run."""
    scenario = make_scenario("synthetic", Options(seed=seed))
    policy = make_policy("dpbe", **scenario.settings)
    with plainly():
        start = perf_counter()
        run = simulate(scenario, policy, seed)
        return perf_counter() - start, run


@contextmanager
def plain_program() -> Iterator[None]:
    """Select arms and find widths plainly inside a context."""
    with (
        patch("voxpop.policies.dpbe.select", plain_select),
        patch("voxpop.policies.dpbe.AffineEstimator", PlainEstimator),
    ):
        yield


def same_plans(one: Run, other: Run) -> bool:
    """Return True if two runs played the same arms for the same rounds."""
    return len(one.plans) == len(other.plans) and all(
        np.array_equal(a.arms, b.arms) and np.array_equal(a.pulls, b.pulls)
        for a, b in zip(one.plans, other.plans, strict=True)
    )
