"""Simulated runs of a study, measured against the truth."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import chain
from time import perf_counter
from typing import Any, Protocol, Self, TypeVar

from voxpop.calibration.fit import Calibration
from voxpop.errors import Array, InputError
from voxpop.io.schema import asks_again, require_keeping, require_same_people
from voxpop.journal.journal import Course, Definition
from voxpop.journal.wave import ClosedWave
from voxpop.model.direction import Direction
from voxpop.model.problem import GRAM_LIMIT, Problem
from voxpop.model.state import State
from voxpop.model.waves import Plan, latest_warning
from voxpop.policies import DEFAULT, Policy, make_policy, settings_of
from voxpop.privacy import Ledger, NoPrivacy, Privacy
from voxpop.report.notebook import HasCourse
from voxpop.report.stakes import Metrics, measure
from voxpop.runtime.machine import one_thread
from voxpop.runtime.random_streams import stream
from voxpop.simulation.simulator import FinitePopulation, Population, Staying, simulate_waves
from voxpop.simulation.sweep import Result, SweepResult, attempt
from voxpop.simulation.weather import Weather


@dataclass(frozen=True, eq=False)
class Scenario:
    """Everything a simulated study needs: a problem, the people to ask, and the truth to measure against.

    >>> import numpy as np
    >>> from voxpop import SquaredExponential, simulate
    >>> from voxpop.simulation.people import TablePeople
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
    weather: Weather | None = None  # shocks that everybody shares, in units of the reward
    whole: Population | None = None  # with the people of the pilot, who may answer again if others may

    @property
    def described_weather(self) -> dict[str, Any]:
        """The weather as plain data; nothing if it is calm."""
        return {} if self.weather is None else {"weather": asdict(self.weather)}

    def make_policy(self, name: str = DEFAULT, **chosen: Any) -> Policy:
        """Make a policy with the study's settings for it, except for those chosen here.

        Where there are only some people, a policy that can be told asks nobody twice.
        """
        own = self.settings if self.settings.get("name", name) == name else {}
        again = {**own, **chosen}.get("who", "fresh") != "fresh"
        people = self.population if self.whole is None or not again else self.whole
        if isinstance(people, FinitePopulation):
            own = {**own, "population": len(people)}
        known = settings_of(name)
        return make_policy(name, **{**{key: value for key, value in own.items() if key in known}, **chosen})

    def answered_by(self, who: str, people: int, seed: int) -> Self:
        """Return the study in which so many people answer in every wave; if they are everybody, theirs is the truth."""
        everyone = self.whole or self.population
        if not isinstance(everyone, Staying):
            raise InputError(
                f"the people of the study {self.name!r} are drawn anew whenever they are asked; ask fresh people, or "
                "give people of your own"
            )
        table = everyone.stay(people, stream(seed, "order", 2))
        return replace(self, population=table, f=table.mean if who == "everybody" else self.f)


Watch = Callable[[ClosedWave], None]
AnyTrial = TypeVar("AnyTrial", bound="Described")


@dataclass(frozen=True, eq=False, repr=False)
class Run(HasCourse):
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
    log: tuple[Iterable[ClosedWave], ...]  # one wave after the other, or many together
    state: State
    ended: str  # why
    seconds: float

    @cached_property
    def closed(self) -> tuple[ClosedWave, ...]:
        """The waves that were played, and what came of them."""
        return tuple(chain.from_iterable(self.log))

    @property
    def course(self) -> Course:
        """The run without its truth, as a study with real people would look."""
        scenario = self.scenario
        definition = Definition(
            scenario.problem,
            self.policy,
            self.privacy,
            scenario.name,
            scenario.reward,
            scenario.direction,
            calibration=scenario.calibration,
        )
        return Course(definition, self.state, self.closed, entries=tuple(self.ledger.entries), ended=self.ended)

    @property
    def truth(self) -> Array | None:
        """The true reward of every action; None if it moves."""
        return self.scenario.f if self.moves is None else None

    @cached_property
    def moves(self) -> Array | None:
        """By how much the true reward of every action changes in a round, (n,); None if nothing does."""
        weather = self.scenario.weather
        return None if weather is None else weather.moves(self.scenario.problem, self.seed)

    @property
    def now(self) -> Array:
        """The true reward of every action when asking stopped."""
        return self.scenario.f if self.moves is None else self.scenario.f + self.state.rounds * self.moves

    @property
    def plans(self) -> list[Plan]:
        """The waves that were played."""
        return [wave.plan for wave in self.closed]

    @property
    def best(self) -> int:
        """The action that the policy settled on."""
        return self.policy.best(self.scenario.problem, self.state)

    @property
    def optimum_kept(self) -> bool:
        """True if the truly best action can still be best."""
        return int(self.now.argmax()) in self.state.active

    @property
    def loss(self) -> float:
        """What the final action truly loses per round, when asking stops."""
        return float(self.now.max() - self.now[self.best])

    @property
    def certificate_true(self) -> bool:
        """True if no action is better than the final one by more than was certified."""
        return self.loss <= self.state.certificate

    @property
    def warning(self) -> str:
        """What the model check found last, and what to do; empty if nothing is wrong."""
        return latest_warning(wave.info for wave in self.closed)

    @property
    def people_asked_again(self) -> bool:
        """True if more people were asked than there are, so that some were asked more than once."""
        people = self.scenario.population
        return isinstance(people, FinitePopulation) and self.metrics.people > len(people)

    @cached_property
    def metrics(self) -> Metrics:
        """What the run cost."""
        return measure(self.plans, self.best, self.scenario.problem.horizon, self.scenario.f, self.moves)

    def as_dict(self) -> dict[str, Any]:
        """Return the run as plain data."""
        problem = self.scenario.problem
        return {
            "study": self.scenario.name,
            "policy": self.policy.name,
            "seed": self.seed,
            "horizon": problem.horizon,
            "size": problem.size,
            "settings": self.policy.settings(),
            **self.privacy.describe(),
            **self.scenario.described_weather,
            "ledger": self.ledger.totals(self.ledger.budget.delta if self.ledger.budget else 0.0),
            **asdict(self.metrics),
            "best": {"index": self.best, "action": problem.decisions[self.best]},
            "optimum_kept": self.optimum_kept,
            "certificate": self.state.certificate,
            "certificate_true": self.certificate_true,
            "expected_loss": self.state.expected_loss,
            "ended": self.ended,
            "norm_bound": {"given": problem.norm_bound, "final": self.state.norm_bound},
            "seconds": self.seconds,
            "waves": [
                {
                    "wave": wave.plan.wave,
                    "length": wave.plan.length,
                    "rest": wave.plan.rest,
                    "reference": wave.plan.reference,
                    "arms": wave.plan.arms.tolist(),
                    "pulls": wave.plan.pulls.tolist(),
                    "people": wave.plan.people,
                    "active_before": wave.info.active_before,
                    "active_after": wave.info.active_after,
                    "max_width": wave.info.max_width,
                    "information_gain": wave.info.information_gain,
                    "norm_bound_refuted": wave.info.refuted,
                    "warning": wave.info.warning,
                    "forecast": None if wave.plan.forecast is None else asdict(wave.plan.forecast),
                    "release": wave.release.describe(),
                }
                for wave in self.closed
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
    >>> from voxpop.simulation.scenarios import Options
    >>> run = simulate(make_scenario("sphere", Options(size=20, horizon=1000)), "dpbe")
    >>> run.as_dict()["optimum_kept"]
    True
    """
    start = perf_counter()
    policy = scenario.make_policy(policy) if isinstance(policy, str) else policy
    problem, privacy = scenario.problem, privacy or NoPrivacy()
    require_same_people(policy, privacy)
    require_keeping(problem, policy)
    if who := asks_again(policy):
        scenario = scenario.answered_by(who, policy.settings()["population"], seed)
    if privacy.model != "none" and not policy.aggregates:
        raise InputError(
            f"policy {policy.name!r} asks one person per round, which the {privacy.model} model cannot hide; use waves"
        )
    ledger = Ledger(privacy.budget)
    with one_thread() if problem.size <= GRAM_LIMIT else nullcontext():
        state = policy.init(problem)
        happens, weather = None, scenario.weather
        if weather is not None:
            happens = partial(weather.of, seed=seed, f=scenario.f, moves=weather.moves(problem, seed))
        steps = simulate_waves(problem, policy, scenario.population, seed, privacy, ledger, happens)
        reason, log = "", list[Iterable[ClosedWave]]()

        def conduct() -> Iterator[tuple[Iterable[ClosedWave], State]]:
            nonlocal reason
            reason = (yield from steps).reason

        for some, after in conduct():
            log.append(some)
            state = after
            if watch is not None:
                for wave in some:
                    watch(wave)
    return Run(scenario, policy, privacy, ledger, seed, tuple(log), state.concluded(), reason, perf_counter() - start)


class Described(Protocol):
    """One run as plain data: a study, a policy, a trust model and a seed."""

    @property
    def policy(self) -> str: ...

    @property
    def seed(self) -> int: ...

    def scenario(self) -> Scenario: ...

    def make_privacy(self) -> Privacy: ...

    def make_policy(self, scenario: Scenario) -> Policy: ...

    def run(self, watch: Watch | None = None, scenario: Scenario | None = None) -> Run:
        """Simulate it; trials of one seed and study may share a scenario, which a pilot makes expensive."""
        scenario = scenario or self.scenario()
        return simulate(scenario, self.make_policy(scenario), self.seed, self.make_privacy(), watch)


def run_together(
    trials: Sequence[AnyTrial], keep: Callable[[Run], Result], scenario: Scenario | None = None
) -> list[SweepResult[AnyTrial, Result]]:
    """Run trials that differ in their policies alone, on one scenario; keep some of each run, or what went wrong."""
    made = cache(lambda: scenario or trials[0].scenario())
    return [attempt(lambda trial: keep(trial.run(scenario=made())), trial) for trial in trials]
