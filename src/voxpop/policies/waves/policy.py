"""Waves: learn only as much as pays.

A study is a handful of waves. Each asks some people about a few arms, one or a few rounds each; between the waves and
at the end the incumbent is in force. *Planned by value, certified once*: a part of what people say is sealed
(`sealing.py`). Everything else, from the next wave to the recommendation, comes from the pooled posterior of the rest
and needs no proof (`planning.py`, `outlook.py`, `fitting.py`). What is claimed comes from all sealed parts together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from voxpop.errors import InputError
from voxpop.gp.belief import Belief, Rows, all_rows, dimensions, rows_of, shown_in, with_shocks
from voxpop.gp.posterior import information_gain
from voxpop.model.options import option
from voxpop.model.problem import Problem
from voxpop.model.state import OPEN, Channel, State
from voxpop.model.waves import Answered, End, Feedback, Info, Plan, changed
from voxpop.policies.protocol import ALONE, OVER, Configured
from voxpop.policies.waves.certifying import Certifier
from voxpop.policies.waves.fitting import ALARM, missing_check, model_check, people_check, rounds_check
from voxpop.policies.waves.planning import FEWEST, MOST_PEOPLE, Limits, Planner
from voxpop.policies.waves.rails import rails_of
from voxpop.policies.waves.sealing import (
    Evidence,
    Model,
    Part,
    excess,
    faded,
    reach,
    revised,
    split_metrics,
    split_pilots,
)
from voxpop.policies.waves.state import ASIDE, LOOK, View, WavesState
from voxpop.runtime.machine import one_thread

STOPPING = "When to stop asking; all may be left out"
stopping = partial(option, panel=STOPPING)
CHEAPEST = 1e-3  # of the usual price: if answers cost nothing, people still have better things to do
MOST_WAVES = 50
CERTIFYING = 6  # waves that aim at a certificate, at most
TRIED = 0.7  # of what is left of delta, for a wave that aims at a certificate
RESERVE = 1.2  # standard errors by which answers may turn out worse than expected; more after each failure
TOO_MUCH = 1.2  # times the deviation that the pilot was split with
BEFORE_SEALS = (
    "was planned by an earlier version of voxpop, whose certificates have used up the chance of error: nothing more is "
    "certified; begin a new study with other people"
)
PRICE = 0.007  # of a number, in units of v sqrt(max k), unless the cost of an answer is given


@dataclass(frozen=True)
class Waves(Configured):
    """Ask while asking pays; every limit may be left out."""

    answer_cost: float | None = stopping(
        None,
        least=0,
        unit="reward",
        label="Cost of a number",
        example=0.01,
        help="What one number costs, in units of reward; unless given, 0.007 v.",
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
        None, least=1, unit="people", example=50_000, help="The people there are; asked once each, or in every wave."
    )
    who: str = stopping(
        "fresh",
        choices=("fresh", "panel", "everybody"),
        example="fresh",
        help="Who answers: fresh people in each wave, in every wave the same panel, or everybody there is.",
    )
    answer_delay: int = stopping(
        0,
        least=0,
        unit="rounds",
        example=200,
        help="Rounds that pass while people answer; the best so far is in force.",
    )
    washout: int = stopping(
        0,
        least=0,
        unit="rounds",
        label="Rounds to settle",
        example=1,
        help="Rounds at the start of every turn of a decision that do not count, as others carry over.",
    )
    cycle: int | None = stopping(
        None,
        least=2,
        most=366,
        unit="rounds",
        label="Rounds of a cycle",
        example=7,
        help="The rounds of a cycle, such as 7 days of a week: every decision is played as often in each of them.",
    )
    drift: float | None = stopping(
        None,
        least=0,
        unit="reward",
        label="Change per round",
        example=0.0001,
        help="The most by which an expected reward changes in a round; statements age by it.",
    )
    most_loss: float | None = stopping(
        None,
        least=0,
        unit="reward",
        label="Most that a trial may lose",
        example=0.05,
        help="Nothing is tried that may lose more than this a round against today's decision, with more than 5 %.",
    )
    trials: str = stopping(
        "safe",
        choices=("safe", "any"),
        example="any",
        help="What may be tried: what keeps the guardrails with 95 %, or any decision; what is in force keeps them.",
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
    keeps_guardrails = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.who != "fresh" and (self.population is None or self.most_people is not None):
            remedy = "give their number as population" if self.population is None else "leave out most_people"
            raise InputError(f"who = {self.who!r} asks the same people in every wave, all of them; {remedy}")

    def settings(self) -> dict[str, Any]:
        """Return the arguments with which `make_policy` makes this policy again, without limits that are not given."""
        return {key: value for key, value in super().settings().items() if value not in (None, "fresh", "safe")}

    @property
    def same(self) -> int:
        """How many people answer in every wave; 0 if they are fresh."""
        return 0 if self.who == "fresh" else self.population or 0

    def _shown(self, problem: Problem, history: Sequence[Answered]) -> Problem:
        """Return the problem as these waves have shown it; how the same people differ in every wave is no noise."""
        return shown_in(problem.about_people() if self.same else problem, history)

    def init(self, problem: Problem) -> State:
        """Return the state in which only the prior and the pilot are known, and nothing is certified."""
        self._require_rules(problem)
        states, beliefs = [], []
        for metric, each in enumerate(problem.metrics):
            state = changed(WavesState.prior(each, each.norm_bound), model=Model(each.norm_bound), delta=self.delta)
            belief = self._belief(problem, state, metric)
            states.append(changed(state, evidence=self._evidence(problem, state, metric)))
            beliefs.append(belief)
        return self._decide(problem, states, beliefs).unsealed

    def _require_rules(self, problem: Problem) -> None:
        """Refuse guardrails and safe trials with which nothing can be planned."""
        if self.most_loss is not None and problem.today is None:
            raise InputError(
                f"most_loss {self.most_loss:g} is against today's decision, which is not known; say which decision is "
                "in force today"
            )
        if self.most_loss is not None and self.trials == "any":
            raise InputError(f"trials = 'any' contradicts most_loss {self.most_loss:g}; leave one of them out")
        if problem.guardrails and self.drift:
            raise InputError(
                f"drift {self.drift:g} says how much the objective may change, and nothing of the guardrails; leave it "
                "out, or leave out the guardrails"
            )

    def _belief(self, problem: Problem, state: WavesState, metric: int = 0) -> Belief:
        """Pool all plan parts of one metric."""
        own = problem.metrics[metric]
        shown = self._shown(own, state.history)
        rows = self._rows(shown, state, self._pilot(problem, state, shown, metric))
        if state.used >= 0:
            pilot = split_pilots(problem, self.seed)[metric][1] if state.pilot else None
            parts = tuple(part for part in (*([pilot] if pilot else []), *state.parts) if part.wave <= state.used)
            evidence = Evidence(own, parts, state.model, drift=self.drift or 0.0, now=state.rounds)
            rows = Rows.joined([rows, *evidence.rows(shown, state.history)], dimensions(shown))
        return with_shocks(shown, rows)

    def _rows(self, shown: Problem, state: WavesState, pilot: Rows | None) -> Rows:
        """Pool all plan parts; those of long ago count less, as rewards have moved since."""
        if not self.drift:
            return all_rows(shown, state.history, pilot)
        parts = [] if pilot is None else [faded(shown, pilot, self.drift * state.rounds)]
        for first, (plan, feedback) in zip(state.began, state.history, strict=True):
            age = state.rounds - first - plan.asked / 2
            parts.append(faded(shown, rows_of(shown, plan, feedback), self.drift * age))
        return Rows.joined(parts, dimensions(shown))

    def _pilot(self, problem: Problem, state: WavesState, shown: Problem, metric: int = 0) -> Rows | None:
        """Return the plan part of the pilot, unless it contradicts the waves."""
        if not state.pilot:
            return None
        pilot = revised(split_pilots(problem, self.seed)[metric][0], problem.metrics[metric], shown)
        problem = problem.metrics[metric]
        others = shown.most_differing * math.sqrt(problem.largest_variance / self.same) if self.same else 0.0
        return faded(problem, pilot, others, 1.0)  # its people may be others than those who answer in every wave

    def _decide(self, problem: Problem, states: Sequence[WavesState], beliefs: Sequence[Belief]) -> WavesState:
        """Recommend the pooled best of those that keep the guardrails, for the states and beliefs of all metrics."""
        rails = rails_of(problem, beliefs, self.most_loss)
        best = states[0].choice(beliefs[0], rails)
        views = [self._view(belief, best, states[0]) for belief in beliefs]
        views[0] = replace(views[0], others=tuple(beliefs[1:]), rails=rails, free=self.trials == "any")
        made = [changed(state, view=view, final=None) for state, view in zip(states, views, strict=True)]
        return changed(made[0], rails=tuple(made[1:])).seen(beliefs[0], best)

    def _view(self, belief: Belief, best: int, state: WavesState) -> View:
        apart = belief.problem.most_differing**2 / self.same if self.who == "panel" else 0.0
        return View(belief, best, self.seed, apart, withdrawn=state.withdrawn)

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
            if state.spent >= self.delta:
                return End("nothing is left of the chance of error, so that no tolerance can be certified")
            if Evidence(problem, (), state.model).assumed(state.best) <= self.tolerance:
                return End(f"what is assumed leaves nothing beyond the tolerance of {self.tolerance:g}")
            if _certifying(state) == CERTIFYING:
                return End(f"{CERTIFYING} waves did not certify the tolerance of {self.tolerance:g}")
        state, problem = state.unsealed, state.problem  # in which people vary as they have shown
        problems = tuple(each.problem for each in state.metrics)
        fewest = max(channel.least, min(FEWEST, limits.people, limits.numbers // 2))
        fewest = limits.people if self.same else fewest
        price, left = self._price(problem), None if self.most_waves is None else self.most_waves - state.wave
        planner = Planner(problem, state, channel, state.outlook, price, self.answer_delay, limits, fewest, left)
        planner = replace(planner, problems=problems)
        with one_thread():  # matrices are small here, whatever the number of actions
            offer = planner.best() or planner.widening() or (planner.measuring() if state.wave else None)
        if self.tolerance is not None and (offer is None or state.wave):
            dearest = math.inf if offer is None else offer.cost
            certifying = self._certify(problem, state, channel, limits, fewest, dearest)
            if certifying is not None:
                return self._rested(certifying)
        if offer is not None:
            return self._rested(self._checked(offer.plan(state.wave + 1, state.best, self.same), state, limits))
        if self.tolerance is None:
            return End("asking more people no longer pays" if state.wave else "asking people does not pay")
        return End(f"no wave within the limits is expected to certify the tolerance of {self.tolerance:g}")

    def _certify(
        self, problem: Problem, state: WavesState, channel: Channel, limits: Limits, fewest: int, dearest: float
    ) -> Plan | None:
        """Plan the cheapest wave that is expected to certify the tolerance, if there is one that costs less."""
        assert self.tolerance is not None
        evidence = state.evidence or Evidence(problem, (), state.model, self.population)
        if self.same:
            evidence = replace(evidence, who=self.who, differing=problem.most_differing)
        if self.drift:
            evidence = replace(evidence, drift=self.drift, now=state.rounds)
        level = (self._share(state, True) - ASIDE) * (self.delta - state.spent)
        reserve, price = RESERVE * (1 + _certifying(state)), self._price(problem)
        limits = replace(limits, rounds=limits.rounds - self.answer_delay)  # answers are in before the horizon
        certifier = Certifier(problem, state, channel, state.centre, evidence, level, reserve, price, limits, fewest)
        assert state.view is not None
        certifier = replace(certifier, same=self.same, also=len(state.rails), safe=state.view.safe)
        with one_thread():
            return certifier.plan(self.tolerance, dearest)

    def _checked(self, plan: Plan, state: WavesState, limits: Limits) -> Plan:
        """Add random arms, which find what the belief does not expect."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(plan.wave, 1)))
        assert isinstance(state, WavesState)
        assert state.view is not None
        others = np.setdiff1d(
            np.flatnonzero(state.view.safe), [*plan.arms, *state.withdrawn]
        )  # those that were dropped, too
        each = plan.asked // len(plan.arms)
        room = limits.numbers // plan.answers // (1 + plan.also) - len(plan.arms)
        room = min((limits.rounds - self.answer_delay - plan.asked - 1) // each, room)
        extra = rng.permutation(others)[: max(0, min(self.checks, room))]
        arms = np.sort(np.concatenate([plan.arms, extra]))
        assert plan.forecast is not None
        lost = each * float((state.centre[state.best] - state.centre[extra]).sum())
        forecast = replace(
            plan.forecast,
            answers=plan.forecast.answers * len(arms) / len(plan.arms),
            exploring=plan.forecast.exploring + lost,
        )
        return replace(plan, arms=arms, pulls=np.full(len(arms), plan.pulls[0]), forecast=forecast)

    def _rested(self, plan: Plan) -> Plan:
        """Give the incumbent the rounds that pass while people answer."""
        return changed(plan, rest=self.answer_delay)

    def _share(self, state: State, certifying: bool) -> float:
        """Return the share of what is left of delta that is spent after the next wave."""
        if not certifying:
            return LOOK
        return 1 - LOOK if _certifying(state) == CERTIFYING - 1 else TRIED

    def advance(self, problem: Problem, state: State, plan: Plan, feedback: Feedback) -> tuple[State, Info]:
        """Split the wave's answers, pool one part with the others, and say what the sealed parts prove."""
        feedback.check(plan)
        assert isinstance(state, WavesState)
        told = [Answered(plan, feedback.of_metric(plan, metric)) for metric in range(len(state.metrics))]
        shown = [
            self._shown(each, [*own.history, new])
            for each, own, new in zip(problem.metrics, state.metrics, told, strict=True)
        ]
        splits = split_metrics(shown, plan, feedback, self.seed, state.rounds)
        learned = [
            self._learned(problem, state.metrics[metric], metric, shown[metric], *split)
            for metric, split in enumerate(splits)
        ]
        after = self._decide(problem, [each for each, *_ in learned], [belief for _, belief, _ in learned])
        if not plan.sealed:
            after = after.left(0)
        elif feedback.count < plan.people:  # the answers so far may have chosen the moment
            after = after.closed_early(plan.people)
        after = after.opened(self._share(state, plan.aims_at_certificate), aside=ASIDE)
        reached = self.tolerance is not None and after.certificate <= self.tolerance
        after = changed(after, settled=reached or len(after.active) == 1)
        unsealed = [] if plan.sealed else [f"wave {plan.wave} {BEFORE_SEALS}"]
        warnings = list[str]()
        for place, (each, seen, (_, _, found)) in enumerate(zip(problem.metrics, told, learned, strict=True)):
            checks = [people_check(each, *seen), rounds_check(shown[place]), missing_check(shown[place], *seen), found]
            whose = f"{problem.guardrails[place - 1].name}: " if place else ""
            warnings += [f"{whose}{check}" for check in checks if check]
        info = Info(
            active_before=len(state.active),
            active_after=len(after.active),
            max_width=float((after.upper - after.lower)[state.active].max() / 2),
            information_gain=information_gain(problem, plan.arms, plan.pulls),
            norm_bound=after.norm_bound,
            refuted=after.norm_bound > state.norm_bound,
            warning="; ".join([*warnings, *unsealed]),
        )
        return after, info

    def _learned(
        self,
        problem: Problem,
        state: WavesState,
        metric: int,
        shown: Problem,
        answered: Answered,
        part: Part | None,
    ) -> tuple[WavesState, Belief, str]:
        """Learn what a wave says of one metric; return its state, what is believed, and what the model check found."""
        own = problem.metrics[metric]
        after = changed(state.record(*answered), parts=(*state.parts, *([part] if part else [])))
        after = changed(after, began=(*state.began, state.rounds))
        before = self._shown(own, state.history).shocks.known
        if shown.shocks.known and not before:  # what did not fit may be shocks
            after = changed(after, model=Model(own.norm_bound), norm_bound=own.norm_bound)
        belief = self._belief(problem, after, metric)
        best = after.choice(belief)

        def expected(model: Model) -> float:
            """Return the certificate to expect under a model."""
            evidence = replace(self._evidence(problem, after, metric), model=model)
            width = evidence.widths(np.arange(own.size), best, self.delta)
            return float((belief.mean - belief.mean[best] + width).max())

        pilot, moved = self._pilot(problem, after, shown, metric), list[float]()
        if self.drift:
            pilot = None if pilot is None else faded(shown, pilot, self.drift * after.rounds, 1.0)
            moved = [self.drift * (after.rounds - first) for first in after.began]
        drawn = shown.most_differing * reach(own, ALARM) / math.sqrt(self.same) if self.same else 0.0
        likely = shown.showing([], shown.shocks.expected)
        fit = model_check(likely, pilot, after.history, after.model, expected, moved, drawn)
        if fit.model != after.model:  # what was clipped was clipped to what the old one allows
            kept = tuple(part for part in after.parts if part.clipping is None)
            after = changed(after, model=fit.model, norm_bound=fit.model.norm_bound, parts=kept)
        if fit.pilot != after.pilot:
            after = changed(after, pilot=fit.pilot)
            belief = self._belief(problem, after, metric)
        evidence = self._evidence(problem, after, metric) if fit.consistent else None
        return changed(after, evidence=evidence, over=False), belief, fit.warning

    def _evidence(self, problem: Problem, state: WavesState, metric: int = 0) -> Evidence:
        """Return everything that is sealed; not the pilot, if all of it was used to plan some wave."""
        sealed = state.pilot and all(plan.sealed for plan, _ in state.history)
        pilot, problem = split_pilots(problem, self.seed)[metric][1] if sealed else None, problem.metrics[metric]
        shown = self._shown(problem, state.history)
        # With noise that is far too small it was not split into independent parts.
        if pilot is not None and excess(problem, shown).max() > TOO_MUCH:
            pilot = None
        parts = state.parts if pilot is None else (pilot, *state.parts)
        if state.watched or state.used >= 0:
            parts = tuple(part for part in parts if part.wave > max(state.watched, state.used))
        evidence = Evidence(problem, parts, state.model, self.population, shown.shocks, self.drift or 0.0, state.rounds)
        return replace(evidence, who=self.who, differing=shown.most_differing) if self.same else evidence

    def passed(self, problem: Problem, state: State, rounds: int) -> State:
        """Return the state of a study that is over after more rounds, in which its decision was in force.

        What was stated ages: with |f_t - f_s| <= D |t - s| no action is better by more than the certificate and
        D t |k(x, .) - k(b, .)|. Decisions come back as their bounds widen. How long one waits may depend on what was
        stated, so that the next statement rests on what is sealed from now on, and has delta for itself.
        """
        assert isinstance(state, WavesState)
        drift, deviations = self.drift or 0.0, np.sqrt(problem.prior_variance / problem.largest_variance)
        lower = problem.within(state.lower - rounds * drift * deviations)
        upper = problem.within(state.upper + rounds * drift * deviations)
        certificate = state.certificate + rounds * self.ageing(problem, state.best)
        vacuous = certificate >= Evidence(problem, (), state.model).assumed(state.best) and problem.size > 1
        offered = state.offered
        back = offered[upper[offered] >= lower[offered].max()] if drift else state.active
        after = changed(
            state,
            rounds=state.rounds + rounds,
            lower=lower,
            upper=upper,
            active=np.union1d(state.active, back),
            certified=math.inf if vacuous else certificate,
            watched=state.wave,
            spent=0.0,
        )
        states = [after, *(changed(rail, rounds=after.rounds, watched=state.wave) for rail in state.rails)]
        made = enumerate(states)
        states = [changed(each, evidence=self._evidence(problem, each, metric)) for metric, each in made]
        beliefs = [self._belief(problem, each, metric) for metric, each in enumerate(states)]
        decided = self._decide(problem, states, beliefs)
        return changed(states[0], view=decided.view, final=None, rails=decided.rails)

    def offering(self, problem: Problem, state: State, withdrawn: tuple[int, ...]) -> State:
        """Return the state once decisions were added to the problem, at its end, or withdrawn.

        Which ones may depend on what was stated. So statements rest on what is sealed from now on; until then the
        bounds that hold for all decisions together say what is certified of those that are left.
        """
        assert isinstance(state, WavesState)
        if problem.guardrails or self.most_loss is not None:
            raise InputError(
                "the decisions of a study with guardrails or most_loss cannot change, as what was tried rests on them; "
                "begin a new study with other people"
            )
        before, known = State.prior(problem, state.norm_bound), len(state.lower)
        lower, upper = (
            np.concatenate([old, new[known:]])
            for old, new in zip((state.lower, state.upper), (before.lower, before.upper), strict=True)
        )
        used = state.wave or -1
        after = changed(state.otherwise(), lower=lower, upper=upper, withdrawn=withdrawn, used=used)
        after = changed(after, settled=False, over=False)
        after = changed(after, evidence=self._evidence(problem, after))
        after = self._decide(problem, [after], [self._belief(problem, after)])
        if not state.wave:
            return after.unsealed
        offered, best = after.offered, after.best
        rest = offered[offered != best]
        certificate = max(0.0, float((upper[rest] - lower[best]).max()))
        vacuous = certificate >= Evidence(problem, (), state.model).assumed(best)
        active = offered[upper[offered] >= lower[offered].max()]
        return changed(after, active=active, certified=math.inf if vacuous else certificate, over=True)

    def ageing(self, problem: Problem, best: int) -> float:
        """Return by how much a certificate grows a round: D times the largest |k(x, .) - k(best, .)|."""
        if not self.drift:
            return 0.0
        variance, shared = problem.prior_variance, problem.covariance(np.arange(problem.size), np.array([best]))[:, 0]
        apart = np.sqrt(np.maximum(variance + variance[best] - 2 * shared, 0.0)).max()
        return float(self.drift * apart / math.sqrt(problem.largest_variance))

    def _price(self, problem: Problem) -> float:
        usual = PRICE * problem.bias_std * float(np.sqrt(problem.largest_variance))
        return usual if self.answer_cost is None else max(self.answer_cost, CHEAPEST * usual)

    def _limits(self, problem: Problem, state: State, least: int) -> Limits | End:
        """Return what a wave of at least this many people may take, or which budget is used up."""
        rounds = problem.horizon - state.rounds
        if rounds <= 1:
            return OVER if state.rounds else End("a horizon of 1 round leaves none in which a wave would be of use")
        shortest = self.answer_delay + Limits(rounds, 0, 0, self.washout, self.cycle or 0).turn
        if rounds <= shortest:
            return End(f"a wave takes {shortest:,} rounds or more, and {rounds:,} are left to play it and to use it")
        if self.most_waves is not None and state.wave >= self.most_waves:
            return End(f"the budget of {self.most_waves:,} wave{'s' * (self.most_waves > 1)} is used up")
        if state.wave >= MOST_WAVES:
            return End(f"{MOST_WAVES} waves did not settle it")
        asked = sum(plan.people for plan, _ in state.history)
        people = [limit - asked for limit in (self.most_people, self.population) if limit is not None]
        if self.same and state.history:  # those who are still there
            people = [state.history[-1].feedback.count]
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
            _portion(min(people, default=MOST_PEOPLE), max(FEWEST, least), last or self.same > 0),
            _portion(100 * MOST_PEOPLE if numbers is None else numbers, 10 * max(FEWEST, least), last),
            self.washout,
            self.cycle or 0,
        )


def _portion(left: int, small: int, last: bool) -> int:
    """Return what the next wave may take of a budget: half, unless it is the last wave or little is left."""
    return left if last or left < 2 * small else -(-left // 2)


def _certifying(state: State) -> int:
    """Count the waves that aimed at a certificate."""
    return sum(plan.aims_at_certificate for plan, _ in state.history[getattr(state, "watched", 0) :])
