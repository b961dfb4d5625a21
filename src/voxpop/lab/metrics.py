"""Regret and numbers sent, from the log of a run and the truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from voxpop.core.errors import Array
from voxpop.core.phases import Plan
from voxpop.core.problem import Indices


@dataclass(frozen=True, eq=False)
class Metrics:
    """What a run cost."""

    regret: float  # eq:regret
    numbers: int  # eq:comm_cost
    people: int
    switches: int


def measure(plans: Sequence[Plan], final: int, horizon: int, f: Array) -> Metrics:
    """Compute the cost of the phases and of playing the final action for the rounds that are left."""
    arms, pulls = played(plans, final, horizon)
    return Metrics(
        regret=float((f.max() - f[arms]) @ pulls),
        numbers=sum(plan.numbers for plan in plans),
        people=sum(plan.people for plan in plans),
        switches=int(np.count_nonzero(np.diff(arms))),
    )


def played(plans: Iterable[Plan], final: int, horizon: int) -> tuple[Indices, Indices]:
    """List every action in the order it was played, with its rounds, up to the horizon."""
    plans = list(plans)
    left = horizon - sum(plan.length for plan in plans)
    pairs = [pair for plan in plans for pair in ((plan.arms, plan.pulls), _alone(plan.reference, plan.rest))]
    arms, pulls = zip(*pairs, _alone(final, left), strict=True)
    return np.concatenate(arms), np.concatenate(pulls)


def _alone(action: int, rounds: int) -> tuple[Indices, Indices]:
    """Return one action with its rounds, or nothing if there are none."""
    kept = slice(None if rounds else 0)
    return np.array([action], dtype=np.intp)[kept], np.array([rounds], dtype=np.intp)[kept]


def regret_curve(plans: Iterable[Plan], final: int, horizon: int, f: Array) -> tuple[Array, Array]:
    """Compute rounds and cumulative regret at every change of action; the curve is straight in between."""
    arms, pulls = played(plans, final, horizon)
    rounds = np.concatenate([[0], np.cumsum(pulls)])
    regret = np.concatenate([[0.0], np.cumsum((f.max() - f[arms]) * pulls)])
    return rounds.astype(float), regret
