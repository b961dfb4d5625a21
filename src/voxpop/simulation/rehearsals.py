"""Rehearsals: studies of one's own, on people who are drawn from a pilot or stand in a CSV file.

Either the CSV file has one row for each person and decision, with the person's mean reward; or it has one row for each
person, and a formula says what a person gains from a decision.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from voxpop.errors import Array, InputError, require_number, said_of
from voxpop.gp.belief import believe
from voxpop.io.columns import Roles
from voxpop.io.pilots import ReleasedPilot
from voxpop.io.ranges import number_or_word
from voxpop.io.studyfile import (
    direction_of,
    guardrail_tables,
    privacy_of,
    read_study,
    rehearsal_rewards,
    space_of,
)
from voxpop.io.tables import read_people, read_pilot_table
from voxpop.model.decisions import Choice, Decisions, Float, Parameter, Space
from voxpop.model.direction import Direction, metrics_of
from voxpop.model.formula import Formula, column_of
from voxpop.model.problem import Problem
from voxpop.policies import DEFAULT, Policy
from voxpop.privacy import NoPrivacy, Privacy, make_privacy
from voxpop.report.stakes import price_of
from voxpop.runtime.random_streams import stream
from voxpop.simulation.people import ResampledPeople, TablePeople, people_of, square_root
from voxpop.simulation.runs import Described, Scenario, simulate
from voxpop.simulation.scenarios import PEOPLE, piloted
from voxpop.simulation.weather import Weather

HORIZON = 20_000  # rounds, unless said otherwise
MOST_REWARDS = 20_000_000  # people times decisions: 160 megabytes
MOST_DECISIONS = 1_000_000
MOST_DRAWN = 2_500  # decisions of which a truth can be drawn at once


@dataclass(frozen=True)
class Outcome:
    """Whom a rehearsal asked, and what was lost against knowing the best decision from the start."""

    people: int
    waves: int
    lost: float
    not_asking: float  # what the choice before the first wave would have lost
    rounds: int = 0  # of all waves
    numbers: int = 0
    answers: float = 0.0  # what these cost, as the policy counts them
    certified: float = math.inf  # infinite: nothing


def truths_of(problem: Problem, seed: int, count: int) -> Array:
    """Draw truths from what the pilot says, or from the assumptions if there was none; return them as (count, n)."""
    if problem.size > MOST_DRAWN:
        raise InputError(
            f"{problem.size:,} decisions are too many to draw a truth for, of {MOST_DRAWN:,}; rehearse the study "
            "file with: voxpop run"
        )
    belief, draws = believe(problem), np.random.default_rng(seed).standard_normal((count, problem.size))
    return problem.within(belief.mean + draws @ square_root(belief.covariance(np.arange(problem.size))).T)


def truth_of(problem: Problem, seed: int) -> Array:
    """Draw one truth."""
    return np.asarray(truths_of(problem, seed, 1)[0])


def rehearse(problem: Problem, policy: Policy, privacy: Privacy, seed: int) -> Outcome:
    """Rehearse a study once; the same seed gives the same truth and the same people, whatever is promised to them.

    >>> from voxpop import SquaredExponential, make_policy
    >>> from voxpop.privacy import NoPrivacy
    >>> problem = Problem([0.0, 0.5, 1.0], SquaredExponential(0.3), 0.1, 0.2, norm_bound=2.0, horizon=500)
    >>> rehearse(problem, make_policy(), NoPrivacy(), 0) == rehearse(problem, make_policy(), NoPrivacy(), 0)
    True
    """
    truth, *others = (truth_of(metric, seed + place) for place, metric in enumerate(problem.metrics))
    run = simulate(Scenario("rehearsal", problem, people_of(problem, [truth, *others]), truth), policy, seed, privacy)
    start, known = policy.best(problem, policy.init(problem).concluded()), run.scenario.f
    before = float(known.max() - known[start]) * problem.horizon
    rounds, metrics = sum(wave.plan.length for wave in run.closed), run.metrics
    sent = metrics.numbers, math.fsum(map(price_of, run.closed)), run.state.certificate
    return Outcome(metrics.people, len(run.closed), metrics.regret, before, rounds, *sent)


@dataclass(frozen=True)
class OwnPeople:
    r"""People in a CSV file, and how to find out what they gain; plain data, so that it can be sent to a worker.

    >>> import tempfile
    >>> from voxpop import simulate
    >>> file = Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = file.write_text("\n".join(["person,wtp", *(f"u{wtp},{wtp / 100}" for wtp in range(200, 900, 5))]))
    >>> shoppers = OwnPeople(str(file), "(price - 1.5) * (wtp >= price)", ("price=2:9:29",))
    >>> simulate(shoppers.scenario(seed=0)).loss < 0.2
    True
    """

    path: str
    formula: str | None = None  # of the columns of the file and the parameters
    grid: tuple[str, ...] = ()  # the values of each parameter of the formula, such as price=2:12:101
    noise_std: float = 0.0  # of one round
    pilot_people: int | None = None  # 40 unless given, or half of the people if there are few
    roles: Roles = field(default_factory=Roles)  # of the columns of a table, as for a pilot

    def scenario(self, seed: int = 0, horizon: int | None = None, weather: Weather | None = None) -> Scenario:
        """Make a study that knows nothing in advance and begins with a pilot among these people."""
        space, decisions, people = self.gather()
        count = min(PEOPLE, len(people) // 2) if self.pilot_people is None else self.pilot_people
        rounds = HORIZON if horizon is None else horizon
        shocks = None if weather is None else weather.over(people.mean)
        about = Path(self.path).stem, space, decisions, people, people.mean, rounds, seed
        with said_of(self.path):
            return piloted(*about, people=count, weather=shocks)

    def gather(
        self, space: Space | None = None, decisions: Decisions | None = None
    ) -> tuple[Space, Decisions, TablePeople]:
        """Return the parameters, the decisions and the people.

        A study gives its parameters and decisions. A table has decisions of its own, of which only the scale is
        the study's: nobody knows what people would have gained between them.
        """
        require_number("noise", self.noise_std, least=0)
        if self.formula is None:
            if self.grid:
                raise InputError("--grid says where a formula is computed; add --formula, or leave --grid out")
            space, decisions, rewards = _of_table(Path(self.path), space, self.roles)
        else:
            if space is None or decisions is None:
                space, decisions = _of_grid(self.grid)
            elif self.grid:
                raise InputError("the study file names the decisions; leave --grid out")
            rewards = rewards_of_formula(Path(self.path), self.formula, decisions)
        if len(rewards) < 2:
            raise InputError(f"{self.path} has one person; a population needs at least two, and hundreds work well")
        return space, decisions, TablePeople(rewards, self.noise_std)


@dataclass(frozen=True)
class Rehearsal(Described):
    """A study file or one's own people, a policy, a trust model and a seed; None leaves a choice to the file.

    >>> Rehearsal("tea.toml", seed=3) == Rehearsal("tea.toml", seed=3)
    True
    """

    study: str | None = None
    policy: str = ""  # the file's, or the default
    seed: int = 0
    horizon: int | None = None
    privacy: str | None = None
    epsilon: float | None = None
    delta: float = 1e-6
    people: OwnPeople | None = None  # who answer, instead of people around the pilot's estimate
    resample: str | None = None  # a pilot whose people answer, drawn again
    shocks: float = 0.0  # that everybody shares in a round, in units of the range of rewards
    shocks_persist: float = 0.0
    weekly: bool = False
    carry_over: float = 0.0
    drift_rate: float = 0.0
    settings: tuple[tuple[str, Any], ...] = ()  # of the policy, before those of the file

    def scenario(self) -> Scenario:
        """Make the study."""
        weather = Weather(self.shocks, self.shocks_persist, self.weekly, self.carry_over, self.drift_rate)
        if self.resample is not None and (self.study is None or self.people is not None):
            raise InputError(
                f"--resample {self.resample} rehearses the study file that was calibrated with this pilot; give that "
                "file, and no --population"
            )
        if self.study is None:
            if self.people is None:
                raise InputError("there is nobody to ask; give a study file, or people with --population people.csv")
            return self.people.scenario(self.seed, self.horizon, weather)
        if self.people is not None and self.people.pilot_people is not None:
            raise InputError(f"{self.study} has its constants and needs no pilot; leave --pilot-people out")
        path = Path(self.study)
        problem, policy, data = read_study(path)
        if self.horizon is not None:
            problem = _changed(problem, horizon=self.horizon)
        scenario, direction = self._answered(path, problem, data), direction_of(path, data)
        name, reward = str(data.get("name", path.stem)), str(data.get("reward", direction.measure))
        scenario = replace(scenario, name=name, reward=reward, settings=policy.settings(), direction=direction)
        return replace(scenario, weather=weather.over(scenario.f))

    def _answered(self, path: Path, problem: Problem, data: Mapping[str, Any]) -> Scenario:
        """Choose who answers, and with that what is true."""
        others, direction = self.people is not None or self.resample is not None, direction_of(path, data)
        if others and direction is Direction.MINIMIZE:
            raise InputError(
                f"{path} minimises, and people of one's own answer with rewards; rehearse it without --population and "
                "--resample, or turn the signs of its answers and leave out direction"
            )
        if others and problem.guardrails:
            raise InputError(
                f"{path} has the guardrail {problem.guardrails[0].rule}, and people of one's own answer about the "
                "reward alone; rehearse it without --population and --resample"
            )
        if self.people is not None:
            _, decisions, population = self.people.gather(space_of(data), problem.decisions)
            problem = problem if decisions is problem.decisions else _changed(problem, decisions=decisions)
            return Scenario("", problem, population, population.mean)
        if self.resample is not None:
            return _of_pilot(path, problem, data, Path(self.resample), self.seed)
        f, problem = direction.turn(rehearsal_rewards(path, problem, data)), direction.problem(problem)
        truths = [f]
        for (_, towards, metric), table in zip(metrics_of(problem, direction)[1:], guardrail_tables(data), strict=True):
            told = {**data, "rehearsal": table.get("rehearsal")}
            truths.append(towards.turn(rehearsal_rewards(path, towards.problem(metric), told)))
        return Scenario("", problem, people_of(problem, truths), f)

    def make_privacy(self) -> Privacy:
        """Make the chosen trust model, or the file's."""
        if self.privacy is not None:
            return make_privacy(self.privacy, self.epsilon, self.delta)
        return NoPrivacy() if self.study is None else privacy_of(path := Path(self.study), read_study(path)[2])

    def make_policy(self, scenario: Scenario) -> Policy:
        """Make the policy; the file's own has the settings of the file."""
        return scenario.make_policy(self.policy or scenario.settings.get("name", DEFAULT), **dict(self.settings))


def _of_pilot(study: Path, problem: Problem, data: Mapping[str, Any], path: Path, seed: int) -> Scenario:
    """Let the pilot's people answer, drawn again, in the study and in a pilot before it."""
    if any(group.epsilon is not None for group in problem.pilot):
        raise InputError(
            f"the people of the pilot were promised differential privacy, which a rehearsal on their own answers would "
            f"break; leave out --resample {path}"
        )
    ReleasedPilot(path).require_none()
    pilot = read_pilot_table(path, space=space_of(data)).pilot
    tried = _changed(problem, decisions=pilot.decisions)
    f, at_pilot = (rehearsal_rewards(study, each, data) for each in (problem, tried))
    population = ResampledPeople(problem, f, pilot, at_pilot)
    if problem.pilot:
        problem = replace(problem, pilot=population.pilot_again(stream(seed, "pilot")))
    return Scenario("", problem, population, population.mean)


def _changed(problem: Problem, **what: Any) -> Problem:
    """Return the problem with something else in it, and the beta that belongs to it unless the file gives one."""
    anew: dict[str, Any] = {"beta": None}
    usual = replace(problem, **anew).beta == problem.beta
    return replace(problem, **what, **(anew if usual else {}))


def _of_table(path: Path, space: Space | None, roles: Roles) -> tuple[Space, Decisions, Array]:
    """Read one row for each person and decision; return the rewards, of shape (people, decisions)."""
    ReleasedPilot(path).require_none()
    table = read_pilot_table(path, roles=roles, space=space)
    pilot, decisions = table.pilot, table.pilot.decisions
    rewards = np.full((len(table.people), len(decisions)), np.nan)
    rewards[pilot.people, pilot.actions] = pilot.averages
    missing = np.argwhere(np.isnan(rewards))
    if len(missing):
        person, action = missing[0].tolist()
        raise InputError(
            f"{path}: person {table.people[person]} has no reward for {decisions[action]}; add the row, or leave out "
            "the person or the decision"
        )
    return table.space, decisions, rewards


def rewards_of_formula(path: Path, text: str, decisions: Decisions) -> Array:
    """Compute the formula for every person and decision; return the rewards, of shape (people, decisions)."""
    formula = Formula(text)
    labels: Sequence[Any] = decisions.labels or ()
    names = list(labels[0])
    known, columns = read_people(path, formula.names)
    for person, count in Counter(columns.get("person", ())).items():
        if count > 1:
            raise InputError(
                f"{path} has several rows of {person}, and a formula takes one row for each person; merge them"
            )
    formula.require_names([*known, *names])
    for kind, some in (("column of " + str(path), known), ("parameter", names)):
        if not set(formula.names) & set(some):
            raise InputError(f"{formula} names no {kind}; it can name {', '.join(some)}")
    people = len(next(iter(columns.values())))
    for name in names:
        if name in known:
            raise InputError(f"{path} has a column {name}, and {name} is a parameter too; rename one of them")
    if people * len(decisions) > MOST_REWARDS:
        raise InputError(
            f"{path} has {people:,} people, and for {len(decisions):,} decisions that is more than "
            f"{MOST_REWARDS:,} rewards; take a random sample of the people, or fewer decisions"
        )
    own = {name: np.array(cells)[:, None] for name, cells in columns.items()}
    tried = {name: column_of([label[name] for label in labels]) for name in names}
    rewards = np.broadcast_to(formula({**own, **tried}), (people, len(decisions)))
    odd = np.argwhere(~np.isfinite(rewards))
    if len(odd):
        row, action = odd[0].tolist()
        who = {name: cells[row] for name, cells in columns.items()}
        raise InputError(
            f"{path}: {formula} gives {rewards[row, action]} for {labels[action]} and the person {who}; "
            "look for a division by zero, or a logarithm, root or power that does not exist"
        )
    return np.array(rewards)


def _of_grid(texts: Sequence[str]) -> tuple[Space, Decisions]:
    """Make the decisions of which each parameter takes the values that are said.

    >>> space, decisions = _of_grid(["price=1:3:3", "plan=basic,plus"])
    >>> len(decisions), decisions[1]
    (6, {'price': 1.0, 'plan': 'plus'})
    """
    if not texts:
        raise InputError("a formula needs the decisions to compute it for; add --grid price=2:12:101, or a study file")
    parameters: dict[str, Parameter] = {}
    values: list[list[Any]] = []
    for text in texts:
        name, _, said = (part.strip() for part in text.partition("="))
        if not name.isidentifier() or not said or name in parameters:
            raise InputError(f"--grid takes a name and its values, each once, such as price=2:12:101, got {text!r}")
        with said_of(f"--grid {text}"):
            parameters[name], some = _parameter(said)
        values.append(some)
    size = math.prod(map(len, values))
    if size > MOST_DECISIONS:
        raise InputError(f"--grid gives {size:,} decisions, and there may be {MOST_DECISIONS:,}; give fewer values")
    space = Space(parameters)
    return space, space.combined(dict(zip(parameters, values, strict=True)))


def _parameter(said: str) -> tuple[Parameter, list[Any]]:
    """Read low:high:count, or values with commas; numbers become a range, and words a choice."""
    cells = [cell.strip() for cell in said.split(":" if ":" in said else ",")]
    numbers = [number for number in map(number_or_word, cells) if isinstance(number, float)]
    if ":" in said:
        if len(cells) != 3 or len(numbers) != 3 or numbers[2] != round(numbers[2]) or not 2 <= numbers[2] <= 10**6:
            raise InputError("write low:high:count, such as 2:12:101, with a count of at least 2")
        made = Float(numbers[0], numbers[1])
        return made, made.values(round(numbers[2]))
    if not numbers and all(cells):
        return Choice(tuple(cells)), cells
    if len(numbers) < len(cells) or len(set(numbers)) < max(2, len(numbers)):
        raise InputError("write at least two different numbers, such as 2,3,5, or words alone")
    return Float(min(numbers), max(numbers)), sorted(numbers)
