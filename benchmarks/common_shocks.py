"""Print what shocks that all people share, or a drift of f, do to a one-sided statement of a wave.

python -m benchmarks.common_shocks          # ten seconds

A wave asks 400 people about 8 of 40 actions, two rounds each, and states f(x) - f(b) <= a'y + width at level 0.00625.
Shocks common to all people (sigma_c in every round) or a drift of f after the wave, GP(0, tau^2 k), are drawn. Printed
is the share of false statements, for the x and the f of norm B for which it is largest.
"""

from __future__ import annotations

import numpy as np

from voxpop.errors import Array
from voxpop.gp.widths import Affine, AffineEstimator
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem

LEVEL, PEOPLE, PULLS, DRAWS = 0.00625, 400, 2, 100_000
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
    return np.asarray(LINE.norm_bound * K @ direction / np.sqrt(direction @ K @ direction))


def share(found: Affine, errors: Array, drift: Array) -> float:
    """Return the share of false statements about the x, and for the f of norm B, for which it is largest."""
    shares = []
    for x in np.delete(EVERY, REFERENCE).tolist():
        f = worst(found, x)
        now, bound = f + drift, (f[ARMS] + errors) @ found.weights[x] + found.width[x]
        shares.append(float(np.mean(now[..., x] - now[..., REFERENCE] > bound)))
    return max(shares)


def main() -> None:
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(K + 1e-10 * np.eye(len(K)))
    print("| size | shocks | shocks in N | drift |\n|---|---|---|---|")
    for size in SIZES:
        unit = size * LINE.bias_std / np.sqrt(PEOPLE)
        quiet = rng.multivariate_normal(np.zeros(len(ARMS)), NOISE, size=DRAWS, method="cholesky")
        shocked = quiet + unit * rng.standard_normal(quiet.shape)
        drift = unit * rng.standard_normal((DRAWS, len(K))) @ root.T
        aware = gaps(NOISE + unit**2 * np.eye(len(ARMS)))
        still = np.zeros(len(K))
        found = (share(gaps(NOISE), shocked, still), share(aware, shocked, still), share(gaps(NOISE), quiet, drift))
        print(f"| {size:g} | " + " | ".join(f"{value:.4f}" for value in found) + " |")


if __name__ == "__main__":
    main()
