"""Print what privacy costs: the synthetic study at T = 10^6, delta = 1e-6, alpha = 0.7, for every trust model.

python -m benchmarks.privacy_table [seeds]          # ten seeds take a few minutes
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


def cell(policy: str, privacy: Privacy, seeds: range) -> str:
    """Return the mean regret, numbers sent and people asked, and how often the optimum was lost if it ever was."""
    results = runs(policy, privacy, seeds)
    means = [np.mean([getattr(run.metrics, name) for run in results]) for name in ("regret", "numbers", "people")]
    lost = sum(not run.optimum_kept for run in results)
    return " / ".join(f"{mean:,.0f}" for mean in means) + (f" (optimum lost: {lost})" if lost else "")


def main() -> None:
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
    print(f"Regret / numbers sent / people; without privacy {cell('dpbe', NoPrivacy(), seeds)}.\n")
    print("| | eps = 1 | eps = 5 | eps = 15 | eps = 30 |\n|---|---:|---:|---:|---:|")
    for words in ("own floor", "printed schedule", "as printed"):
        policy, calibration = ("dpbe-paper", "paper") if words == "as printed" else ("dpbe", "exact")
        floor = 0 if words == "printed schedule" else None
        for model in ("central", "shuffle", "local"):
            cells = []
            for epsilon in (1, 5, 15, 30):
                tried = epsilon > 1 or (model, policy) == ("central", "dpbe")
                privacy = Private(model, epsilon, DELTA, calibration=calibration, floor=floor)
                cells.append(cell(policy, privacy, seeds) if tried else "")
            print(f"| {model}, {words} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
