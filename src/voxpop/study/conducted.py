"""A study as it stands: what can be read of it, and how every change is saved or else undone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from os import PathLike
from pathlib import Path

from voxpop.calibration.fit import Calibration
from voxpop.io import schema as wire
from voxpop.io.files import write_atomically
from voxpop.journal.course import Course
from voxpop.journal.kept import Kept
from voxpop.journal.progress import Progress
from voxpop.journal.question import Answer
from voxpop.journal.record import Event
from voxpop.journal.wave import ClosedWave, Wave
from voxpop.model.direction import Direction
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.strata import Strata
from voxpop.model.waves import Answered, End, latest_warning
from voxpop.policies import Policy
from voxpop.privacy import Ledger, Privacy
from voxpop.study.shown import Shown

KIND = "voxpop study"


class Conducted(Shown):
    """The half of a `Study` that asks nobody: what follows from its progress, and the files that this is kept in."""

    def __init__(
        self, progress: Progress, strata: Strata | None, direction: Direction, name: str, reward: str | None
    ) -> None:
        self.strata = strata
        self.direction = direction
        self.name = name
        self.reward = reward or direction.measure
        self.calibration: Calibration | None = None  # where the problem's constants come from, if that is known
        self.recovered: tuple[int, ...] = ()  # waves that the record of releases knew and the file did not
        self.horizon_change: tuple[int, int] | None = None  # before, and in the study file it was opened with
        self._progress = progress
        self._kept: Kept | None = None

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
        return latest_warning(wave.info for wave in self.closed)

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
    def closed(self) -> tuple[ClosedWave, ...]:
        """The waves that are over."""
        return self._progress.closed

    @property
    def log(self) -> list[Answered]:
        """The plans and the feedback of all waves that are over, from which everything else follows."""
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
    def path(self) -> Path | None:
        """The file that every change is saved to, if any."""
        return None if self._kept is None else self._kept.path

    def is_of(
        self,
        problem: Problem,
        policy: Policy,
        privacy: Privacy,
        strata: Strata | None = None,
        direction: Direction = Direction.MAXIMIZE,
    ) -> bool:
        """Return True if this study was begun with that problem, policy and trust model, and so on."""
        return (
            wire.problem_to_dict(self.problem) == wire.problem_to_dict(direction.problem(problem))
            and wire.policy_to_dict(self.policy) == wire.policy_to_dict(policy)
            and self.privacy.settings() == privacy.settings()
            and self.strata == strata
            and self.direction == direction
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the study to a file in one step. Elsewhere than at its own path, that is a copy without a record."""
        if self._kept is not None and Path(path).resolve() == self._kept.path.resolve():
            with self._changing():
                return
        write_atomically(Path(path), self._packed(copy=True))

    def _packed(self, copy: bool = False) -> str:
        progress = replace(self._progress, events=0) if copy else self._progress
        about = {"name": self.name, "reward": self.reward, "direction": str(self.direction)}
        strata = {} if self.strata is None else {"strata": dict(self.strata.shares)}
        return wire.pack(KIND, {**progress.to_dict(), **about, **strata})

    def _opened(self) -> Wave | None:
        """Open the next wave, unless it is open already; return None when nothing is left to learn."""
        following = self._progress.following
        if isinstance(following, End):
            return None
        if self._pending is None:
            with self._changing():
                self._progress = self._progress.asked()
        return following

    @contextmanager
    def _changing(self) -> Iterator[list[Event]]:
        """Save the changes made inside, and the events put on the list; if anything fails, undo the changes."""
        before, events = self._progress, list[Event]()
        try:
            with nullcontext() if self._kept is None else self._kept.changing():
                yield events
                if self._kept is not None:
                    self._kept.write(self._packed(), events if self.private else [])
        except BaseException:
            self._progress = before
            raise

    @property
    def _pending(self) -> Wave | None:
        return self._progress.pending
