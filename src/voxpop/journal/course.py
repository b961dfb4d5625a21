"""How a study has gone so far, whoever conducts it: what tables, pictures and reports are made of."""

from __future__ import annotations

from dataclasses import dataclass

from voxpop.calibration.fit import Calibration
from voxpop.errors import Array
from voxpop.journal.question import Answer
from voxpop.journal.wave import ClosedWave
from voxpop.model.direction import Direction
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.waves import Plan, latest_warning
from voxpop.policies import Policy
from voxpop.privacy import Ledger, Privacy


@dataclass(frozen=True, eq=False)
class Course:
    """The course of a study up to now. It knows no truth: that is the simulator's alone.

    Whatever shows a reward to people turns it by `direction`: `estimates`, `bounds` and `answer` are what people read,
    and `direction.turn` does the same for averages and for the truth.

    >>> from voxpop import Problem, SquaredExponential, Study
    >>> study = Study(Problem([[0.0], [0.5], [1.0]], SquaredExponential(0.3), 0.01, 0.1, norm_bound=1.0, horizon=50))
    >>> study.tell(study.ask().wave, [[0.3, 0.6, 0.2]] * 20)
    >>> study.course.people, study.course.numbers, study.course.answer.decision
    (20, 60, [0.5])
    """

    name: str
    problem: Problem
    policy: Policy
    privacy: Privacy
    ledger: Ledger
    closed: tuple[ClosedWave, ...]
    state: State
    ended: str | None = None  # why nothing more is asked; None if something is
    pending: Plan | None = None  # the wave that is open
    reward: str = "reward"  # what the reward is called
    calibration: Calibration | None = None  # where the problem's constants come from, if that is known
    direction: Direction = Direction.MAXIMIZE  # the problem, the state and the feedback maximise in any case

    @property
    def plans(self) -> list[Plan]:
        """The waves that were played."""
        return [wave.plan for wave in self.closed]

    @property
    def answer(self) -> Answer:
        """What to do now, and how sure that is."""
        return Answer.of(self.problem, self.policy, self.state, self.direction)

    @property
    def estimates(self) -> Array:
        """The estimated reward or cost of every decision."""
        return self.direction.turn(self.state.centre)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Between which values the reward or cost of every decision is certified to lie."""
        return self.direction.bounds(self.state.lower, self.state.upper)

    @property
    def people(self) -> int:
        """The people who have answered, without those of the pilot."""
        return sum(wave.people for wave in self.closed)

    @property
    def numbers(self) -> int:
        """The numbers that they have sent."""
        return sum(wave.numbers for wave in self.closed)

    @property
    def pilot_people(self) -> int:
        """The people of the pilot, if the study learns from it."""
        return sum(group.people for group in self.problem.pilot)

    @property
    def pilot_numbers(self) -> int:
        """The numbers that the pilot's people have sent."""
        return sum(group.people * len(group.mean) for group in self.problem.pilot)

    @property
    def rounds(self) -> int:
        """The rounds that have passed, up to the end of the last closed wave."""
        return sum(plan.length for plan in self.plans)

    @property
    def warning(self) -> str:
        """What the model check found last, and what to do; empty if nothing is wrong."""
        return latest_warning(wave.info for wave in self.closed)

    @property
    def unanswered(self) -> str:
        """What the answer rests on while nobody has answered; empty as soon as somebody has."""
        if self.closed:
            return ""
        pilot = f"the pilot of {self.pilot_people:,} people" if self.pilot_people else "the study's assumptions alone"
        return f"nobody has answered yet, and this rests on {pilot}"
