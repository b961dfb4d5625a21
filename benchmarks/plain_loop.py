"""How much faster is a whole `dpbe` run than a plain program that solves the equations afresh at every batch?

All play the synthetic study (n = 100, T = 40,000) with the same answers, and the plans must be the same.

plain selection  voxpop, but every batch builds K + lambda W^-1 of the merged arms and solves it for every active
                 action, as eq:sigma_update and eq:decision are printed
plain program    besides, every trial value of c in the search for an affine width solves (K + c N) a = h afresh

    python benchmarks/plain_loop.py [seeds]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from time import perf_counter
from unittest.mock import patch

import numpy as np

from voxpop.errors import Array
from voxpop.policies import make_policy
from voxpop.posterior import TIE, BatchRule, Selection
from voxpop.problem import Indices, Problem
from voxpop.scenarios import Options, make_scenario
from voxpop.simulate import Run, simulate
from voxpop.widths import Affine, AffineEstimator

TARGET = 10.0


def plain_select(
    problem: Problem, active: Indices, rounds: int, ratio: float, rule: BatchRule = "corrected"
) -> Selection:
    """eq:decision and eq:sigma_update as printed, with merged pulls (rk:shrink)."""
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

    def __init__(self, problem: Problem, arms: Indices, noise: Array, clipping: Array | None = None) -> None:
        super().__init__(problem, arms, noise, clipping)
        self.covariance = noise

    def fit(self, cross: Array, square: Array, norm_bound: float) -> Affine:
        def trial(log_c: Array) -> tuple[Array, Array]:
            system = self.gram + np.exp(log_c)[:, None, None] * self.covariance
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


def timed(seed: int, plainly: Callable[[], AbstractContextManager[object]] = nullcontext) -> tuple[float, Run]:
    scenario = make_scenario("synthetic", Options(seed=seed))
    policy = make_policy("dpbe", **scenario.settings)
    with plainly():
        start = perf_counter()
        run = simulate(scenario, policy, seed)
        return perf_counter() - start, run


def plain_selection() -> AbstractContextManager[object]:
    return patch("voxpop.policies.dpbe.select", plain_select)


def plain_program() -> AbstractContextManager[object]:
    stack = ExitStack()
    stack.enter_context(plain_selection())
    stack.enter_context(patch("voxpop.policies.dpbe.AffineEstimator", PlainEstimator))
    return stack


def same_plans(one: Run, other: Run) -> bool:
    return len(one.plans) == len(other.plans) and all(
        np.array_equal(a.arms, b.arms) and np.array_equal(a.pulls, b.pulls)
        for a, b in zip(one.plans, other.plans, strict=True)
    )


def main() -> None:
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    timed(0)  # warm up
    print(f"{'seed':>4} {'voxpop':>9} {'plain selection':>23} {'plain program':>22}   same plans")
    ratios: list[tuple[float, float]] = []
    all_same = True
    for seed in seeds:
        ours, fast = min((timed(seed) for _ in range(3)), key=lambda pair: pair[0])
        some, slow = timed(seed, plain_selection)
        whole, slowest = timed(seed, plain_program)
        same = same_plans(fast, slow) and same_plans(fast, slowest)
        all_same &= same
        ratios.append((some / ours, whole / ours))
        cells = f"{some * 1e3:>8.0f} ms = {some / ours:>6.1f} x {whole * 1e3:>9.0f} ms = {whole / ours:>6.1f} x"
        print(f"{seed:>4} {ours * 1e3:>6.1f} ms {cells}   {same}")
    selection, program = np.median(ratios, axis=0)
    print(f"median ratio: {selection:.1f} against plain selection, {program:.1f} against the plain program")
    sys.exit(0 if program >= TARGET and all_same else 1)


if __name__ == "__main__":
    main()
