"""What asking costs against what not knowing would cost, added up over all rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from voxpop.errors import Array
from voxpop.gp.belief import pooled_best
from voxpop.journal.journal import Course
from voxpop.journal.wave import ClosedWave
from voxpop.model.money import Money
from voxpop.model.problem import Indices
from voxpop.model.waves import Plan


@dataclass(frozen=True, eq=False)
class Metrics:
    """What a run cost."""

    regret: float  # eq:regret
    numbers: int  # eq:comm_cost
    people: int
    switches: int


def measure(plans: Sequence[Plan], final: int, horizon: int, f: Array, moves: Array | None = None) -> Metrics:
    """Compute the cost of the waves and of playing the final action for the rounds that are left.

    In every round the truth f changes by `moves`, if it does.
    """
    arms, pulls = played(plans, final, horizon)
    return Metrics(
        regret=float((f.max() - f[arms]) @ pulls if moves is None else _lost(arms, pulls, f, moves).sum()),
        numbers=sum(plan.numbers for plan in plans),
        people=sum(plan.people for plan in plans if not plan.same)
        + max((p.people for p in plans if p.same), default=0),
        switches=int(np.count_nonzero(np.diff(arms))),
    )


def _lost(arms: Indices, pulls: Indices, f: Array, moves: Array) -> Array:
    """Compute what each action lost in its rounds, while the truth changed by `moves` in every round."""
    ends = np.concatenate([[0], np.cumsum(pulls)])
    best = np.concatenate([[0.0], np.cumsum([float((f + number * moves).max()) for number in range(int(ends[-1]))])])
    rounds = np.diff(ends * (ends - 1) / 2)  # the numbers of the rounds, from 0 on, added up
    return np.asarray(np.diff(best[ends]) - f[arms] * pulls - moves[arms] * rounds)


def played(plans: Iterable[Plan], final: int, horizon: int) -> tuple[Indices, Indices]:
    """List every action in the order it was played, with its rounds, up to the horizon."""
    arms, pulls = list[int](), list[int]()
    for plan in plans:
        if plan.orders is None and plan.played is None:
            arms, pulls = [*arms, *plan.arms.tolist()], [*pulls, *(plan.turns * (plan.washout + plan.each)).tolist()]
        else:  # if none of the decisions was in force, the usual one is taken to have been
            sequence = np.where(plan.sequence < 0, plan.reference, plan.sequence)
            arms, pulls = [*arms, *sequence.tolist()], [*pulls, *[1] * plan.asked]
        arms, pulls = [*arms, plan.reference], [*pulls, plan.rest]
    rounds = np.array([*pulls, horizon - sum(pulls)], dtype=np.intp)
    some = rounds > 0
    return np.array([*arms, final], dtype=np.intp)[some], rounds[some]


def regret_curve(
    plans: Iterable[Plan], final: int, horizon: int, f: Array, moves: Array | None = None
) -> tuple[Array, Array]:
    """Compute rounds and cumulative regret at every change of action; the curve is straight in between."""
    arms, pulls = played(plans, final, horizon)
    rounds = np.concatenate([[0], np.cumsum(pulls)])
    lost = (f.max() - f[arms]) * pulls if moves is None else _lost(arms, pulls, f, moves)
    regret = np.concatenate([[0.0], np.cumsum(lost)])
    return rounds.astype(float), regret


@dataclass(frozen=True)
class Stakes:
    """Losses against the best decision over the whole horizon, in units of reward or, `worth` it, in money.

    They are measured if the truth is known, as in a simulation. Otherwise they are against what is the best decision by
    all answers and, before anybody has answered, what knowing the best one is expected to bring at most.
    """

    measured: bool
    answers: float  # the price of the answers
    trying: float  # lost in the rounds of the waves, in which poorer decisions were in force
    ahead: float  # what the decision loses in the rounds that are left
    pilot: float | None  # lost by using the pilot's choice in all rounds; None without a pilot
    pilot_choice: int | None
    guessing: float  # lost by a decision taken at random

    def worth(self, money: Money, numbers: int) -> Stakes:
        """Return the same for all people, in money, with what so many numbers cost."""
        losses = {name: getattr(self, name) for name in ("trying", "ahead", "pilot", "guessing")}
        worth: dict[str, Any] = {name: loss and money.people * loss for name, loss in losses.items()}
        return replace(self, answers=money.cost(numbers, self.answers), **worth)

    @property
    def asking(self) -> float:
        """What asking has cost."""
        return self.answers + self.trying

    @property
    def total(self) -> float:
        """What the study costs in all."""
        return self.asking + self.ahead

    @property
    def caveat(self) -> str:
        """Why a pilot's choice that costs nothing proves nothing; empty if it costs something."""
        if not self.measured or self.pilot != 0:
            return ""
        return "the pilot's choice is best by the simulated truth, as it is if people are simulated around the pilot"


def stakes_of(course: Course, truth: Array | None = None) -> Stakes | None:
    """Compute what was at stake; None if nobody has said anything yet from which that could be estimated.

    >>> from voxpop.simulation.trials import Trial
    >>> run = Trial("pricing", size=25, horizon=2000).run()
    >>> found = stakes_of(run.course, run.scenario.f)
    >>> found.asking < found.guessing
    True
    """
    problem, state, best = course.problem, course.state, course.answer.index
    if truth is None:
        values = problem.within(state.centre)
        unknown = 0.0 if course.closed else state.expected_loss or 0.0
        top = float(problem.within(values[best] + unknown))
        if not (course.closed or problem.pilot) or np.ptp(values) == 0:
            return None
    else:
        values, top = truth, float(truth.max())
    loss = np.maximum(top - values, 0.0)
    arms, pulls = played(course.plans, best, course.rounds)
    pilot = pooled_best(problem) if problem.pilot else None
    return Stakes(
        measured=truth is not None,
        answers=sum(map(price_of, course.closed)),
        trying=float(loss[arms] @ pulls) if len(arms) else 0.0,
        ahead=float(loss[best]) * (problem.horizon - course.rounds),
        pilot=None if pilot is None else float(loss[pilot]) * problem.horizon,
        pilot_choice=pilot,
        guessing=float(loss.mean()) * problem.horizon,
    )


def price_of(wave: ClosedWave) -> float:
    """Return the price of the answers that came; 0 if the policy counts none."""
    forecast = wave.plan.forecast
    return 0.0 if forecast is None else forecast.answers * wave.people / wave.plan.people
