"""The loop: a policy, a population, and nobody in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from operator import add
from time import perf_counter
from typing import Any

from voxpop.core.errors import InputError
from voxpop.core.frozen import changed
from voxpop.core.phases import Feedback, Info, Plan, Tally
from voxpop.core.problem import GRAM_LIMIT, Indices, Problem
from voxpop.core.state import State
from voxpop.lab.metrics import Metrics, measure
from voxpop.lab.populations import GaussianPopulation, Population
from voxpop.lab.scenarios import Scenario
from voxpop.policies import Policy
from voxpop.privacy import Ledger, NoPrivacy, Privacy, Release, Simulated
from voxpop.privacy.crowds import chunks
from voxpop.privacy.release import CrowdRelease
from voxpop.runtime.random_streams import stream
from voxpop.runtime.threads import one_thread

CROWD = 2_000_000  # people beyond whom a crowd's sum is drawn at once, where that can be done


@dataclass(frozen=True)
class Step:
    """One phase as it happened."""

    plan: Plan
    release: Release
    feedback: Feedback
    info: Info
    state: State


def run_phases(
    problem: Problem,
    policy: Policy,
    population: Population,
    seed: int,
    privacy: Privacy | None = None,
    ledger: Ledger | None = None,
) -> Iterator[Step]:
    """Play phase after phase until nothing is left to learn."""
    privacy, ledger = privacy or NoPrivacy(), ledger or Ledger()
    state = policy.init(problem)
    while (plan := policy.plan(problem, state)) is not None:
        plan = privacy.enlist(problem, state, plan)
        release = privacy.calibrate(problem, state, plan)
        ledger.charge(changed(release.entry(plan.participants), phase=plan.phase))
        tally = release.seal(collect(plan, population, release, seed))
        feedback = release.analyze(tally, _noise(seed, "agent", plan.phase))
        state, info = policy.advance(problem, state, plan, feedback)
        yield Step(plan, release, feedback, info, state)


def collect(plan: Plan, population: Population, release: Release, seed: int) -> Tally:
    """Ask the phase's participants and add their reports up, a chunk at a time."""
    people = stream(seed, "users", plan.phase)
    if plan.reports == "one":
        return release.tally(population.observe_each(plan, people)[None, :])
    if plan.participants > CROWD and isinstance(population, GaussianPopulation) and isinstance(release, CrowdRelease):
        return release.crowd(*population.law(plan), plan.participants, people)
    noise = _noise(seed, "devices", plan.phase)
    parts = [
        release.tally(release.randomize(population.observe(plan, users, people), noise))
        for users in chunks(plan.participants, len(plan.arms))
    ]
    return reduce(add, parts)


def _noise(seed: int, role: str, phase: int) -> Simulated:
    """Simulated people need no protection, and simulations must be repeatable."""
    return Simulated(partial(stream, seed, role, phase))


@dataclass(frozen=True)
class Played:
    """What is kept of a phase: all but the state, which may be large and of which there may be many."""

    plan: Plan
    release: Release
    feedback: Feedback
    info: Info
    active: Indices


@dataclass(frozen=True, eq=False)
class Run:
    """A finished simulation of a scenario."""

    scenario: Scenario
    policy: Policy
    privacy: Privacy
    ledger: Ledger
    seed: int
    steps: tuple[Played, ...]
    state: State
    seconds: float

    @property
    def plans(self) -> list[Plan]:
        """The phases that were played."""
        return [step.plan for step in self.steps]

    @property
    def best(self) -> int:
        """The action the policy settled on."""
        return self.policy.best(self.scenario.problem, self.state)

    @property
    def optimum_kept(self) -> bool:
        """Whether the truly best action can still be best."""
        return int(self.scenario.f.argmax()) in self.state.active

    @cached_property
    def metrics(self) -> Metrics:
        """What the run cost."""
        return measure(self.plans, self.best, self.scenario.problem.horizon, self.scenario.f)

    def as_dict(self) -> dict[str, Any]:
        """The run as plain data."""
        problem, metrics = self.scenario.problem, self.metrics
        return {
            "study": self.scenario.name,
            "policy": self.policy.name,
            "seed": self.seed,
            "horizon": problem.horizon,
            "size": problem.size,
            "settings": self.policy.settings(),
            **self.privacy.describe(),
            "ledger": self.ledger.totals(self.ledger.budget.delta if self.ledger.budget else 0.0),
            "regret": metrics.regret,
            "communication": metrics.communication,
            "participants": metrics.participants,
            "switches": metrics.switches,
            "best": {"index": self.best, "action": problem.decisions[self.best]},
            "optimum_kept": self.optimum_kept,
            "norm_bound": {"given": problem.norm_bound, "final": self.state.norm_bound},
            "seconds": self.seconds,
            "phases": [
                {
                    "phase": step.plan.phase,
                    "length": step.plan.length,
                    "arms": step.plan.arms.tolist(),
                    "pulls": step.plan.pulls.tolist(),
                    "participants": step.plan.participants,
                    "active_before": step.info.active_before,
                    "active_after": step.info.active_after,
                    "max_width": step.info.max_width,
                    "information_gain": step.info.information_gain,
                    "norm_bound_refuted": step.info.refuted,
                    "release": step.release.describe(),
                }
                for step in self.steps
            ],
        }


def simulate(
    scenario: Scenario,
    policy: Policy,
    seed: int = 0,
    privacy: Privacy | None = None,
    watch: Callable[[Step], None] | None = None,
) -> Run:
    """Run a scenario to its end.

    >>> from voxpop.policies import make_policy
    >>> from voxpop.lab.scenarios import Options, make_scenario
    >>> run = simulate(make_scenario("sphere", Options(size=20, horizon=1000)), make_policy("dpbe"))
    >>> run.as_dict()["optimum_kept"]
    True
    """
    start = perf_counter()
    problem, privacy, steps = scenario.problem, privacy or NoPrivacy(), []
    if privacy.model != "none" and not policy.aggregates:
        raise InputError(
            f"policy {policy.name!r} asks one person a round, which the {privacy.model} model cannot hide; use dpbe"
        )
    ledger = Ledger(privacy.budget)
    with one_thread() if problem.size <= GRAM_LIMIT else nullcontext():
        state = policy.init(problem)
        for step in run_phases(problem, policy, scenario.population, seed, privacy, ledger):
            state = step.state
            steps.append(Played(step.plan, step.release, step.feedback, step.info, state.active))
            if watch is not None:
                watch(step)
    return Run(scenario, policy, privacy, ledger, seed, tuple(steps), state, perf_counter() - start)
