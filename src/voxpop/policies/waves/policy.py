"""Waves: learn only as much as pays.

A study is a handful of waves. Each asks some people about a few arms, one or a few rounds each; between the waves and
at the end the incumbent is in force. *Planned by value, certified by wave*: what to ask comes from the pooled posterior
and needs no proof (`planning.py`, `outlook.py`); what is claimed comes from a single wave's own answers, with weights
fixed before them (`statements.py`). The recommendation is the pooled posterior's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from voxpop.errors import Array
from voxpop.gp.belief import Belief, believe, pooled_best, total_noise
from voxpop.gp.posterior import information_gain
from voxpop.model.options import option
from voxpop.model.problem import Indices, Problem
from voxpop.model.state import OPEN, Channel, State
from voxpop.model.waves import Answered, End, Feedback, Info, Plan, changed
from voxpop.policies.protocol import ALONE, OVER, Configured
from voxpop.policies.waves.outlook import Outlook
from voxpop.policies.waves.planning import FEWEST, MOST_PEOPLE, Certifier, Limits, Planner
from voxpop.policies.waves.statements import (
    UPPER_SHARE,
    Contrasts,
    Statement,
    certified_gaps,
    model_check,
    next_level,
    one_sided,
    pilot_statement,
    share_of_raise,
)
from voxpop.runtime.machine import one_thread

STOPPING = "When to stop asking; all may be left out"
stopping = partial(option, panel=STOPPING)
CHEAPEST = 1e-3  # of the usual price: if answers cost nothing, people still have better things to do
MOST_WAVES = 50
CERTIFYING = 4  # waves that aim at a certificate, at most
PILOT_SHARE = 0.1  # of delta, for what the pilot proves
PRICE = 0.008  # of a number, in units of v sqrt(max k), unless the cost of an answer is given


@dataclass(frozen=True, eq=False)
class View:
    """What the policy believes, and what it expects of the next wave, which is computed when it is asked for."""

    belief: Belief
    active: Indices
    best: int
    seed: int

    @cached_property
    def outlook(self) -> Outlook:
        """What the planner sees."""
        return Outlook.of(self.belief, self.active, self.best, self.seed)


@dataclass(frozen=True, eq=False)
class WavesState(State):
    """The state, with what was stated, how much of delta that took, and what is believed."""

    spent: float = 0.0
    statements: tuple[Statement, ...] = ()
    pilot: bool = True  # False once it contradicts the waves
    view: View | None = None  # of the belief after the last wave

    @property
    def outlook(self) -> Outlook:
        """What the planner sees of the belief after the last wave."""
        assert self.view is not None
        return self.view.outlook

    @property
    def expected_loss(self) -> float | None:
        """What the model expects the decision to lose per round."""
        return self.outlook.expected_loss if len(self.active) > 1 else 0.0


@dataclass(frozen=True)
class Waves(Configured):
    """Ask while asking pays; every limit may be left out."""

    answer_cost: float | None = stopping(
        None,
        least=0,
        unit="reward",
        label="Cost of a number",
        example=0.01,
        help="What one number costs, in units of reward; unless given, about a hundredth of v.",
    )
    tolerance: float | None = stopping(
        None,
        above=0,
        unit="reward",
        label="Good enough",
        example=0.02,
        help="Good enough: go on until nothing can be better by more than this, in reward.",
    )
    most_people: int | None = stopping(
        None, least=1, unit="people", example=1000, help="The most people to ask in all."
    )
    most_numbers: int | None = stopping(
        None, least=1, unit="numbers", example=10_000, help="The most numbers that people may send in all."
    )
    most_waves: int | None = stopping(
        None, least=1, unit="waves", example=3, help="The most waves in which people are asked."
    )
    population: int | None = stopping(
        None, least=1, unit="people", example=50_000, help="The people there are; nobody is asked twice."
    )
    answer_delay: int = stopping(
        0,
        least=0,
        unit="rounds",
        example=200,
        help="Rounds that pass while people answer; the best so far is in force.",
    )
    checks: int = option(0, least=0, help="Random arms in each wave.")
    delta: float = stopping(
        0.05,
        above=0,
        below=1,
        label="Chance of error",
        example=0.05,
        help="The probability with which what is certified may fail.",
    )
    seed: int = option(0, least=0, help="The seed of the draws by which waves are valued.")
    name = "waves"
    aggregates = True

    def settings(self) -> dict[str, Any]:
        """Return the arguments with which `make_policy` makes this policy again, without limits that are not given."""
        return {key: value for key, value in super().settings().items() if value is not None}

    def init(self, problem: Problem) -> State:
        """Return the state in which only the prior and the pilot are known."""
        return self._decide(problem, self._start(problem, problem.norm_bound, True), believe(problem))

    def _start(self, problem: Problem, norm_bound: float, pilot: bool) -> WavesState:
        """Return the state before the first wave; the pilot counts as wave 0 unless it contradicts the others."""
        state = WavesState.prior(problem, norm_bound)
        if not problem.pilot:
            return state
        level = PILOT_SHARE * self.delta
        if not pilot:
            return changed(state, spent=level, pilot=False)
        share = share_of_raise(problem.norm_bound, norm_bound)
        stated = pilot_statement(problem, norm_bound, pooled_best(problem), share * level, self.population)
        return changed(state, active=np.flatnonzero(stated.upper >= 0), spent=level, statements=(stated,))

    def plan(self, problem: Problem, state: State, channel: Channel = OPEN) -> Plan | End:
        """Plan the wave that pays most, or say why none does."""
        assert isinstance(state, WavesState)
        if len(state.active) == 1:
            return ALONE
        limits = self._limits(problem, state, channel.least)
        if isinstance(limits, End):
            return limits
        if self.tolerance is not None:
            if state.certificate <= self.tolerance:
                return End(f"the decision is certified within the tolerance of {self.tolerance:g}")
            if _certifying(state) == CERTIFYING:  # the last of them took what was left of delta
                return End(f"{CERTIFYING} waves did not certify the tolerance of {self.tolerance:g}")
        fewest = max(channel.least, min(FEWEST, limits.people, limits.numbers // 2))
        price, left = self._price(problem), None if self.most_waves is None else self.most_waves - state.wave
        planner = Planner(problem, state, channel, state.outlook, price, self.answer_delay, limits, fewest, left)
        with one_thread():  # matrices are small here, whatever the number of actions
            offer = planner.best()
        if offer is not None:
            return self._rested(self._checked(offer.plan(state.wave + 1, state.best), state, limits), limits)
        if self.tolerance is None:
            return End("asking more people no longer pays" if state.wave else "asking people does not pay")
        return self._certify(problem, state, channel, limits, fewest)

    def _certify(
        self, problem: Problem, state: WavesState, channel: Channel, limits: Limits, fewest: int
    ) -> Plan | End:
        """Plan a wave that aims at the tolerance, or say why there is none."""
        assert self.tolerance is not None
        tried = _certifying(state)
        known = np.full(problem.size, np.inf)
        known[state.active] = certified_gaps(state.statements, state.active, state.best)
        level = share_of_raise(problem.norm_bound, state.norm_bound) * self._level(
            state.spent, state.wave + 1, True, tried
        )
        certifier = Certifier(
            problem,
            state,
            channel,
            state.centre,
            known,
            one_sided(UPPER_SHARE * level),
            self._price(problem),
            limits,
            fewest,
            self.population,
        )
        with one_thread():
            plan = certifier.plan(self.tolerance)
        if plan is None:
            return End(f"no wave within the limits is expected to certify the tolerance of {self.tolerance:g}")
        return self._rested(plan, limits)

    def _checked(self, plan: Plan, state: State, limits: Limits) -> Plan:
        """Add random arms, which find what the belief does not expect."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(plan.wave, 1)))
        others = np.setdiff1d(np.arange(len(state.centre)), plan.arms)  # those that were dropped, too
        each = int(plan.pulls[0])
        room = min((limits.rounds - plan.asked - 1) // each, limits.numbers // plan.people - len(plan.arms))
        extra = rng.permutation(others)[: max(0, min(self.checks, room))]
        arms = np.sort(np.concatenate([plan.arms, extra]))
        assert plan.forecast is not None
        lost = each * float((state.centre[state.best] - state.centre[extra]).sum())
        forecast = replace(
            plan.forecast,
            answers=plan.forecast.answers * len(arms) / len(plan.arms),
            exploring=plan.forecast.exploring + lost,
        )
        return replace(plan, arms=arms, pulls=np.full(len(arms), each), forecast=forecast)

    def _rested(self, plan: Plan, limits: Limits) -> Plan:
        """Give the incumbent the rounds that pass while people answer."""
        return changed(plan, rest=min(self.answer_delay, limits.rounds - plan.asked))

    def _level(self, spent: float, wave: int, certifying: bool, tried: int) -> float:
        """Return the level of a wave: half of what is left of delta, and all of it in a wave declared the last."""
        last = wave == self.most_waves or (certifying and tried == CERTIFYING - 1)
        return next_level(self.delta, spent, last)

    def advance(self, problem: Problem, state: State, plan: Plan, feedback: Feedback) -> tuple[State, Info]:
        """State what the wave proves, drop what cannot be best, and pool its answers with all others."""
        feedback.check(plan)
        assert isinstance(state, WavesState)
        after = self._learn(problem, state, plan, feedback)
        fit = model_check(problem, _without_pilot(problem), after.history, after.norm_bound, state.pilot)
        if (fit.norm_bound, fit.pilot) != (state.norm_bound, state.pilot):
            # Every wave is judged again, as if this had been assumed from the start.
            after = self._start(problem, fit.norm_bound, fit.pilot)
            for earlier in (*state.history, Answered(plan, feedback)):
                after = self._learn(problem, after, *earlier)
        after = self._decide(problem, after, believe(problem if fit.pilot else _without_pilot(problem), after.history))
        if not fit.consistent:
            after = changed(after, certified=State.prior(problem, fit.norm_bound).most_lost(after.best))
        info = Info(
            active_before=len(state.active),
            active_after=len(after.active),
            max_width=float((after.upper - after.lower)[state.active].max() / 2),
            information_gain=information_gain(problem, plan.arms, plan.pulls),
            norm_bound=after.norm_bound,
            refuted=after.norm_bound > state.norm_bound,
            warning=fit.warning,
        )
        return after, info

    def _learn(self, problem: Problem, state: WavesState, plan: Plan, feedback: Feedback) -> WavesState:
        """State what a wave proves, and drop what cannot be best."""
        tried = _certifying(state)
        level = self._level(state.spent, plan.wave, plan.aims_at_certificate, tried)
        share = share_of_raise(problem.norm_bound, state.norm_bound)
        statement, centre, width = self._state(problem, state, plan, feedback, share * level)
        kept = state.active[statement.upper[state.active] >= 0]
        if not len(kept):  # only if an earlier wave, judged again, has dropped this one's reference
            kept = state.active
        return changed(
            state.intersect(centre, width).record(plan, feedback),
            active=kept,
            spent=state.spent + level,
            statements=(*state.statements, statement),
        )

    def _price(self, problem: Problem) -> float:
        usual = PRICE * problem.bias_std * float(np.sqrt(problem.largest_variance))
        return usual if self.answer_cost is None else max(self.answer_cost, CHEAPEST * usual)

    def _limits(self, problem: Problem, state: State, least: int) -> Limits | End:
        """Return what a wave of at least this many people may take, or which budget is used up."""
        rounds = problem.horizon - state.rounds
        if rounds <= 1:
            return OVER
        if self.most_waves is not None and state.wave >= self.most_waves:
            return End(f"the budget of {self.most_waves:,} wave{'s' * (self.most_waves > 1)} is used up")
        if state.wave >= MOST_WAVES:
            return End(f"{MOST_WAVES} waves did not settle it")
        asked = sum(plan.people for plan, _ in state.history)
        people = [limit - asked for limit in (self.most_people, self.population) if limit is not None]
        if min(people, default=1) < 1:
            which = "population" if self.population == asked else "budget"
            return End(f"all {asked:,} people of the {which} were asked")
        if min(people, default=least) < least:
            return End(f"{min(people):,} people are left, fewer than the {least:,} that privacy takes in every wave")
        numbers = None if self.most_numbers is None else self.most_numbers - sum(p.numbers for p, _ in state.history)
        if numbers is not None and numbers < 2 * max(1, least):
            return End(f"{numbers:,} of {self.most_numbers:,} numbers are left, too few for a wave")
        last = self.most_waves is not None and state.wave + 1 == self.most_waves
        return Limits(
            rounds,
            _portion(min(people, default=MOST_PEOPLE), max(FEWEST, least), last),
            _portion(100 * MOST_PEOPLE if numbers is None else numbers, 10 * max(FEWEST, least), last),
        )

    def _state(
        self, problem: Problem, state: State, plan: Plan, feedback: Feedback, level: float
    ) -> tuple[Statement, Array, Array]:
        """Compute the wave's statement, and bounds on every active f(x) that hold together at the same level."""
        at, y = state.active, feedback.mean - problem.means[plan.arms]
        noise = total_noise(problem, plan, feedback)
        wave = Contrasts(problem, plan.arms, noise, feedback.clipping, state.norm_bound, self.population)
        seeds = np.random.SeedSequence(self.seed, spawn_key=(plan.wave,)).generate_state(2).tolist()
        best = wave.gaps(at, plan.reference, y, one_sided(UPPER_SHARE * level))
        every = wave.all_gaps(at, plan.reference, y, (1 - UPPER_SHARE) * level, seeds[0])
        ahead = problem.means[at] - problem.means[plan.reference]
        upper, lower = np.full(problem.size, np.inf), np.full(problem.size, -np.inf)
        upper[at], lower[at] = ahead + best.estimate + best.width, ahead + every.estimate - every.width
        upper[plan.reference] = lower[plan.reference] = 0.0
        bands = wave.all_values(at, y, level, seeds[1])
        return Statement(plan.reference, upper, lower), problem.means[at] + bands.estimate, bands.width

    def _decide(self, problem: Problem, state: WavesState, belief: Belief) -> WavesState:
        """Recommend the pooled best of the active actions, with its certificate."""
        best = int(state.active[np.argmax(belief.mean[state.active])])
        prior = np.inf if state.statements else state.most_lost(best)
        return changed(
            state,
            centre=belief.mean,
            lead=belief.mean,
            lead_width=belief.deviation,
            view=View(belief, state.active, best, self.seed),
            decision=best,
            certified=max(0.0, min(prior, float(certified_gaps(state.statements, state.active, best).max()))),
        )


def _portion(left: int, small: int, last: bool) -> int:
    """Return what the next wave may take of a budget: half, unless it is the last wave or little is left."""
    return left if last or left < 2 * small else -(-left // 2)


def _certifying(state: State) -> int:
    """Count the waves that aimed at a certificate."""
    return sum(plan.aims_at_certificate for plan, _ in state.history)


@lru_cache(maxsize=64)
def _without_pilot(problem: Problem) -> Problem:
    return replace(problem, pilot=()) if problem.pilot else problem
