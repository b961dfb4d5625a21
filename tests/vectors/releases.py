"""Releases, invitations and answers of which test vectors are made."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.helpers_privacy import first_wave, later_wave
from voxpop.io.schema import encode, for_devices
from voxpop.model.guardrails import Guardrail, Rule
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.waves import Plan
from voxpop.policies.waves.policy import Waves
from voxpop.privacy import NoPrivacy, Privacy, Private
from voxpop.privacy.encoded import Encoding
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.none import PlainRelease

Data = dict[str, Any]
TOKEN = "t0ken-of-an-invitation_with-43-characters-in-it"
OTHERS = {"shuffle": "upload", "aggregate": "helper"}  # where an invitation names somebody else's address
SECOND = {"shuffle": {"shuffler": "https://other.example"}, "aggregate": {"helper": "https://other.example"}}
ELSEWHERE = "https://other.example/v2/batches/b4tch/report"


def wide(arms: int, people: int) -> tuple[Problem, State, Plan]:
    """Make a wave about this many decisions."""
    points = np.linspace(0, 1, arms)
    problem = Problem(points, SquaredExponential(0.2), 0.1, 0.2, norm_bound=1.0, horizon=1000)
    plan = Plan(2, np.arange(arms), np.full(arms, 3), people)
    return problem, State.prior(problem, problem.norm_bound), plan


def release(model: str, epsilon: float = 5.0, people: int = 40, **changes: Any) -> Data:
    """Make the release of a small wave, as a device is told it."""
    if model == "none":
        return dict(encode(PlainRelease(2.0**-40, 4)))
    return for_devices(encode(first_wave(people).release(Private(model, epsilon, **changes))))


def others(model: str) -> list[tuple[str, Data]]:
    """Make releases of other shapes: one decision, many, and after an earlier wave."""
    if model == "none":
        return [("one decision", encode(PlainRelease(0.5, 1)))]
    made = {
        "one decision": Private(model, 2.0, 1e-5).calibrate(*wide(1, 300)),
        "twelve decisions": Private(model, 8.0).calibrate(*wide(12, 500)),
        "after an earlier wave": later_wave(3, Private("central", 5.0)).release(Private(model, 5.0)),
    }
    return [(name, for_devices(encode(one))) for name, one in made.items()]


METRICS = [{"name": "retention", "direction": "maximize"}, {"name": "complaints", "direction": "minimize"}]


def of_metrics(model: str) -> Data:
    """Make the release of a wave of three decisions, in which people answer about two metrics besides the reward."""
    points = np.linspace(0, 1, 3)
    alone = Problem(points, SquaredExponential(0.2), 0.1, 0.2, norm_bound=1.0, horizon=1000)
    rules = ("retention >= -1", "complaints <= 1")
    rails = [Guardrail(Rule.of(rule), alone, (0.3, 0.2)[: 1 + place]) for place, rule in enumerate(rules)]
    problem = replace(alone, guardrails=tuple(rails))
    plan = Plan(3, np.arange(3), np.full(3, 3), 60, also=2)
    privacy: Privacy = NoPrivacy() if model == "none" else Private(model, 5.0)
    return for_devices(encode(privacy.calibrate(problem, Waves().init(problem), plan)))


def arms_of(data: Data) -> int:
    """Return how many numbers a release is about: decisions, and metrics of each."""
    return len(data["ball"]["centre"]) if "ball" in data else int(data["arms"])


def invitation(data: Data, wave: int = 3, block: int | None = None, metrics: Sequence[Data] = ()) -> Data:
    """Make the invitation to answer a release."""
    decisions = arms_of(data) // (1 + len(metrics))
    told: Data = {
        "invited": True,
        "token": TOKEN,
        "upload": f"/v2/studies/tea/waves/{wave}/report",
        "seconds_left": 3599.2,
        "next_check_in": 61.3,
        "wave": {"wave": wave, "arms": [10 + arm for arm in range(decisions)], "release": data},
    }
    if block is not None:
        told["wave"]["block"] = block
    if metrics:
        told["wave"]["metrics"] = list(metrics)
    if data["model"] in OTHERS:
        told[OTHERS[data["model"]]] = ELSEWHERE
    return told


def border(model: str, enough: bool) -> tuple[Data, Data]:
    """Make a release and a promise that it just keeps, or just does not: by a little more than rounding errors."""
    data, epsilon, share = release(model), 5.0, 1 + (1e-5 if enough else -1e-5)
    if model == "local":  # on a grid so coarse that rounding matters
        steps = 2.0**11
        std = share * noise_multiplier(epsilon, 1e-6) * (2 * steps + math.sqrt(arms_of(data)))
        data = changed(data, {"step": data["ball"]["radius"] / steps, "std": std})
        return data, {"model": model, "epsilon": epsilon, "delta": 1e-6}
    code = {name: data["encoding"][name] for name in ("levels", "trials", "chance", "people")}
    delta = Encoding(**code).noise(arms_of(data)).delta(epsilon)
    return data, {"model": model, "epsilon": epsilon, "delta": share * delta, **SECOND[model]}


def changed(data: Data, changes: Data) -> Data:
    """Return a copy with other values at dotted paths; a number in a path is a place in a list."""
    data = copy.deepcopy(data)
    for place, value in changes.items():
        *path, last = (int(name) if name.isdigit() else name for name in place.split("."))
        part: Any = data
        for name in path:
            part = part[name]
        part[last] = value
    return data
