"""Simulated runs of a study, measured against the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

from voxpop.core.errors import Array, InputError
from voxpop.core.phases import Plan, latest_warning
from voxpop.core.problem import GRAM_LIMIT
from voxpop.core.state import State
from voxpop.drivers.course import Course
from voxpop.drivers.phase import ClosedPhase
from voxpop.drivers.shown import Shown
from voxpop.drivers.simulate import FinitePopulation, simulate_phases
from voxpop.lab.metrics import Metrics, measure
from voxpop.lab.scenario import Scenario
from voxpop.policies import DEFAULT, Policy
from voxpop.privacy import Ledger, NoPrivacy, Privacy
from voxpop.runtime.threads import one_thread

Watch = Callable[[ClosedPhase], None]


@dataclass(frozen=True, eq=False, repr=False)
class Run(Shown):
    """A finished simulation of a scenario.

    >>> from voxpop import make_policy, make_scenario
    >>> run = simulate(make_scenario("sphere"), make_policy())
    >>> run  # doctest: +ELLIPSIS
    <Run 'sphere': ...; over: ...>
    >>> run.waves["wave"].tolist()
    [1, 2, 3, 4, 5]
    """

    scenario: Scenario
    policy: Policy
    privacy: Privacy
    ledger: Ledger
    seed: int
    phases: tuple[ClosedPhase, ...]
    state: State
    ended: str  # why
    seconds: float

    @property
    def course(self) -> Course:
        """The run without its truth, as a study with real people would look."""
        scenario = self.scenario
        return Course(
            scenario.name,
            scenario.problem,
            self.policy,
            self.privacy,
            self.ledger,
            self.phases,
            self.state,
            self.ended,
            reward=scenario.reward,
            calibration=scenario.calibration,
            direction=scenario.direction,
        )

    @property
    def truth(self) -> Array:
        """The true reward of every action."""
        return self.scenario.f

    @property
    def plans(self) -> list[Plan]:
        """The phases that were played."""
        return [phase.plan for phase in self.phases]

    @property
    def best(self) -> int:
        """The action that the policy settled on."""
        return self.policy.best(self.scenario.problem, self.state)

    @property
    def optimum_kept(self) -> bool:
        """True if the truly best action can still be best."""
        return int(self.scenario.f.argmax()) in self.state.active

    @property
    def loss(self) -> float:
        """What the final action truly loses per round."""
        return float(self.scenario.f.max() - self.scenario.f[self.best])

    @property
    def certificate_true(self) -> bool:
        """True if no action is better than the final one by more than was certified."""
        return self.loss <= self.state.certificate

    @property
    def warning(self) -> str:
        """What the model check found last, and what to do; empty if nothing is wrong."""
        return latest_warning(phase.info for phase in self.phases)

    @property
    def people_asked_again(self) -> bool:
        """True if more people were asked than there are, so that some were asked more than once."""
        people = self.scenario.population
        return isinstance(people, FinitePopulation) and self.metrics.people > len(people)

    @cached_property
    def metrics(self) -> Metrics:
        """What the run cost."""
        return measure(self.plans, self.best, self.scenario.problem.horizon, self.scenario.f)

    def as_dict(self) -> dict[str, Any]:
        """Return the run as plain data."""
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
            "numbers": metrics.numbers,
            "people": metrics.people,
            "switches": metrics.switches,
            "best": {"index": self.best, "action": problem.decisions[self.best]},
            "optimum_kept": self.optimum_kept,
            "certificate": self.state.certificate,
            "certificate_true": self.certificate_true,
            "expected_loss": self.state.expected_loss,
            "ended": self.ended,
            "norm_bound": {"given": problem.norm_bound, "final": self.state.norm_bound},
            "seconds": self.seconds,
            "phases": [
                {
                    "phase": phase.plan.phase,
                    "length": phase.plan.length,
                    "rest": phase.plan.rest,
                    "reference": phase.plan.reference,
                    "arms": phase.plan.arms.tolist(),
                    "pulls": phase.plan.pulls.tolist(),
                    "people": phase.plan.people,
                    "active_before": phase.info.active_before,
                    "active_after": phase.info.active_after,
                    "max_width": phase.info.max_width,
                    "information_gain": phase.info.information_gain,
                    "norm_bound_refuted": phase.info.refuted,
                    "warning": phase.info.warning,
                    "forecast": None if phase.plan.forecast is None else asdict(phase.plan.forecast),
                    "release": phase.release.describe(),
                }
                for phase in self.phases
            ],
        }


def simulate(
    scenario: Scenario,
    policy: Policy | str = DEFAULT,
    seed: int = 0,
    privacy: Privacy | None = None,
    watch: Watch | None = None,
) -> Run:
    """Run a scenario to its end; a policy given by its name has the scenario's settings.

    >>> from voxpop import make_scenario
    >>> from voxpop.lab.scenarios import Options
    >>> run = simulate(make_scenario("sphere", Options(size=20, horizon=1000)), "dpbe")
    >>> run.as_dict()["optimum_kept"]
    True
    """
    start = perf_counter()
    policy = scenario.make_policy(policy) if isinstance(policy, str) else policy
    problem, privacy, phases = scenario.problem, privacy or NoPrivacy(), []
    if privacy.model != "none" and not policy.aggregates:
        raise InputError(
            f"policy {policy.name!r} asks one person per round, which the {privacy.model} model cannot hide; use waves"
        )
    ledger = Ledger(privacy.budget)
    with one_thread() if problem.size <= GRAM_LIMIT else nullcontext():
        state = policy.init(problem)
        steps = simulate_phases(problem, policy, scenario.population, seed, privacy, ledger)
        reason = ""

        def conduct() -> Iterator[tuple[ClosedPhase, State]]:
            nonlocal reason
            reason = (yield from steps).reason

        for phase, after in conduct():
            phases.append(phase)
            state = after
            if watch is not None:
                watch(phase)
    return Run(scenario, policy, privacy, ledger, seed, tuple(phases), state, reason, perf_counter() - start)
