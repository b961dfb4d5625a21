"""DPBE, distributed phase-then-batch elimination (alg:DPBE).

Phases of 1, 2, 4, ... rounds, cut at the horizon. A phase plays the actions of largest posterior variance in
batches, asks ceil(2^(alpha l)) people for their averages, estimates f and drops what cannot be best.

| name | width | batch length | bounds | comparison |
|---|---|---|---|---|
| `dpbe` | affine | corrected | intersected over phases | with the incumbent |
| `dpbe-paper` | eq:confidence_width | as printed | of the last phase | none |

The comparison bounds f(x) - f(b), where b is the best action before the phase: what a user's bias does to both
cancels, so actions fall that the bounds on f(x) and f(b) cannot separate. As b is fixed before the phase's feedback,
each such bound fails with probability at most beta, like the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from voxpop.errors import require_choice, require_number
from voxpop.phases import Feedback, Info, Plan, State
from voxpop.policies.beliefs import Beliefs
from voxpop.posterior import BatchRule, information_gain, regress, select
from voxpop.problem import Problem
from voxpop.widths import AffineEstimator, feedback_noise, printed_width

DOUBLINGS = 12  # of the norm bound before the oldest phases are given up


@dataclass(frozen=True)
class DPBE:
    """The paper's algorithm with its parts selectable; the defaults are the policy `dpbe`."""

    alpha: float = 0.7  # user sampling
    ratio: float = 1.6  # C, rare switching
    width: Literal["affine", "printed"] = "affine"
    batches: BatchRule = "corrected"
    intersect: bool = True
    compare: bool = True
    name: str = "dpbe"

    def __post_init__(self) -> None:
        require_number("alpha", self.alpha, above=0, most=2)
        require_number("ratio", self.ratio, above=1, most=1e6)
        require_choice("width", self.width, ("affine", "printed"))
        require_choice("batch rule", self.batches, ("corrected", "printed"))

    def settings(self) -> dict[str, Any]:
        """The arguments that make this policy again."""
        return asdict(self)

    def init(self, problem: Problem) -> State:
        """Every action is active, and f is within B sqrt(k(x, x)) of its prior mean."""
        return _state(0, 0, Beliefs.prior(problem, problem.norm_bound), problem.norm_bound, ())

    def plan(self, problem: Problem, state: State) -> Plan | None:
        """The next phase: alg:DPBE, lines 4 to 12."""
        left = problem.horizon - state.rounds
        if len(state.active) == 1 or left == 0:
            return None
        phase = state.phase + 1
        chosen = select(problem, state.active, min(2**state.phase, left), self.ratio, self.batches)
        return Plan(phase, chosen.arms, chosen.pulls, users_of_phase(self.alpha, phase), self.best(problem, state))

    def advance(self, problem: Problem, state: State, plan: Plan, feedback: Feedback) -> tuple[State, Info]:
        """Estimate and eliminate: alg:DPBE, lines 17 to 21."""
        feedback.check(plan)
        history = (*state.history, (plan, feedback))
        before = Beliefs(state.active, state.lower, state.upper, state.centre, state.lead)
        beliefs, width = self._learn(problem, before, plan, feedback, state.norm_bound)
        norm_bound, kept = state.norm_bound, history
        if refuted := beliefs.contradict():
            beliefs, norm_bound, kept = self._reconcile(problem, history, norm_bound)
        info = Info(
            active_before=len(state.active),
            active_after=len(beliefs.active),
            max_width=width,
            information_gain=information_gain(problem, plan.arms, plan.pulls),
            norm_bound=norm_bound,
            refuted=refuted,
            forgotten=len(history) - len(kept),
        )
        return _state(plan.phase, state.rounds + plan.length, beliefs, norm_bound, kept), info

    def best(self, problem: Problem, state: State) -> int:
        """The active action that is most ahead."""
        score = state.lead if self.compare else state.centre
        return int(state.active[np.argmax(score[state.active])])

    def _learn(
        self, problem: Problem, beliefs: Beliefs, plan: Plan, feedback: Feedback, norm_bound: float
    ) -> tuple[Beliefs, float]:
        """What one phase adds to the beliefs, and the largest width among the actions that were active."""
        at, arms = beliefs.active, plan.arms
        y = feedback.mean - problem.means[arms]
        beaten = np.zeros(len(at), dtype=bool)
        if self.width == "printed":
            mean, variance = regress(problem, arms, plan.pulls, y, at)
            width = printed_width(problem, variance, at, feedback.count, norm_bound)
        else:
            noise = feedback_noise(problem, plan.pulls, feedback.count)
            estimator = AffineEstimator(problem, arms, noise if feedback.noise is None else noise + feedback.noise)
            values = estimator.values(at, norm_bound)
            mean, width = values.estimate(y), values.width
            if self.compare and plan.reference is not None:
                gaps = estimator.gaps(at, plan.reference, norm_bound)
                lead = problem.means[at] - problem.means[plan.reference] + gaps.estimate(y)
                beliefs, beaten = beliefs.leading(lead), lead + gaps.width < 0
        centre = problem.means[at] + mean
        beliefs = beliefs.intersect(centre, width) if self.intersect else beliefs.replace(centre, width)
        return beliefs.eliminate(beaten), float(width.max())

    def _reconcile(
        self, problem: Problem, history: Sequence[tuple[Plan, Feedback]], norm_bound: float
    ) -> tuple[Beliefs, float, tuple[tuple[Plan, Feedback], ...]]:
        """Double the refuted norm bound until all phases agree.

        If no norm bound makes them agree, it is the noise that was misjudged: the older half is given up. A single
        phase is not compared with anything, so it agrees with the prior as soon as the norm bound is large enough.
        """
        doubled = norm_bound
        while True:
            lonely = len(history) == 1
            policy = replace(self, compare=False) if lonely else self
            for _ in range(DOUBLINGS):
                doubled *= 2
                beliefs = Beliefs.prior(problem, doubled)
                for past in history:
                    if len(beliefs.active):
                        beliefs, _ = policy._learn(problem, beliefs, *past, doubled)
                if not beliefs.contradict():
                    return beliefs, doubled, tuple(history)
            if not lonely:
                history, doubled = history[(len(history) + 1) // 2 :], norm_bound


def paper(alpha: float = 0.7, ratio: float = 1.6) -> DPBE:
    """DPBE to the letter."""
    return DPBE(alpha, ratio, width="printed", batches="printed", intersect=False, compare=False, name="dpbe-paper")


def users_of_phase(alpha: float, phase: int) -> int:
    """ceil(2^(alpha l)), not thrown off by rounding where 2^(alpha l) is a whole number.

    >>> [users_of_phase(0.7, phase) for phase in (1, 2, 10)]
    [2, 3, 128]
    """
    return math.ceil(2 ** (alpha * phase) * (1 - 1e-12))


def _state(
    phase: int, rounds: int, beliefs: Beliefs, norm_bound: float, history: tuple[tuple[Plan, Feedback], ...]
) -> State:
    return State(
        phase,
        rounds,
        beliefs.active,
        beliefs.lower,
        beliefs.upper,
        beliefs.centre,
        beliefs.lead,
        norm_bound,
        history,
    )
