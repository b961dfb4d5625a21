"""The named studies: a problem, a population to ask, the truth to measure against, and the paper's settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from voxpop.calibration.fit import calibrate
from voxpop.calibration.pilot import Pilot
from voxpop.errors import Array, InputError, require_array, require_integer
from voxpop.model.decisions import Decisions, Float, Space
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Indices, Problem
from voxpop.model.waves import Plan
from voxpop.runtime.extensions import find
from voxpop.runtime.random_streams import stream
from voxpop.simulation.paper import FUNCTIONS, load_light, random_rkhs_function, rescale
from voxpop.simulation.people import Customers, GPPeople
from voxpop.simulation.runs import Scenario
from voxpop.simulation.simulator import FinitePopulation, Population
from voxpop.simulation.surveys import SURVEYS, Survey, column
from voxpop.simulation.weather import Weather

PEOPLE, TRIED, ROUNDS = 40, 12, 20


def piloted(
    name: str,
    space: Space,
    decisions: Decisions,
    population: Population,
    truth: Array,
    horizon: int,
    seed: int = 0,
    people: int = PEOPLE,
    tried: int = TRIED,
    rounds: int = ROUNDS,
    reward: str = "reward",
    settings: Mapping[str, Any] | None = None,
    weather: Weather | None = None,
) -> Scenario:
    """Make a study of these people that knows nothing in advance: some of them answer a pilot, which calibrates it.

    `people` try `tried` decisions, spread over the space, for `rounds` rounds each. If the population is finite, they
    are drawn from it and not asked again.

    >>> from voxpop import Float, simulate
    >>> from voxpop.simulation.people import TablePeople
    >>> prices = (space := Space(price=Float(1, 5))).grid(9)
    >>> budgets = np.random.default_rng(0).normal(3.5, 0.5, size=(500, 1))
    >>> shoppers = TablePeople(prices.points[:, 0] * (budgets > 1 + 4 * prices.points[:, 0]))
    >>> study = piloted("tea", space, prices, shoppers, shoppers.mean, horizon=2000)
    >>> study.make_policy("waves").settings()["population"]  # 40 of 500 took part in the pilot
    460
    >>> simulate(study).loss < 0.1
    True
    """
    require_integer("the pilot's people", people, least=2)
    require_integer("the decisions that the pilot tries", tried, least=2)
    require_integer("the pilot's rounds", rounds, least=1)
    chosen = others = population
    if isinstance(population, FinitePopulation):
        if len(population) < people + 2:
            raise InputError(
                f"there are {len(population)} people and the pilot takes {people} of them; "
                "leave at least two for the study, with fewer people in the pilot"
            )
        chosen, others = population.split(people, stream(seed, "order"))
    arms = spread(decisions, tried)
    plan = Plan(0, arms, np.full(len(arms), rounds), people)
    answers = chosen.observe(plan, people, stream(seed, "pilot"))
    if weather is not None:  # the pilot has rounds of its own, in which each decision is in force for a while
        order = stream(seed, "schedule").permutation(len(arms))
        happened = weather.rounds(seed, 0, len(arms) * rounds, run=1).reshape(len(arms), rounds).mean(axis=1)
        answers = answers + happened[order]
    subset = Decisions(decisions.points[arms], [decisions[i] for i in arms])
    pilot = Pilot.of_matrix(subset, answers, rounds)
    calibration = calibrate(pilot, space, reward_range=":")  # the noise of simulated rounds keeps no limits
    return Scenario(
        name,
        calibration.problem(decisions, horizon),
        others,
        require_array("truth", truth),
        dict(settings or {}),
        calibration,
        plan.numbers,
        reward,
        weather=weather,
        whole=population,
    )


def spread(decisions: Decisions, count: int) -> Indices:
    """Choose up to `count` decisions that lie far apart.

    >>> spread(Decisions(np.linspace(0, 1, 9)), 3).tolist()
    [0, 4, 8]
    >>> corners = spread(Decisions([[x, y] for x in range(3) for y in range(3)]), 5)
    >>> corners.tolist()
    [0, 2, 4, 6, 8]
    """
    points = decisions.points
    if count >= len(points):
        return np.arange(len(points))
    if points.shape[1] == 1:
        places = np.linspace(0, len(points) - 1, count).round().astype(np.intp)
        return np.asarray(np.argsort(points[:, 0], kind="stable")[places])
    found = [int(_distances(points, points.mean(axis=0)).argmin())]
    nearest = _distances(points, points[found[0]])
    while len(found) < count:
        found.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, _distances(points, points[found[-1]]))
    return np.sort(np.array(found, dtype=np.intp))


def _distances(points: Array, centre: Array) -> Array:
    return np.asarray(np.linalg.norm(points - centre, axis=1))


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
    shocks: float = 0.0  # that everybody shares in a round, in units of the range of rewards
    shocks_persist: float = 0.0
    weekly: bool = False
    carry_over: float = 0.0
    drift_rate: float = 0.0

    def weather(self, f: Array) -> Weather | None:
        """Return the weather in which a study of this truth takes place; None if it is calm."""
        return Weather(self.shocks, self.shocks_persist, self.weekly, self.carry_over, self.drift_rate).over(f)

    def given(self, **defaults: Any) -> tuple[Any, ...]:
        """Return these choices, each with the study's own where none was made."""
        chosen = ((getattr(self, name), default) for name, default in defaults.items())
        return tuple(default if choice is None else choice for choice, default in chosen)


def synthetic(options: Options) -> Scenario:
    """Make the study of a random function of known norm in the RKHS (sec:synthetic_func)."""
    kernel, dimension = SquaredExponential(LENGTH_SCALE), 3
    points = _points(options, dimension)
    function, norm = random_rkhs_function(kernel, dimension, stream(options.seed, "truth"))
    noise, bias, horizon = options.given(noise_std=0.01, bias_std=0.1, horizon=PAPER_HORIZON)
    problem = Problem(points, kernel, noise, bias, norm, horizon)
    return _gp_scenario("synthetic", problem, function(points), alpha=0.7, ratio=1.6)


def benchmark(name: str, noise_std: float, alpha: float) -> Callable[[Options], Scenario]:
    """Make studies of a test function scaled to [-1, 1], with the paper's norm bound of 1 (sec:benchmark_function)."""

    def make(options: Options) -> Scenario:
        function = FUNCTIONS[name]
        points = _points(options, len(function.low))
        noise, bias, horizon = options.given(noise_std=noise_std, bias_std=math.sqrt(0.001), horizon=PAPER_HORIZON)
        f = rescale(function(points))
        problem = _with_norm(Problem(points, SquaredExponential(LENGTH_SCALE), noise, bias, 1.0, horizon), f, options)
        return _gp_scenario(name, problem, f, alpha=alpha, ratio=1.6)

    return make


def light(options: Options) -> Scenario:
    """Make the study that finds out which of 41 sensors gets the most light (sec:real_world_data)."""
    if options.size is not None:
        raise InputError(f"the light study has its sensors as actions; leave out the size of {options.size}")
    f, matrix = load_light(options.data)
    noise, bias, horizon = options.given(noise_std=0.01, bias_std=0.1, horizon=PAPER_HORIZON)
    problem = _with_norm(Problem.of_matrix(matrix, noise, bias, float(f.max()), horizon), f, options)
    return _gp_scenario("light", problem, f, alpha=0.8, ratio=1.42)


def surveyed(survey: Survey) -> Callable[[Options], Scenario]:
    """Make studies of which nothing is known in advance: 40 people answer a pilot about a dozen decisions."""

    def make(options: Options) -> Scenario:
        if options.noise_std is not None or options.bias_std is not None or options.true_norm:
            raise InputError(f"the {survey.name} study takes noise, bias and norm bound from its pilot; leave them out")
        if options.size is not None:  # not fewer than the pilot tries
            require_integer(f"size of the {survey.name} study", options.size, least=TRIED)
        decisions, (horizon,) = survey.decisions(options.size), options.given(horizon=survey.horizon)
        people = survey.people(decisions)
        return piloted(
            survey.name,
            survey.space,
            decisions,
            people,
            people.mean,
            horizon,
            options.seed,
            rounds=survey.pilot_rounds,
            reward=survey.reward,
            settings={"alpha": 0.7, "ratio": 1.6},
            weather=options.weather(people.mean),
        )

    return make


PRICING = Survey(
    name="pricing",
    question="Which price of a product earns most, from customers with their own willingness to pay?",
    space=Space(price=Float(2.0, 12.0)),
    points={"price": 101},
    people=lambda decisions: Customers(column(decisions, "price")),
    reward="profit per customer",
    pilot_rounds=ROUNDS,
)
SCENARIOS: dict[str, Callable[[Options], Scenario]] = {
    "synthetic": synthetic,
    "sphere": benchmark("sphere", 0.01, 0.7),
    "camel": benchmark("camel", 0.01, 0.7),
    "michalewicz": benchmark("michalewicz", 0.1, 0.6),
    "light": light,
    "sphere-minimum": benchmark("sphere-minimum", 0.01, 0.7),
    "camel-minimum": benchmark("camel-minimum", 0.01, 0.7),
    **{survey.name: surveyed(survey) for survey in (PRICING, *SURVEYS.values())},
}


def make_scenario(name: str, options: Options | None = None) -> Scenario:
    """Make the study of that name: one of `SCENARIOS`, or an entry point of the group voxpop.populations.

    >>> make_scenario("sphere", Options(seed=1, size=20)).problem.size
    20
    """
    options = options or Options()
    if options.size is not None:
        require_integer("size", options.size, least=1, most=10**6)
    made = find("study", name, SCENARIOS)(options)
    return made if made.weather is not None else replace(made, weather=options.weather(made.f))


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
