"""What waves promise, counted: statements fail as often as their level says, and studies no more often than delta."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from scipy.stats import binom

from tests.helpers import everything, function_of_norm, gram, worst_function
from voxpop.errors import Array
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.policies.waves import Waves
from voxpop.policies.waves.sealing import Evidence, Model, Part
from voxpop.simulation.people import GPPeople, square_root
from voxpop.simulation.simulator import simulate_waves

LINE = Problem(np.linspace(0, 1, 14), SquaredExponential(0.15), 0.3, 0.3, norm_bound=1.0, horizon=1000)
FIRST = cast(Plan, Waves().plan(LINE, Waves().init(LINE)))
ARMS, REFERENCE = FIRST.arms, FIRST.reference
NOISE = LINE.answer_noise(ARMS, FIRST.pulls, FIRST.people)
DRAWS, RUNS = 40_000, 30
DELTA, ALARM = 0.05, 0.011  # a study fails, or warns of a model that is right, with these probabilities at most
IMPOSSIBLE = 1e-6


def at_most(failures: int, trials: int, level: float) -> bool:
    """Return False if as many failures are all but impossible at this level."""
    return bool(binom.sf(failures - 1, trials, level) > IMPOSSIBLE)


def at_least(failures: int, trials: int, level: float) -> bool:
    """Return False if as few failures are all but impossible at this level."""
    return bool(binom.cdf(failures, trials, level) > IMPOSSIBLE)


def errors(seed: int = 0) -> Array:
    """Draw the errors of the first wave's averages, (draws, arms)."""
    return np.asarray(np.random.default_rng(seed).standard_normal((DRAWS, len(ARMS))) @ square_root(NOISE).T)


@pytest.mark.parametrize("level", [0.2, 0.015])
def test_a_statement_fails_as_often_as_its_level_for_the_worst_function(level: float) -> None:
    def bounds(y: Array) -> Array:
        part = Part(ARMS, y, NOISE, None, math.inf)
        return Evidence(LINE, (part,), Model(LINE.norm_bound)).state(REFERENCE, level).gaps

    at, noise, nothing = everything(LINE), errors(), bounds(np.zeros(len(ARMS)))
    weights = np.stack([bounds(unit) - nothing for unit in np.eye(len(ARMS))], axis=1)
    for x in np.setdiff1d(at, ARMS)[:3].tolist():
        f = worst_function(LINE, ARMS, weights[x] + (ARMS == REFERENCE), x)
        bound = (f[ARMS] + noise) @ weights[x] + nothing[x]
        failures = int(np.sum(f[x] - f[REFERENCE] > bound))
        assert at_most(failures, DRAWS, level)
        assert at_least(failures, DRAWS, level)


def random(seed: int) -> Array:
    return function_of_norm(LINE, 1.0, np.random.default_rng(seed))


def hidden(seed: int) -> Array:
    """Return a function of norm B that vanishes on all arms of the first wave."""
    K, others = gram(LINE), np.setdiff1d(everything(LINE), ARMS)
    x = int(others[seed % len(others)])
    return worst_function(LINE, ARMS, np.linalg.solve(K[np.ix_(ARMS, ARMS)], K[ARMS, x]), x)


def outcomes(problem: Problem, policy: Waves, functions: Callable[[int], Array], runs: int = RUNS) -> dict[str, int]:
    """Count what went wrong in studies of several functions, with people who follow the model LINE."""
    found = {"lost": 0, "false": 0, "outside": 0, "warned": 0, "overspent": 0}
    for seed in range(runs):
        f = functions(seed)
        steps = list(simulate_waves(problem, policy, GPPeople(LINE, f), seed))
        state, best = steps[-1][1].concluded(), int(f.argmax())
        found["lost"] += best not in state.active
        found["false"] += bool(f[best] - f[state.best] > state.certificate + 1e-9)
        found["outside"] += bool(np.any((f < state.lower - 1e-9) | (f > state.upper + 1e-9)))
        found["warned"] += any(wave.info.warning for (wave,), _ in steps)
        found["overspent"] += state.spent > DELTA * (1 + 1e-9)
    return found


@pytest.mark.parametrize(
    ("policy", "functions", "runs"),
    [(Waves(most_waves=3), random, RUNS), (Waves(most_waves=2), hidden, RUNS), (Waves(tolerance=0.25), random, 15)],
    ids=["random", "hidden from the first wave", "certified"],
)
def test_studies_go_wrong_no_more_often_than_promised(
    policy: Waves, functions: Callable[[int], Array], runs: int
) -> None:
    found = outcomes(LINE, policy, functions, runs)
    assert found["overspent"] == 0
    assert all(at_most(found[what], runs, DELTA) for what in ("lost", "false", "outside"))
    assert at_most(found["warned"], runs, ALARM)


@pytest.mark.parametrize("wrong", [{"bias_std": 0.12, "noise_std": 0.12}, {"norm_bound": 0.2}], ids=["v, sigma", "B"])
def test_constants_that_are_far_too_small_are_noticed_and_do_little_harm(wrong: dict[str, Any]) -> None:
    found = outcomes(replace(LINE, **wrong), Waves(most_waves=2), random)
    assert found["warned"] > RUNS / 2
    assert found["lost"] + found["false"] < RUNS / 4
