"""Print what privacy costs: the synthetic study at T = 10^6, delta = 1e-6, alpha = 0.7, for every trust model.

python benchmarks/privacy_table.py [seeds]          # ten seeds take a few minutes
"""

from __future__ import annotations

import sys

import numpy as np

from voxpop.policies import make_policy
from voxpop.privacy import NoPrivacy, Privacy, Private
from voxpop.simulation.runs import Run, simulate
from voxpop.simulation.scenarios import Options, make_scenario

HORIZON, DELTA = 10**6, 1e-6


def runs(policy: str, privacy: Privacy, seeds: range) -> list[Run]:
    return [
        simulate(
            make_scenario("synthetic", Options(seed, horizon=HORIZON)), make_policy(policy, alpha=0.7), seed, privacy
        )
        for seed in seeds
    ]


def row(name: str, results: list[Run], base: float | None) -> float:
    regret = float(np.mean([run.metrics.regret for run in results]))
    numbers = np.mean([run.metrics.numbers for run in results])
    people = np.mean([run.metrics.people for run in results])
    kept = sum(run.optimum_kept for run in results)
    ratio = "" if base is None else f"{regret / base:.2f}"
    print(f"| {name} | {regret:,.0f} | {ratio} | {numbers:,.0f} | {people:,.0f} | {kept}/{len(results)} |", flush=True)
    return regret


def main() -> None:
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
    print("| | regret | times not private | numbers sent | people | optimum kept |\n|---|---:|---:|---:|---:|---:|")
    base = row("not private", runs("dpbe", NoPrivacy(), seeds), None)
    for floor, words in ((None, "own floor"), (0, "printed schedule")):
        for model in ("central", "shuffle", "local"):
            for epsilon in (1, 5, 15, 30) if model == "central" else (5, 15, 30):
                privacy = Private(model, epsilon, DELTA, floor=floor)
                row(f"{model}, eps = {epsilon}, {words}", runs("dpbe", privacy, seeds), base)
    for model in ("central", "shuffle", "local"):
        for epsilon in (5, 15, 30):
            privacy = Private(model, epsilon, DELTA, calibration="paper")
            row(f"{model}, eps = {epsilon}, as printed", runs("dpbe-paper", privacy, seeds), base)


if __name__ == "__main__":
    main()
