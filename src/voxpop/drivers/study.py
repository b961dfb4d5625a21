"""Ask/tell: the same phases, driven by your own program and your own people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from voxpop.core.errors import Array, InputError, require_array
from voxpop.core.phases import Answered, End, Feedback, Forecast, Info, Plan, check_scale, latest_warning
from voxpop.core.problem import Problem
from voxpop.core.state import State
from voxpop.drivers.phase import Phase, entry_of, next_phase, release_phase
from voxpop.formats import wire
from voxpop.formats.files import read_text, write_atomically
from voxpop.policies import DEFAULT, Policy, make_policy
from voxpop.privacy import Ledger, NoPrivacy, Privacy, Secure
from voxpop.privacy.models import privacy_from_settings

KIND = "voxpop study"


@dataclass(frozen=True)
class Question:
    """One phase in terms of the problem's own decisions: play each for its rounds, then ask this many people."""

    phase: int
    decisions: tuple[Any, ...]
    rounds: tuple[int, ...]
    people: int
    meanwhile: Any = None  # the decision to keep in force until the answers are in
    rest: int = 0  # the rounds that are expected to pass until then
    forecast: Forecast | None = None  # what the phase is expected to bring and to cost, if the policy knows


@dataclass(frozen=True)
class Answer:
    """What to do now, and how sure that is."""

    index: int
    decision: Any
    low: float  # the reward of the decision is between low and high
    high: float
    regret: float  # certified: no decision is better by more than this
    expected_loss: float | None  # what the model expects this decision to lose per round, if the policy knows
    certain: bool  # nothing else can be best


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
    `Study.load(path)` with the same plans.
    """

    def __init__(
        self,
        problem: Problem,
        policy: Policy | str = DEFAULT,
        path: str | PathLike[str] | None = None,
        privacy: Privacy | None = None,
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
        self.path = None if path is None else Path(path)
        self.log: list[Answered] = []
        self.infos: list[Info] = []
        self.state: State = self.policy.init(problem)
        self.ended: str | None = None  # why nothing is left to ask, once `ask` has returned None
        self._pending: Phase | None = None
        if self.path is not None:
            if self.path.exists():
                raise InputError(f"{self.path} exists already; open it with Study.load or choose another path")
            self.save(self.path)

    def ask(self) -> Question | None:
        """Return the phase to play now; None when nothing is left to learn. Asking again gives the same phase."""
        if self._pending is None:
            phase = next_phase(self.problem, self.policy, self.privacy, self.state)
            if isinstance(phase, End):
                self.ended = phase.reason
                return None
            with self._all_or_nothing():
                self._pending = phase
        plan = self._pending.plan
        decisions = tuple(self.problem.decisions[arm] for arm in plan.arms.tolist())
        meanwhile = self.problem.decisions[plan.reference]
        rounds = tuple(plan.pulls.tolist())
        return Question(plan.phase, decisions, rounds, plan.people, meanwhile, plan.rest, plan.forecast)

    def tell(self, phase: int, feedback: object) -> None:
        """Take the feedback of the phase that was asked, in one of three forms.

        * a matrix: one row per person and one column per decision, in the order of the question;
        * records: {"person": ..., "decision": ..., "average": ...}, one for each person and decision;
        * an aggregate: {"mean": [...], "count": ...} or a `Feedback`.
        """
        pending = self._pending
        if pending is None:
            following = next_phase(self.problem, self.policy, self.privacy, self.state)
            if isinstance(following, End):
                raise InputError(
                    f"the study is over ({following.reason}) and takes no feedback for phase {phase}; see what is best"
                )
            raise InputError(f"no question is open that feedback for phase {phase} could answer; ask first")
        if phase != pending.plan.phase:
            raise InputError(
                f"feedback for phase {phase} does not answer the open question of phase {pending.plan.phase}"
            )
        with self._all_or_nothing():
            self._advance(pending.plan, self._release(pending, feedback))
            self._pending = None

    @property
    def best(self) -> Answer:
        """The best decision as far as the study knows now."""
        state, index = self.state, self.policy.best(self.problem, self.state)
        return Answer(
            index,
            self.problem.decisions[index],
            float(state.lower[index]),
            float(state.upper[index]),
            state.certificate,
            state.expected_loss,
            certain=len(state.active) == 1,
        )

    @property
    def warning(self) -> str:
        """What the model check found last, and what to do; empty if nothing is wrong."""
        return latest_warning(self.infos)

    def is_of(self, problem: Problem, policy: Policy, privacy: Privacy) -> bool:
        """Return True if this study has that problem, policy and trust model."""
        return (
            wire.problem_to_dict(self.problem) == wire.problem_to_dict(problem)
            and wire.policy_to_dict(self.policy) == wire.policy_to_dict(policy)
            and self.privacy.settings() == privacy.settings()
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the study to a file in one step."""
        content = {
            "problem": wire.problem_to_dict(self.problem),
            "policy": wire.policy_to_dict(self.policy),
            "privacy": self.privacy.settings(),
            "ledger": wire.ledger_to_list(self.ledger),
            "log": [[wire.plan_to_dict(plan), wire.feedback_to_dict(feedback)] for plan, feedback in self.log],
            "pending": None if self._pending is None else wire.plan_to_dict(self._pending.plan),
        }
        write_atomically(Path(path), wire.pack(KIND, content))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Study:
        """Read a saved study; later changes are saved to the same file."""
        source = Path(path)

        def decode(content: dict[str, Any]) -> Study:
            problem, policy = wire.problem_from_dict(content["problem"]), wire.policy_from_dict(content["policy"])
            study = cls(problem, policy, privacy=privacy_from_settings(content["privacy"]))
            study.ledger = wire.ledger_from_list(study.privacy.budget, content["ledger"])
            for plan, feedback in content["log"]:
                study._advance(wire.plan_from_dict(plan), wire.feedback_from_dict(feedback))
            if content["pending"] is not None:
                plan = wire.plan_from_dict(content["pending"])
                study._pending = Phase(plan, study.privacy.calibrate(problem, study.state, plan))
            return study

        study = wire.unpack(KIND, read_text(source), str(source), decode)
        study.path = source
        return study

    def _advance(self, plan: Plan, feedback: Feedback) -> None:
        self.state, info = self.policy.advance(self.problem, self.state, plan, feedback)
        self.log.append(Answered(plan, feedback))
        self.infos.append(info)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Save the changes made inside; if anything fails, undo them."""
        state, pending, phases, charged = self.state, self._pending, len(self.log), len(self.ledger.entries)
        try:
            yield
            if self.path is not None:
                self.save(self.path)
        except BaseException:
            self.state, self._pending = state, pending
            del self.log[phases:], self.infos[phases:]
            self.ledger = Ledger(self.privacy.budget, self.ledger.entries[:charged])
            raise

    def _release(self, phase: Phase, feedback: object) -> Feedback:
        """Turn feedback in any of the three forms into private feedback, charged to the ledger."""
        plan = phase.plan
        names: tuple[str, ...] = ()
        if isinstance(feedback, Mapping):
            if set(feedback) != {"mean", "count"}:
                raise InputError(f"an aggregate has the keys mean and count, got {sorted(map(str, feedback))}")
            feedback = Feedback(feedback["mean"], feedback["count"])
        if isinstance(feedback, Feedback):
            return self._aggregate(phase, feedback)
        if isinstance(feedback, Sequence) and any(isinstance(record, Mapping) for record in feedback):
            feedback, names = self._matrix(plan, feedback)
        matrix = require_array("feedback", feedback)
        if matrix.ndim != 2 or matrix.shape[1] != len(plan.arms) or not len(matrix):
            raise InputError(
                f"phase {plan.phase} takes a matrix of shape (people, {len(plan.arms)}), got {matrix.shape}"
            )
        released, entry = release_phase(phase, phase.release.tally(matrix), self.ledger, Secure(), names)
        self.ledger.record(entry)
        return released

    def _aggregate(self, phase: Phase, feedback: Feedback) -> Feedback:
        """Take an average that was computed elsewhere; it cannot be clipped, so privacy refuses it."""
        if self.privacy.model != "none":
            raise InputError("an aggregate cannot be made private afterwards; tell the answers one by one")
        feedback.check(phase.plan)
        check_scale(float(np.abs(feedback.mean).max()), self.problem.grid_step)
        self.ledger.charge(entry_of(phase, feedback.count))
        return feedback

    def _matrix(self, plan: Plan, records: Iterable[object]) -> tuple[Array, tuple[str, ...]]:
        """Turn records into a matrix and the people of its rows; refuse missing and repeated answers."""
        columns = {arm: column for column, arm in enumerate(plan.arms.tolist())}
        rows: dict[Any, dict[int, float]] = {}
        for number, record in enumerate(records, start=1):
            if not isinstance(record, Mapping) or set(record) != {"person", "decision", "average"}:
                raise InputError(f"record {number} must have the keys person, decision and average, got {record!r}")
            arm = self.problem.decisions.find(record["decision"])
            if arm not in columns:
                raise InputError(
                    f"record {number} is about {record['decision']!r}, which phase {plan.phase} did not ask"
                )
            answers = rows.setdefault(record["person"], {})
            if columns[arm] in answers:
                raise InputError(
                    f"person {record['person']!r} answered twice about {record['decision']!r}; give one average"
                )
            answers[columns[arm]] = record["average"]
        for person, answers in rows.items():
            missing = [self.problem.decisions[arm] for arm, column in columns.items() if column not in answers]
            if missing:
                raise InputError(
                    f"person {person!r} has no answer about {missing[0]!r}; leave out or complete this person"
                )
        matrix = [[answers[column] for column in range(len(columns))] for answers in rows.values()]
        return np.atleast_2d(require_array("feedback", matrix)), tuple(map(str, rows))
