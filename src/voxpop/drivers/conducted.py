"""A study as it stands: everything that can be read of it without changing it."""

from __future__ import annotations

from voxpop.calibration.fit import Calibration
from voxpop.core.direction import Direction
from voxpop.core.phases import Answered, End, latest_warning
from voxpop.core.problem import Problem
from voxpop.core.state import State
from voxpop.drivers.course import Course
from voxpop.drivers.phase import ClosedPhase, Phase
from voxpop.drivers.progress import Progress
from voxpop.drivers.question import Answer
from voxpop.drivers.shown import Shown
from voxpop.policies import Policy
from voxpop.privacy import Ledger, Privacy


class Conducted(Shown):
    """The reading half of a `Study`: what follows from its progress."""

    def __init__(self, progress: Progress, direction: Direction, name: str, reward: str | None) -> None:
        self.direction = direction
        self.name = name
        self.reward = reward or direction.measure
        self.calibration: Calibration | None = None  # where the problem's constants come from, if that is known
        self._progress = progress

    @property
    def best(self) -> Answer:
        """The best decision as far as the study knows now."""
        return Answer.of(self.problem, self.policy, self.state, self.direction)

    @property
    def ended(self) -> str | None:
        """Why nothing is left to ask; None if there is something."""
        following = self._progress.following
        return following.reason if isinstance(following, End) else None

    @property
    def warning(self) -> str:
        """What the model check found last, and what to do; empty if nothing is wrong."""
        return latest_warning(phase.info for phase in self.closed)

    @property
    def problem(self) -> Problem:
        """What is known of the decisions. It maximises: if the study minimises, its levels have the other sign."""
        return self._progress.problem

    @property
    def policy(self) -> Policy:
        """What decides on the questions."""
        return self._progress.policy

    @property
    def privacy(self) -> Privacy:
        """The trust model."""
        return self._progress.privacy

    @property
    def private(self) -> bool:
        """True if people are promised privacy; then nothing is refused for its value."""
        return self._progress.private

    @property
    def ledger(self) -> Ledger:
        """What was released about whom."""
        return self._progress.ledger

    @property
    def state(self) -> State:
        """What the policy has learned."""
        return self._progress.state

    @property
    def closed(self) -> tuple[ClosedPhase, ...]:
        """The phases that are over."""
        return self._progress.closed

    @property
    def log(self) -> list[Answered]:
        """The plans and the feedback of all phases that are over, from which everything else follows."""
        return self._progress.log

    @property
    def course(self) -> Course:
        """How the study has gone so far, for tables, pictures and reports."""
        pending = self._pending
        return Course(
            self.name,
            self.problem,
            self.policy,
            self.privacy,
            self.ledger,
            self.closed,
            self.state,
            self.ended,
            None if pending is None else pending.plan,
            self.reward,
            self.calibration,
            self.direction,
        )

    @property
    def _pending(self) -> Phase | None:
        return self._progress.pending
