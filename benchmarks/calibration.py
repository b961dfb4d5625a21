"""Pilots: how well their constants describe people, what protecting them costs, and what rehearsals make of them."""

import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import expit, ndtr

from voxpop.calibration import Pilot, calibrate
from voxpop.calibration.protected import Protection
from voxpop.calibration.search import KERNELS
from voxpop.errors import Array
from voxpop.io.studyfile import write_study
from voxpop.io.tables import read_pilot_table
from voxpop.model.decisions import Decisions, Float, Space
from voxpop.model.kernels import Constant, Kernel, Matern, SquaredExponential
from voxpop.model.waves import Plan
from voxpop.privacy.sources import Simulated
from voxpop.runtime.random_streams import stream
from voxpop.simulation.paper import random_rkhs_function
from voxpop.simulation.people import Customers, Segment
from voxpop.simulation.rehearsals import Rehearsal
from voxpop.simulation.runs import Run, Scenario, simulate
from voxpop.simulation.scenarios import PEOPLE, ROUNDS, TRIED, least_norm

Rows = Iterator[tuple[object, ...]]
CROWD = 4000  # people from whom the true variances are estimated


@dataclass(frozen=True, eq=False)
class Kind:
    """People on a grid: the mean of all of them, a way to draw answers, and the rounds behind each."""

    f: Array
    answers: Callable[[int, np.random.Generator], Array]  # (people, grid)
    rounds: int


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
    "Gaussian, f drawn": partial(gaussian, smooth=False),
    "buy or not, once": buyers,
    "a staircase": steps,
    "lognormal taste": taste,
    "exponential taste": partial(taste, exponential=True),
    "pricing study": pricing,
    "fares": fares,
    "voters": voters,
}


def fitted(make: Callable[[np.random.Generator, Array], Kind], seed: int) -> tuple[float, ...]:
    """Calibrate with a pilot of people of one kind, and compare what was found with the truth."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 1, int(rng.choice([51, 101])))
    kind = make(rng, x)
    arms = np.linspace(0, len(x) - 1, int(rng.integers(8, 16))).round().astype(int)
    answers = kind.answers(int(rng.integers(30, 41)), rng)[:, arms]
    found = calibrate(Pilot.of_matrix(Decisions(x[arms][:, None]), answers, kind.rounds))
    truth, means = kind.answers(CROWD, rng).var(axis=0), answers.mean(axis=0)
    slack = 1e-9 * float(np.ptp(means))
    predicted = found.bias_std.value**2 * found.kernel.diagonal(x[:, None]) + found.noise_std.value**2 / kind.rounds
    several = (*found.length_scales.values(), found.offset, found.bias_std, found.noise_std)
    wild = any(e.range != "not determined" and not e.high < 1e4 * e.low for e in several)
    bound = found.norm_bound.value
    inside = means.min() - slack <= found.prior_mean.value <= means.max() + slack
    ratio = bound / least_norm(found.problem(Decisions(x[:, None]), 1000), kind.f)
    kernel = list(KERNELS).index(found.kernel_name)
    return ratio, bound / float(np.ptp(kind.f)), inside, np.mean(predicted) / np.mean(truth), wild, kernel


def calibration(seeds: int = 40) -> Rows:
    """Judge the constants of pilots; an interval is wild if it spans four orders of magnitude and does not say so."""
    names = ("B holds", "B / least norm: median", "mean", "B / range of f", "m in the range")
    yield "people", *names, "predicted / true variance", "wild intervals", "kernels, smooth to rough"
    for name, make in KINDS.items():
        ratio, bound, inside, variance, wild, kernel = np.array([fitted(make, seed) for seed in range(seeds)]).T
        cells = [
            f"{np.mean(ratio >= 1):.0%}",
            *(f"{x:.2g}" for x in (np.median(ratio), ratio.mean(), np.median(bound))),
        ]
        kernels = np.bincount(kernel.astype(int), minlength=len(KERNELS))
        rest = (f"{inside.mean():.0%}", f"{variance.mean():.2f}", f"{wild.mean():.0%}", "/".join(map(str, kernels)))
        yield name, *cells, *rest


# A protected pilot

POINTS = np.linspace(0, 1, 8)[:, None]
GRAM = Matern(0.3, nu=2.5)(POINTS, POINTS)
DEVIATION, NOISE, LEVEL, LOW, HIGH = 0.3, 0.6, 2.0, -2.0, 6.0


def estimated(seed: int, people: int, epsilon: float | None) -> tuple[float, float, float, float]:
    """Return the error of f (root mean square), v, sigma, and the norm bound divided by the norm of f."""
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
    return rms, found.bias_std.value, found.noise_std.value, found.norm_bound.value / norm


def protected_pilot(seeds: int = 20) -> Rows:
    """Compare the constants of pilots; in brackets, the 10th and the 90th percentile."""

    def spread(values: Array) -> str:
        low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
        return f"{middle:.2f} ({low:.2f}-{high:.2f})"

    yield "people", "epsilon", "error of f", "v", "sigma", "B / norm of f (median)", "B holds"
    for people, epsilon in itertools.product((40, 400, 2000), (None, 5.0, 1.0)):
        error, v, sigma, bound = np.array([estimated(seed, people, epsilon) for seed in range(seeds)]).T
        promised = "none" if epsilon is None else f"{epsilon:g}"
        cells = (f"{np.median(error):.3f}", spread(v), spread(sigma), f"{np.median(bound):.2f}")
        yield f"{people:,}", promised, *cells, f"{np.mean(bound >= 1):.0%}"


# Rehearsals: half of the customers would pay about 3.4 and half about 9, so that people are far from Gaussian.

SEGMENTS = (Segment(0.5, 3.4, 0.12), Segment(0.5, 9.0, 0.12))
SPACE = Space(price=Float(2.0, 12.0))


def customers(prices: Sequence[float]) -> Customers:
    """Return the people, who answer about these prices."""
    return Customers(np.array(prices), mood=0.07, segments=SEGMENTS)


def write_pilot(path: Path, seed: int) -> Path:
    """Ask some of the people about a dozen prices, and write a CSV file."""
    prices = np.linspace(2, 12, TRIED).round(2)
    plan = Plan(0, np.arange(TRIED), np.full(TRIED, ROUNDS), PEOPLE)
    answers = customers(prices.tolist()).observe(plan, PEOPLE, stream(seed, "pilot"))
    rows = [f"u{i},{price},{ROUNDS},{answers[i, j]}" for i in range(PEOPLE) for j, price in enumerate(prices)]
    path.write_text("\n".join(["person,price,rounds,reward", *rows]))
    return path


def planned(folder: Path, seed: int) -> dict[str, Run]:
    """Rehearse a pilot's study with Gaussian people and with its own, drawn again, and conduct it with others."""
    table, study = write_pilot(folder / "pilot.csv", seed), folder / "study.toml"
    records = read_pilot_table(table).pilot
    study.write_text(write_study(calibrate(records, SPACE), SPACE, 20_000, 51, "price", {"name": "waves"}))
    gaussian = Rehearsal(str(study), seed=seed)
    problem = gaussian.scenario().problem
    people = customers([label["price"] for label in problem.decisions])
    return {
        "Gaussian people": gaussian.run(),
        "the pilot's own people": replace(gaussian, resample=str(table)).run(),
        "the study itself": simulate(Scenario("price", problem, people, people.profit), "waves", seed),
    }


def rehearsals(seeds: int = 20) -> Rows:
    """Compare what rehearsals of a study take with what the study takes, on average over pilots."""
    found: dict[str, list[Run]] = {}
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            for name, run in planned(Path(folder), seed).items():
                found.setdefault(name, []).append(run)
    yield "", "people", "numbers", "waves", "regret", "model check"
    for name, runs in found.items():
        metrics = [run.metrics for run in runs]
        people, numbers, lost = (np.mean([getattr(m, key) for m in metrics]) for key in ("people", "numbers", "regret"))
        waves, warned = np.mean([len(run.closed) for run in runs]), sum(bool(run.warning) for run in runs)
        yield name, f"{people:,.0f}", f"{numbers:,.0f}", f"{waves:.1f}", f"{lost:,.0f}", f"{warned} of {seeds}"
