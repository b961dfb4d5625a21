"""The loop: a policy, a population, and nobody in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from voxpop.errors import require_integer
from voxpop.phases import Feedback, Info, Plan, Tally, grid_step
from voxpop.policies import Policy
from voxpop.populations import Population
from voxpop.problem import Problem
from voxpop.state import State

CHUNK = 4_000_000  # answers drawn at a time, so that memory stays bounded

ROLES = {"layout": 0, "truth": 1, "users": 2, "pilot": 3}


def stream(seed: int, role: str, phase: int = 0) -> np.random.Generator:
    """The random stream of one role in one phase: streams do not depend on what others drew."""
    require_integer("seed", seed, least=0)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(ROLES[role], phase)))


@dataclass(frozen=True)
class Step:
    """One phase as it happened."""

    plan: Plan
    feedback: Feedback
    info: Info
    state: State


def run_phases(problem: Problem, policy: Policy, population: Population, seed: int) -> Iterator[Step]:
    """Play phase after phase until nothing is left to learn."""
    state = policy.init(problem)
    while (plan := policy.plan(problem, state)) is not None:
        feedback = collect(problem, plan, population, stream(seed, "users", plan.phase))
        state, info = policy.advance(problem, state, plan, feedback)
        yield Step(plan, feedback, info, state)


def collect(problem: Problem, plan: Plan, population: Population, rng: np.random.Generator) -> Feedback:
    """Ask the phase's participants and average their answers."""
    step, left, tally = grid_step(problem), plan.participants, None
    while left > 0:
        users = min(left, max(1, CHUNK // len(plan.arms)))
        part = Tally.of(population.observe(plan, users, rng), step)
        tally = part if tally is None else tally + part
        left -= users
    assert tally is not None
    return tally.feedback()
