"""One rehearsal of a study whose truth is not known: it is drawn from what the pilot says, and so are the people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from voxpop.errors import Array, InputError
from voxpop.gp.belief import believe
from voxpop.io.pilots import ReleasedPilot
from voxpop.io.studyfile import direction_of, privacy_of, read_study, rehearsal_rewards, space_of
from voxpop.io.tables import read_pilot
from voxpop.model.direction import Direction
from voxpop.model.problem import Problem
from voxpop.policies import DEFAULT, Policy
from voxpop.policies.dpbe import matching_people
from voxpop.privacy import NoPrivacy, Privacy, make_privacy
from voxpop.runtime.random_streams import stream
from voxpop.simulation.own_people import OwnPeople, in_space, roles_in
from voxpop.simulation.people import GPPeople, ResampledPeople, square_root
from voxpop.simulation.runs import Run, Scenario, Watch, simulate
from voxpop.simulation.scenarios import Options, make_scenario

MOST_DECISIONS = 2_500  # of which a truth can be drawn at once


@dataclass(frozen=True)
class Outcome:
    """Whom a rehearsal asked, and what was lost against knowing the best decision from the start."""

    people: int
    waves: int
    lost: float
    not_asking: float  # what the choice before the first wave would have lost


def truth_of(problem: Problem, seed: int) -> Array:
    """Draw a truth from what the pilot says, or from the assumptions if there was none."""
    if problem.size > MOST_DECISIONS:
        raise InputError(
            f"{problem.size:,} decisions are too many to draw a truth for, of {MOST_DECISIONS:,}; rehearse the study "
            "file with: voxpop run"
        )
    belief, draw = believe(problem), np.random.default_rng(seed).standard_normal(problem.size)
    return np.asarray(belief.mean + square_root(belief.covariance(np.arange(problem.size))) @ draw)


def rehearse(problem: Problem, policy: Policy, privacy: Privacy, seed: int) -> Outcome:
    """Rehearse a study once; the same seed gives the same truth and the same people, whatever is promised to them.

    >>> from voxpop import SquaredExponential, make_policy
    >>> from voxpop.privacy import NoPrivacy
    >>> problem = Problem([0.0, 0.5, 1.0], SquaredExponential(0.3), 0.1, 0.2, norm_bound=2.0, horizon=500)
    >>> rehearse(problem, make_policy(), NoPrivacy(), 0) == rehearse(problem, make_policy(), NoPrivacy(), 0)
    True
    """
    truth = truth_of(problem, seed)
    run = simulate(Scenario("rehearsal", problem, GPPeople(problem, truth), truth), policy, seed, privacy)
    start = policy.best(problem, policy.init(problem))
    before = float(truth.max() - truth[start]) * problem.horizon
    return Outcome(run.metrics.people, len(run.closed), run.metrics.regret, before)


# Fields of a trial that are settings of the policy, by the name that the policy gives them.
SETTINGS = {
    "alpha": "alpha",
    "ratio": "ratio",
    "answer_cost": "answer_cost",
    "tolerance": "tolerance",
    "most_people": "most_people",
    "most_numbers": "most_numbers",
    "most_waves": "most_waves",
    "population": "population",
    "answer_delay": "answer_delay",
    "wave_delta": "delta",
}


def policy_settings(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was chosen for the policy, by the names that the policy gives it."""
    return {name: chosen[field] for field, name in SETTINGS.items() if field in chosen}


@dataclass(frozen=True)
class Trial:
    """A study, a policy, a trust model and a seed; None leaves a choice to the study.

    >>> Trial("sphere", size=20, horizon=500).run().metrics.people > 0
    True
    """

    study: str
    policy: str = DEFAULT
    seed: int = 0
    horizon: int | None = None
    size: int | None = None
    alpha: float | None = None
    ratio: float | None = None
    noise_std: float | None = None
    bias_std: float | None = None
    true_norm: bool = False
    privacy: str = "none"
    epsilon: float | None = None
    delta: float = 1e-6
    calibration: str = "exact"
    floor: int | None = None
    honest: float | None = None
    data: str | None = None
    answer_cost: float | None = None
    tolerance: float | None = None
    most_people: int | None = None
    most_numbers: int | None = None
    most_waves: int | None = None
    population: int | None = None
    answer_delay: int | None = None
    wave_delta: float | None = None  # the probability with which a certificate may fail; delta is privacy's

    def as_dict(self) -> dict[str, Any]:
        """Return what was chosen, as plain data."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def scenario(self) -> Scenario:
        """Make the study."""
        return make_scenario(
            self.study,
            Options(
                seed=self.seed,
                size=self.size,
                horizon=self.horizon,
                data=None if self.data is None else Path(self.data),
                noise_std=self.noise_std,
                bias_std=self.bias_std,
                true_norm=self.true_norm,
            ),
        )

    def make_privacy(self) -> Privacy:
        """Make the privacy of the chosen trust model."""
        return make_privacy(self.privacy, self.epsilon, self.delta, self.calibration, self.floor, self.honest)

    def make_policy(self, scenario: Scenario) -> Policy:
        """Make the policy with the study's settings, except for those chosen here.

        `dpbe-fixed` asks as many people per wave as make it cost what `dpbe-paper` costs, which is run to find out.
        """
        chosen = policy_settings(self.as_dict())
        if self.policy == "dpbe-fixed":
            reference = simulate(scenario, scenario.make_policy("dpbe-paper", **chosen), self.seed)
            chosen["people"] = matching_people(reference.plans)
        return scenario.make_policy(self.policy, **chosen)

    def run(self, watch: Watch | None = None) -> Run:
        """Simulate the trial."""
        scenario = self.scenario()
        return simulate(scenario, self.make_policy(scenario), self.seed, self.make_privacy(), watch)


@dataclass(frozen=True)
class Rehearsal:
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
    settings: tuple[tuple[str, Any], ...] = ()  # of the policy, before those of the file

    def scenario(self) -> Scenario:
        """Make the study."""
        if self.resample is not None and (self.study is None or self.people is not None):
            raise InputError(
                f"--resample {self.resample} rehearses the study file that was calibrated with this pilot; give that "
                "file, and no --population"
            )
        if self.study is None:
            if self.people is None:
                raise InputError("there is nobody to ask; give a study file, or people with --population people.csv")
            return self.people.scenario(self.seed, self.horizon)
        if self.people is not None and self.people.pilot_people is not None:
            raise InputError(f"{self.study} has its constants and needs no pilot; leave --pilot-people out")
        path = Path(self.study)
        problem, policy, data = read_study(path)
        if self.horizon is not None:
            problem = _changed(problem, horizon=self.horizon)
        scenario, direction = self._answered(path, problem, data), direction_of(path, data)
        name, reward = str(data.get("name", path.stem)), str(data.get("reward", direction.measure))
        return replace(scenario, name=name, reward=reward, settings=policy.settings(), direction=direction)

    def _answered(self, path: Path, problem: Problem, data: Mapping[str, Any]) -> Scenario:
        """Choose who answers, and with that what is true."""
        others = self.people is not None or self.resample is not None
        if others and direction_of(path, data) is Direction.MINIMIZE:
            raise InputError(
                f"{path} minimises, and people of one's own answer with rewards; rehearse it without --population and "
                "--resample, or turn the signs of its answers and leave out direction"
            )
        if self.people is not None:
            return _of_people(problem, data, self.people)
        if self.resample is not None:
            return _of_pilot(path, problem, data, Path(self.resample), self.seed)
        direction = direction_of(path, data)
        f, problem = direction.turn(rehearsal_rewards(path, problem, data)), direction.problem(problem)
        return Scenario("", problem, GPPeople(problem, f), f)

    def make_privacy(self) -> Privacy:
        """Make the chosen trust model, or the file's."""
        if self.privacy is not None:
            return make_privacy(self.privacy, self.epsilon, self.delta)
        return NoPrivacy() if self.study is None else privacy_of(path := Path(self.study), read_study(path)[2])

    def make_policy(self, scenario: Scenario) -> Policy:
        """Make the policy; the file's own has the settings of the file."""
        return scenario.make_policy(self.policy or scenario.settings.get("name", DEFAULT), **dict(self.settings))

    def run(self, watch: Watch | None = None) -> Run:
        """Simulate the rehearsal."""
        scenario = self.scenario()
        return simulate(scenario, self.make_policy(scenario), self.seed, self.make_privacy(), watch)


def _of_people(problem: Problem, data: Mapping[str, Any], people: OwnPeople) -> Scenario:
    """Let one's own people answer."""
    _, decisions, population = people.gather(space_of(data), problem.decisions)
    problem = problem if decisions is problem.decisions else _changed(problem, decisions=decisions)
    return Scenario("", problem, population, population.mean)


def _of_pilot(study: Path, problem: Problem, data: Mapping[str, Any], path: Path, seed: int) -> Scenario:
    """Let the pilot's people answer, drawn again, in the study and in a pilot before it."""
    if any(group.epsilon is not None for group in problem.pilot):
        raise InputError(
            f"the people of the pilot were promised differential privacy, which a rehearsal on their own answers would "
            f"break; leave out --resample {path}"
        )
    space = space_of(data)
    ReleasedPilot(path).require_none()
    pilot, _ = read_pilot(path, roles=roles_in(space))
    tried = in_space(path, pilot.decisions, space)
    f, at_pilot = (rehearsal_rewards(study, each, data) for each in (problem, _changed(problem, decisions=tried)))
    population = ResampledPeople(problem, f, replace(pilot, decisions=tried), at_pilot)
    if problem.pilot:
        problem = replace(problem, pilot=population.pilot_again(stream(seed, "pilot")))
    return Scenario("", problem, population, population.mean)


def _changed(problem: Problem, **what: Any) -> Problem:
    """Return the problem with something else in it, and the beta that belongs to it unless the file gives one."""
    anew: dict[str, Any] = {"beta": None}
    usual = replace(problem, **anew).beta == problem.beta
    return replace(problem, **what, **(anew if usual else {}))
