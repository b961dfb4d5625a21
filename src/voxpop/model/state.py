"""What a policy carries from wave to wave: bounds on f for every action, and which can still be best."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from voxpop.errors import Array
from voxpop.model.guardrails import Rule
from voxpop.model.problem import Indices, Problem
from voxpop.model.waves import Answered, Feedback, Plan, changed
from voxpop.model.words import number, percent

History = tuple[Answered, ...]


@dataclass(frozen=True)
class Guard:
    """What is known of the decision and one guardrail."""

    rule: Rule
    value: float  # what is expected of the metric, turned so that more is better
    chance: float  # that the decision keeps the guardrail
    certified: float  # by how much it passes the rule, at least, with the bounds' confidence; -inf: not known
    possible: bool  # False if no decision is likely to keep all guardrails
    nearest: int  # the decision that is most likely to keep them all
    slack: float  # by how much that one is expected to pass this rule

    @property
    def said(self) -> str:
        """What is certified of the decision, or believed, in words."""
        if self.certified >= 0:
            return f"keeps {self.rule.bound(self.certified)}, certified"
        return f"keeps {self.rule} with {percent(self.chance)}, not certified yet"

    @property
    def note(self) -> str:
        """What is expected, and how surely it is enough."""
        return f"expected {number(self.rule.turn(np.array(self.value)).item())}, enough with {percent(self.chance)}"


@dataclass(frozen=True, eq=False)
class State:
    """Bounds, estimates and leads of all actions. It is frozen: every method returns a new state.

    The lead of an action is its estimated advantage over something fixed (the incumbent of the wave, or nothing at
    all); actions are ranked by it. Bounds on f(x) - f(x') follow from two leads and their widths.

    A policy may settle on a decision with a certificate of its own; otherwise the leader is the decision. A policy
    that remembers more derives a state of its own.
    """

    wave: int  # waves completed
    rounds: int  # rounds played
    active: Indices
    lower: Array  # (n,)
    upper: Array  # (n,)
    centre: Array  # (n,) the estimate whose interval was the narrowest
    lead: Array  # (n,)
    lead_width: Array  # (n,)
    norm_bound: float
    history: History = ()  # needed again when the norm bound is refuted
    decision: int | None = None  # the action to use now; None: the leader
    certified: float | None = None  # with the bounds' confidence, no action is better than the decision by more
    spent: float = 0.0  # of the chance of error, by all that was certified so far, or set aside
    keeps: tuple[float, ...] = ()  # by how much the decision passes each guardrail at least; -inf: not certified

    @classmethod
    def prior(cls, problem: Problem, norm_bound: float) -> Self:
        """Return the state before any wave: |f(x) - m(x)| <= B sqrt(k(x, x)), within the range of rewards."""
        reach, mean = norm_bound * np.sqrt(problem.prior_variance), problem.means
        lower, upper = problem.within(mean - reach), problem.within(mean + reach)
        return cls(0, 0, np.arange(problem.size), lower, upper, mean.copy(), mean.copy(), reach, norm_bound)

    def intersect(self, centre: Array, width: Array) -> Self:
        """Intersect the bounds of the active actions with new intervals."""
        lower, upper = self.lower[self.active], self.upper[self.active]
        sharper = width < (upper - lower) / 2
        return changed(
            self,
            lower=self._put(self.lower, np.maximum(lower, centre - width)),
            upper=self._put(self.upper, np.minimum(upper, centre + width)),
            centre=self._put(self.centre, np.where(sharper, centre, self.centre[self.active])),
        )

    def replace(self, centre: Array, width: Array) -> Self:
        """Replace the bounds of the active actions by new intervals."""
        return changed(
            self,
            lower=self._put(self.lower, centre - width),
            upper=self._put(self.upper, centre + width),
            centre=self._put(self.centre, centre),
        )

    def bounded(self, centre: Array, width: Array) -> Self:
        """Take the bounds, estimate and lead of every action from one interval."""
        lower, upper = centre - width, centre + width
        return changed(self, lower=lower, upper=upper, centre=centre, lead=centre, lead_width=width)

    def rank(self, lead: Array, width: Array) -> Self:
        """Replace the leads of the active actions."""
        return changed(self, lead=self._put(self.lead, lead), lead_width=self._put(self.lead_width, width))

    def eliminate(self, beaten: NDArray[np.bool_]) -> Self:
        """Drop the active actions that are beaten or whose upper bound is below some lower bound."""
        lower, upper = self.lower[self.active], self.upper[self.active]
        return changed(self, active=self.active[~beaten & (upper >= lower.max())])

    def played(self, plan: Plan) -> Self:
        """Count the wave as played."""
        return changed(self, wave=plan.wave, rounds=self.rounds + plan.length)

    def record(self, plan: Plan, feedback: Feedback) -> Self:
        """Count the wave as played, and keep it in the history."""
        return changed(self.played(plan), history=(*self.history, Answered(plan, feedback)))

    def contradicts(self) -> bool:
        """Return True if no action is left, or some interval is empty by more than rounding."""
        slack = 1e-9 * np.maximum(np.abs(self.lower), np.abs(self.upper))
        return len(self.active) == 0 or bool(np.any(self.lower > self.upper + slack))

    def rounds_left(self, problem: Problem) -> int:
        """Return the number of rounds that can still teach something: none once a single action is left."""
        return 0 if len(self.active) == 1 else problem.horizon - self.rounds

    @property
    def leader(self) -> int:
        """The active action of largest lead."""
        return int(self.active[np.argmax(self.lead[self.active])])

    @property
    def best(self) -> int:
        """The action to use now."""
        return self.leader if self.decision is None else self.decision

    @property
    def certificate(self) -> float:
        """The most by which any action can be better than `best`."""
        return self.most_lost(self.best) if self.certified is None else self.certified

    @property
    def expected_loss(self) -> float | None:
        """What the model expects the decision to lose per round; None if the policy does not know."""
        return None

    @property
    def metrics(self) -> tuple[State, ...]:
        """What is known of the objective and of the metrics of all guardrails."""
        return (self,)

    @property
    def guards(self) -> tuple[Guard, ...]:
        """What is known of the decision and each guardrail."""
        return ()

    @property
    def slacks(self) -> tuple[tuple[Array, Array], ...]:
        """By how much each decision is expected to pass each rule, and the standard deviation of that, (n,) each."""
        return ()

    @property
    def unsealed(self) -> Self:
        """What plans and releases may depend on: the state without what sealed answers say."""
        return self

    def concluded(self) -> Self:
        """Return the state at the end of the study, where all that is left of the chance of error may be spent."""
        return self

    @property
    def error_factor(self) -> float | None:
        """How many standard errors the last certificate will count with; None if the policy does not know."""
        return None

    def closed_early(self, people: int) -> Self:
        """Return the state of a study whose owner closes a wave before its `people` have answered."""
        return self

    def otherwise(self) -> Self:
        """Return the state of a study whose owner does not just go on, but takes a wave back or changes the horizon."""
        return self

    def most_lost(self, action: int) -> float:
        """Return the most by which any action can be better than this one, by the bounds and the leads."""
        others = self.active[self.active != action]
        if not len(others):
            return 0.0
        by_bounds = float(self.upper[others].max() - self.lower[action])
        by_lead = float((self.lead + self.lead_width)[others].max() - (self.lead - self.lead_width)[action])
        return max(0.0, min(by_bounds, by_lead))

    def proved(self, problem: Problem, action: int) -> float:
        """Return the most by which any action can be better than this one; infinite if the answers do not tell.

        What was assumed before anybody answered does not count.
        """
        known = self.certificate if action == self.best else self.most_lost(action)
        assumed = State.prior(problem, self.norm_bound).most_lost(action)
        return known if known < assumed or len(self.active) == 1 else math.inf

    def proved_bounds(self, problem: Problem) -> tuple[Array, Array]:
        """Return the bounds on every action, within the limits of rewards; nan where the answers tell nothing."""
        prior = State.prior(problem, self.norm_bound)
        known = (self.lower > prior.lower) | (self.upper < prior.upper)
        lower, upper = (np.where(known, problem.within(bound), np.nan) for bound in (self.lower, self.upper))
        return lower, upper

    def settle(self) -> Self:
        """Settle on the leader, or stay with the decision of an earlier wave that certified it better."""
        leader = self.leader
        certified = self.most_lost(leader)
        if self.certified is not None and self.certified < certified and self.decision in self.active:
            return self
        return changed(self, decision=leader, certified=certified)

    def _put(self, values: Array, new: Array) -> Array:
        values = values.copy()
        values[self.active] = new
        return values


class Channel(Protocol):
    """A trust model, as far as a policy needs to know it when it plans."""

    @property
    def least(self) -> int:
        """The least number of people in a wave, as chosen by whoever runs the study; 0 if nobody chose one."""

    @property
    def splits(self) -> bool:
        """True if the averages of the people of each block may be seen apart."""

    def enlist(self, problem: Problem, state: State, plan: Plan) -> Plan:
        """Return the plan with enough people to hide in; for policies that do not predict the noise."""

    def prospect(self, problem: Problem, state: State, plan: Plan) -> Prospect | None:
        """Predict the noise that the averages of the plan's arms would get, for any number of people; None: none."""


@dataclass(frozen=True, eq=False)
class Prospect:
    """The noise that privacy would add to averages: its covariance is variance(people) times the shape."""

    shape: Array  # (arms, arms); with guardrails of all metrics, metric after metric
    variance: Callable[[Array], Array]  # by the number of people; infinite if they are too few to hide in

    def of_metric(self, metric: int, arms: int) -> Array:
        """Return the shape of the averages of one metric."""
        at = slice(metric * arms, (metric + 1) * arms)
        return self.shape[at, at]


@dataclass(frozen=True)
class Open:
    """A channel without noise."""

    @property
    def least(self) -> int:
        return 0

    @property
    def splits(self) -> bool:
        return True

    def enlist(self, problem: Problem, state: State, plan: Plan) -> Plan:
        return plan

    def prospect(self, problem: Problem, state: State, plan: Plan) -> Prospect | None:
        return None


OPEN = Open()
