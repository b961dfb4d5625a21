"""Print how well a pilot's constants describe people who are not Gaussian, against the truth.

python -m benchmarks.calibration_table [seeds]          # forty seeds take a few minutes
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtr

from voxpop.calibration import Calibration, Pilot, calibrate
from voxpop.calibration.likelihood import KERNELS
from voxpop.errors import Array
from voxpop.model.decisions import Decisions
from voxpop.model.kernels import Constant, Kernel, Matern, SquaredExponential
from voxpop.model.waves import Plan
from voxpop.simulation.paper import random_rkhs_function
from voxpop.simulation.pricing import Customers
from voxpop.simulation.scenarios import least_norm

CROWD = 4000  # people from whom the true variances are estimated
Answers = Callable[[int, np.random.Generator], Array]  # (people, grid)


@dataclass(frozen=True, eq=False)
class Kind:
    """People on a grid: the mean of all of them, a way to draw answers, and the rounds behind each."""

    f: Array
    answers: Answers
    rounds: int


def grid(size: int) -> Array:
    return np.linspace(0, 1, size)


def gaussian(rng: np.random.Generator, x: Array, smooth: bool = True) -> Kind:
    """People who follow the model; f lies in the RKHS, or is itself a draw (whose norm grows with the grid)."""
    length, offset = rng.uniform(0.15, 0.5), rng.uniform(0.05, 0.6)
    base: Kernel = [SquaredExponential(length), Matern(length, nu=2.5), Matern(length, nu=1.5)][rng.integers(3)]
    kernel = (1 - offset) * base + Constant(offset)
    root = np.linalg.cholesky(kernel(x[:, None], x[:, None]) + 1e-10 * np.eye(len(x)))
    f = random_rkhs_function(kernel, 1, rng)[0](x[:, None]) if smooth else root @ rng.standard_normal(len(x))
    v, sigma, rounds = rng.uniform(0.2, 0.8), rng.uniform(0.3, 1.0), int(rng.choice([1, 4, 20]))

    def answers(people: int, rng: np.random.Generator) -> Array:
        own = v * rng.standard_normal((people, len(x))) @ root.T
        return np.asarray(f + own + sigma / np.sqrt(rounds) * rng.standard_normal(own.shape))

    return Kind(2.0 + f, lambda people, rng: 2.0 + answers(people, rng), rounds)


def draws(rng: np.random.Generator, x: Array) -> Kind:
    return gaussian(rng, x, smooth=False)


def buyers(rng: np.random.Generator, x: Array) -> Kind:
    """Buy or not, once: the reward is the price or nothing."""
    prices = 1 + 9 * x
    median, spread = rng.uniform(3, 7), rng.uniform(0.25, 0.6)

    def answers(people: int, rng: np.random.Generator) -> Array:
        worth = np.exp(np.log(median) + spread * rng.standard_normal((people, 1)))
        return np.asarray(prices * (worth * np.exp(0.1 * rng.standard_normal((people, len(x)))) >= prices))

    return Kind(prices * ndtr(np.log(median / prices) / np.hypot(spread, 0.1)), answers, 1)


def steps(rng: np.random.Generator, x: Array) -> Kind:
    """A hundred people who buy up to a price of their own, once: the mean of all is a staircase, in no RKHS."""
    prices = 1 + 9 * x
    bought = prices * (rng.lognormal(np.log(rng.uniform(3, 7)), 0.5, size=(100, 1)) >= prices)
    return Kind(bought.mean(axis=0), lambda people, rng: bought[rng.integers(100, size=people)], 1)


def taste(rng: np.random.Generator, x: Array, exponential: bool = False) -> Kind:
    """f_u = s_u f with a heavy-tailed s_u of mean 1."""
    peak, width, floor = rng.uniform(0.2, 0.8), rng.uniform(0.15, 0.4), rng.uniform(0, 0.5)
    f = floor + np.exp(-0.5 * ((x - peak) / width) ** 2)

    def answers(people: int, rng: np.random.Generator) -> Array:
        scale = rng.exponential(size=(people, 1)) if exponential else rng.lognormal(-0.5, 1.0, size=(people, 1))
        return np.asarray(scale * f + 0.1 * rng.standard_normal((people, len(x))))

    return Kind(f, answers, 4)


def exponential_taste(rng: np.random.Generator, x: Array) -> Kind:
    return taste(rng, x, exponential=True)


def pricing(rng: np.random.Generator, x: Array) -> Kind:
    """The customers of the shipped study."""
    customers = Customers(2.0 + 10 * x)
    plan = Plan(0, np.arange(len(x)), np.full(len(x), 20), 1)
    return Kind(customers.profit, lambda people, rng: customers.observe(plan, people, rng), 20)


def fares(rng: np.random.Generator, x: Array) -> Kind:
    """Logit demand: 400 travellers, each with a worth and a steepness of their own."""
    worth = rng.normal(0.5, 0.2, size=(400, 1)) * rng.choice([0.7, 1.3], size=(400, 1))
    chance = expit((worth - x) / rng.uniform(0.02, 0.15, size=(400, 1)))

    def answers(people: int, rng: np.random.Generator) -> Array:
        chosen = chance[rng.integers(len(chance), size=people)]
        return np.asarray((0.2 + x) * rng.binomial(10, chosen) / 10)

    return Kind((0.2 + x) * chance.mean(axis=0), answers, 10)


def voters(rng: np.random.Generator, x: Array) -> Kind:
    """Yes or no, once, to a proposal on a line: 400 voters with ideal points in two camps."""
    ideal = np.where(rng.random((400, 1)) < rng.uniform(0.3, 0.7), 0.3, 0.75) + 0.1 * rng.standard_normal((400, 1))
    chance = expit(2 - 10 * np.abs(x - ideal))

    def answers(people: int, rng: np.random.Generator) -> Array:
        return np.asarray(rng.binomial(1, chance[rng.integers(len(chance), size=people)]), dtype=float)

    return Kind(chance.mean(axis=0), answers, 1)


KINDS: dict[str, Callable[[np.random.Generator, Array], Kind]] = {
    "Gaussian, f in the RKHS": gaussian,
    "Gaussian, f drawn": draws,
    "buy or not, once": buyers,
    "a staircase": steps,
    "lognormal taste": taste,
    "exponential taste": exponential_taste,
    "pricing study": pricing,
    "fares": fares,
    "voters": voters,
}


def trial(make: Callable[[np.random.Generator, Array], Kind], seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    x = grid(int(rng.choice([51, 101])))
    kind = make(rng, x)
    arms = np.linspace(0, len(x) - 1, int(rng.integers(8, 16))).round().astype(int)
    answers = kind.answers(int(rng.integers(30, 41)), rng)[:, arms]
    found = calibrate(Pilot.of_matrix(Decisions(x[arms][:, None]), answers, kind.rounds))
    problem = found.problem(Decisions(x[:, None]), 1000)
    truth = kind.answers(CROWD, rng).var(axis=0)
    means = answers.mean(axis=0)
    slack = 1e-9 * float(np.ptp(means))
    predicted = found.bias_std.value**2 * found.kernel.diagonal(x[:, None]) + found.noise_std.value**2 / kind.rounds
    return {
        "ratio": found.norm_bound.value / least_norm(problem, kind.f),
        "inside": float(means.min() - slack <= found.prior_mean.value <= means.max() + slack),
        "variance": float(np.mean(predicted) / np.mean(truth)),
        "wild": float(_wild(found)),
        "kernel": list(KERNELS).index(found.kernel_name),
        "bound": found.norm_bound.value / float(np.ptp(kind.f)),
    }


def _wild(found: Calibration) -> bool:
    """Whether some interval spans more than four orders of magnitude without saying that it is not determined."""
    several = (*found.length_scales.values(), found.offset, found.bias_std, found.noise_std)
    return any(e.range != "not determined" and not e.high < 1e4 * e.low for e in several)


def main() -> None:
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
    print(
        "| people | B holds | B / least norm: median | mean | B / range of f | m in the range "
        "| predicted / true variance | wild intervals | kernels, smooth to rough |\n|---|" + "---:|" * 8
    )
    for name, make in KINDS.items():
        rows = [trial(make, seed) for seed in seeds]
        column = {key: np.array([row[key] for row in rows]) for key in rows[0]}
        ratio, kernels = column["ratio"], np.bincount(column["kernel"].astype(int), minlength=len(KERNELS))
        print(
            f"| {name} | {np.mean(ratio >= 1):.0%} | {np.median(ratio):.2g} | {ratio.mean():.2g} "
            f"| {np.median(column['bound']):.2g} | {column['inside'].mean():.0%} | {column['variance'].mean():.2f} "
            f"| {column['wild'].mean():.0%} | {'/'.join(map(str, kernels))} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
