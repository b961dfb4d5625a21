"""Ask/tell: the same phases, driven by your own program and your own people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from voxpop.core.errors import InputError, require_integer
from voxpop.core.phases import Answered, End, Feedback, Plan, check_scale, latest_warning
from voxpop.core.problem import Problem
from voxpop.core.state import State
from voxpop.core.strata import Strata
from voxpop.drivers import answers, weighting
from voxpop.drivers.course import Course
from voxpop.drivers.earlier import evidence_of
from voxpop.drivers.kept import Kept
from voxpop.drivers.phase import ClosedPhase, Phase, entry_of, error_ratio, next_phase, release_phase
from voxpop.drivers.question import Answer, Question
from voxpop.formats import wire
from voxpop.formats.files import write_atomically
from voxpop.formats.record import Event, Released, TakenBack
from voxpop.policies import DEFAULT, Policy, make_policy
from voxpop.privacy import Ledger, NoPrivacy, Privacy, Secure
from voxpop.privacy.models import privacy_from_settings

KIND = "voxpop study"


class Study:
    """A study that remembers its plans and feedback, and nothing else.

    >>> from voxpop.core.kernels import SquaredExponential
    >>> problem = Problem([[0.0], [0.5], [1.0]], SquaredExponential(0.3), 0.01, 0.1, norm_bound=1.0, horizon=50)
    >>> study = Study(problem)
    >>> question = study.ask()
    >>> question.decisions, question.rounds, question.people
    (([0.0], [0.5], [1.0]), (1, 1, 1), 20)
    >>> study.tell(question.phase, [[0.3, 0.6, 0.2]] * 20)
    >>> study.best.decision, study.ask(), study.ended
    ([0.5], None, 'asking more people no longer pays')

    With a `path` the study is saved after every change, so that a program killed at any moment goes on from
    `Study.load(path)` with the same plans. Only one program changes the file at a time, and one that opened it before
    another changed it is refused.

    With `strata`, the shares of the parts of the population, people may come unevenly from them; see `tell`. After each
    wave that was closed and saved, `on_wave` is called with the study.
    """

    def __init__(
        self,
        problem: Problem,
        policy: Policy | str = DEFAULT,
        path: str | PathLike[str] | None = None,
        privacy: Privacy | None = None,
        strata: Strata | Mapping[str, float] | None = None,
        on_wave: Callable[[Study], object] | None = None,
        **settings: Any,
    ) -> None:
        self.problem = problem
        self.privacy = privacy or NoPrivacy()
        if self.privacy.release_type.noise_on_device:
            raise InputError(
                f"in the {self.privacy.model} model people's devices randomise, and a study only sees their sum; "
                "use the central model here"
            )
        self.ledger = Ledger(self.privacy.budget)
        self.policy = make_policy(policy, **settings) if isinstance(policy, str) else policy
        if not self.policy.aggregates:
            raise InputError(
                f"policy {self.policy.name!r} asks one person per round, and a study asks many after a phase; use waves"
            )
        self.strata = strata if strata is None or isinstance(strata, Strata) else Strata(strata)
        self.on_wave = on_wave  # called with the study after a wave was closed and saved
        self.closed: list[ClosedPhase] = []
        self.state: State = self.policy.init(problem)
        self.recovered: tuple[int, ...] = ()  # phases that the record of releases knew and the file did not
        self._pending: Phase | None = None
        self._next: Phase | End | None = None  # what to ask once nothing is pending, if it was planned already
        self._events = 0  # of the record that the study has taken in
        self._kept = None if path is None else Kept(Path(path))
        if self._kept is not None:
            with self._kept.new():
                self._kept.write(self._packed())

    @property
    def log(self) -> list[Answered]:
        """The plans and the feedback of all phases that are over, from which everything else follows."""
        return [Answered(phase.plan, phase.feedback) for phase in self.closed]

    @property
    def course(self) -> Course:
        """How the study has gone so far, for tables, pictures and reports."""
        name, pending = "study" if self.path is None else self.path.stem, self._pending
        return Course(
            name,
            self.problem,
            self.policy,
            self.privacy,
            self.ledger,
            tuple(self.closed),
            self.state,
            self.ended,
            None if pending is None else pending.plan,
        )

    @property
    def path(self) -> Path | None:
        """The file that every change is saved to, if any."""
        return None if self._kept is None else self._kept.path

    @property
    def private(self) -> bool:
        """True if people are promised privacy; then nothing is refused for its value."""
        return self.privacy.model != NoPrivacy.model

    @property
    def ended(self) -> str | None:
        """Why nothing is left to ask; None if there is something."""
        following = self._following()
        return following.reason if isinstance(following, End) else None

    def ask(self) -> Question | None:
        """Return the phase to play now; None when nothing is left to learn. Asking again gives the same phase."""
        following = self._following()
        if isinstance(following, End):
            return None
        if self._pending is None:
            with self._changing():
                self._pending = following
        return Question.of(self.problem, following.plan, self.strata)

    def tell(self, phase: int, feedback: object, partial: bool = False) -> None:
        """Take the feedback of the phase that was asked, in one of three forms.

        * a matrix: one row per person and one column per decision, in the order of the question;
        * records: {"person": ..., "decision": ..., "average": ...}, one for each person and decision;
        * an aggregate: {"mean": [...], "count": ...} or a `Feedback`.

        In a study with strata, records have the key "stratum" as well, or there is one of these for each stratum:
        {"young": ..., "old": ...}. Each stratum then counts with its share, however many answered.

        This closes the phase, so fewer people than were asked are refused unless `partial` is True. In a private
        study no answer is refused for its value: NaN, and what a record leaves out, counts as the centre of the ball
        that answers are clipped to.
        """
        pending = self._pending
        if pending is None:
            if self.ended is not None:
                raise InputError(
                    f"the study is over ({self.ended}) and takes no feedback for phase {phase}; see what is best"
                )
            raise InputError(f"no question is open that feedback for phase {phase} could answer; ask first")
        if phase != pending.plan.phase:
            raise InputError(
                f"feedback for phase {phase} does not answer the open question of phase {pending.plan.phase}"
            )
        told = weighting.read(self.problem, pending.plan, feedback, self.private, self.strata)
        if told.count < pending.plan.people and not partial:
            ratio = error_ratio(self.problem, self.privacy, self.state, pending.plan, told.effective)
            raise InputError(answers.too_few(pending.plan, told.count, ratio))
        with self._changing() as events:
            event = self._release(pending, told)
            self._apply(event)
            events.append(event)
        if self.on_wave is not None:
            self.on_wave(self)

    def attach(self, earlier: object) -> None:
        """Take answers that people gave before the study; only until the first `ask`.

        * records: {"person": ..., "decision": ..., "average": ..., "rounds": 20}, the rounds 1 if left out;
        * an aggregate: {"decisions": [...], "mean": [...], "count": ..., "rounds": 20};
        * `Evidence` of one group of people, or a list of groups.

        They count as the pilot's answers do. A private study does not protect the people behind them, unless noise
        was added to their averages before, which `Evidence` can say.

        >>> from voxpop.core.kernels import SquaredExponential
        >>> problem = Problem([[0.0], [0.5], [1.0]], SquaredExponential(0.3), 0.01, 0.1, norm_bound=1.0, horizon=50)
        >>> study = Study(problem)
        >>> study.attach({"decisions": [[0.0], [1.0]], "mean": [0.3, 0.2], "count": 40})
        >>> study.best.decision, study.problem.pilot[0].people
        ([0.0], 40)
        """
        if self._pending is not None or self.closed:
            raise InputError("earlier answers must be attached before the first question; begin a new study with them")
        pilot = (*self.problem.pilot, *evidence_of(self.problem, earlier, self.strata))
        problem = replace(self.problem, pilot=pilot)
        state = self.policy.init(problem)
        with self._changing():
            self.problem, self.state, self._next = problem, state, None

    def take_back(self) -> None:
        """Open the last phase again, as it was asked; only until the next `ask`.

        In a private study its release stays charged: it has been seen, and its people have taken part.
        """
        if self._pending is not None or not self.closed:
            raise InputError(
                "nothing can be taken back; only what was told last can be, until the next question is asked"
            )
        phase = self.closed[-1].plan.phase
        if self.private and not self.ledger.entries[-1].names:
            raise InputError(
                f"phase {phase} was released about people without names, so nobody could see whether the same people "
                "are told again; only what was told with names can be taken back"
            )
        with self._changing() as events:
            event = TakenBack(phase)
            self._apply(event)
            events.append(event)

    def change_horizon(self, horizon: int) -> None:
        """Go on for another number of rounds; an open question stays as it was asked.

        The rounds only matter to what is planned from now on. What the study has stated keeps its levels, and `beta`
        stays what it was, so that nothing certified depends on the change.
        """
        played = self.state.rounds + (0 if self._pending is None else self._pending.plan.length)
        before, horizon = self.problem, require_integer("horizon", horizon, least=max(played, 1))
        try:
            with self._changing():
                self.problem = replace(before, horizon=horizon)
                self._next = None
        except BaseException:
            self.problem = before
            raise

    @property
    def best(self) -> Answer:
        """The best decision as far as the study knows now."""
        return Answer.of(self.problem, self.policy, self.state)

    @property
    def warning(self) -> str:
        """What the model check found last, and what to do; empty if nothing is wrong."""
        return latest_warning(phase.info for phase in self.closed)

    def is_of(self, problem: Problem, policy: Policy, privacy: Privacy, strata: Strata | None = None) -> bool:
        """Return True if this study has that problem, policy and trust model, and those strata."""
        return (
            wire.problem_to_dict(self.problem) == wire.problem_to_dict(problem)
            and wire.policy_to_dict(self.policy) == wire.policy_to_dict(policy)
            and self.privacy.settings() == privacy.settings()
            and self.strata == strata
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the study to a file in one step. Elsewhere than at its own path, that is a copy without a record."""
        if self._kept is not None and Path(path).resolve() == self._kept.path.resolve():
            with self._changing():
                return
        write_atomically(Path(path), self._packed(copy=True))

    @classmethod
    def load(cls, path: str | PathLike[str], newest: bool = False) -> Study:
        """Read a saved study; later changes are saved to the same file.

        Releases that the record of a private study knows and the file does not are taken from the record, and
        `recovered` lists their phases. A record that lacks releases is refused, unless `newest` says that the file is
        surely the newest copy.
        """
        kept = Kept(Path(path))

        def decode(content: dict[str, Any]) -> Study:
            problem, policy = wire.problem_from_dict(content["problem"]), wire.policy_from_dict(content["policy"])
            privacy, strata = privacy_from_settings(content["privacy"]), content.get("strata")
            study = cls(problem, policy, privacy=privacy, strata=strata)
            study.ledger = wire.ledger_from_list(study.privacy.budget, content["ledger"])
            for plan, feedback in content["log"]:
                study._advance(study._open(wire.plan_from_dict(plan)), wire.feedback_from_dict(feedback))
            if content["pending"] is not None:
                study._pending = study._open(wire.plan_from_dict(content["pending"]))
            study._events = content.get("events", 0)
            return study

        text, events = kept.read()
        study = wire.unpack(KIND, text, str(kept.path), decode)
        study._kept = kept
        if study.private:
            study._catch_up(events, newest)
        if newest:
            study.save(kept.path)
        return study

    def _packed(self, copy: bool = False) -> str:
        return wire.pack(
            KIND,
            {
                "problem": wire.problem_to_dict(self.problem),
                "policy": wire.policy_to_dict(self.policy),
                "privacy": self.privacy.settings(),
                "ledger": wire.ledger_to_list(self.ledger),
                "log": [[wire.plan_to_dict(plan), wire.feedback_to_dict(feedback)] for plan, feedback in self.log],
                "pending": None if self._pending is None else wire.plan_to_dict(self._pending.plan),
                "events": 0 if copy else self._events,
                **({} if self.strata is None else {"strata": dict(self.strata.shares)}),
            },
        )

    def _following(self) -> Phase | End:
        """Return the phase that is open, or else the one to ask next."""
        if self._pending is not None:
            return self._pending
        if self._next is None:
            self._next = next_phase(self.problem, self.policy, self.privacy, self.state)
        return self._next

    def _open(self, plan: Plan) -> Phase:
        return Phase(plan, self.privacy.calibrate(self.problem, self.state, plan))

    def _advance(self, phase: Phase, feedback: Feedback) -> None:
        self.state, info = self.policy.advance(self.problem, self.state, phase.plan, feedback)
        self.closed.append(ClosedPhase(phase.plan, phase.release, feedback, info, self.state.active))

    def _apply(self, event: Event) -> None:
        """Do what an event says; the same whether it happens now or is read from the record."""
        self._next = None
        if isinstance(event, Released):
            (plan, feedback), pending = event.answered, self._pending
            self.ledger.record(event.entry)
            self._advance(pending if pending and pending.plan is plan else self._open(plan), feedback)
            self._pending = None
        else:
            *kept, last = self.closed
            self.state, self.closed = self.policy.init(self.problem), []
            for phase in kept:
                self._advance(Phase(phase.plan, phase.release), phase.feedback)
            self._pending = Phase(last.plan, last.release)

    def _catch_up(self, events: list[Event], newest: bool) -> None:
        """Take in what the record knows and the file does not; refuse files that contradict each other."""
        assert self._kept is not None
        file, record = self._kept.path, self._kept.record.path
        if len(events) < self._events and not newest:
            raise InputError(
                f"{record} knows {len(events)} of the {self._events} steps that {file} has recorded there; restore "
                f"{record}, or open {file} with --newest (newest=True) if it is surely the newest copy"
            )
        ledger = iter(self.ledger.entries)
        known = (event.entry for event in events[: self._events] if isinstance(event, Released))
        fits = all(entry in ledger for entry in known)  # each after the one before
        for event in events[self._events :]:
            phase, done = (event.answered.plan.phase, 0) if isinstance(event, Released) else (event.phase, 1)
            fits = fits and phase == len(self.closed) + 1 - done
            if fits:
                self._apply(event)
                self.recovered = (*self.recovered, phase)
        if not fits:
            raise InputError(
                f"{file} and {record} are of different studies or copies; restore both from the newest copy"
            )
        self._events = len(events)

    @contextmanager
    def _changing(self) -> Iterator[list[Event]]:
        """Save the changes made inside, and the events put on the list; if anything fails, undo the changes."""
        before = (self.problem, self.state, self._pending, self._next, list(self.closed), self._events)
        charged, events = list(self.ledger.entries), list[Event]()
        try:
            with nullcontext() if self._kept is None else self._kept.changing():
                yield events
                if self._kept is not None:
                    recorded = events if self.private else []
                    self._events += len(recorded)
                    self._kept.write(self._packed(), recorded)
        except BaseException:
            self.problem, self.state, self._pending, self._next, self.closed, self._events = before
            self.ledger = Ledger(self.privacy.budget, charged)
            raise

    def _release(self, phase: Phase, told: answers.Answers | Feedback) -> Released:
        """Release answers, or take an average that was computed elsewhere, if the ledger allows it."""
        if isinstance(told, answers.Answers):
            again = any(entry.phase == phase.plan.phase for entry in self.ledger.entries)
            if self.private and again and not told.names:
                raise InputError(
                    f"phase {phase.plan.phase} was released before and taken back; tell records with names, so that "
                    "nobody is counted twice"
                )
            if told.sample is None:
                tally = phase.release.tally(told.matrix)
                feedback, entry = release_phase(phase, tally, self.ledger, Secure(), told.names)
            else:
                feedback, entry = weighting.release(phase, told, self.ledger, Secure())
            return Released(Answered(phase.plan, feedback), entry)
        check_scale(float(np.abs(told.mean).max()), self.problem.grid_step)
        entry = entry_of(phase, told.count)
        self.ledger.check(entry)
        return Released(Answered(phase.plan, told), entry)
