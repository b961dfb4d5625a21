"""A rehearsal: one simulated run of a study file or of one's own people, described by plain data.

Who answers in it: people around the pilot's estimate, as the model says; or the pilot's own people, drawn again; or
people from a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from voxpop.core.direction import Direction
from voxpop.core.errors import InputError
from voxpop.core.problem import Problem
from voxpop.formats.released_pilot import ReleasedPilot
from voxpop.formats.studyfile import direction_of, privacy_of, read_study, rehearsal_rewards, space_of
from voxpop.formats.tables import read_pilot
from voxpop.lab.own_people import OwnPeople, in_space, roles_in
from voxpop.lab.populations.gp import GPPeople
from voxpop.lab.populations.resampled import ResampledPeople
from voxpop.lab.runs import Run, Watch, simulate
from voxpop.lab.scenario import Scenario
from voxpop.policies import DEFAULT, Policy
from voxpop.privacy import NoPrivacy, Privacy, make_privacy
from voxpop.runtime.random_streams import stream


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
