"""The studies of a soak: every trust model, two policies, and rounds that an application or a clock plays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.soak.scale import Scale
from voxpop.client import Promise
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.policies import make_policy
from voxpop.privacy import NoPrivacy, Private
from voxpop.privacy.models import release_type_of
from voxpop.service.study.definition import Definition, Rules

MODELS = ("none", "central", "local", "shuffle", "aggregate")
EPSILON = {"central": 5.0, "local": 30.0, "shuffle": 5.0, "aggregate": 5.0}
ARMS = 6
WAVES_EVERY = 6  # one study in this many follows the default policy, which soon knows enough
CLOCK_EVERY = 7  # and in one of this many a clock plays the rounds
ROUNDS_PER_SECOND = 8.0


@dataclass(frozen=True)
class Kind:
    """What distinguishes the studies of a soak."""

    model: str
    policy: str
    by_clock: bool

    def promise(self, second: str) -> Promise:
        """Return the promise that the owners of its devices were given, with the shuffler or helper at this address."""
        role = release_type_of(self.model).second
        named: dict[str, Any] = {} if role is None else {role: second}
        return Promise() if self.model == "none" else Promise(self.model, EPSILON[self.model], **named)


def kind_of(number: int) -> Kind:
    """Return the kind of the study with this number: the models take turns."""
    policy = "waves" if number % WAVES_EVERY == WAVES_EVERY - 1 else "dpbe"
    return Kind(MODELS[number % len(MODELS)], policy, number % CLOCK_EVERY == CLOCK_EVERY - 1)


def define(kind: Kind, scale: Scale) -> Definition:
    """Define a study whose waves, all together, ask about three quarters of its devices."""
    model = kind.model
    privacy = NoPrivacy() if model == "none" else Private(model, EPSILON[model], 1e-6, "exact", scale.floor)
    if kind.policy == "waves":
        policy = make_policy("waves", most_people=scale.devices // 2)
    else:
        policy = make_policy("dpbe", alpha=0.45 if model == "none" else 0.3)
    points = np.linspace(0, 1, ARMS)
    problem = Problem(points, SquaredExponential(0.3), 0.05, 0.1, norm_bound=1.0, horizon=scale.horizon)
    rules = Rules(deadline=scale.deadline, rounds_per_second=ROUNDS_PER_SECOND if kind.by_clock else None)
    return Definition(problem, policy, privacy, rules=rules)


def rewards(rng: np.random.Generator) -> list[float]:
    """Draw what one person experiences with every decision: the truth, a deviation of their own, and noise."""
    truth = np.sin(3 * np.linspace(0, 1, ARMS))
    found: list[float] = (truth + 0.1 * rng.standard_normal() + 0.05 * rng.standard_normal(ARMS)).tolist()
    return found
