"""Print what shocks that all people share, or a drift of f, do to a one-sided statement of a wave.

python benchmarks/common_shocks.py          # a few seconds

A wave asks 400 people about 8 of 40 actions, two rounds each, and states f(x) - f(b) <= a'y + width at level 0.00625.
Shocks common to all people (sigma_c in every round) or a drift of f after the wave, GP(0, tau^2 k), are drawn. Printed
is the share of false statements: for the x and the f for which it is largest, and for that x and random f of norm B.
"""

from __future__ import annotations

import numpy as np

from voxpop.core.errors import Array
from voxpop.core.kernels import SquaredExponential
from voxpop.core.problem import Problem
from voxpop.widths.affine import Affine, AffineEstimator

LEVEL, PEOPLE, PULLS, DRAWS = 0.00625, 400, 2, 20_000
SIZES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)  # sigma_c / sqrt(W), or tau, in units of v / sqrt(U)

# A width is two-sided at beta, so one-sided at half of it.
LINE = Problem(np.linspace(0, 1, 40), SquaredExponential(0.2), 0.1, 0.3, norm_bound=1.0, horizon=100, beta=2 * LEVEL)
ARMS, EVERY, REFERENCE = np.arange(2, 40, 5), np.arange(40), 17
K = LINE.covariance(EVERY, EVERY)
NOISE = LINE.answer_noise(ARMS, np.full(len(ARMS), PULLS), PEOPLE)


def gaps(noise: Array) -> Affine:
    return AffineEstimator(LINE, ARMS, noise).values_and_gaps(EVERY, REFERENCE, LINE.norm_bound)[1]


def worst(found: Affine, x: int) -> Array:
    """Return the f of norm B whose gap f(x) - f(reference) is most underestimated by a'y."""
    direction = np.zeros(len(K))
    direction[x] += 1
    direction[REFERENCE] -= 1
    np.subtract.at(direction, ARMS, found.weights[x])
    return np.asarray(LINE.norm_bound * K @ direction / np.sqrt(max(direction @ K @ direction, 1e-300)))


def false(found: Affine, x: int, f: Array, errors: Array, drift: Array) -> float:
    """Return the share of false statements about x, for f of shape (actions,) or (draws, actions)."""
    now = f + drift
    bound = (f[..., ARMS] + errors) @ found.weights[x] + found.width[x]
    return float(np.mean(now[..., x] - now[..., REFERENCE] > bound))


def shares(found: Affine, errors: Array, drift: Array, rng: np.random.Generator) -> tuple[float, float]:
    """Return the largest share over x, for the worst f, and the share for this x and random f of norm B."""
    largest, x = max((false(found, x, worst(found, x), errors, drift), x) for x in EVERY.tolist() if x != REFERENCE)
    weights = rng.standard_normal((DRAWS, len(K)))
    f = LINE.norm_bound * weights @ K / np.sqrt(np.einsum("ij,jk,ik->i", weights, K, weights))[:, None]
    return largest, false(found, x, f, errors, drift)


def main() -> None:
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(K + 1e-10 * np.eye(len(K)))
    none = np.zeros(len(K))
    print("| size | shocks | random f | shocks in N | drift | random f |\n|---|---|---|---|---|---|")
    for size in SIZES:
        unit = size * LINE.bias_std / np.sqrt(PEOPLE)
        shocked = NOISE + unit**2 * np.eye(len(ARMS))
        quiet = rng.multivariate_normal(np.zeros(len(ARMS)), NOISE, size=DRAWS, method="cholesky")
        loud = quiet + unit * rng.standard_normal(quiet.shape)
        drift = unit * rng.standard_normal((DRAWS, len(K))) @ root.T
        by_shocks, by_drift = shares(gaps(NOISE), loud, none, rng), shares(gaps(NOISE), quiet, drift, rng)
        accounted = shares(gaps(shocked), loud, none, rng)[0]
        found = (*by_shocks, accounted, *by_drift)
        print(f"| {size:g} | " + " | ".join(f"{share:.4f}" for share in found) + " |")


if __name__ == "__main__":
    main()
