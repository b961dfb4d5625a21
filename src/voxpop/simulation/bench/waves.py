"""Planning a wave: against a library's fit of a Gaussian process, and how it grows with the number of actions."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

import numpy as np

from voxpop.journal.wave import Wave
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.waves import Plan
from voxpop.policies import make_policy
from voxpop.privacy import NoPrivacy
from voxpop.runtime.machine import one_thread
from voxpop.simulation.bench.clock import together
from voxpop.simulation.bench.results import Curve, Figure, Results
from voxpop.simulation.scenarios import Options, make_scenario
from voxpop.simulation.simulator import collect

WAVES = make_policy("waves")


def planning(sizes: list[int]) -> Results:
    """Time the plan of the second wave for several numbers of actions."""
    states = [after_a_wave(size) for size in sizes]
    times = together([partial(WAVES.plan, problem, state) for problem, state in states], 3)
    curve = Curve.of("actions n (a wave's plan)", sizes, times, note="draws are compared at no more than 160 actions")
    growth = Figure(
        f"plan of a wave, n = {sizes[1]:,} / n = {sizes[0]:,}",
        times[1] / times[0],
        at_most=40.0,
        note=f"{1e3 * times[0]:.0f} ms and {1e3 * times[1]:.0f} ms",
    )
    results = Results([growth], [curve])
    if find_spec("sklearn") is None:
        results.absent.append("sklearn")
        return results
    fit, plan = together([partial(library_step, *states[0]), partial(WAVES.plan, *states[0])], 3)
    name = f"scikit-learn's fit and next action / plan of a wave, n = {sizes[0]:,}"
    results.figures.append(Figure(name, fit / plan, 0.1, note=f"{1e3 * fit:.0f} ms for a single action"))
    return results


def after_a_wave(size: int) -> tuple[Problem, State]:
    """Return the synthetic study after its first wave."""
    scenario = make_scenario("synthetic", Options(size=size))
    problem, state = scenario.problem, WAVES.init(scenario.problem)
    plan = WAVES.plan(problem, state)
    assert isinstance(plan, Plan)
    feedback = collect(Wave(plan, NoPrivacy().calibrate(problem, state, plan)), scenario.population, 0).feedback()
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
