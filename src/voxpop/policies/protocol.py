"""What a policy is: pure functions that start, plan and advance a study, and name the best action so far."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

from voxpop.errors import InputError
from voxpop.gp.belief import pooled_best
from voxpop.model.options import check
from voxpop.model.problem import Problem
from voxpop.model.state import OPEN, Channel, State
from voxpop.model.waves import End, Feedback, Info, Plan, changed

MOST_ROUNDS = 10**7  # for a policy that decides about every single round

OVER = End("every round of the horizon is played")
ALONE = End("nothing else can be best")


def require_few_rounds(name: str, problem: Problem) -> None:
    """Refuse a horizon that is too long for a policy that plays round by round."""
    if problem.horizon > MOST_ROUNDS:
        raise InputError(
            f"policy {name!r} plays one round at a time, and a horizon of {problem.horizon:,} is too long for that "
            f"(at most {MOST_ROUNDS:,}); use waves"
        )


def prior_state(problem: Problem) -> State:
    """Return the state before the first wave; a pilot says already what to use meanwhile."""
    state = State.prior(problem, problem.norm_bound)
    return changed(state, decision=pooled_best(problem)) if problem.pilot else state


def uneliminated(problem: Problem, widest: float, gain: float) -> Info:
    """Describe a wave of a policy that never eliminates anything."""
    return Info(problem.size, problem.size, widest, gain, problem.norm_bound, refuted=False)


# The average over some rounds of an arm that are each answered by a new person: of the wave, the arm and the rounds.
Answer = Callable[[int, int, int], float]
# A wave of one arm: the arm, its rounds and their average, and afterwards the largest width and the information gained.
Played = tuple[int, int, float, float, float]


class Policy(Protocol):
    """A rule for what to play and how many people to ask. It never sees the truth, a clock or outside randomness."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which it is chosen."""

    @property
    def aggregates(self) -> bool:
        """True if it learns from averages of many people, as privacy needs; False if from one person per round."""

    keeps_guardrails: bool = False  # True if it knows the metrics that decisions must keep

    def settings(self) -> dict[str, Any]:
        """Return the arguments with which `make_policy` makes this policy again."""

    def init(self, problem: Problem) -> State:
        """Return the state before the first wave."""

    def plan(self, problem: Problem, state: State, channel: Channel = OPEN) -> Plan | End:
        """Return the next wave, or why there is none; the channel predicts what privacy will do to the answers."""

    def advance(self, problem: Problem, state: State, plan: Plan, feedback: Feedback) -> tuple[State, Info]:
        """Return the state after the wave, and what happened in it."""

    def best(self, problem: Problem, state: State) -> int:
        """Return the action to use now."""
        return state.best


@dataclass(frozen=True)
class Configured(Policy):
    """A policy whose settings are its fields, which the table of options checks."""

    def __post_init__(self) -> None:
        check(self)

    def settings(self) -> dict[str, Any]:
        """Return the arguments with which `make_policy` makes this policy again."""
        return {"name": self.name, **asdict(self)}


@runtime_checkable
class Offering(Policy, Protocol):
    """A policy that goes on when decisions are added or withdrawn."""

    def offering(self, problem: Problem, state: State, withdrawn: tuple[int, ...]) -> State:
        """Return the state once decisions were added to the problem, at its end, or withdrawn."""


@runtime_checkable
class Watching(Policy, Protocol):
    """A policy whose statements age, so that a study that is over can be watched."""

    def passed(self, problem: Problem, state: State, rounds: int) -> State:
        """Return the state of a study that is over after more rounds, in which its decision was in force."""

    def ageing(self, problem: Problem, best: int) -> float:
        """Return by how much a certificate grows a round."""


@runtime_checkable
class RoundByRound(Policy, Protocol):
    """A policy of very many small waves, which plays some of them in one call if it may ask by itself."""

    def play(self, problem: Problem, state: State, waves: int, answer: Answer) -> tuple[State, list[Played]]:
        """Play up to so many waves, exactly as `plan` and `advance` would; return the state after them, and them."""
