"""A scenario: what a simulated study needs, and the truth by which it is judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from voxpop.calibration.fit import Calibration
from voxpop.core.direction import Direction
from voxpop.core.errors import Array
from voxpop.core.problem import Problem
from voxpop.lab.populations import FinitePopulation, Population
from voxpop.policies import DEFAULT, Policy, make_policy, settings_of


@dataclass(frozen=True, eq=False)
class Scenario:
    """Everything a simulated study needs: a problem, the people to ask, and the truth to measure against.

    >>> import numpy as np
    >>> from voxpop import SquaredExponential, simulate
    >>> from voxpop.lab.populations.table import TablePeople
    >>> problem = Problem([0.0, 0.5, 1.0], SquaredExponential(0.3), 0.1, 0.2, norm_bound=2.0, horizon=500)
    >>> people = TablePeople(np.random.default_rng(0).normal([0.0, 1.0, 0.2], 0.2, size=(300, 3)))
    >>> simulate(Scenario("three prices", problem, people, people.mean)).best
    1
    """

    name: str
    problem: Problem
    population: Population
    f: Array  # (n,) the truth, for metrics only
    settings: dict[str, Any] = field(default_factory=dict)  # the paper's for dpbe, or a study file's for its policy
    calibration: Calibration | None = None
    pilot_numbers: int = 0  # answers that the pilot took
    reward: str = "reward"  # what the reward is called
    direction: Direction = Direction.MAXIMIZE  # how it is shown; problem, people and truth maximise in any case

    def make_policy(self, name: str = DEFAULT, **chosen: Any) -> Policy:
        """Make a policy with the study's settings for it, except for those chosen here.

        Where there are only some people, a policy that can be told asks nobody twice.
        """
        own = self.settings if self.settings.get("name", name) == name else {}
        if isinstance(self.population, FinitePopulation):
            own = {**own, "population": len(self.population)}
        known = settings_of(name)
        return make_policy(name, **{**{key: value for key, value in own.items() if key in known}, **chosen})
