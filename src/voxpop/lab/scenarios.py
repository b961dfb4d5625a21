"""The named studies: a problem, a population to ask, the truth to measure against, and the paper's settings."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from voxpop.core.errors import Array, InputError, require_choice, require_integer
from voxpop.core.kernels import SquaredExponential
from voxpop.core.problem import Problem
from voxpop.core.spaces import Float, Space
from voxpop.lab.piloted import TRIED, piloted
from voxpop.lab.populations.functions import FUNCTIONS, random_rkhs_function, rescale
from voxpop.lab.populations.gp import GPPeople
from voxpop.lab.populations.light import load_light
from voxpop.lab.populations.pricing import Customers
from voxpop.lab.populations.survey import Survey
from voxpop.lab.populations.tariff import TARIFF
from voxpop.lab.populations.train import TRAIN
from voxpop.lab.populations.voters import VOTERS
from voxpop.lab.scenario import Scenario as Scenario
from voxpop.runtime.random_streams import stream

LENGTH_SCALE = 0.2
PAPER_HORIZON = 40_000


@dataclass(frozen=True)
class Options:
    """What the caller may choose; None leaves it to the study."""

    seed: int = 0
    size: int | None = None
    horizon: int | None = None
    data: Path | None = None  # a folder of light readings, in place of the shipped figures
    noise_std: float | None = None
    bias_std: float | None = None
    true_norm: bool = False  # B from the truth instead of the paper's

    def rounds(self, default: int) -> int:
        """Return the chosen horizon, or the study's own."""
        return default if self.horizon is None else self.horizon

    def noise(self, default: float) -> float:
        """Return the chosen sigma, or the study's own."""
        return default if self.noise_std is None else self.noise_std

    def bias(self, default: float) -> float:
        """Return the chosen v, or the study's own."""
        return default if self.bias_std is None else self.bias_std


def synthetic(options: Options) -> Scenario:
    """Make the study of a random function of known norm in the RKHS (sec:synthetic_func)."""
    kernel, dimension = SquaredExponential(LENGTH_SCALE), 3
    points = _points(options, dimension)
    function, norm = random_rkhs_function(kernel, dimension, stream(options.seed, "truth"))
    problem = Problem(points, kernel, options.noise(0.01), options.bias(0.1), norm, options.rounds(PAPER_HORIZON))
    return _gp_scenario("synthetic", problem, function(points), alpha=0.7, ratio=1.6)


def benchmark(name: str, noise_std: float, alpha: float) -> Callable[[Options], Scenario]:
    """Make studies of a test function scaled to [-1, 1], with the paper's norm bound of 1 (sec:benchmark_function)."""

    def make(options: Options) -> Scenario:
        function = FUNCTIONS[name]
        points = _points(options, len(function.low))
        kernel, horizon = SquaredExponential(LENGTH_SCALE), options.rounds(PAPER_HORIZON)
        noise, bias = options.noise(noise_std), options.bias(math.sqrt(0.001))
        f = rescale(function(points))
        problem = _with_norm(Problem(points, kernel, noise, bias, 1.0, horizon), f, options)
        return _gp_scenario(name, problem, f, alpha=alpha, ratio=1.6)

    return make


def light(options: Options) -> Scenario:
    """Make the study that finds out which of 41 sensors gets the most light (sec:real_world_data)."""
    if options.size is not None:
        raise InputError(f"the light study has its sensors as actions; leave out the size of {options.size}")
    f, matrix = load_light(options.data)
    noise, bias, horizon = options.noise(0.01), options.bias(0.1), options.rounds(PAPER_HORIZON)
    problem = _with_norm(Problem.of_matrix(matrix, noise, bias, float(f.max()), horizon), f, options)
    return _gp_scenario("light", problem, f, alpha=0.8, ratio=1.42)


def pricing(options: Options) -> Scenario:
    """Make the study of a product's price, for customers with their own willingness to pay.

    Nothing is known in advance: 40 customers try a dozen prices, and the model's constants come from this pilot.
    """
    _require_pilot("pricing", options)
    size = 101 if options.size is None else options.size
    space = Space(price=Float(2.0, 12.0))
    decisions = space.grid(size)
    customers = Customers(np.array([label["price"] for label in decisions]))
    return piloted(
        "pricing",
        space,
        decisions,
        customers,
        customers.profit,
        options.rounds(20_000),
        options.seed,
        reward="profit per customer",
        settings={"alpha": 0.7, "ratio": 1.6},
    )


def surveyed(survey: Survey) -> Callable[[Options], Scenario]:
    """Make studies of real people, 40 of whom answer a pilot about a dozen decisions."""

    def make(options: Options) -> Scenario:
        _require_pilot(survey.name, options)
        decisions = survey.decisions(options.size)
        people = survey.people(decisions)
        return piloted(
            survey.name,
            survey.space,
            decisions,
            people,
            people.mean,
            options.rounds(survey.horizon),
            options.seed,
            rounds=survey.pilot_rounds,
            reward=survey.reward,
            settings={"alpha": 0.7, "ratio": 1.6},
        )

    return make


SURVEYS = {survey.name: survey for survey in (TRAIN, TARIFF, VOTERS)}
SCENARIOS: dict[str, Callable[[Options], Scenario]] = {
    "synthetic": synthetic,
    "sphere": benchmark("sphere", 0.01, 0.7),
    "camel": benchmark("camel", 0.01, 0.7),
    "michalewicz": benchmark("michalewicz", 0.1, 0.6),
    "light": light,
    "pricing": pricing,
    **{name: surveyed(survey) for name, survey in SURVEYS.items()},
}


def make_scenario(name: str, options: Options | None = None) -> Scenario:
    """Make the study of that name.

    >>> make_scenario("sphere", Options(seed=1, size=20)).problem.size
    20
    """
    options = options or Options()
    if options.size is not None:
        require_integer("size", options.size, least=1, most=10**6)
    return SCENARIOS[require_choice("study", name, SCENARIOS)](options)


def _require_pilot(study: str, options: Options) -> None:
    """Refuse what the study takes from its pilot, and fewer decisions than the pilot tries."""
    if options.noise_std is not None or options.bias_std is not None or options.true_norm:
        raise InputError(f"the {study} study takes noise, bias and norm bound from its pilot; leave them out")
    if options.size is not None:
        require_integer(f"size of the {study} study", options.size, least=TRIED)


def _points(options: Options, dimension: int) -> Array:
    """Draw uniform random points: a symmetric grid would tie the camel's optima."""
    return stream(options.seed, "layout").uniform(size=(100 if options.size is None else options.size, dimension))


def least_norm(problem: Problem, f: Array) -> float:
    """Compute the least norm of a function in the RKHS with these values on the decisions: sqrt(f'K^-1 f).

    Directions in which K vanishes to rounding are left out, so the norm is a little too small if K is singular.
    """
    every = np.arange(problem.size)
    values, vectors = np.linalg.eigh(problem.covariance(every, every))
    kept = values > problem.size * np.finfo(float).eps * values[-1]
    return float(np.linalg.norm((vectors.T @ (f - problem.means))[kept] / np.sqrt(values[kept])))


def _with_norm(problem: Problem, f: Array, options: Options) -> Problem:
    """Return the problem, with the true norm as its bound if chosen; the paper does that for `synthetic` only."""
    return replace(problem, norm_bound=least_norm(problem, f)) if options.true_norm else problem


def _gp_scenario(name: str, problem: Problem, f: Array, **settings: float) -> Scenario:
    return Scenario(name, problem, GPPeople(problem, f), f, settings)
