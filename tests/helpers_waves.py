"""Truths and people for the tests of waves."""

from collections.abc import Callable

import numpy as np

from tests.helpers import function_of_norm
from voxpop.core.errors import Array
from voxpop.core.phases import Feedback, Plan, Tally
from voxpop.core.problem import Problem
from voxpop.lab.populations.gp import GPPeople


def truth(problem: Problem, seed: int, norm: float = 0.8) -> Array:
    return function_of_norm(problem, norm * problem.norm_bound, np.random.default_rng(seed))


def everyone(problem: Problem, f: Array, seed: int, most: int = 3000) -> Callable[[Plan], Feedback]:
    """Return a function that asks people who follow the model; at most this many answer."""
    people, rng = GPPeople(problem, f), np.random.default_rng(seed)

    def answer(plan: Plan) -> Feedback:
        return Tally.of(people.observe(plan, min(plan.people, most), rng), problem.grid_step).feedback()

    return answer
