"""Waves: learn only as much as pays.

A study is a handful of waves. Each asks some people about a few arms, one or a few rounds each; between the waves and
at the end the incumbent is in force. *Planned by value, certified by wave*: what to ask comes from the pooled posterior
and needs no proof (`planning.py`, `outlook.py`); what is claimed comes from a single wave's own answers, with weights
fixed before them (`statements.py`). The recommendation is the pooled posterior's.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from voxpop.belief.posterior import Belief, believe
from voxpop.belief.rows import total_noise
from voxpop.core.channel import OPEN, Channel
from voxpop.core.errors import Array, require_integer, require_number
from voxpop.core.frozen import changed
from voxpop.core.phases import Answered, End, Feedback, Info, Plan
from voxpop.core.problem import Problem
from voxpop.core.state import State
from voxpop.policies.protocol import ALONE, OVER
from voxpop.policies.waves.certifying import Certifier
from voxpop.policies.waves.fitting import check, share_of_raise
from voxpop.policies.waves.outlook import Outlook
from voxpop.policies.waves.planning import FEWEST, MOST_PEOPLE, Limits, Planner
from voxpop.policies.waves.statements import UPPER_SHARE, Statement, Wave, certified_gaps, next_level, one_sided
from voxpop.selection.posterior import information_gain

CERTIFYING = 4  # waves that aim at a certificate, at most
PRICE = 0.01  # of a number, in units of v sqrt(max k), unless the cost of an answer is given


@dataclass(frozen=True, eq=False)
class Memory:
    """What the policy remembers: what it expects, what it stated, and how much of delta that took."""

    spent: float = 0.0
    statements: tuple[Statement, ...] = ()
    outlook: Outlook | None = None


@dataclass(frozen=True)
class Waves:
    """Ask while asking pays; every limit may be left out."""

    answer_cost: float | None = None  # of one number, in units of reward; 0.01 v unless given
    tolerance: float | None = None  # go on until the decision is certified to this, even if it does not pay
    most_people: int | None = None  # in all waves together
    most_numbers: int | None = None
    most_waves: int | None = None
    population: int | None = None  # people there are; nobody is asked twice
    answer_delay: int = 0  # rounds that pass while people answer
    delta: float = 0.05  # the certificate fails with this probability
    seed: int = 0  # of the draws by which waves are valued
    name = "waves"
    aggregates = True

    def __post_init__(self) -> None:
        if self.answer_cost is not None:
            require_number("answer_cost", self.answer_cost, least=0)
        if self.tolerance is not None:
            require_number("tolerance", self.tolerance, above=0)
        for limit in ("most_people", "most_numbers", "most_waves", "population"):
            if getattr(self, limit) is not None:
                require_integer(limit, getattr(self, limit), least=1)
        require_integer("answer_delay", self.answer_delay, least=0)
        require_number("delta", self.delta, above=0, below=1)
        require_integer("seed", self.seed, least=0)

    def settings(self) -> dict[str, Any]:
        """Return the arguments with which `make_policy` makes this policy again."""
        return {"name": self.name, **{key: value for key, value in asdict(self).items() if value is not None}}

    def init(self, problem: Problem) -> State:
        """Return the state in which only the prior and the pilot are known."""
        state = State.prior(problem, problem.norm_bound)
        return self._decide(problem, changed(state, memory=Memory()), believe(problem))

    def plan(self, problem: Problem, state: State, channel: Channel = OPEN) -> Plan | End:
        """Plan the wave that pays most, or say why none does."""
        if len(state.active) == 1:
            return ALONE
        limits = self._limits(problem, state)
        if isinstance(limits, End):
            return limits
        outlook = state.memory.outlook
        fewest = min(max(FEWEST, channel.least), limits.people)
        planner = Planner(problem, state, channel, outlook, self._price(problem), self.answer_delay, limits, fewest)
        if self.tolerance is not None and state.certificate <= self.tolerance:
            return End(f"the decision is certified within the tolerance of {self.tolerance:g}")
        offer = planner.best()
        if offer is not None:
            return self._rested(offer.plan(state.phase + 1, state.best), limits)
        if self.tolerance is None:
            return End("asking more people no longer pays" if state.phase else "asking people does not pay")
        return self._certify(problem, state, channel, limits, fewest)

    def _certify(self, problem: Problem, state: State, channel: Channel, limits: Limits, fewest: int) -> Plan | End:
        """Plan a wave that aims at the tolerance, or say why there is none."""
        assert self.tolerance is not None
        tried = sum(plan.aims_at_certificate for plan, _ in state.history)
        if tried == CERTIFYING:
            return End(f"{tried} waves did not certify the tolerance of {self.tolerance:g}")
        memory: Memory = state.memory
        known = np.full(problem.size, np.inf)
        known[state.active] = certified_gaps(memory.statements, state.active, state.best)
        level = share_of_raise(problem.norm_bound, state.norm_bound) * self._level(memory, state.phase + 1, True, tried)
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
        plan = certifier.plan(self.tolerance)
        if plan is None:
            return End(f"no wave within the limits is expected to certify the tolerance of {self.tolerance:g}")
        return self._rested(plan, limits)

    def _rested(self, plan: Plan, limits: Limits) -> Plan:
        """Give the incumbent the rounds that pass while people answer."""
        return changed(plan, rest=min(self.answer_delay, limits.rounds - plan.asked))

    def _level(self, memory: Memory, phase: int, certifying: bool, tried: int) -> float:
        """Return the level of a wave: half of what is left of delta, and all of it in a wave declared the last."""
        last = phase == self.most_waves or (certifying and tried == CERTIFYING - 1)
        return next_level(self.delta, memory.spent, last)

    def advance(self, problem: Problem, state: State, plan: Plan, feedback: Feedback) -> tuple[State, Info]:
        """State what the wave proves, drop what cannot be best, and pool its answers with all others."""
        feedback.check(plan)
        after = self._learn(problem, state, plan, feedback)
        fit = check(problem, after.history, after.norm_bound)
        if fit.norm_bound > after.norm_bound:  # every wave is judged again, as if the larger bound had been assumed
            after = changed(State.prior(problem, fit.norm_bound), memory=Memory())
            for earlier in (*state.history, Answered(plan, feedback)):
                after = self._learn(problem, after, *earlier)
        after = self._decide(problem, after, believe(problem, after.history))
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

    def _learn(self, problem: Problem, state: State, plan: Plan, feedback: Feedback) -> State:
        """State what a wave proves, and drop what cannot be best."""
        memory: Memory = state.memory
        tried = sum(earlier.aims_at_certificate for earlier, _ in state.history)
        level = self._level(memory, plan.phase, plan.aims_at_certificate, tried)
        share = share_of_raise(problem.norm_bound, state.norm_bound)
        statement, centre, width = self._state(problem, state, plan, feedback, share * level)
        kept = state.active[statement.upper[state.active] >= 0]
        known = changed(memory, spent=memory.spent + level, statements=(*memory.statements, statement))
        return changed(state.intersect(centre, width).record(plan, feedback), active=kept, memory=known)

    def best(self, problem: Problem, state: State) -> int:
        """Return the active action of largest pooled mean."""
        return state.best

    def _price(self, problem: Problem) -> float:
        if self.answer_cost is not None:
            return self.answer_cost
        return PRICE * problem.bias_std * float(np.sqrt(problem.largest_variance))

    def _limits(self, problem: Problem, state: State) -> Limits | End:
        """Return what the next wave may take, or which budget is used up."""
        rounds = problem.horizon - state.rounds
        if rounds <= 1:
            return OVER
        if self.most_waves is not None and state.phase >= self.most_waves:
            return End(f"the budget of {self.most_waves:,} waves is used up")
        asked = sum(plan.people for plan, _ in state.history)
        numbers = sum(plan.numbers for plan, _ in state.history)
        people_left = MOST_PEOPLE
        for limit, name in ((self.most_people, "the budget"), (self.population, "the population")):
            if limit is not None:
                people_left = min(people_left, limit - asked)
                if people_left < 1:
                    return End(f"{name} of {limit:,} people is used up")
        numbers_left = 100 * MOST_PEOPLE if self.most_numbers is None else self.most_numbers - numbers
        if numbers_left < 2:
            return End(f"the budget of {self.most_numbers:,} numbers is used up")
        return Limits(rounds, people_left, numbers_left)

    def _state(
        self, problem: Problem, state: State, plan: Plan, feedback: Feedback, level: float
    ) -> tuple[Statement, Array, Array]:
        """Compute the wave's statement, and bounds on every active f(x) that hold together at the same level."""
        at, y = state.active, feedback.mean - problem.means[plan.arms]
        noise = total_noise(problem, plan, feedback)
        wave = Wave(problem, plan.arms, noise, feedback.clipping, state.norm_bound, self.population)
        seeds = np.random.SeedSequence(self.seed, spawn_key=(plan.phase,)).generate_state(2).tolist()
        best = wave.gaps(at, plan.reference, y, one_sided(UPPER_SHARE * level))
        every = wave.all_gaps(at, plan.reference, y, (1 - UPPER_SHARE) * level, seeds[0])
        ahead = problem.means[at] - problem.means[plan.reference]
        upper, lower = np.full(problem.size, np.inf), np.full(problem.size, -np.inf)
        upper[at], lower[at] = ahead + best.estimate + best.width, ahead + every.estimate - every.width
        upper[plan.reference] = lower[plan.reference] = 0.0
        bands = wave.all_values(at, y, level, seeds[1])
        return Statement(plan.reference, upper, lower), problem.means[at] + bands.estimate, bands.width

    def _decide(self, problem: Problem, state: State, belief: Belief) -> State:
        """Recommend the pooled best of the active actions, with its certificate and its expected loss."""
        best = int(state.active[np.argmax(belief.mean[state.active])])
        outlook = Outlook.of(belief, state.active, best, self.seed)
        memory: Memory = state.memory
        prior = np.inf if memory.statements else state.most_lost(best)
        return changed(
            state,
            centre=belief.mean,
            lead=belief.mean,
            lead_width=belief.deviation,
            memory=changed(memory, outlook=outlook),
            decision=best,
            certified=max(0.0, min(prior, float(certified_gaps(memory.statements, state.active, best).max()))),
            expected_loss=outlook.expected_loss if len(state.active) > 1 else 0.0,
        )
