"""Studies that begin with a pilot: what the model assumes is estimated from a few people, never from the truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from voxpop.calibration.fit import calibrate
from voxpop.calibration.pilot import Pilot
from voxpop.core.errors import Array, InputError, require_array, require_integer
from voxpop.core.phases import Plan
from voxpop.core.problem import Indices
from voxpop.core.spaces import Decisions, Space
from voxpop.drivers.simulate import FinitePopulation
from voxpop.lab.populations import Population
from voxpop.lab.scenario import Scenario
from voxpop.runtime.random_streams import stream

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
) -> Scenario:
    """Make a study of these people that knows nothing in advance: some of them answer a pilot, which calibrates it.

    `people` try `tried` decisions, spread over the space, for `rounds` rounds each. If the population is finite, they
    are drawn from it and not asked again.

    >>> from voxpop import Float, simulate
    >>> from voxpop.lab.populations.table import TablePeople
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
    subset = Decisions(decisions.points[arms], [decisions[i] for i in arms])
    calibration = calibrate(Pilot.of_matrix(subset, answers, rounds), space)
    return Scenario(
        name,
        calibration.problem(decisions, horizon),
        others,
        require_array("truth", truth),
        dict(settings or {}),
        calibration,
        plan.numbers,
        reward,
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
