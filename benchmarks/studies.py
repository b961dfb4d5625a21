"""Whole studies, the plan of one wave, and what a user might use instead: other libraries, our own other policies."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np

from benchmarks.measure import Absent, Curve, Figure, Found, Work, seconds, together
from benchmarks.plain import plain_program, plain_rounds, same_plans, timed
from voxpop.errors import Array
from voxpop.journal.wave import Wave
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.waves import Plan, in_blocks
from voxpop.policies import make_policy
from voxpop.privacy import NoPrivacy, Private
from voxpop.runtime.machine import one_thread
from voxpop.simulation.runs import simulate
from voxpop.simulation.scenarios import Options, make_scenario
from voxpop.simulation.simulator import CROWD, collect

Bounds = Callable[[Array, Array, Array], Array]  # upper confidence bounds at some points, from points and answers
LENGTH, NOISE, WIDTH = 0.2, 0.0101, 3.0  # of the synthetic study, and of the bounds
ROUNDS = 300
WAVES = make_policy("waves")
SWEEP = ["-m", "voxpop", "simulate", "synthetic", "--policy", "dpbe", "--runs", "20", "--json"]


def small_studies(seeds: int) -> Found:
    """Time the synthetic study against the plain program, and a sweep of 20 seeds as a command."""
    timed(0)  # warm up
    ratios, times, same = [], [], True
    for seed in range(seeds):
        ours, fast = min((timed(seed) for _ in range(3)), key=lambda pair: pair[0])
        plain, slow = timed(seed, plain_program)
        ratios.append(plain / ours)
        times.append(ours)
        same &= same_plans(fast, slow)
    note = f"a dpbe run of {1e3 * min(times):.0f} ms; " + ("same plans" if same else "THE PLANS DIFFER")
    sweep, start = together([lambda: _python(SWEEP), lambda: _python(["-c", "import voxpop.cli.simulate"])], 3)
    yield Figure("plain program / dpbe, n = 100", float(np.median(ratios)) if same else 0.0, 20.0, note=note)
    yield Figure("a command of 20 synthetic studies / its start", sweep / start, at_most=3.0, note=f"{sweep:.2g} s")


def every_round(horizon: int) -> Found:
    """Time `gp-ucb` in the synthetic study, a wave every round, against a bare loop with the same answers."""
    scenario, policy = make_scenario("synthetic", Options(horizon=horizon)), make_policy("gp-ucb")
    run = simulate(scenario, policy, 0)
    answers = np.concatenate([wave.feedback.mean for wave in run.closed])
    arms = np.concatenate([wave.plan.arms for wave in run.closed])
    same = np.array_equal(plain_rounds(scenario.problem, answers), arms)
    works: list[Work] = [lambda: simulate(scenario, policy, 0), lambda: plain_rounds(scenario.problem, answers)]
    ours, plain = together(works, 3)
    note = f"{1e6 * ours / horizon:.0f} us a round; " + ("same arms" if same else "THE ARMS DIFFER")
    name = f"gp-ucb / plain rounds, n = 100, T = {horizon:,}"
    yield Figure(name, ours / plain if same else math.inf, at_most=1.2, note=note)


def _python(arguments: list[str]) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def crowds() -> Found:
    """Time one wave of more and more people, with central privacy; a billion against one."""
    absent = [Absent(name) for name in ("dp_accounting", "opendp") if find_spec(name) is None]
    yield from absent
    if absent:
        return
    scenario = make_scenario("synthetic", Options())
    problem, arms = scenario.problem, np.arange(20)
    state, people = State.prior(problem, problem.norm_bound), [1, 1000, 100_000, 10**7, 10**9]

    def wave(count: int) -> Work:
        plan = Plan(1, arms, np.full(len(arms), 5), count)
        release = Private("central", 1.0, floor=0).calibrate(problem, state, plan)
        return lambda: collect(Wave(plan, release), scenario.population, 0)

    times = together([wave(count) for count in people], 5)
    one, billion = together([wave(people[0]), wave(people[-1])], 50)
    policy = make_policy("dpbe", people=10**9)
    private = seconds(lambda: simulate(scenario, policy, 0, Private("central", 1.0)), 1)
    plain = seconds(lambda: simulate(scenario, policy, 0, NoPrivacy()), 1)
    note = f"20 arms; a study of 10^9 people per wave: {private:.2f} s private, {plain:.3f} s not"
    yield Figure("a billion people / one person, a wave", billion / one, at_most=10.0, note=note)
    yield Curve("people U (central)", people, times, note=f"drawn at once beyond {CROWD:,}")


def planning(sizes: list[int]) -> Found:
    """Time the plan of the second wave for several numbers of actions."""
    states = [after_a_wave(size) for size in sizes]
    times = together([partial(WAVES.plan, problem, state) for problem, state in states], 3)
    yield Curve("actions n (a wave's plan)", sizes, times, note="draws are compared at no more than 160 actions")
    name, note = (
        f"plan of a wave, n = {sizes[1]:,} / n = {sizes[0]:,}",
        f"{1e3 * times[0]:.0f} ms and {1e3 * times[1]:.0f} ms",
    )
    yield Figure(name, times[1] / times[0], at_most=40.0, note=note)
    if find_spec("sklearn") is None:
        yield Absent("sklearn")
        return
    fit, plan = together([partial(library_step, *states[0]), partial(WAVES.plan, *states[0])], 3)
    name = f"scikit-learn's fit and next action / plan of a wave, n = {sizes[0]:,}"
    yield Figure(name, fit / plan, 0.1, note=f"{1e3 * fit:.0f} ms for a single action")


def after_a_wave(size: int) -> tuple[Problem, State]:
    """Return the synthetic study after its first wave."""
    scenario = make_scenario("synthetic", Options(size=size))
    problem, state = scenario.problem, WAVES.init(scenario.problem)
    plan = WAVES.plan(problem, state)
    assert isinstance(plan, Plan)
    tallies = collect(Wave(plan, NoPrivacy().calibrate(problem, state, plan)), scenario.population, 0)
    feedback = in_blocks([tally.feedback() for tally in tallies])
    return problem, WAVES.advance(problem, state, plan, feedback)[0]


def library_step(problem: Problem, state: State) -> int:
    """Choose the next action as it is usually done with a library: fit a Gaussian process, maximise a bound."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    plan, feedback = state.history[-1]
    noise = problem.answer_noise(plan.arms, plan.pulls, feedback.count).diagonal()
    model = GaussianProcessRegressor(ConstantKernel(1.0) * RBF(0.2), alpha=noise)
    points = problem.decisions.points
    with one_thread():
        mean, std = model.fit(points[plan.arms], feedback.mean).predict(points, return_std=True)
    return int(np.argmax(mean + 2 * std))


def round_by_round(horizons: list[int]) -> Found:
    """Time GP-UCB against libraries that fit their Gaussian process to all rounds so far, and its growth with T."""
    scenarios = [make_scenario("synthetic", Options(horizon=horizon)) for horizon in (ROUNDS, *horizons)]
    ours, *times = together([partial(simulate, scenario, make_policy("gp-ucb"), 0) for scenario in scenarios], 2)
    curve = Curve("rounds T (gp-ucb)", horizons, times, 1.1)
    yield curve
    yield curve.figure
    peers: dict[str, tuple[str, Bounds]] = {
        "scikit-learn's refit": ("sklearn", sklearn_bounds),
        "BoTorch's refit": ("botorch", botorch_bounds),
    }
    for name, (module, bounds) in peers.items():
        if find_spec(module) is None:
            yield Absent(module)
            continue
        refit = seconds(partial(refitted, bounds, ROUNDS), 1)
        yield Figure(f"{name} / gp-ucb, {ROUNDS} rounds", refit / ours, 5.0, note=f"{refit:.2g} s")


def refitted(bounds: Bounds, horizon: int) -> None:
    """Run GP-UCB as it is written with a library: fit and predict, every round."""
    scenario = make_scenario("synthetic", Options(horizon=horizon))
    points, rng = scenario.problem.decisions.points, np.random.default_rng(0)
    played, answers, arm = np.empty((0, points.shape[1])), np.empty(0), 0
    for _ in range(horizon):
        played = np.vstack([played, points[arm]])
        answers = np.append(answers, scenario.f[arm] + 0.1 * rng.standard_normal())
        arm = int(np.argmax(bounds(played, answers, points)))


def sklearn_bounds(played: Array, answers: Array, points: Array) -> Array:
    """Compute the bounds with scikit-learn's Gaussian process."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    model = GaussianProcessRegressor(RBF(LENGTH), alpha=NOISE, optimizer=None)
    mean, std = model.fit(played, answers).predict(points, return_std=True)
    return np.asarray(mean + WIDTH * std)


def botorch_bounds(played: Array, answers: Array, points: Array) -> Array:
    """Compute the bounds with BoTorch's Gaussian process and its upper confidence bound."""
    import torch
    from botorch.acquisition import UpperConfidenceBound
    from botorch.models import SingleTaskGP
    from gpytorch.kernels import RBFKernel
    from gpytorch.means import ZeroMean

    kernel = RBFKernel()
    kernel.lengthscale = LENGTH
    x, y = torch.tensor(played), torch.tensor(answers)[:, None]
    noise = torch.full_like(y, NOISE)
    model = SingleTaskGP(x, y, noise, covar_module=kernel, mean_module=ZeroMean(), outcome_transform=None)
    with torch.no_grad():
        found = UpperConfidenceBound(model.double(), beta=WIDTH**2)(torch.tensor(points)[:, None])
    return np.asarray(found.numpy())


def other_policies(horizon: int) -> Found:
    """Time other policies, as multiples of dpbe's time on the same study."""
    scenario = make_scenario("synthetic", Options(horizon=horizon))
    names = ("dpbe", "dpbe-paper", "gp-ucb", "bpe", "bbkb", "mini-gp-opt")
    ours, *others = together([partial(simulate, scenario, make_policy(name), 0) for name in names], 2)
    for name, other in zip(names[1:], others, strict=True):
        yield Figure(f"{name} / dpbe, T = {horizon:,}", other / ours)
