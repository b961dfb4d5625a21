"""The simulator: a policy asks a simulated population directly."""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from voxpop.errors import Array
from voxpop.journal.wave import ClosedWave, Wave, entry_of, next_wave, release_wave
from voxpop.model.problem import GRID_BITS, Indices, Problem
from voxpop.model.state import State
from voxpop.model.waves import End, Feedback, Plan, Tally, changed
from voxpop.policies import Policy
from voxpop.policies.protocol import Answer, RoundByRound, uneliminated
from voxpop.privacy import Ledger, NoPrivacy, Privacy, Simulated, Source
from voxpop.privacy.crowds import chunks
from voxpop.runtime.random_streams import stream
from voxpop.simulation.people import TablePeople

BLOCK = 256  # waves that a policy plays in one call, if it can and nobody is promised anything
PLAYED = np.dtype([("arm", np.intp), ("rounds", np.intp), ("mean", float), ("width", float), ("gain", float)])
CROWD = 2_000_000  # with more people than this, their sum is drawn at once if possible


class Population(Protocol):
    """People who can be asked once each. Only the lab may use the truth behind their answers.

    >>> class Readers:
    ...     def observe(self, plan, people, rng):
    ...         return rng.normal(plan.arms, 1.0, size=(people, len(plan.arms)))
    ...     def observe_each(self, plan, rng):
    ...         return np.array([rng.normal(arm, 1.0, size=n).mean() for arm, n in zip(plan.arms, plan.pulls)])
    >>> from voxpop import Scenario, SquaredExponential, simulate
    >>> problem = Problem([0.0, 0.5, 1.0], SquaredExponential(0.5), 0.5, 1.0, norm_bound=3.0, horizon=200)
    >>> simulate(Scenario("reading", problem, Readers(), np.arange(3.0))).best
    2
    """

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        """Draw the averages that new, randomly drawn people send after a wave, of shape (people, arms)."""

    def observe_each(self, plan: Plan, rng: np.random.Generator) -> Array:
        """Draw the averages over a wave in which every round is answered by another person, of shape (arms,)."""


@runtime_checkable
class GaussianPopulation(Population, Protocol):
    """People whose averages are Gaussian, so that the sum over many can be drawn at once."""

    def law(self, plan: Plan) -> tuple[Array, Array]:
        """Return the mean (arms,) of a person's averages, and a root of their covariance, (arms, arms)."""


@runtime_checkable
class QuickPopulation(Population, Protocol):
    """People who answer about a single arm without a plan, which saves time where every round is a wave."""

    def observe_one(self, arm: int, rounds: int, rng: np.random.Generator) -> float:
        """Draw what `observe_each` draws in a wave of this arm alone."""


@runtime_checkable
class FinitePopulation(Population, Protocol):
    """People of whom there are only some, so that it matters who was asked already."""

    def __len__(self) -> int:
        """Return the number of people."""

    def split(self, people: int, rng: np.random.Generator) -> tuple[Population, Self]:
        """Draw some people at random; return them, and the others."""

    def in_line(self, rng: np.random.Generator) -> Population:
        """Return these people in random order, to be asked one after the other in one run."""


@runtime_checkable
class Staying(Population, Protocol):
    """People of whom some can be asked in every wave."""

    def stay(self, people: int, rng: np.random.Generator) -> TablePeople:
        """Draw people who can be asked again."""


@dataclass(frozen=True, eq=False)
class ClosedBlock:
    """Waves that a policy played in one call, as columns; the record of each is made when somebody looks."""

    problem: Problem
    first: Wave  # as the others, but for what stands in the columns
    played: NDArray[np.void]  # (waves,) of `PLAYED`
    active: Indices

    def __iter__(self) -> Iterator[ClosedWave]:
        arms, pulls, means, *_ = (self.played[name] for name in PLAYED.names or ())
        feedback = Feedback(means[:1], 1)
        for place, (arm, rounds, _, width, gain) in enumerate(self.played.tolist()):
            only, number = slice(place, place + 1), self.first.plan.wave + place
            parts = {"arms": arms[only], "pulls": pulls[only], "people": rounds, "reference": arm}
            plan, told = changed(self.first.plan, wave=number, **parts), changed(feedback, mean=means[only])
            yield ClosedWave(plan, self.first.release, told, uneliminated(self.problem, width, gain), self.active)


def simulate_waves(
    problem: Problem,
    policy: Policy,
    population: Population,
    seed: int,
    privacy: Privacy | None = None,
    ledger: Ledger | None = None,
    happens: Callable[[Plan, int], Array] | None = None,
) -> Generator[tuple[Iterable[ClosedWave], State], None, End]:
    """Ask simulated people, wave after wave; yield one or many with the state after them, and return why it ended.

    `happens` says what a wave that begins with a round does to everybody's averages, (blocks, arms).
    """
    privacy, ledger, state = privacy or NoPrivacy(), ledger or Ledger(), policy.init(problem)
    people = population.in_line(stream(seed, "order", 1)) if isinstance(population, FinitePopulation) else population
    quick = privacy.model == NoPrivacy.model and happens is None
    by_itself = policy if isinstance(policy, RoundByRound) and quick else None
    while not isinstance(wave := next_wave(problem, policy, privacy, state), End):
        if by_itself is None:
            noise = _noise(seed, "agent", wave.plan.wave)
            wave = changed(wave, plan=wave.plan.shuffled(stream(seed, "schedule", wave.plan.wave)))
            shocks = None if happens is None else happens(wave.plan, state.rounds)
            feedback, entry = release_wave(wave, collect(wave, people, seed, shocks), ledger, noise)
            ledger.record(entry)
            spent = state.spent
            state, info = policy.advance(problem, state, wave.plan, feedback)
            yield (ClosedWave(wave.plan, wave.release, feedback, info, state.active, spent),), state
            continue
        entry = entry_of(wave, wave.plan.people)
        ledger.check(entry)  # the others are like it
        state, played = by_itself.play(problem, state, BLOCK, _answers(wave, problem, people, seed))
        for number, (_, rounds, *_) in enumerate(played, wave.plan.wave):
            ledger.record(changed(entry, wave=number, people=rounds))
        yield ClosedBlock(problem, wave, np.array(played, PLAYED), state.active), state
    return wave


def _answers(wave: Wave, problem: Problem, population: Population, seed: int) -> Answer:
    """Return how a policy asks by itself, from this wave on: as `collect`, but of one arm, and without a tally."""
    step, far, (low, high) = problem.grid_step, problem.grid_step * 2.0**GRID_BITS, wave.release.limits
    quick = population if isinstance(population, QuickPopulation) else None

    def answer(number: int, arm: int, rounds: int) -> float:
        rng = stream(seed, "people", number)
        if quick is None:
            plan = changed(wave.plan, wave=number, arms=np.array([arm]), pulls=np.array([rounds]), people=rounds)
            reports = population.observe_each(plan, rng)[None, :]
        else:
            found = quick.observe_one(arm, rounds, rng)
            if abs(found) < far and low <= found <= high:
                return round(found / step) * step
            reports = np.array([[found]])
        return float(wave.release.tally(reports).feedback().mean[0])

    return answer


def collect(wave: Wave, population: Population, seed: int, shocks: Array | None = None) -> list[Tally]:
    """Ask the people of a wave and add the reports of each block up, a chunk at a time; shocks are (blocks, arms)."""
    plan, release = wave.plan, wave.release
    rng = stream(seed, "people", plan.wave)
    happened = np.zeros((plan.blocks, plan.coordinates))
    if shocks is not None:  # of the objective; guardrails are not moved
        happened[:, : len(plan.arms)] = shocks
    if plan.reports == "one":
        return [release.tally(population.observe_each(plan, rng)[None, :] + happened)]
    if plan.people > CROWD and plan.blocks == 1 and isinstance(population, GaussianPopulation):
        mean, root = population.law(plan)
        crowd = release.crowd(mean + happened[0], root, plan.people, rng)
        if crowd is not None:
            return [crowd]
    noise = _noise(seed, "devices", plan.wave)
    found = []
    for block, shock in enumerate(happened):
        people = chunks(plan.people if plan.same else (plan.people + block) // plan.blocks, plan.coordinates)
        found.append(reduce(add, (ask(wave, population, some, rng, noise, shock) for some in people)))
    return found


def ask(
    wave: Wave, population: Population, people: int, rng: np.random.Generator, noise: Source, shock: Array | float = 0.0
) -> Tally:
    """Ask some of the people of a block of a wave, whose devices add this noise, and add their reports up."""
    lived = changed(wave.plan, pulls=wave.plan.lived)
    return wave.release.tally(wave.release.randomize(population.observe(lived, people, rng) + shock, noise))


def _noise(seed: int, role: str, wave: int) -> Simulated:
    """Return reproducible noise: simulated people need no protection, and simulations must be repeatable."""
    return Simulated(partial(stream, seed, role, wave))
