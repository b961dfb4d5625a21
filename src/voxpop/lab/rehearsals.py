"""A rehearsal: one simulated run of a study file, described by plain data, as a trial is of a named study."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from voxpop.core.problem import Problem
from voxpop.formats.studyfile import read_rehearsal
from voxpop.lab.runs import Run, simulate
from voxpop.lab.scenarios import Scenario
from voxpop.policies import Policy, make_policy
from voxpop.privacy import Privacy, make_privacy


@dataclass(frozen=True)
class Rehearsal:
    """A study file, a policy, a trust model and a seed; None leaves a choice to the file."""

    study: str
    policy: str
    seed: int = 0
    horizon: int | None = None
    privacy: str | None = None
    epsilon: float | None = None
    delta: float = 1e-6

    def scenario(self) -> Scenario:
        """Read the study."""
        scenario = read_rehearsal(Path(self.study))[0]
        if self.horizon is None:
            return scenario
        return replace(scenario, problem=_with_horizon(scenario.problem, self.horizon))

    def make_privacy(self) -> Privacy:
        """Make the chosen trust model, or the file's."""
        if self.privacy is None:
            return read_rehearsal(Path(self.study))[2]
        return make_privacy(self.privacy, self.epsilon, self.delta)

    def make_policy(self, scenario: Scenario) -> Policy:
        """Make the policy; the file's own has the settings of the file."""
        settings = scenario.settings if scenario.settings["name"] == self.policy else {"name": self.policy}
        return make_policy(**settings)

    def run(self) -> Run:
        """Simulate the rehearsal."""
        scenario = self.scenario()
        return simulate(scenario, self.make_policy(scenario), self.seed, self.make_privacy())


def _with_horizon(problem: Problem, horizon: int) -> Problem:
    """Return the problem with another horizon, and with the beta that belongs to it unless the file gives one."""
    anew: dict[str, Any] = {"beta": None}
    usual = replace(problem, **anew).beta == problem.beta
    return replace(problem, horizon=horizon, **(anew if usual else {}))
