"""DPBE, distributed phase-then-batch elimination (alg:DPBE).

Phases of 1, 2, 4, ... rounds, cut at the horizon. A phase plays the actions of largest posterior variance in
batches, asks ceil(2^(alpha l)) people for their averages, estimates f and drops the actions that cannot be best.

| name | width | batch length | bounds | comparison |
|---|---|---|---|---|
| `dpbe` | affine | corrected | intersected over phases | with the incumbent |
| `dpbe-paper` | eq:confidence_width | as printed | of the last phase | none |
| `dpbe-fixed` | the same, with the same number of people in every phase | | | |
| `dpbe-nobatching` | the same, with a new action every round and every observation sent | one round | | |

The comparison bounds f(x) - f(b), where b is the best action before the phase: what a person's bias does to both
cancels, so it eliminates actions that the bounds on f(x) and f(b) cannot separate. As b is fixed before the phase's
feedback, each such bound fails with probability at most beta, like the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from voxpop.errors import Array, InputError
from voxpop.gp.large_widths import affine_values, affine_values_and_gaps
from voxpop.gp.posterior import in_blocks, information_gain, regress
from voxpop.gp.selection import greedy_information_gain, require_end, select
from voxpop.gp.widths import AffineEstimator, root_form
from voxpop.model.options import REQUIRED, option
from voxpop.model.problem import Indices, Problem
from voxpop.model.state import OPEN, Channel, State
from voxpop.model.waves import End, Feedback, Info, Plan, changed
from voxpop.policies.protocol import ALONE, OVER, Configured, prior_state, require_few_rounds

PRINTED: dict[str, Any] = {
    "width": "printed",
    "batches": "printed",
    "intersect": False,
    "compare": False,
    "settle": False,
    "rest": False,
}
NO_BATCHING: dict[str, Any] = {**PRINTED, "batches": "single"}
FIXED: dict[str, Any] = {**PRINTED, "people": REQUIRED}
TEACHES = 0.05  # rounds that narrow the widest gap by less than this share go to the incumbent
DOUBLINGS = 12  # of the norm bound before the oldest phases are dropped


@dataclass(frozen=True)
class DPBE(Configured):
    """The paper's algorithm with its parts selectable; the defaults are the policy `dpbe`."""

    alpha: float = option(0.7, above=0, most=2, help="Wave l of dpbe asks ceil(2^(alpha l)) people.")
    ratio: float = option(1.6, above=1, most=1e6, help="C of dpbe, how rarely the action is switched; above 1.")
    width: Literal["affine", "printed", "counted"] = option(
        "affine",
        help="How bounds are computed: affine; as printed; or as printed but for the privacy noise, counted exactly.",
    )
    batches: Literal["corrected", "printed", "single"] = option(
        "corrected", called="batch rule", help="How long a batch is: as corrected, as printed, or one round."
    )
    intersect: bool = option(True, help="Bounds are intersected over the waves.")
    compare: bool = option(True, help="Actions are compared with the incumbent.")
    settle: bool = option(True, help="The decision and its certificate are those of the wave that certifies best.")
    rest: bool = option(True, help="Rounds beyond what an arm needs go to the incumbent.")
    people: int | None = option(None, least=1, help="The same number of people in every wave, instead of alpha's.")
    aggregates = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compare and self.width != "affine":
            raise InputError("the printed width cannot compare actions; set compare=False or width='affine'")

    @property
    def name(self) -> str:
        """`dpbe-paper` and its ablations if every part is as printed, else `dpbe`."""
        if replace(self, **NO_BATCHING) == self:
            return "dpbe-nobatching"
        if replace(self, **PRINTED) == self:
            return "dpbe-paper" if self.people is None else "dpbe-fixed"
        return "dpbe"

    def init(self, problem: Problem) -> State:
        """Return the state in which only the prior is known."""
        if self.batches == "single":
            require_few_rounds(self.name, problem)
        require_end(problem, (problem.horizon + 1) // 2, self.ratio, self.batches)
        return prior_state(problem)

    def plan(self, problem: Problem, state: State, channel: Channel = OPEN) -> Plan | End:
        """Plan the next phase: alg:DPBE, lines 4 to 12."""
        left = state.rounds_left(problem)
        if left == 0:
            return OVER if len(state.active) > 1 else ALONE
        phase = state.wave + 1
        chosen = select(problem, state.active, min(2**state.wave, left), self.ratio, self.batches)
        people = people_of_phase(self.alpha, phase) if self.people is None else self.people
        reports: Literal["averages", "rounds"] = "rounds" if self.batches == "single" else "averages"
        plan = Plan(phase, chosen.arms, chosen.pulls, people, self.best(problem, state), reports)
        plan = self._rested(problem, state, plan) if self.rest and self.width == "affine" else plan
        return channel.enlist(problem, state, plan)

    def advance(self, problem: Problem, state: State, plan: Plan, feedback: Feedback) -> tuple[State, Info]:
        """Estimate and eliminate: alg:DPBE, lines 17 to 21."""
        feedback.check(plan)
        after, width = self._learn(problem, state, plan, feedback, self.compare)
        phases = len(after.history)
        if refuted := after.contradicts():
            after = self._reconcile(problem, after)
        info = Info(
            active_before=len(state.active),
            active_after=len(after.active),
            max_width=width,
            information_gain=information_gain(problem, plan.arms, plan.pulls),
            norm_bound=after.norm_bound,
            refuted=refuted,
            forgotten=phases - len(after.history),
        )
        return after, info

    def _rested(self, problem: Problem, state: State, plan: Plan) -> Plan:
        """Give the incumbent the rounds that would teach almost nothing: only more people narrow a width much.

        Pulls are halved while the largest width of a gap grows by at most 5 %.
        """

        def halved(times: int) -> Plan:
            pulls = -(-plan.pulls // 2**times)
            return replace(plan, pulls=pulls, rest=plan.asked - int(pulls.sum()))

        def widest(times: int) -> float:
            fewer = halved(times)
            noise = problem.answer_noise(fewer.arms, fewer.pulls, fewer.people)
            y = np.zeros(len(fewer.arms))
            estimator = AffineEstimator(problem, fewer.arms, noise)
            gaps = affine_values_and_gaps(estimator, state.active, plan.reference, state.norm_bound, y)[1]
            return float(gaps[1].max())

        low, high = 0, int(plan.pulls.max()).bit_length()  # the width grows with every halving
        limit = (1 + TEACHES) * widest(0) if high > 1 else 0.0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if widest(middle) <= limit else (low, middle)
        return halved(low)

    def _learn(
        self, problem: Problem, state: State, plan: Plan, feedback: Feedback, compare: bool
    ) -> tuple[State, float]:
        """Return the state after one more phase, and the largest width among the actions that were active."""
        estimate = self._by_affine_width if self.width == "affine" else self._by_printed_width
        centre, width, lead, lead_width = estimate(problem, state, plan, feedback, compare)
        bounded = state.intersect(centre, width) if self.intersect else state.replace(centre, width)
        beaten = (lead + lead_width < 0) if compare else np.zeros(len(lead), dtype=bool)
        after = bounded.rank(lead, lead_width).eliminate(beaten).record(plan, feedback)
        return (after.settle() if self.settle and len(after.active) else changed(after, decision=None)), float(
            width.max()
        )

    def _by_printed_width(
        self, problem: Problem, state: State, plan: Plan, feedback: Feedback, compare: bool
    ) -> tuple[Array, Array, Array, Array]:
        """Estimate f by eq:mu_update and eq:confidence_width; the lead is the estimate itself."""
        y = feedback.mean - problem.means[plan.arms]

        def estimate(at: Indices) -> tuple[Array, ...]:
            weights, variance = regress(problem, plan.arms, plan.pulls, at)
            width = printed_width(problem, variance, at, feedback.effective, state.norm_bound)
            printed = feedback.printed and self.width == "printed"
            width += printed_privacy_width(problem, weights, feedback, self.ratio if printed else None)
            return problem.means[at] + weights @ y, width

        centre, width = in_blocks(estimate, state.active)
        return centre, width, centre, width

    def _by_affine_width(
        self, problem: Problem, state: State, plan: Plan, feedback: Feedback, compare: bool
    ) -> tuple[Array, Array, Array, Array]:
        """Estimate f and, to compare, its gap to the reference, with affine widths."""
        at, y = state.active, feedback.mean - problem.means[plan.arms]
        noise = problem.answer_noise(plan.arms, plan.pulls, feedback.effective)
        noise = noise if feedback.noise is None else noise + feedback.noise
        estimator = AffineEstimator(problem, plan.arms, noise, feedback.clipping)
        if not compare:
            values, width = affine_values(estimator, at, state.norm_bound, y)
            centre = problem.means[at] + values
            return centre, width, centre, width
        (values, width), (gaps, gap_width) = affine_values_and_gaps(estimator, at, plan.reference, state.norm_bound, y)
        lead = problem.means[at] - problem.means[plan.reference] + gaps
        return problem.means[at] + values, width, lead, gap_width

    def _reconcile(self, problem: Problem, state: State) -> State:
        """Double the refuted norm bound until all phases agree.

        Phases whose answers were clipped are dropped: they were clipped to what the old bound allowed. If no norm
        bound makes the others agree, the noise was misjudged, and the older half of them is dropped. A single
        phase is not compared with anything, so it agrees with the prior as soon as the norm bound is large enough.
        """
        norm_bound = state.norm_bound
        history = tuple(phase for phase in state.history if phase.feedback.clipping is None)
        if not history:
            fresh = State.prior(problem, 2 * norm_bound)
            return replace(fresh, wave=state.wave, rounds=state.rounds)
        while True:
            alone = len(history) == 1
            for _ in range(DOUBLINGS):
                norm_bound *= 2
                after = State.prior(problem, norm_bound)
                for plan, feedback in history:
                    if len(after.active):
                        after, _ = self._learn(problem, after, plan, feedback, self.compare and not alone)
                if not after.contradicts():
                    return replace(after, wave=state.wave, rounds=state.rounds)
            if not alone:
                history, norm_bound = history[(len(history) + 1) // 2 :], state.norm_bound


def matching_people(plans: Iterable[Plan]) -> int:
    """Compute the number of people per phase with which `dpbe-fixed` costs what these phases cost.

    It is the floor of the mean of |U_l|, weighted by the numbers N_l that a person sends.
    """
    plans = list(plans)
    return max(1, sum(plan.numbers for plan in plans) // max(1, sum(len(plan.arms) for plan in plans)))


def people_of_phase(alpha: float, phase: int) -> int:
    """Compute ceil(2^(alpha l)), unaffected by rounding where 2^(alpha l) is a whole number.

    >>> [people_of_phase(0.7, phase) for phase in (1, 2, 10)]
    [2, 3, 128]
    """
    people = 2 ** (alpha * phase)
    return round(people) if math.isclose(people, round(people), rel_tol=1e-12) else math.ceil(people)


def printed_width(problem: Problem, variance: Array, at: Indices, count: float, norm_bound: float) -> Array:
    """Compute eq:confidence_width, with the factor v on its first two terms for people f_u ~ GP(f, v^2 k)."""
    spread = problem.bias_std * math.sqrt(2 * math.log(1 / problem.beta) / count)
    deviation = np.sqrt(variance)
    return np.asarray(spread * np.sqrt(problem.prior_variance[at]) + spread * deviation + norm_bound * deviation)


def printed_privacy_width(problem: Problem, weights: Array, feedback: Feedback, ratio: float | None) -> Array | float:
    """Compute what privacy adds to the printed width: the last term of eq:confidence_width_dp.

    As printed, sigma_n^2 is the noise's variance times 2 C^2 gamma_T, with gamma_T as greedy selection finds it.
    Without C the noise is counted exactly: by a'(covariance) a of the estimate's own weights a.
    """
    if feedback.noise is None:
        return 0.0
    z = math.sqrt(2 * math.log(1 / problem.beta))
    if ratio is not None:
        variance = float(feedback.noise.diagonal().max())
        return z * math.sqrt(variance * 2 * ratio**2 * greedy_information_gain(problem))
    width = z * root_form(weights, feedback.noise)
    return width if feedback.clipping is None else width + root_form(weights, feedback.clipping)
