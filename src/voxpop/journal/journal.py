"""The one journal of a study, and its one fold: what happened, and what follows from it.

A study is its definition and the events since. `fold` makes the `Course` of them: the state, the waves that are over,
the open one, and what the ledger was charged for. A step appends an event and makes a new course; it leaves the old one
alone, so a step that could not be saved is undone by keeping the old course. Nothing here knows of files or databases:
`JournalFile` and the service's `SqlJournal` keep the events, behind `read` and `append`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from voxpop.calibration.fit import Calibration
from voxpop.errors import Array, InputError
from voxpop.io.schema import Definition as Definition
from voxpop.io.schema import decode, decode_release, encode
from voxpop.journal.question import Answer, Question, confidence_of
from voxpop.journal.wave import ClosedWave, Wave, next_wave
from voxpop.model.calendar import Calendar
from voxpop.model.decisions import Decisions
from voxpop.model.direction import Direction
from voxpop.model.money import Money
from voxpop.model.problem import Evidence, Problem
from voxpop.model.state import State
from voxpop.model.strata import Strata
from voxpop.model.waves import End, Feedback, Forecast, Plan, changed, latest_warning
from voxpop.model.words import describe
from voxpop.policies import Policy
from voxpop.policies.protocol import Offering, Watching
from voxpop.privacy import Entry, Ledger, Privacy, Release

Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Opened:
    """A wave was planned and its release calibrated; if its rounds were played otherwise, once more, as they were."""

    plan: Plan
    release: Release


@dataclass(frozen=True, eq=False)
class Released:
    """The answers of the open wave were released, which the ledger was charged for."""

    feedback: Feedback
    entry: Entry


@dataclass(frozen=True)
class TakenBack:
    """The answers of the last wave were taken back after their release, which stays charged; the wave is open again."""

    wave: int


@dataclass(frozen=True, eq=False)
class Amended:
    """The number of rounds, the limits of rewards or the decisions were changed, answers were attached before the first
    wave, or rounds passed after the last one.
    """

    horizon: int | None = None
    pilot: tuple[Evidence, ...] = ()
    reward_range: str | None = None  # of what is maximised
    passed: int | None = None  # rounds, in which the decision was in force
    points: tuple[tuple[float, ...], ...] = ()  # of added decisions
    labels: tuple[dict[str, Any], ...] = ()
    withdrawn: tuple[int, ...] | None = None  # all decisions that exist no more


@dataclass(frozen=True)
class Finished:
    """No further wave follows."""

    reason: str = ""
    early: bool = False  # somebody ended it


Event = Opened | Released | TakenBack | Amended | Finished
KINDS: dict[str, type[Event]] = {
    "opened": Opened,
    "closed": Released,
    "taken back": TakenBack,
    "amended": Amended,
    "finished": Finished,
}


def encode_event(event: Event) -> tuple[str, dict[str, Any]]:
    """Return the kind of an event, and its body as plain data."""
    return next(name for name, made in KINDS.items() if type(event) is made), encode(event)


def decode_event(kind: str, body: Mapping[str, Any]) -> Event:
    """Read what `encode_event` wrote."""
    if kind == "opened":
        return Opened(decode(Plan, body["plan"]), decode_release(body["release"]))
    if kind == "closed":
        return Released(decode(Feedback, body["feedback"]), decode(Entry, body["entry"]))
    if kind not in KINDS:
        raise InputError(f"{kind!r} is no event of a study; known: {', '.join(KINDS)}")
    return decode(KINDS[kind], body)


class Read(property, Generic[Value]):
    """A property that is read from a part of its owner, such as `definition.problem`."""

    def __init__(self, path: str, says: str) -> None:
        super().__init__(attrgetter(path))
        self.__doc__ = says

    if TYPE_CHECKING:

        def __get__(self, owner: Any, kind: type | None = None, /) -> Value: ...  # type: ignore[override]


MAXIMISES = "It maximises: if the study minimises, its levels have the other sign."


class Defined:
    """Whatever has a definition, and says what that says: a course, and a study."""

    definition: Definition
    name = Read[str]("definition.name", "What the study is called.")
    problem = Read[Problem]("definition.problem", f"What is known of the decisions. {MAXIMISES}")
    policy = Read[Policy]("definition.policy", "What decides on the questions.")
    privacy = Read[Privacy]("definition.privacy", "The trust model.")
    reward = Read[str]("definition.reward", "What the reward is called.")
    direction = Read[Direction]("definition.direction", "Whether people answer with rewards or with costs.")
    money = Read[Money | None]("definition.money", "What the reward is worth, for how many people, if that is known.")
    unit = Read[str]("definition.unit", "What gains, costs and losses are measured in: money, or the reward's name.")
    calendar = Read[Calendar | None]("definition.calendar", "When its rounds are played, if that is known.")
    strata = Read[Strata | None]("definition.strata", "The parts of the population that are sampled apart, if any.")
    calibration = Read[Calibration | None](
        "definition.calibration", "Where the problem's constants come from, if that is known."
    )


@dataclass(frozen=True)
class Known:
    """What was known at some moment: the best decision, what is certified about it, and what it is expected to lose."""

    best: int
    certified: float  # infinite: nothing
    expected_loss: float | None
    left: int  # decisions that can still be best

    @classmethod
    def of(cls, definition: Definition, state: State) -> Known:
        """Say what is known in this state."""
        problem = definition.problem
        best = definition.policy.best(problem, state)
        loss, at_most = state.expected_loss, problem.limits[1] - float(problem.within(state.centre[best]))
        loss = None if loss is None else min(loss, at_most)
        return cls(best, state.proved(problem, best), loss, len(state.active))


@dataclass(frozen=True, eq=False)
class Course(Defined):
    """The course of a study up to now: what follows from its journal. It knows no truth: that is the simulator's alone.

    Tables, pictures and reports are made of it. Whatever shows a reward to people turns it by `direction`: `estimates`,
    `bounds` and `answer` are what people read, and `direction.turn` does the same for averages and for the truth.

    >>> from voxpop import Problem, SquaredExponential, Study
    >>> study = Study(Problem([[0.0], [0.5], [1.0]], SquaredExponential(0.3), 0.01, 0.1, norm_bound=1.0, horizon=50))
    >>> study.tell(study.ask().wave, [[0.3, 0.6, 0.2]] * 20)
    >>> study.course.people, study.course.numbers, study.course.answer.decision
    (20, 60, [0.5])
    """

    definition: Definition  # with its amendments
    state: State
    closed: tuple[ClosedWave, ...] = ()
    wave: Wave | None = None  # the one that is open
    entries: tuple[Entry, ...] = ()  # of the ledger, also for releases that were taken back
    ended: str | None = None  # why nothing more is asked; None if something is
    early: bool = False  # somebody ended it
    known: tuple[Known, ...] = ()  # before the first wave, and after each
    events: int = 0
    passed: tuple[tuple[int, int], ...] = ()  # rounds without a wave, and how many waves were over then
    menus: tuple[tuple[int, int, tuple[int, ...]], ...] = ()  # waves and decisions before, and what was withdrawn

    @classmethod
    def begin(cls, definition: Definition) -> Self:
        """Return the course of a study before anything was asked."""
        state = definition.policy.init(definition.problem)
        return cls(definition, state, entries=definition.charged, known=(Known.of(definition, state),))

    def after(self, event: Event) -> Self:
        """Return the course after one more event, whether it happens now or is read from a journal."""
        course = replace(self, events=self.events + 1)
        match event:
            case Opened(plan, release):
                return replace(course, wave=Wave(plan, release))
            case Released(feedback, entry):
                return replace(course._learned(feedback), entries=(*self.entries, entry))
            case TakenBack(wave):
                if self.wave is not None or not self.closed or self.closed[-1].plan.wave != wave:
                    raise InputError(
                        f"wave {wave} cannot be taken back, because it is not the one that was closed last"
                    )
                for since, what in ((self.passed, "rounds have passed"), (self.menus, "decisions came or went")):
                    if since and since[-1][0] == wave:
                        raise InputError(f"wave {wave} cannot be taken back, because {what} since; ask again")
                *_, before, _ = self.replayed()
                last = self.closed[-1]
                kept = replace(before, wave=Wave(last.plan, last.release), entries=self.entries)
                kept = replace(kept, ended=None, early=False, events=course.events, passed=self.passed)
                kept = replace(kept, menus=self.menus)._waited(self)
                spent = self.concluded.state.otherwise().spent  # what was said stays said
                return replace(kept, state=changed(kept.state, spent=spent))
            case Amended(passed=int(rounds)):
                now = self.concluded
                state = self.watching.passed(self.problem, now.state, rounds)
                passed = (*self.passed, (len(self.closed), rounds))
                return replace(now, state=state, passed=passed, ended=None, early=False, events=course.events)
            case Amended(withdrawn=tuple(withdrawn)):
                problem = extended(self.problem, event.points, event.labels)
                now = replace(self.concluded, definition=replace(self.definition, problem=problem))
                menus = (*self.menus, (len(self.closed), self.problem.size, withdrawn))
                now = replace(now, menus=menus, ended=None, early=False, events=course.events)
                return now._offering(withdrawn)
            case Amended(horizon, pilot, reward_range):
                problem = replace(
                    self.problem,
                    horizon=horizon or self.problem.horizon,
                    pilot=(*self.problem.pilot, *pilot),
                    reward_range=reward_range or self.problem.reward_range,
                )
                definition = replace(self.definition, problem=problem)
                if reward_range:  # all that was said rests on the limits
                    *_, again = replace(self, definition=definition).replayed(anew=True)
                    again = again._waited(self)
                    kept = replace(course, definition=definition, closed=again.closed, known=again.known)
                    state = changed(again.state, spent=self.concluded.state.spent)
                    return replace(kept, state=state, ended=None, early=False)
                if pilot:
                    begun = self.begin(definition)._waited(self)
                    return replace(course, definition=definition, ended=None, state=begun.state, known=begun.known)
                now = self.concluded
                amended = replace(now, definition=definition, ended=None, early=False, events=course.events)
                return replace(amended, state=now.state.otherwise())
            case Finished(reason, early):
                return replace(course, wave=None, ended=reason, early=early).concluded

    @cached_property
    def concluded(self) -> Self:
        """The course with all that is certified at the end, if nothing is left to ask.

        Who ends a study early has seen what was certified so far, so that nothing more is.
        """
        if self.early or not isinstance(self.following, End):
            return self
        state = self.state.concluded()
        if state is self.state:
            return self
        return replace(self, state=state, known=(*self.known[:-1], Known.of(self.definition, state)))

    def replayed(self, anew: bool = False) -> Iterator[Self]:
        """Yield the course before the first wave and after each that is over; learn the last `anew`, if wanted."""
        course = self.begin(self.definition)
        if later := self._later(0):
            course = course._offering(later)
        yield course
        for done in self.closed:
            course = course._waited(self)
            said = changed(course.state, spent=done.spent)  # every statement at the level it was made with
            course = replace(course, state=said, wave=Wave(done.plan, done.release))._learned(done.feedback)
            yield replace(course, state=self.state) if done is self.closed[-1] and not anew else course

    def _waited(self, whole: Course) -> Self:
        """Return the course after what came between its last wave and the next one of the whole course."""
        course = self
        for waves, rounds in whole.passed:
            if waves == len(self.closed):
                course = replace(course, state=self.watching.passed(self.problem, course.state, rounds))
        for number, (waves, _, withdrawn) in enumerate(whole.menus, 1):
            if waves == len(self.closed):
                course = course._offering((*withdrawn, *whole._later(number)))
        return course

    def _later(self, number: int) -> tuple[int, ...]:
        """List the decisions that did not exist yet when they had changed so many times."""
        return tuple(range(self.menus[number][1], self.problem.size)) if number < len(self.menus) else ()

    def _offering(self, withdrawn: tuple[int, ...]) -> Self:
        """Return the course once decisions were withdrawn, or added to its problem."""
        if not isinstance(self.policy, Offering):
            raise InputError(
                f"the policy {self.policy.name!r} decides among the decisions that it began with; use waves, "
                "or begin a new study"
            )
        state = self.policy.offering(self.problem, self.state, withdrawn)
        return replace(self, state=state, known=(*self.known[:-1], Known.of(self.definition, state)))

    def _learned(self, feedback: Feedback) -> Self:
        """Close the open wave with its feedback."""
        if self.wave is None:
            raise InputError("a release without an open wave cannot be; the journal lacks an event")
        feedback.check(self.wave.plan)
        state, info = self.policy.advance(self.problem, self.state, self.wave.plan, feedback)
        done = ClosedWave(self.wave.plan, self.wave.release, feedback, info, state.active, self.state.spent)
        known = (*self.known, Known.of(self.definition, state))
        return replace(self, state=state, closed=(*self.closed, done), wave=None, known=known)

    @property
    def watching(self) -> Watching:
        """The policy, if it knows how statements age."""
        if not isinstance(self.policy, Watching) or not self.policy.settings().get("drift"):
            raise InputError(
                "the study states no rate of change, so that nothing is known of what it certified after more rounds; "
                "begin one with the policy waves and its setting drift"
            )
        return self.policy

    @property
    def alert(self) -> str:
        """What a wave of a watch has changed: that another decision is the best now; empty if none is."""
        watched = self.passed[-1][0] if self.passed else len(self.closed)
        if watched == len(self.closed):
            return ""
        before, now = self.known[watched].best, self.concluded.state.best
        if before == now:
            return ""
        proved = "" if before in self.concluded.state.active else ", which is certified"
        names = [self.problem.decisions[action] for action in (before, now)]
        return f"{describe(names[0])} is no longer the best decision{proved}; use {describe(names[1])}"

    def begins(self, wave: int) -> int:
        """Return how many rounds were played before a wave."""
        waves = sum(plan.length for plan in self.plans if plan.wave < wave)
        return waves + sum(rounds for after, rounds in self.passed if after < wave)

    def named(self, name: str, reward: str | None = None, calendar: Calendar | None = None) -> Course:
        """Return the course under another name, with another name of its reward and other dates if there are any."""
        reward, calendar = reward or self.reward, calendar or self.calendar
        return replace(self, definition=replace(self.definition, name=name, reward=reward, calendar=calendar))

    @cached_property
    def following(self) -> Wave | End:
        """The wave that is open, or else the one to ask next, or why there is none."""
        if self.ended is not None:
            return End(self.ended)
        return self.wave or next_wave(self.problem, self.policy, self.privacy, self.state)

    @cached_property
    def ledger(self) -> Ledger:
        """What was released about whom."""
        return Ledger(self.definition.budget, list(self.entries))

    @property
    def pending(self) -> Plan | None:
        """The plan of the wave that is open."""
        return None if self.wave is None else self.wave.plan

    @property
    def question(self) -> Question | None:
        """The wave that is open, as its owner is asked."""
        if self.wave is None:
            return None
        asked = Question.of(self.problem, self.wave.plan, self.strata, self.direction)
        return replace(asked, first=self.rounds + 1, calendar=self.calendar)

    def forecast(self, plan: Plan) -> Forecast | None:
        """Return what a wave is expected to bring and to cost: in money for all people, if that is known."""
        if self.money is None or plan.forecast is None:
            return plan.forecast
        return self.money.priced(plan.forecast, plan.numbers)

    @property
    def plans(self) -> list[Plan]:
        """The waves that were played."""
        return [wave.plan for wave in self.closed]

    @property
    def all_plans(self) -> list[Plan]:
        """The same, and the wave that is open."""
        return [*self.plans, *([] if self.pending is None else [self.pending])]

    @property
    def answer(self) -> Answer:
        """What to do now, and how sure that is."""
        course = self.concluded
        known = Known.of(self.definition, course.state)
        sure = confidence_of(self.policy, self.problem, len(self.closed))
        proved = [*(float(ends[known.best]) for ends in course.bounds), known.certified]
        low, high, regret = (value if math.isfinite(value) and sure is not None else None for value in proved)
        estimate = float(course.estimates[known.best]) if self.closed or self.problem.pilot else None
        decision, certain = self.problem.decisions[known.best], known.left == 1
        said = tuple(guard.said for guard in course.state.guards)
        return Answer(known.best, decision, estimate, low, high, regret, known.expected_loss, certain, sure, said)

    @property
    def estimates(self) -> Array:
        """The estimated reward or cost of every decision, at the limit if it is beyond what rewards keep within."""
        return self.direction.turn(self.problem.within(self.state.centre))

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Between which values the reward or cost of every decision is certified to lie; nan: nothing is certified."""
        return self.direction.bounds(*self.state.proved_bounds(self.problem))

    @property
    def people(self) -> int:
        """The people who have answered, without those of the pilot."""
        fresh = sum(wave.people for wave in self.closed if not wave.plan.same)
        return fresh + max((wave.people for wave in self.closed if wave.plan.same), default=0)

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
        return sum(group.numbers for group in self.problem.pilot)

    @property
    def rounds(self) -> int:
        """The rounds that have passed, up to the end of the last closed wave or of the watch."""
        return self.begins(len(self.closed) + 1)

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


def extended(problem: Problem, points: Iterable[Iterable[float]], labels: Iterable[dict[str, Any]]) -> Problem:
    """Return the problem with more decisions, after its own."""
    if not (more := [list(point) for point in points]):
        return problem
    if not isinstance(problem.prior_mean, float):
        raise InputError("a prior mean for each decision says nothing of a new one; begin a new study")
    own = problem.decisions
    names = None if own.labels is None else [*own.labels, *labels]
    return problem.among(Decisions([*own.points.tolist(), *more], names))


def fold(definition: Definition, events: Iterable[Event]) -> Course:
    """Return the course of a whole journal."""
    course = Course.begin(definition)
    for event in events:
        course = course.after(event)
    return course
