"""The vectors of what a device computes to check a promise."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.vectors.releases import release
from tests.vectors.running import FOLDER, save
from voxpop.privacy.binomial import Binomial
from voxpop.privacy.gaussian import noise_multiplier

ABOUT = (
    "Numbers that a device computes to check a promise: `multipliers` are (epsilon, delta, noise multiplier), `deltas` "
    "are (trials, chance, shift, epsilon, delta) of binomial noise, `conditions` are (triangular root, condition)."
)
EPSILONS = (0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 15.0, 100.0, 1000.0)
DELTAS = (0.3, 1e-2, 1e-5, 1e-6, 1e-9, 1e-12)
NOISES = [
    (100, 0.5, 3),
    (1000, 0.5, 40),
    (1000, 0.5, 1000),
    (1000, 0.5, 1001),
    (4000, 0.4375, 41),
    (4000, 0.01, 7),
    (26_000, 0.35, 75),
    (500_000, 0.5, 300),
    (500_000, 0.999, 30),
    (3_000_000, 0.5, 2000),
    (10**10, 0.5, 20_000),
]


def roots() -> list[list[list[float]]]:
    """Make lower triangular matrices, good and bad."""
    rng = np.random.default_rng(1)
    made = [np.eye(3), np.diag([1.0, 1e-3, 1e-7]), np.tril(np.ones((4, 4))), 1e-80 * np.eye(2), 1e80 * np.eye(2)]
    made += [np.tril(rng.standard_normal((n, n))) + 2 * np.eye(n) for n in (1, 2, 5, 12, 30)]
    made += [np.array([[1.0, 0.0], [far, 1.0]]) for far in (10.0, 1e3)]
    return [release("local")["ball"]["root"], *(np.abs(root).tolist() for root in made)]


def write() -> None:
    """Write the file."""
    multipliers: list[Any] = [[eps, delta, noise_multiplier(eps, delta)] for eps in EPSILONS for delta in DELTAS]
    deltas = [[*noise, eps, Binomial(*noise).delta(eps)] for noise in NOISES for eps in (0.1, 1.0, 5.0)]
    conditions = [[root, float(np.linalg.cond(np.array(root)))] for root in roots()]
    save(FOLDER / "numbers.json", ABOUT, multipliers=multipliers, deltas=deltas, conditions=conditions)
