"""DPBE, distributed phase-then-batch elimination (alg:DPBE).

Phases of 1, 2, 4, ... rounds, cut at the horizon. A phase plays the actions of largest posterior variance in
batches, asks ceil(2^(alpha l)) people for their averages, estimates f and drops what cannot be best.

| name | width | batch length | bounds |
|---|---|---|---|
| `dpbe` | affine | corrected | intersected over phases |
| `dpbe-paper` | eq:confidence_width | as printed | of the last phase |
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from voxpop.errors import Array, require_choice, require_number
from voxpop.phases import Feedback, Info, Plan, State
from voxpop.posterior import BatchRule, information_gain, regress, select
from voxpop.problem import Indices, Problem
from voxpop.widths import AffineEstimator, feedback_noise, printed_width


@dataclass(frozen=True)
class DPBE:
    """The paper's algorithm with its parts selectable; the defaults are the policy `dpbe`."""

    alpha: float = 0.7  # user sampling
    ratio: float = 1.6  # C, rare switching
    width: Literal["affine", "printed"] = "affine"
    batches: BatchRule = "corrected"
    intersect: bool = True
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
        prior = Bounds.prior(problem, problem.norm_bound)
        return State(0, 0, np.arange(problem.size), prior.lower, prior.upper, prior.centre, problem.norm_bound)

    def plan(self, problem: Problem, state: State) -> Plan | None:
        """The next phase: alg:DPBE, lines 4 to 12."""
        left = problem.horizon - state.rounds
        if len(state.active) == 1 or left == 0:
            return None
        phase = state.phase + 1
        chosen = select(problem, state.active, min(2**state.phase, left), self.ratio, self.batches)
        return Plan(phase, chosen.arms, chosen.pulls, users_of_phase(self.alpha, phase))

    def advance(self, problem: Problem, state: State, plan: Plan, feedback: Feedback) -> tuple[State, Info]:
        """Estimate and eliminate: alg:DPBE, lines 17 to 21."""
        feedback.check(plan)
        active, norm_bound, refuted = state.active, state.norm_bound, False
        history = (*state.history, (plan, feedback))
        bounds = Bounds(state.lower, state.upper, state.centre)
        centre, width = self._estimate(problem, plan, feedback, active, norm_bound)
        if self.intersect:
            bounds = bounds.intersect(active, centre, width)
            while bounds.contradict():
                norm_bound, refuted, active = 2 * norm_bound, True, np.arange(problem.size)
                bounds = Bounds.prior(problem, norm_bound)
                for past in history:
                    bounds = bounds.intersect(active, *self._estimate(problem, *past, active, norm_bound))
        else:
            bounds = bounds.replace(active, centre, width)
        # The action of largest lower bound always stays: its bounds do not contradict each other.
        kept = active[bounds.upper[active] >= bounds.lower[active].max()]
        info = Info(
            active_before=len(state.active),
            active_after=len(kept),
            max_width=float(width.max()),
            information_gain=information_gain(problem, plan.arms, plan.pulls),
            norm_bound=norm_bound,
            refuted=refuted,
        )
        rounds = state.rounds + plan.length
        return State(plan.phase, rounds, kept, bounds.lower, bounds.upper, bounds.centre, norm_bound, history), info

    def best(self, problem: Problem, state: State) -> int:
        """The active action of largest estimate."""
        return int(state.active[np.argmax(state.centre[state.active])])

    def _estimate(
        self, problem: Problem, plan: Plan, feedback: Feedback, at: Indices, norm_bound: float
    ) -> tuple[Array, Array]:
        """The phase's estimate of f and its width, at some actions."""
        y = feedback.mean - problem.means[plan.arms]
        if self.width == "printed":
            mean, variance = regress(problem, plan.arms, plan.pulls, y, at)
            return problem.means[at] + mean, printed_width(problem, variance, at, feedback.count, norm_bound)
        noise = feedback_noise(problem, plan.pulls, feedback.count)
        if feedback.noise is not None:
            noise += feedback.noise
        estimator = AffineEstimator.fit(problem, plan.arms, noise, at, norm_bound)
        return problem.means[at] + estimator.estimate(y), estimator.width


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds on f for every action, and the estimate whose interval was the narrowest."""

    lower: Array  # (n,)
    upper: Array  # (n,)
    centre: Array  # (n,)

    @classmethod
    def prior(cls, problem: Problem, norm_bound: float) -> Bounds:
        """|f(x) - m(x)| <= B sqrt(k(x, x))."""
        reach = norm_bound * np.sqrt(problem.prior_variance)
        return cls(problem.means - reach, problem.means + reach, problem.means.copy())

    def intersect(self, at: Indices, centre: Array, width: Array) -> Bounds:
        """What also satisfies another interval at some actions."""
        sharper = width < (self.upper[at] - self.lower[at]) / 2
        lower = np.maximum(self.lower[at], centre - width)
        upper = np.minimum(self.upper[at], centre + width)
        return self._put(at, lower, upper, np.where(sharper, centre, self.centre[at]))

    def replace(self, at: Indices, centre: Array, width: Array) -> Bounds:
        """Another interval instead at some actions."""
        return self._put(at, centre - width, centre + width, centre)

    def contradict(self) -> bool:
        """Whether some interval is empty by more than rounding."""
        slack = 1e-9 * np.maximum(np.abs(self.lower), np.abs(self.upper))
        return bool(np.any(self.lower > self.upper + slack))

    def _put(self, at: Indices, *values: Array) -> Bounds:
        arrays = [self.lower.copy(), self.upper.copy(), self.centre.copy()]
        for array, new in zip(arrays, values, strict=True):
            array[at] = new
        return Bounds(*arrays)


def paper(alpha: float = 0.7, ratio: float = 1.6) -> DPBE:
    """DPBE to the letter."""
    return DPBE(alpha, ratio, width="printed", batches="printed", intersect=False, name="dpbe-paper")


def users_of_phase(alpha: float, phase: int) -> int:
    """ceil(2^(alpha l)), not thrown off by rounding where 2^(alpha l) is a whole number.

    >>> [users_of_phase(0.7, phase) for phase in (1, 2, 10)]
    [2, 3, 128]
    """
    return math.ceil(2 ** (alpha * phase) * (1 - 1e-12))
