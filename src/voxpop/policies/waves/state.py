"""What is known between waves: what is believed, what is proved, and how much of the chance of error is spent.

Plans and releases see `WavesState.unsealed`. Every statement has a level, a share of what is left of delta, and `spent`
is the sum of those that were used or set aside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from voxpop.errors import Array
from voxpop.gp.belief import Belief, Rows, belief_of, dimensions
from voxpop.model.guardrails import Rule
from voxpop.model.problem import Indices, Problem
from voxpop.model.state import Guard, State
from voxpop.model.waves import changed
from voxpop.policies.waves.outlook import Outlook
from voxpop.policies.waves.rails import Rail, kept, nearest, recommended, trials
from voxpop.policies.waves.sealing import Evidence, Model, Part, factor

LOOK = 1 / 40  # of what is left of delta, for what is certified after a wave; at the end all but this share is spent
ASIDE = LOOK / 2  # of what is left of delta before a wave, for all that may be done otherwise than to ask it and go on
FIRST = 0.8  # of the level at the end, for the recommendation
KEEPING, EXCLUDING = 0.4, 0.1  # of a level: that the decision keeps the guardrails, and that others break them
LISTED = 4  # decisions among which sealed answers may choose, at most
ASSUMED = Model(math.inf)  # nothing


@dataclass(frozen=True, eq=False)
class View:
    """What the policy believes, and what it expects of the next wave, which is computed when it is asked for."""

    belief: Belief
    best: int
    seed: int
    apart: float = 0.0  # the variance of a panel's mean around the population's, in units of k
    others: tuple[Belief, ...] = ()  # about the metrics of guardrails
    rails: tuple[Rail, ...] = ()
    free: bool = False  # anything may be tried
    withdrawn: tuple[int, ...] = ()

    @cached_property
    def outlook(self) -> Outlook:
        """What the planner sees."""
        problem = self.belief.problem
        return Outlook.of(
            *(
                self.belief,
                _others(problem.size, self.withdrawn),
                self.best,
                self.seed,
                self.others,
                self.rails,
                problem.today,
            ),
            safe=self.safe if self.rails else None,
        )

    @cached_property
    def safe(self) -> NDArray[np.bool_]:
        """Which actions may be tried, (n,)."""
        if self.free:
            return np.ones(self.belief.problem.size, dtype=bool)
        return trials(self.belief, self.rails, self.best, self.belief.problem.today)

    @cached_property
    def expected_loss(self) -> float:
        """What the decision is expected to lose per round; to its population all answers of a panel err alike."""
        if not self.apart:
            return self.outlook.expected_loss
        rows, kernel = self.belief.rows, self.belief.problem.kernel
        more = replace(rows, noise=rows.noise + self.apart * kernel(rows.points, rows.points))
        return replace(self, belief=replace(self.belief, rows=more), apart=0.0).expected_loss


@dataclass(frozen=True, eq=False)
class WavesState(State):
    """The state, with the sealed parts of all answers and what is believed after the others."""

    model: Model = ASSUMED
    parts: tuple[Part, ...] = ()  # of the waves
    pilot: bool = True  # False once it contradicts the waves
    evidence: Evidence | None = None  # None: nothing can be certified
    delta: float = 0.0
    settled: bool = False  # what is sealed ends the study here: nothing more may be spent on saying more
    over: bool = False  # the study ended here, and all that may be spent is
    began: tuple[int, ...] = ()  # the rounds that were played before each wave
    watched: int = 0  # waves before the watch, or before its last pause: statements rest on those since
    used: int = -1  # the last wave whose sealed part has been used to plan, as decisions came or went; 0: the pilot
    withdrawn: tuple[int, ...] = ()  # decisions that exist no more
    view: View | None = None  # of the belief after the last wave
    final: View | None = None  # at the end, of the belief after everything that people said
    rails: tuple[WavesState, ...] = ()  # of the metrics of guardrails

    @property
    def metrics(self) -> tuple[WavesState, ...]:
        """What is known of the objective and of the metrics of all guardrails."""
        return (self, *self.rails)

    @property
    def guards(self) -> tuple[Guard, ...]:
        """What is known of the decision and each guardrail."""
        view, guards = self.final or self.view, self.problem.guardrails
        if view is None or not guards:
            return ()
        near, keeps = nearest(view.rails), kept(view.rails, self.problem.size)
        found = []
        for place, (guardrail, rail) in enumerate(zip(guards, view.rails, strict=False)):
            value, chance = float(rail.belief.mean[self.best]), float(rail.chances[self.best])
            low = self.keeps[place] if self.keeps else -math.inf
            found.append(Guard(guardrail.rule, value, chance, low, bool(keeps.any()), near, float(rail.mean[near])))
        return tuple(found)

    @property
    def slacks(self) -> tuple[tuple[Array, Array], ...]:
        """By how much each decision is expected to pass each rule, and the standard deviation of that, (n,) each."""
        view = self.final or self.view
        return () if view is None else tuple((rail.mean, rail.deviation) for rail in view.rails)

    @property
    def outlook(self) -> Outlook:
        """What the planner sees of the belief after the last wave."""
        assert self.view is not None
        return self.view.outlook

    @property
    def expected_loss(self) -> float | None:
        """What the model expects the decision to lose per round."""
        view = self.final or self.view
        return None if view is None else view.expected_loss

    @property
    def error_factor(self) -> float:
        """How many standard errors the last certificate will count with."""
        return factor((1 - LOOK) * max(self.delta - self.spent, 0.0))

    @property
    def problem(self) -> Problem:
        """The problem, as far as it is known."""
        assert self.view is not None
        return self.view.belief.problem

    @property
    def unsealed(self) -> Self:
        """What plans and releases may depend on: the state without what sealed answers say."""
        assert self.view is not None
        prior = State.prior(self.problem, self.norm_bound)
        certified = math.inf if self.problem.size > 1 else 0.0
        hidden = changed(self, active=self.offered, lower=prior.lower, upper=prior.upper, certified=certified, keeps=())
        return hidden.seen(self.view.belief, self.view.best)

    @property
    def offered(self) -> Indices:
        """The decisions that exist."""
        return _others(len(self.lower), self.withdrawn)

    def choice(self, belief: Belief, rails: Sequence[Rail] = ()) -> int:
        """Return the best of them by a belief, or of those that keep the rules."""
        if rails:
            return recommended(belief, rails, belief.problem.today)
        return int(self.offered[np.argmax(belief.mean[self.offered])])

    def seen(self, belief: Belief, decision: int) -> Self:
        """Return the state with what is believed, and the decision that follows."""
        return changed(self, centre=belief.mean, lead=belief.mean, lead_width=belief.deviation, decision=decision)

    def concluded(self) -> Self:
        """Return the state at the end of the study, where all but a small rest of delta is spent.

        A few decisions are listed by what was not sealed, each with its part of the level: the recommendation with most
        of it. All answers together choose among them, unless more was certified about the recommendation before.
        """
        if self.over or self.settled:
            return self
        if self.evidence is None or not self.evidence.parts:
            return changed(self.opened(1 - LOOK), over=True)
        assert self.view is not None
        belief, *about = [state.everything for state in self.metrics]
        rails = [replace(rail, belief=[belief, *about][rail.metric]) for rail in self.view.rails]
        view = replace(self.view, belief=belief, others=tuple(about), rails=tuple(rails))
        if not self.wave:  # nobody was asked: nothing is said, and the whole pilot decides
            best = self.choice(belief, rails)
            return changed(self.seen(belief, best), final=replace(view, best=best), over=True)
        listed, keeps = self._listed(), kept(rails, self.problem.size)
        choice = max(listed, key=lambda action: (bool(keeps[action]), float(belief.mean[action])))
        if not keeps[choice]:  # none of the list does
            choice = nearest(rails, np.array(listed))
        others, end = len(listed) - 1, self.opened(1 - LOOK, FIRST if len(listed) > 1 else 1.0)
        end = changed(  # what was said before is still said
            end,
            active=np.intersect1d(self.active, end.active),
            lower=np.maximum(self.lower, end.lower),
            upper=np.minimum(self.upper, end.upper),
            certified=min(self.certificate, end.certificate),
            keeps=tuple(map(max, zip(self.keeps, end.keeps, strict=True))) if self.keeps else end.keeps,
        )
        if choice != self.best:
            end = end.instead(choice, (1 - FIRST) / others * (1 - LOOK) * max(self.delta - self.spent, 0.0))
        return changed(end.seen(belief, choice), final=replace(view, best=choice), over=True)

    @property
    def everything(self) -> Belief:
        """What is believed of one metric after all answers, sealed ones as well."""
        assert self.view is not None
        sealed = [] if self.evidence is None else self.evidence.rows(self.problem, self.history)
        return belief_of(self.problem, Rows.joined([self.view.belief.rows, *sealed], dimensions(self.problem)))

    def _listed(self) -> list[int]:
        """List decisions among which sealed answers may choose, the recommendation first.

        With guardrails, also the one that is most likely to keep them.
        """
        assert self.view is not None
        found = self.outlook.shortlist(LISTED).tolist()
        if self.view.rails and (surest := nearest(self.view.rails)) not in found:
            found = [*found[: LISTED - 1], surest]
        return list(found)

    def otherwise(self) -> Self:
        """Return the state with what is left for taking a wave back or changing the horizon, if something was said."""
        return self if self.spent == 0 else self.left(1 / 4 if self.over else ASIDE / 5)

    def closed_early(self, people: int) -> Self:
        """Return the state with what is left for one of the numbers below `people` with which a wave may close."""
        return self.left(ASIDE / 2 / (people - 1))

    def left(self, share: float) -> Self:
        """Return the state with a share of what is left of delta; the rest counts as spent."""
        return changed(self, spent=self.delta - share * (self.delta - self.spent))

    def opened(self, share: float, part: float = 1.0, aside: float = 0.0) -> Self:
        """Say what all sealed parts prove of the decision, for a share of what is left of delta.

        Some of it may be set aside, and a part of the rest may be all that is used for it.
        """
        level = part * (share - aside) * (self.delta - self.spent)
        hidden = self.unsealed.left(1 - share)
        if self.evidence is None or not self.evidence.parts or level <= 0:
            return hidden
        rails, possible = self.problem.guardrails, np.isin(np.arange(self.problem.size), self.offered)
        said = self.evidence.state(self.best, (1 - KEEPING - EXCLUDING) * level if rails else level)
        lower = np.where(possible, np.maximum(hidden.lower, said.lower), hidden.lower)
        upper = np.where(possible, np.minimum(hidden.upper, said.upper), hidden.upper)
        for place, guardrail in enumerate(rails):
            possible &= self._slack(place, guardrail.rule, np.arange(len(possible)), EXCLUDING * level, 1) >= 0
        possible[self.best] = True
        gaps = np.where(possible, said.gaps, -math.inf)
        certified, keeps = self._worth_saying(max(0.0, float(gaps.max())), self.best), self._keeps(self.best, level)
        return changed(
            hidden, active=np.flatnonzero(gaps >= 0), lower=lower, upper=upper, certified=certified, keeps=keeps
        )

    def instead(self, choice: int, level: float) -> Self:
        """Return the state with what follows for another decision, chosen by all answers from a list, at this level.

        It is behind the best by no more than the recommendation is, and than it is behind the recommendation.
        """
        assert self.evidence is not None
        if level <= 0:
            return self
        own = (1 - KEEPING - EXCLUDING) * level if self.problem.guardrails else level
        behind = float(self.evidence.gaps(np.array([self.best]), choice, own)[0])
        certified = self._worth_saying(max(0.0, self.certificate + behind), choice)
        active = np.union1d(self.active, [choice])
        return changed(self, active=active, certified=certified, keeps=self._keeps(choice, level))

    def _worth_saying(self, certificate: float, choice: int) -> float:
        """Return a certificate; infinity if it says no more than what was assumed."""
        assert self.evidence is not None
        return math.inf if certificate >= self.evidence.assumed(choice) else certificate

    def _keeps(self, choice: int, level: float) -> tuple[float, ...]:
        """Bound by how much a decision passes each guardrail."""
        each = enumerate(self.problem.guardrails)
        return tuple(
            float(self._slack(place, one.rule, np.array([choice]), KEEPING * level, -1)[0]) for place, one in each
        )

    def _slack(self, place: int, rule: Rule, at: Indices, level: float, side: int) -> Array:
        """Bound by how much decisions pass a guardrail, from above (side 1) or below (-1)."""
        evidence, today = self.rails[place].evidence, self.problem.today or 0
        if evidence is None or not evidence.parts:
            return np.full(len(at), side * math.inf)
        return evidence.kept(rule, at, today, level / len(self.rails), side)


def _others(size: int, withdrawn: tuple[int, ...]) -> Indices:
    return np.setdiff1d(np.arange(size), np.array(withdrawn, dtype=np.intp))
