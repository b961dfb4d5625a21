"""Whole studies: small ones, and ones that ask very many people."""

from __future__ import annotations

import math
import subprocess
import sys
from importlib.util import find_spec

import numpy as np

from voxpop.journal.wave import Wave
from voxpop.model.state import State
from voxpop.model.waves import Plan
from voxpop.policies import make_policy
from voxpop.privacy import NoPrivacy, Private
from voxpop.simulation.bench.clock import Work, seconds, together
from voxpop.simulation.bench.plain import plain_program, plain_rounds, same_plans, timed
from voxpop.simulation.bench.results import Curve, Figure, Results
from voxpop.simulation.runs import simulate
from voxpop.simulation.scenarios import Options, make_scenario
from voxpop.simulation.simulator import CROWD, collect

SWEEP = ["-m", "voxpop", "simulate", "synthetic", "--policy", "dpbe", "--runs", "20", "--json"]


def small_studies(seeds: int) -> Results:
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
    return Results(
        [
            Figure("plain program / dpbe, n = 100", float(np.median(ratios)) if same else 0.0, 20.0, note=note),
            Figure("a command of 20 synthetic studies / its start", sweep / start, at_most=3.0, note=f"{sweep:.2g} s"),
        ]
    )


def every_round(horizon: int) -> Results:
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
    return Results([Figure(name, ours / plain if same else math.inf, at_most=4.0, note=note)])


def _python(arguments: list[str]) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def crowds() -> Results:
    """Time one wave of more and more people, with central privacy; a billion against one."""
    absent = [name for name in ("dp_accounting", "opendp") if find_spec(name) is None]
    if absent:
        return Results(absent=absent)
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
    figure = Figure("a billion people / one person, a wave", billion / one, at_most=10.0, note=note)
    curve = Curve.of("people U (central)", people, times, note=f"drawn at once beyond {CROWD:,}")
    return Results([figure], [curve])
