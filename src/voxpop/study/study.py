"""Ask/tell: the same waves, driven by your own program and your own people."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from voxpop.calibration.fit import Calibration
from voxpop.errors import InputError, require_integer, said_of
from voxpop.io.schema import asks_again
from voxpop.journal.file import JournalFile, write_copy
from voxpop.journal.journal import Amended, Course, Defined, Definition, Event, Opened, Read, TakenBack, fold
from voxpop.journal.question import Answer, Question, parameters_of
from voxpop.journal.schedule import decision_at
from voxpop.journal.watch import Watched, rounds_passed, watched
from voxpop.journal.wave import ClosedWave, Wave, error_ratio
from voxpop.model.calendar import Calendar
from voxpop.model.decisions import Decisions
from voxpop.model.direction import Direction
from voxpop.model.menu import Menu
from voxpop.model.money import Money
from voxpop.model.problem import Problem, reward_range_of
from voxpop.model.state import State
from voxpop.model.strata import Strata
from voxpop.model.waves import Answered, End, Plan, changed
from voxpop.model.words import describe
from voxpop.policies import DEFAULT, Policy, make_policy, policy_options
from voxpop.privacy import Ledger, NoPrivacy, Privacy
from voxpop.report.notebook import HasCourse
from voxpop.runtime.frames import Table, is_frame
from voxpop.study import answers
from voxpop.study.tabular import long_records

if TYPE_CHECKING:
    from voxpop.calibration.protected import Protection

NAMED = ("name", "reward", "calendar", "on_wave")  # what a study is told besides the settings of its policy
BEGUN_WITH = ("problem", "policy", "privacy", "strata", "direction")  # what does not change while a study goes on


class BaseStudy(Defined, HasCourse):
    """State and persistence of a study, whoever collects its answers."""

    sees_answers: ClassVar[bool] = False  # people's own answers, so that devices need not randomise them
    horizon_change: tuple[int, int] | None = None  # before, and in the study file it was opened with
    decisions_change: tuple[int, int] | None = None  # how many the study file it was opened with adds and withdraws
    _journal: JournalFile | None

    definition = Read[Definition]("_course.definition", "What the study began with, with its amendments.")
    best = Read[Answer]("_course.answer", "The best decision as far as the study knows now.")
    warning = Read[str](
        "_course.warning", "What the model check found last, and what to do; empty if nothing is wrong."
    )
    ledger = Read[Ledger]("_course.ledger", "What was released about whom.")
    state = Read[State]("_course.state", "What the policy has learned.")
    closed = Read[tuple[ClosedWave, ...]]("_course.closed", "The waves that are over.")

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
        if not self.sees_answers and (who := asks_again(definition.policy)):
            raise InputError(
                f"who = {who!r} asks the same people in every wave, and devices answer once; ask fresh people"
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
    def ended(self) -> str | None:
        """Why nothing is left to ask; None if there is something."""
        following = self._course.following
        return following.reason if isinstance(following, End) else None

    @property
    def private(self) -> bool:
        """True if people are promised privacy; then nothing is refused for its value."""
        return self.privacy.model != NoPrivacy.model

    @property
    def log(self) -> list[Answered]:
        """The plans and the feedback of all waves that are over."""
        return [Answered(wave.plan, wave.feedback) for wave in self.closed]

    @property
    def path(self) -> Path | None:
        """The file that every change is saved to, if any."""
        return None if self._journal is None else self._journal.path

    def decision_at(self, when: datetime | date | str) -> Any:
        """Return the decision in force at a time: of waves as planned, and after the last one the best known.

        It is None before the calendar's start and on its closed days. A time without a zone is the calendar's.
        """
        return decision_at(self._course, when)

    def differs_from(self, other: Definition) -> str | None:
        """Return the part in which another definition differs: problem, policy and so on; None if there is none."""
        ours, theirs = self.definition.encode(), other.encode()
        return next((part for part in BEGUN_WITH if ours.get(part) != theirs.get(part)), None)

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
            self._add(Opened(self._in_order(following.plan), following.release))
        return self._course.wave

    def _in_order(self, plan: Plan) -> Plan:
        """Return the plan with random orders of play.

        It is in blocks where people's own answers are seen, unless the column block is that of a parameter.
        """
        if not self.sees_answers or "block" in parameters_of(self.problem.decisions[0]):
            plan = changed(plan, blocks=1)
        return plan.shuffled(np.random.default_rng(secrets.randbits(128)))

    def _add(self, *events: Event) -> None:
        """Add events to the journal, and take them into account; if they cannot be saved, nothing happened."""
        course = self._course
        for event in events:
            course = course.after(event)
        if self._journal is not None:
            self._journal.append(events, self._course.events)
        self._course, self._events = course, [*self._events, *events]


class Study(BaseStudy):
    """A study that remembers its plans and feedback, and nothing else.

    >>> from voxpop.model.kernels import SquaredExponential
    >>> problem = Problem([[0.0], [0.5], [1.0]], SquaredExponential(0.3), 0.01, 0.1, norm_bound=1.0, horizon=50)
    >>> study = Study(problem)
    >>> question = study.ask()
    >>> question.decisions, question.rounds, question.people
    (([0.0], [0.5], [1.0]), (1, 1, 1), 16)
    >>> study.tell(question.wave, [[0.3, 0.6, 0.2]] * 20)
    >>> study.best.decision, study.ask(), study.ended
    ([0.5], None, 'nothing else can be best')

    With a `path` the study is saved after every change, so that a program killed at any moment goes on from
    `Study.load(path)` with the same plans. Only one program changes the file at a time, and one that opened it before
    another changed it is refused.

    With `direction="minimize"` people answer with costs, delays or distances, and the least is best. Everything that is
    handed in or read is then a cost: the problem's prior mean and pilot, the answers, and the bounds of `best`.

    `name` and `reward` are what the study and its reward are called in reports. With a `calendar` its rounds have
    dates: `ask().schedule()` has those of the open wave. With `money` gains, costs and losses are those of all people.
    """

    on_wave: Callable[[Study], object] | None = None  # called with the study after a wave was closed and saved
    sees_answers = True

    def __init__(
        self,
        problem: Problem,
        policy: Policy | str = DEFAULT,
        path: str | PathLike[str] | None = None,
        privacy: Privacy | None = None,
        strata: Strata | Mapping[str, float] | None = None,
        on_wave: Callable[[Study], object] | None = None,
        *,
        direction: str = Direction.MAXIMIZE,
        name: str | None = None,
        reward: str | None = None,
        calibration: Calibration | None = None,
        calendar: Calendar | None = None,
        money: Money | None = None,
        **settings: Any,
    ) -> None:
        policy, privacy, strata = _require_settings(
            problem.horizon, policy, privacy, strata, money, calendar=calendar, **settings
        )
        towards = Direction.of(direction)
        begun = Definition(
            towards.problem(problem),
            policy,
            privacy,
            name or ("study" if path is None else Path(path).stem),
            reward or towards.measure,
            towards,
            strata,
            calendar,
            calibration=calibration,
            money=money,
        )
        self._begin(begun, None if path is None else Path(path))
        self.on_wave = on_wave

    @classmethod
    def from_file(
        cls, path: str | PathLike[str], newest: bool = False, *, begin: bool = True, looking: bool = False
    ) -> Study:
        """Begin the study of a study file, or go on with it, as `voxpop ask` does.

        The study is saved beside the file, with the ending .json, unless it has not begun and `begin` is False. If the
        horizon of the file was changed, so is that of the study, unless one is only `looking`. `newest` is that of
        `load`.

        >>> from tempfile import mkdtemp
        >>> file = Path(mkdtemp()) / "tea.toml"
        >>> _ = file.write_text('''
        ... name = "tea"
        ... horizon = 50
        ... parameters.price = {type = "float", low = 1.0, high = 3.0, points = 3}
        ... kernel = {type = "squared-exponential", length_scale = 0.3}
        ... model = {noise_std = 0.01, bias_std = 0.1, norm_bound = 1.0}
        ... ''')
        >>> question = Study.from_file(file).ask()
        >>> Study.from_file(file).ask() == question
        True
        """
        from voxpop.io.studyfile import read_study_file

        path = Path(path)
        memory, (given, gives_beta) = path.with_suffix(".json"), read_study_file(path)
        if not memory.exists():
            return cls._begun_as(given, memory if begin and not looking else None)
        study = cls.load(memory, newest)
        before, horizon = study.problem.horizon, given.problem.horizon
        offered = given.problem.decisions
        beta = given.problem.beta if gives_beta else study.problem.beta  # or else that of the first horizon
        kept = replace(as_begun(given.problem, study.problem), beta=beta)
        if study.differs_from(replace(given, problem=kept)):
            raise InputError(
                f"{path} was changed after its study began, and only its horizon, reward_range and "
                f"decisions may be; undo the other changes, or move {memory} away to begin a new study"
            )
        study._course = study._course.named(given.name, given.reward, given.calendar)
        if not looking and study.course.wave is None:
            with said_of(path):
                study.change_decisions(offered)
        if horizon != before:
            study.horizon_change = (before, horizon)
            if not looking:
                with said_of(path):
                    study.change_horizon(horizon)
        if given.problem.limits != study.problem.limits and not looking:
            with said_of(path):
                study.change_reward_range(study.direction.problem(given.problem).reward_range)
        return study

    @classmethod
    def from_pilot(
        cls,
        pilot: object,
        horizon: int = 20_000,
        points: int | Mapping[str, int] | None = None,
        path: str | PathLike[str] | None = None,
        *,
        direction: str = Direction.MAXIMIZE,
        kernel: str = "auto",
        margin: float = 1.5,
        protection: Protection | None = None,
        reward_range: str | None = None,
        history: object = None,
        person: str | None = None,
        reward: str | None = None,
        ignore: str | Sequence[str] = (),
        parameter: str | Sequence[str] = (),
        choice: str | Sequence[str] = (),
        metric: str | Sequence[str] = (),
        wide: str | None = None,
        low: float | Mapping[str, float] | None = None,
        high: float | Mapping[str, float] | None = None,
        log: str | Sequence[str] = (),
        integer: str | Sequence[str] = (),
        values: object = None,
        step: object = None,
        only: str | None = None,
        allowed: object = None,
        guardrails: str | Sequence[str] = (),
        today: Mapping[str, Any] | None = None,
        resume: bool = False,
        **named: Any,
    ) -> Study:
        """Begin a study with the constants that a pilot says, and learn from its answers.

        The pilot is a DataFrame, records, the path of a CSV or Parquet file, or a `Pilot`. A table is read as `voxpop
        calibrate` reads it: `person`, `reward`, `ignore`, `parameter`, `choice`, `metric` and `wide` say what its
        columns are, `low`, `high`, `log` and `integer` what its numbers are, rows of one person and decision are
        averaged, and `study.calibration.notes` says how it was read.

        `values`, `step`, `points`, `only` and `allowed` say which decisions exist: {"price": [2.99, 3.49]}, {"price":
        0.1}, a number of values, a formula, or the decisions themselves. The other arguments are those of `calibrate`
        and of `from_calibration`. `guardrails` are rules about other columns of the pilot, such as "retention >= -2%",
        and `today` is the decision in force, with which they are compared, and from which safe trials start. A history
        may be the path of a CSV file, too. With a protection each call draws new noise; that of a CSV file is drawn
        once and kept beside it. With `resume` a study that was saved at the path goes on.

        >>> import numpy as np, pandas as pd
        >>> rng, prices = np.random.default_rng(0), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        >>> rows = [(who, p, 3 - (p - 4 - t) ** 2 / 4) for who in range(40) for t in [rng.normal()] for p in prices]
        >>> pilot = pd.DataFrame(rows, columns=["person", "price", "reward"])
        >>> study = Study.from_pilot(pilot, horizon=2_000, step=0.5, reward="profit")
        >>> question = study.ask()
        >>> table = question.table()
        >>> table["reward"] = 3 - (table["price"] - 4) ** 2 / 4
        >>> study.tell(question.wave, table)
        >>> study.best.decision
        {'price': 4.0}
        """
        from voxpop.io.columns import Roles
        from voxpop.io.pilots import calibration_of
        from voxpop.io.ranges import Ranges, labels_of

        named = {**named, "reward": reward}
        _require_settings(horizon, **named)
        if path is not None and resume and Path(path).exists():
            return cls._resumed(Path(path), horizon, direction, **named)
        if path is not None:
            JournalFile(Path(path)).require_new()  # refused before anything is released of the pilot
        menu = Menu.of(points, values, step, only, labels_of(allowed))
        about = {"parameters": parameter, "ignored": ignore, "choices": choice, "metrics": metric}
        names: dict[str, Any] = {role: _listed(said) for role, said in about.items()}
        least, most = (
            said if isinstance(said, Mapping) else {} if said is None else {"": said} for said in (low, high)
        )
        roles = (
            Roles(**names, person=person, reward=reward, wide=wide, perhaps=True),
            Ranges(least, most, _listed(log), _listed(integer), menu),
            _listed(guardrails),
            today,
        )
        found = calibration_of(pilot, direction, kernel, margin, protection, reward_range, history, *roles)
        return cls.from_calibration(found, horizon, menu, path, **named)

    @classmethod
    def _resumed(cls, path: Path, horizon: int, direction: str, **named: Any) -> Study:
        """Go on with a saved study; refuse one with another policy, trust model or direction."""
        study = cls.load(path)
        if not named.keys() & {"policy", "cycle"}:  # a cycle is that of the history
            named |= {name: value for name, value in study.policy.settings().items() if name == "cycle"}
        policy, privacy, _ = _require_settings(horizon, **named)
        given = replace(study.definition, policy=policy, privacy=privacy, direction=Direction.of(direction))
        if other := study.differs_from(given):
            raise InputError(f"the study saved at {path} has another {other}; give the same, or another path")
        if horizon != study.problem.horizon:
            study.change_horizon(horizon)
        study._course = study._course.named(named.get("name") or study.name, named["reward"], named.get("calendar"))
        study.on_wave = named.get("on_wave")
        return study

    @classmethod
    def from_calibration(
        cls,
        calibration: Calibration,
        horizon: int = 20_000,
        points: int | Mapping[str, int] | Menu | None = None,
        path: str | PathLike[str] | None = None,
        **named: Any,
    ) -> Study:
        """Begin a study with calibrated constants: `points` values of each numeric parameter, or those of a `Menu`.

        Unless given, they are the pilot's values if these are few, and round numbers otherwise. The other arguments are
        those of `Study`: policy, privacy, name, reward, and when to stop asking.

        >>> from voxpop import Pilot, calibrate
        >>> rows = [{"person": who, "price": p, "reward": who % 3 - p} for who in range(9) for p in (1, 2, 4)]
        >>> Study.from_calibration(calibrate(Pilot.from_table(rows)), horizon=500, points=4).problem.size
        4
        """
        _require_settings(horizon, **named)
        menu, space = points if isinstance(points, Menu) else Menu(points), calibration.require_space()
        if not named.keys() & {"policy", "cycle"}:
            calibration, found = calibration.in_cycles(horizon)
            named |= found
        problem = calibration.problem(menu.fitted(space, calibration.pilot).decisions(space), horizon)
        return cls(problem, path=path, direction=calibration.direction, calibration=calibration, **named)

    def ask(self) -> Question | None:
        """Return the wave to play now; None when nothing is left to learn.

        Asking again gives the same wave, in the same random order of play.
        """
        self._next_wave()
        return self._course.question

    def played(self, otherwise: Mapping[int, object]) -> Question:
        """Say which rounds of the open wave were not played as planned; return whom to ask about what now.

        Rounds have the numbers of `Question.schedule`; each has the decision that was in force instead, or None if none
        of the study's was. Rounds that are not named were played as planned. Say it before people are asked; saying it
        again replaces what was said before. Blocks and decisions are used as they were played, and those that cannot be
        compared are left out. Why a round was played otherwise must have nothing to do with what it would have brought.

        >>> from voxpop.model.kernels import SquaredExponential
        >>> problem = Problem([[0.0], [0.5], [1.0]], SquaredExponential(0.3), 0.01, 0.1, norm_bound=1.0, horizon=50)
        >>> study = Study(problem)
        >>> first = study.ask().schedule()[0]
        >>> len(study.played({first["round"]: None}).decisions), len(study.played({}).decisions)
        (2, 3)
        """
        if self._course.wave is None:
            raise InputError("no wave is open whose rounds could have been played otherwise; ask first, or undo")
        plan, first = self._course.wave.plan, self._course.rounds + 1
        actions = (plan.planned or plan).sequence.copy()
        for number, decision in otherwise.items():
            turn = require_integer("a round of the wave", number, least=first, most=first + plan.length - 1) - first
            if turn < len(actions):  # later ones are not asked about
                with said_of(f"round {number}"):
                    actions[turn] = -1 if decision is None else self.problem.decisions.find(decision)
        if not np.array_equal(actions, plan.sequence):
            plan = plan.as_played(actions)
            self._add(Opened(plan, self.privacy.calibrate(self.problem, self.state.unsealed, plan)))
        question = self._course.question
        assert question is not None
        return question

    def tell(self, wave: int, feedback: object, partial: bool = False) -> None:
        """Take the feedback of the wave that was asked, in one of these forms.

        * a matrix: one row per person and one column per decision, in the order of the question;
        * records: {"person": ..., "decision": ..., "average": ...}, one for each person and decision;
        * a long DataFrame: one row per person and decision, with the columns person, one for each parameter, and reward
          (or average, or cost if the study minimises), as `Question.table` makes it;
        * a wide DataFrame: one row per person, with a column person (or an index of that name) if people are named, and
          one column per decision, called as `Question.labels` says;
        * a dictionary: {person: {decision: average}}, or {decision: averages of all people}, with the same labels;
        * an aggregate: {"mean": [...], "count": ...} or a `Feedback`.

        With guardrails records have a key, and long tables a column, for each metric; a row of a matrix and a mean have
        the numbers of the objective first, and then those of each metric.

        In a study with strata, records have the key "stratum" as well and tables a column of that name, or there is
        one of these for each stratum: {"young": ..., "old": ...}. Each stratum then counts with its share.

        If the wave is in blocks, records have the key "block" and tables a column of that name, which says the rounds
        that a person was asked about; all blocks count the same. Without it people must be as many as were asked, and
        in the order of `Question.table`.

        This closes the wave, so fewer people than were asked, and people who left answers out, are refused unless
        `partial` is True. An answer that was left out then costs no other of that person, but with guardrails, where
        such people are left out; after fewer people certificates are larger, as who has seen the answers may have
        chosen the moment. In a private study no answer is refused for its value: NaN, and what a record leaves out,
        counts as the centre of the ball that answers are clipped to.
        """
        pending = self._course.wave
        if pending is None:
            if self.ended is not None:
                raise InputError(
                    f"the study is over ({self.ended}) and takes no feedback for wave {wave}; see what is best"
                )
            raise InputError(f"no question is open that feedback for wave {wave} could answer; ask first")
        if wave != pending.plan.wave:
            raise InputError(f"feedback for wave {wave} does not answer the open question of wave {pending.plan.wave}")
        measure = self.direction.measure
        told = answers.read(self.problem, pending.plan, feedback, self.private, self.strata, measure, partial=partial)
        if not self.private:
            answers.require_within(self.problem, pending.plan, told, self.direction)
            answers.require_people(pending.plan, told, self.ledger)
        if told.count < pending.plan.people and not partial:
            ratio = error_ratio(self.problem, self.privacy, self.state, pending.plan, told.effective)
            raise InputError(answers.too_few(pending.plan, told.count, ratio, self.state))
        told = answers.turned(told, self.direction, self.problem, pending.plan)
        self._add(answers.released(self.problem, pending, told, self.ledger, self.private))
        if self.on_wave is not None:
            self.on_wave(self)

    def attach(self, earlier: object) -> None:
        """Take answers that people gave before the study; only until the first `ask`.

        * records: {"person": ..., "decision": ..., "average": ..., "rounds": 20}, the rounds 1 if left out;
        * a long DataFrame, with the columns person, one for each parameter, reward and, if not 1, rounds;
        * an aggregate: {"decisions": [...], "mean": [...], "count": ..., "rounds": 20};
        * `Evidence` of one group of people, or a list of groups.

        They count as the pilot's answers do. A private study does not protect the people behind them, unless noise
        was added to their averages before, which `Evidence` can say.

        >>> from voxpop.model.kernels import SquaredExponential
        >>> problem = Problem([[0.0], [0.5], [1.0]], SquaredExponential(0.3), 0.01, 0.1, norm_bound=1.0, horizon=50)
        >>> study = Study(problem)
        >>> study.attach({"decisions": [[0.0], [1.0]], "mean": [0.3, 0.2], "count": 40})
        >>> study.best.decision, study.problem.pilot[0].people
        ([0.0], 40)
        """
        if self._course.wave is not None or self.closed:
            raise InputError("earlier answers must be attached before the first question; begin a new study with them")
        if is_frame(earlier):
            others = ["rounds"] if self.strata is None else ["rounds", "stratum"]
            earlier = long_records(self.problem, Table.of(earlier), self.direction.measure, others)
        groups = answers.evidence_of(self.problem, earlier, self.strata, self.direction)
        self._add(Amended(pilot=tuple(map(self.direction.evidence, groups))))

    def take_back(self) -> None:
        """Open the last wave again, as it was asked; only until the next `ask`.

        What was certified with its answers has been seen, so that certificates are larger from then on. In a private
        study its release stays charged, too, and its people have taken part.
        """
        if self._course.wave is not None or not self.closed:
            raise InputError(
                "nothing can be taken back; only what was told last can be, until the next question is asked"
            )
        wave = self.closed[-1].plan.wave
        if self.private and not self.ledger.entries[-1].names:
            raise InputError(
                f"wave {wave} was released about people without names, so nobody could see whether the same people "
                "are told again; only what was told with names can be taken back"
            )
        self._add(TakenBack(wave))

    def watch(self, rounds: int | None = None) -> Watched:
        """Go on with a study that is over: so many rounds have passed with its decision in force.

        With a calendar it says how many, and without rounds nothing passes. What was certified ages by the policy's
        `drift`; when it no longer holds within the tolerance, or asking pays again, `ask` returns a standing wave.
        """
        passed = rounds_passed(self._course, rounds, datetime.now(UTC))
        if passed:
            self._add(Amended(passed=passed))
        return watched(self._course)

    def change_horizon(self, horizon: int) -> None:
        """Go on for another number of rounds; an open question stays as it was asked.

        The rounds only matter to what is planned from now on. What the study has stated keeps its levels, and `beta`
        stays what it was, so that nothing certified depends on the change. Once something was certified, later
        certificates are larger.
        """
        played = self.state.rounds + (0 if self._course.wave is None else self._course.wave.plan.length)
        if require_integer("horizon", horizon, least=1) < played:
            raise InputError(
                f"the waves so far, with the open one, take {played:,} rounds, more than a horizon of {horizon:,}; "
                f"give at least {played:,}"
            )
        self._add(Amended(horizon))

    def change_decisions(self, decisions: Decisions | Sequence[Mapping[str, Any]]) -> None:
        """Say which decisions exist from now on: others than before are added, and those that are not named withdrawn.

        Not while a wave is open. Which ones may depend on what was certified. So what is certified from now on rests on
        the waves that follow, and until then on what was said of all decisions together; all answers still count for
        the recommendation. New decisions must be within the parameters' ranges.

        >>> from voxpop.model.kernels import SquaredExponential
        >>> study = Study(Problem([0.0, 0.5, 1.0], SquaredExponential(0.3), 0.01, 0.1, norm_bound=1.0, horizon=50))
        >>> study.change_decisions(Decisions([0.0, 0.25, 0.5]))
        >>> [decision for decision in study.ask().decisions]
        [[0.0], [0.5], [0.25]]
        """
        if not isinstance(decisions, Decisions):
            if self.calibration is None:
                raise InputError("the study knows no ranges of parameters; give Decisions, or change the study file")
            decisions = self.calibration.require_space().listed(decisions)
        known = self.problem.decisions
        places = {tuple(point): place for place, point in enumerate(known.points.tolist())}
        rows = [tuple(point) for point in decisions.points.tolist()]
        named = [places[row] for row in rows if row in places]
        new = [place for place, row in enumerate(rows) if row not in places]
        withdrawn = tuple(sorted(set(range(len(known))) - set(named)))
        before = self._course.menus[-1][2] if self._course.menus else ()
        if not new and withdrawn == before:
            return
        if self._course.wave is not None:
            raise InputError(f"wave {self._course.wave.plan.wave} is open; hand in its answers before decisions change")
        if len(rows) < 2:
            raise InputError(f"a study chooses among two decisions or more, and {len(rows)} is left; keep others")
        if not same_scale(known, decisions):
            raise InputError("the ranges of the parameters were changed, too; keep them, or begin a new study")
        labels = () if decisions.labels is None else tuple(dict(decisions.labels[place]) for place in new)
        self._add(Amended(points=tuple(rows[place] for place in new), labels=labels, withdrawn=withdrawn))
        self.decisions_change = len(new), len(set(withdrawn) - set(before))

    def change_reward_range(self, reward_range: str) -> None:
        """Widen the limits of rewards or costs, such as "0:1" or ":", and say again what was certified, with these."""
        told = self.direction.problem(self.problem)
        (low, high), before = reward_range_of(reward_range), told.limits
        if low > before[0] or high < before[1]:
            raise InputError(
                f"the reward_range {told.reward_range} of a study that has begun can be widened, and {reward_range} is "
                "narrower; leave it as it was"
            )
        self._add(Amended(reward_range=self.direction.problem(replace(told, reward_range=reward_range)).reward_range))


def as_begun(given: Problem, begun: Problem) -> Problem:
    """Return what a study file says, with what may be changed in it as it was when the study began."""
    known, today = begun.decisions, given.today
    alike = same_scale(known, given.decisions)
    if today is not None:
        alike &= given.decisions.points[today].tolist() in known.points.tolist()
    found = given.among(known) if alike else given
    rails = found.guardrails
    if len(rails) == len(begun.guardrails):
        were = [one.problem for one in begun.guardrails]
        told = [replace(one.problem, horizon=was.horizon, beta=was.beta) for one, was in zip(rails, were, strict=True)]
        rails = tuple(replace(one, problem=problem) for one, problem in zip(rails, told, strict=True))
    return replace(found, horizon=begun.horizon, reward_range=begun.reward_range, guardrails=rails)


def same_scale(known: Decisions, others: Decisions) -> bool:
    """Tell whether the same points have the same names in both, and the same names the same points."""
    if (known.labels is None) != (others.labels is None) or known.points.shape[1] != others.points.shape[1]:
        return False
    named = {describe(label): tuple(point) for label, point in zip(known, known.points.tolist(), strict=True)}
    points = {point: name for name, point in named.items()}
    pairs = [(describe(label), tuple(point)) for label, point in zip(others, others.points.tolist(), strict=True)]
    return all(named.get(name, point) == point and points.get(point, name) == name for name, point in pairs)


def _listed(said: str | Sequence[str]) -> tuple[str, ...]:
    """Return one name or several as several."""
    return (said,) if isinstance(said, str) else tuple(said)


def _require_settings(
    horizon: int,
    policy: Policy | str = DEFAULT,
    privacy: Privacy | None = None,
    strata: Strata | Mapping[str, float] | None = None,
    money: Money | None = None,
    **named: Any,
) -> tuple[Policy, Privacy, Strata | None]:
    """Make the policy, the trust model and the strata; refuse what cannot be a study, before anything is computed."""
    settings = {name: value for name, value in named.items() if name not in NAMED}
    require_integer("horizon", horizon, least=1)
    for name, given, kind, made in (
        ("privacy", privacy, "a trust model", "make_privacy('central', 5.0)"),
        ("calendar", named.get("calendar"), "a Calendar", "Calendar('week', '2026-03-02', 'Europe/Berlin')"),
        ("money", money, "Money", "Money('EUR', people=40_000)"),
    ):
        if isinstance(given, str | Mapping):
            raise InputError(f"{name} must be {kind}, got {given!r}; make one: {made}")
    if "epsilon" in settings:
        made = f"privacy=make_privacy('central', epsilon={settings['epsilon']!r})"
        raise InputError(f"epsilon is what a trust model promises; give {made} instead of epsilon")
    if isinstance(policy, str):
        known = [one.name for one in policy_options(policy)]
        policy = make_policy(policy, **(settings if money is None else money.settings(known, settings)))
    elif money is not None:
        raise InputError(f"money sets the price of answers of a policy; give its name, policy={policy.name!r}")
    return policy, privacy or NoPrivacy(), Strata(strata) if isinstance(strata, Mapping) else strata
