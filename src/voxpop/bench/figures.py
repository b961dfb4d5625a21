"""The figures: what is timed against what, and what must be reached."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec

import numpy as np

from voxpop.bench.clock import exponent, seconds
from voxpop.bench.plain import plain_program, plain_select, same_plans, timed
from voxpop.errors import Array
from voxpop.kernels import SquaredExponential
from voxpop.phases import Plan
from voxpop.policies import make_policy
from voxpop.posterior import select
from voxpop.privacy import NoPrivacy, Private
from voxpop.problem import Problem
from voxpop.scenarios import Options, make_scenario
from voxpop.simulate import collect, simulate
from voxpop.state import State
from voxpop.streamed import affine_values
from voxpop.widths import AffineEstimator

RATIO = 1.6


@dataclass(frozen=True)
class Figure:
    """One ratio, and what it must be."""

    name: str
    value: float
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""

    @property
    def reached(self) -> bool:
        """Whether the target is met."""
        return (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )


@dataclass(frozen=True)
class Curve:
    """The cost against one size."""

    axis: str
    sizes: list[float]
    times: list[float]
    exponent: float
    limit: float | None = None


@dataclass
class Results:
    """Everything that was measured."""

    figures: list[Figure] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)  # peers that are not installed


def problem_of(size: int) -> Problem:
    """Uniform points in three dimensions, with the synthetic study's constants."""
    points = np.random.default_rng(0).uniform(size=(size, 3))
    return Problem(points, SquaredExponential(0.2), 0.01, 0.1, 2.0, 10**6)


def measure(quick: bool) -> Iterator[tuple[str, Results]]:
    """Measure everything, piece by piece; each piece says what it is about."""
    pieces: dict[str, Callable[[], Results]] = {
        "the plain loop, n = 100": lambda: small_studies(1 if quick else 5),
        "the plain loop, n = 10,000": many_actions,
        "a large decision set": lambda: large_set(100_000 if quick else 1_000_000, 300),
        "affine widths": lambda: widths(30_000 if quick else 100_000, 200),
        "growth with n and H": lambda: growth(quick),
        "GP-UCB": lambda: round_by_round(quick),
        "crowds": crowds,
        "other policies": lambda: peers(1000 if quick else 5000),
    }
    for name, piece in pieces.items():
        yield name, piece()


def small_studies(seeds: int) -> Results:
    """The synthetic study against the plain program, and a sweep of 20 seeds."""
    timed(0)  # warm up
    ratios, same = [], True
    for seed in range(seeds):
        ours, fast = min((timed(seed) for _ in range(3)), key=lambda pair: pair[0])
        plain, slow = timed(seed, plain_program)
        ratios.append(plain / ours)
        same &= same_plans(fast, slow)
    note = "a whole dpbe run, T = 40,000; " + ("same plans" if same else "THE PLANS DIFFER")
    sweep = seconds(lambda: [timed(seed) for seed in range(20)], 1)
    return Results(
        [
            Figure("plain program / dpbe, n = 100", float(np.median(ratios)) if same else 0.0, 20.0, note=note),
            Figure("20 seeds of the synthetic study, seconds", sweep, note="one core, scenarios included"),
        ]
    )


def many_actions() -> Results:
    """Selection against the plain loop of eq:decision and eq:sigma_update."""
    problem, rounds = problem_of(10_000), 200
    everything = np.arange(problem.size)
    chosen = select(problem, everything, rounds, RATIO)
    ours = seconds(lambda: select(problem, everything, rounds, RATIO))
    plainly = []
    plain = seconds(lambda: plainly.append(plain_select(problem, everything, rounds, RATIO)), 1)
    same = np.array_equal(chosen.arms, plainly[0].arms) and np.array_equal(chosen.pulls, plainly[0].pulls)
    note = f"{len(chosen.arms)} arms; " + ("same arms" if same else "THE ARMS DIFFER")
    return Results([Figure("plain loop / selection, n = 10,000", plain / ours if same else 0.0, 100.0, note=note)])


def large_set(size: int, rounds: int) -> Results:
    """Selection against the matrix product with as many flops (n H^2) and as large a result (n x H); its memory."""
    problem, everything = problem_of(size), np.arange(size)
    tracemalloc.start()
    arms = len(select(problem, everything, rounds, RATIO).arms)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    ours = seconds(lambda: select(problem, everything, rounds, RATIO), 1)
    rng = np.random.default_rng(0)
    left, right = rng.random((size, rounds // 2)), rng.random((rounds // 2, rounds))
    product = seconds(lambda: left @ right, 2)
    note = f"{arms} arms; {size * rounds**2 / ours / 1e9:.1f} against {size * rounds**2 / product / 1e9:.1f} gigaflops"
    return Results(
        [
            Figure(f"selection / matrix product, n = {size:,}", ours / product, at_most=4.0, note=note),
            Figure("memory / n x H factor", peak / (8 * size * rounds), at_most=1.3, note=f"{peak / 1e9:.2f} GB"),
        ]
    )


def widths(size: int, rounds: int) -> Results:
    """The affine widths of all actions against the selection of the arms."""
    problem, everything = problem_of(size), np.arange(size)
    chosen = select(problem, everything, rounds, RATIO)
    noise = problem.answer_noise(chosen.arms, chosen.pulls, 200)

    def fit() -> None:
        affine_values(AffineEstimator(problem, chosen.arms, noise), everything, problem.norm_bound)

    fit()  # compile
    selecting = seconds(lambda: select(problem, everything, rounds, RATIO))
    fitting = seconds(fit)
    name = f"affine widths / selection, n = {size:,}"
    return Results([Figure(name, fitting / selecting, at_most=1.0, note=f"{len(chosen.arms)} arms")])


def growth(quick: bool) -> Results:
    """Selection against the number of actions and of arms."""
    sizes = [10_000, 30_000, 100_000] if quick else [10_000, 30_000, 100_000, 300_000]
    arms = [50, 100, 200] if quick else [50, 100, 200, 400]
    by_size = [_selection(problem_of(size), 100) for size in sizes]
    problem = problem_of(30_000)
    by_arms = [_selection(problem, rounds) for rounds in arms]
    curves = [_curve("actions n", sizes, by_size, 1.1), _curve("arms H", arms, by_arms, 2.2)]
    return Results([_growth(curve) for curve in curves], curves)


def _selection(problem: Problem, rounds: int) -> float:
    return seconds(lambda: select(problem, np.arange(problem.size), rounds, RATIO))


def round_by_round(quick: bool) -> Results:
    """GP-UCB against scikit-learn's Gaussian process refitted every round, and its growth with the horizon."""
    horizons = [300, 1000, 3000] if quick else [300, 1000, 3000, 10_000]
    times = []
    for horizon in horizons:
        scenario = make_scenario("synthetic", Options(horizon=horizon))
        times.append(seconds(lambda: simulate(scenario, make_policy("gp-ucb"), 0), 2))  # noqa: B023
    curve = _curve("rounds T (gp-ucb)", horizons, times, 1.1)
    results = Results([_growth(curve)], [curve])
    if find_spec("sklearn") is None:
        results.absent.append("scikit-learn")
    else:
        refit = seconds(lambda: sklearn_ucb(300), 1)
        results.figures.append(Figure("scikit-learn's refit / gp-ucb, 300 rounds", refit / times[0], 5.0))
    if find_spec("botorch") is None:
        results.absent.append("botorch")
    return results


def sklearn_ucb(horizon: int) -> None:
    """GP-UCB as it is written with scikit-learn: fit and predict, every round."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    scenario = make_scenario("synthetic", Options(horizon=horizon))
    points, rng = scenario.problem.decisions.points, np.random.default_rng(0)
    model = GaussianProcessRegressor(RBF(0.2), alpha=0.0101, optimizer=None)
    played, answers = list[Array](), list[float]()
    arm = 0
    for _ in range(horizon):
        played.append(points[arm])
        answers.append(float(scenario.f[arm] + 0.1 * rng.standard_normal()))
        mean, std = model.fit(np.array(played), np.array(answers)).predict(points, return_std=True)
        arm = int(np.argmax(mean + 3 * std))


def crowds() -> Results:
    """One phase of ever more people, with central privacy; a billion against one."""
    scenario = make_scenario("synthetic", Options())
    problem, arms = scenario.problem, np.arange(20)
    state, users = State.prior(problem, problem.norm_bound), [1, 1000, 100_000, 10**7, 10**9]
    times = []
    for count in users:
        plan = Plan(1, arms, np.full(len(arms), 5), count)
        release = Private("central", 1.0, floor=0).calibrate(problem, state, plan)
        times.append(seconds(lambda: collect(plan, scenario.population, release, 0), 5))  # noqa: B023
    billion = make_policy("dpbe", users=10**9)
    private = seconds(lambda: simulate(scenario, billion, 0, Private("central", 1.0)), 1)
    plain = seconds(lambda: simulate(scenario, billion, 0, NoPrivacy()), 1)
    note = f"20 arms; a whole study of 10^9 people a phase: {private:.2f} s private, {plain:.3f} s not"
    figure = Figure("a billion people / one person, a phase", times[-1] / times[0], at_most=10.0, note=note)
    return Results([figure], [_curve("people U (central)", users, times, None)])


def peers(horizon: int) -> Results:
    """The time of other policies as a multiple of dpbe's on the same study."""
    scenario = make_scenario("synthetic", Options(horizon=horizon))

    def once(name: str) -> float:
        return seconds(lambda: simulate(scenario, make_policy(name), 0), 2)

    ours = once("dpbe")
    names = ("dpbe-paper", "gp-ucb", "bpe", "bbkb", "mini-gp-opt")
    return Results([Figure(f"{name} / dpbe, T = {horizon:,}", once(name) / ours) for name in names])


def _curve(axis: str, sizes: list[int], times: list[float], limit: float | None) -> Curve:
    return Curve(axis, [float(size) for size in sizes], times, exponent(sizes, times), limit)


def _growth(curve: Curve) -> Figure:
    return Figure(f"exponent of the cost in {curve.axis}", curve.exponent, at_most=curve.limit)
