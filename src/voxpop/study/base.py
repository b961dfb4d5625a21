"""State and persistence of a study, whoever collects its answers."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

from voxpop.calibration.fit import Calibration
from voxpop.errors import InputError, said_of
from voxpop.journal.file import JournalFile, write_copy
from voxpop.journal.journal import Course, Definition, Event, Opened, fold
from voxpop.journal.question import Answer
from voxpop.journal.wave import ClosedWave, Wave
from voxpop.model.direction import Direction
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.strata import Strata
from voxpop.model.waves import Answered, End
from voxpop.policies import Policy
from voxpop.privacy import Ledger, NoPrivacy, Privacy
from voxpop.report.notebook import HasCourse


class BaseStudy(HasCourse):
    """State and persistence of a study, whoever collects its answers."""

    sees_answers: ClassVar[bool] = False  # people's own answers, so that devices need not randomise them
    horizon_change: tuple[int, int] | None = None  # before, and in the study file it was opened with
    _journal: JournalFile | None

    @classmethod
    def load(cls, path: str | PathLike[str], newest: bool = False) -> Self:
        """Read a saved study; later changes are saved to the same file.

        An older copy of a private study is refused, unless `newest` says that it is surely the newest one.
        """
        study, journal = cls.__new__(cls), JournalFile.open(Path(path), newest)
        with said_of(path):
            try:
                study._conduct(journal.definition, journal)
            except InputError:
                raise
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                said = f"its events do not follow from one another ({type(error).__name__}: {error})"
                raise InputError(f"{said}; restore it from a copy") from None
        return study

    @classmethod
    def _begun_as(cls, definition: Definition, path: Path | None) -> Self:
        study = cls.__new__(cls)
        study._begin(definition, path)
        return study

    def _begin(self, definition: Definition, path: Path | None) -> None:
        """Begin a study, which is saved if there is a path."""
        self._conduct(definition)  # refuses what cannot be a study, before there is a file
        if path is not None:
            self._journal = JournalFile.create(path, definition)

    def _conduct(self, definition: Definition, journal: JournalFile | None = None) -> None:
        """Conduct the study of a definition, from the end of its journal on."""
        if not definition.policy.aggregates:
            raise InputError(
                f"policy {definition.policy.name!r} asks one person per round, and a study asks many after a wave; use "
                "waves"
            )
        if self.sees_answers and definition.privacy.release_type.noise_on_device:
            raise InputError(
                f"in the {definition.privacy.model} model people's devices randomise, and a study only sees their sum; "
                "use the central model here"
            )
        self._journal = journal
        self._begun = definition
        self._events = [] if journal is None else journal.read()
        self._course = fold(definition, self._events)

    @property
    def course(self) -> Course:
        """How the study has gone so far, for tables, pictures and reports."""
        return replace(self._course.concluded, ended=self.ended)

    @property
    def name(self) -> str:
        """What the study is called in reports."""
        return self._course.name

    @name.setter
    def name(self, name: str) -> None:
        self._course = self._course.named(name)

    @property
    def reward(self) -> str:
        """What its reward is called there."""
        return self._course.reward

    @property
    def best(self) -> Answer:
        """The best decision as far as the study knows now."""
        return self._course.answer

    @property
    def ended(self) -> str | None:
        """Why nothing is left to ask; None if there is something."""
        following = self._course.following
        return following.reason if isinstance(following, End) else None

    @property
    def warning(self) -> str:
        """What the model check found last, and what to do; empty if nothing is wrong."""
        return self._course.warning

    @property
    def problem(self) -> Problem:
        """What is known of the decisions. It maximises: if the study minimises, its levels have the other sign."""
        return self._course.problem

    @property
    def policy(self) -> Policy:
        """What decides on the questions."""
        return self._course.policy

    @property
    def privacy(self) -> Privacy:
        """The trust model."""
        return self._course.privacy

    @property
    def direction(self) -> Direction:
        """Whether people answer with rewards or with costs."""
        return self._course.direction

    @property
    def strata(self) -> Strata | None:
        """The parts of the population that are sampled apart, if any."""
        return self._course.definition.strata

    @property
    def calibration(self) -> Calibration | None:
        """Where the problem's constants come from, if that is known."""
        return self._course.calibration

    @property
    def private(self) -> bool:
        """True if people are promised privacy; then nothing is refused for its value."""
        return self.privacy.model != NoPrivacy.model

    @property
    def ledger(self) -> Ledger:
        """What was released about whom."""
        return self._course.ledger

    @property
    def state(self) -> State:
        """What the policy has learned."""
        return self._course.state

    @property
    def closed(self) -> tuple[ClosedWave, ...]:
        """The waves that are over."""
        return self._course.closed

    @property
    def log(self) -> list[Answered]:
        """The plans and the feedback of all waves that are over."""
        return [Answered(wave.plan, wave.feedback) for wave in self.closed]

    @property
    def path(self) -> Path | None:
        """The file that every change is saved to, if any."""
        return None if self._journal is None else self._journal.path

    @property
    def upgrade(self) -> str:
        """What the next change does to a file of an earlier version; empty if there is none."""
        old = None if self._journal is None else self._journal.old
        if old is None:
            return ""
        return (
            f"{old.path} has format version {old.VERSION}; the next change writes version 3 in its place and keeps it "
            f"as {old.kept_as}"
        )

    def differs_from(self, other: Definition) -> str | None:
        """Return the part in which another definition differs: problem, policy and so on; None if there is none."""
        ours, theirs = (_begun_with(definition) for definition in (self._course.definition, other))
        return next((part for part in ours if ours[part] != theirs[part]), None)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the study to a file in one step. Elsewhere than at its own path, that is a copy without a mark."""
        if self._journal is not None and Path(path).resolve() == self._journal.path.resolve():
            self._add()
        else:
            write_copy(Path(path), self._begun, self._events)

    def _next_wave(self) -> Wave | None:
        """Open the next wave, unless it is open already; return None when nothing is left to learn."""
        following = self._course.following
        if isinstance(following, End):
            return None
        if self._course.wave is None:
            self._add(Opened(following.plan, following.release))
        return following

    def _add(self, *events: Event) -> None:
        """Add events to the journal, and take them into account; if they cannot be saved, nothing happened."""
        course = self._course
        for event in events:
            course = course.after(event)
        if self._journal is not None:
            self._journal.append(events, self._course.events)
        self._course, self._events = course, [*self._events, *events]


def _begun_with(definition: Definition) -> dict[str, Any]:
    parts = definition.encode()
    return {part: parts.get(part) for part in ("problem", "policy", "privacy", "strata", "direction")}
