"""One rehearsal of a study whose truth is not known: it is drawn from what the pilot says, and so are the people."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from voxpop.belief.posterior import believe
from voxpop.core.errors import Array, InputError
from voxpop.core.problem import Problem
from voxpop.lab.populations.gp import GPPeople, square_root
from voxpop.lab.runs import simulate
from voxpop.lab.scenario import Scenario
from voxpop.policies import Policy
from voxpop.privacy import Privacy

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
    return Outcome(run.metrics.people, len(run.phases), run.metrics.regret, before)
