"""Rehearsals of a new study: what it would take and what it would find, if the model is right.

What is true is not known, so each rehearsal draws a truth from what the pilot says, and people around it. All trust
models are rehearsed with the same truths and the same people, so that the difference is the price of the promise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

import numpy as np

from voxpop.belief.posterior import believe
from voxpop.core.errors import Array, InputError
from voxpop.core.problem import Problem
from voxpop.lab.populations.gp import GPPeople, square_root
from voxpop.lab.runs import simulate
from voxpop.lab.scenario import Scenario
from voxpop.privacy.models import privacy_from_settings
from voxpop.service.study.definition import definition_of

NO_TIME = "there was no time to rehearse this; try it alone, or again in a moment"
MOST_DECISIONS = 2_500  # of which truths can be drawn at once


@dataclass(frozen=True)
class Outcome:
    """One rehearsal: whom it asked, and what was lost against knowing the best decision from the start."""

    people: int
    waves: int
    lost: float
    not_asking: float  # what the choice before the first wave would have lost


@dataclass(frozen=True)
class Price:
    """What some rehearsals with the same promise took, as medians."""

    label: str
    runs: int
    people: int = 0
    waves: float = 0
    lost: float = 0.0
    not_asking: float = 0.0
    error: str = ""  # why there are none


def truth_of(problem: Problem, seed: int) -> Array:
    """Draw a truth from what the pilot says."""
    if problem.size > MOST_DECISIONS:
        raise InputError(
            f"{problem.size:,} decisions are too many to rehearse here; rehearse the study file with: voxpop run"
        )
    belief, everything = believe(problem), np.arange(problem.size)
    rng = np.random.default_rng(seed)
    return np.asarray(belief.mean + square_root(belief.covariance(everything)) @ rng.standard_normal(problem.size))


def rehearse(tables: Mapping[str, Any], privacy: Mapping[str, Any] | None, seed: int) -> Outcome:
    """Rehearse a study file once with a promise."""
    given = {key: value for key, value in tables.items() if key != "privacy"}
    _, definition = definition_of(Path("the study"), given if privacy is None else {**given, "privacy": privacy})
    problem, policy = definition.problem, definition.policy
    truth = truth_of(problem, seed)
    trust = definition.privacy if privacy is None else privacy_from_settings(privacy)
    run = simulate(Scenario("rehearsal", problem, GPPeople(problem, truth), truth), policy, seed, trust)
    start = policy.best(problem, policy.init(problem))
    before = float(truth.max() - truth[start]) * problem.horizon
    return Outcome(run.metrics.people, len(run.phases), run.metrics.regret, before)


def prices(
    tables: Mapping[str, Any], promises: Sequence[tuple[str, Mapping[str, Any] | None]], most: int, seconds: float
) -> Iterator[Price]:
    """Rehearse each promise up to `most` times, as long as there is time for it."""
    end = monotonic() + seconds
    for place, (label, privacy) in enumerate(promises):
        until = monotonic() + (end - monotonic()) / (len(promises) - place)
        outcomes, error, took = list[Outcome](), "", 0.0
        while len(outcomes) < most and monotonic() + took < until:  # another one would be done in time
            began = monotonic()
            try:
                outcomes.append(rehearse(tables, privacy, len(outcomes)))
            except InputError as refused:
                error = str(refused)
                break
            took = monotonic() - began
        yield _price(label, outcomes, error)


def _price(label: str, outcomes: Sequence[Outcome], error: str) -> Price:
    if not outcomes:
        return Price(label, 0, error=error or NO_TIME)
    people, waves = (median(getattr(each, name) for each in outcomes) for name in ("people", "waves"))
    lost, before = (median(getattr(each, name) for each in outcomes) for name in ("lost", "not_asking"))
    return Price(label, len(outcomes), math.ceil(people), waves, lost, before, error)
