"""Print what protecting a pilot costs: the errors of the fitted constants with and without it, over 20 seeds.

python -m benchmarks.protected_pilot
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from voxpop.calibration import Pilot, calibrate
from voxpop.calibration.protected import Protection
from voxpop.errors import Array
from voxpop.model.decisions import Decisions
from voxpop.model.kernels import Matern
from voxpop.privacy.sources import Simulated

POINTS = np.linspace(0, 1, 8)[:, None]
GRAM = Matern(0.3, nu=2.5)(POINTS, POINTS)
DEVIATION, NOISE, LEVEL, ROUNDS, LOW, HIGH = 0.3, 0.6, 2.0, 20, -2.0, 6.0
SEEDS = 20


class Found(NamedTuple):
    """One pilot's estimates, compared with the truth."""

    error: float  # of f, root mean square
    deviation: float
    noise: float
    bound: float  # the norm bound, divided by the norm of f


def estimate(seed: int, people: int, epsilon: float | None) -> Found:
    rng, root = np.random.default_rng(seed), np.linalg.cholesky(GRAM)
    f = LEVEL + root @ rng.standard_normal(8)
    own: Array = DEVIATION * rng.standard_normal((people, 8)) @ root.T
    answers = f + own + NOISE / np.sqrt(ROUNDS) * rng.standard_normal((people, 8))
    protection = None if epsilon is None else Protection(LOW, HIGH, epsilon)
    source = Simulated(np.random.default_rng(seed + 1000))
    pilot = Pilot.of_matrix(Decisions(POINTS), answers, ROUNDS)
    found = calibrate(pilot, kernel="matern-5/2", protection=protection, source=source)
    errors = np.array([reward.value for reward in found.rewards]) - f
    norm = float(np.linalg.norm(np.linalg.solve(root, f - LEVEL)))
    rms = float(np.sqrt(np.mean(errors**2)))
    return Found(rms, found.bias_std.value, found.noise_std.value, found.norm_bound.value / norm)


def spread(values: Array) -> str:
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def main() -> None:
    print("| people | epsilon | error of f | v | sigma | B / norm of f (median) | B holds |")
    print("|---:|---|---:|---|---|---:|---:|")
    for people in (40, 400, 2000):
        for epsilon in (None, 5.0, 1.0):
            found = np.array([estimate(seed, people, epsilon) for seed in range(SEEDS)])
            error, deviation, noise, bound = found.T
            promised = "none" if epsilon is None else f"{epsilon:g}"
            cells = (f"{np.median(error):.3f}", spread(deviation), spread(noise), f"{np.median(bound):.2f}")
            print(f"| {people:,} | {promised} | {' | '.join(cells)} | {np.mean(bound >= 1):.0%} |", flush=True)


if __name__ == "__main__":
    main()
